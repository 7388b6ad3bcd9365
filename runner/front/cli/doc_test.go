package cli

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"crew/man"
	"crew/runner/crewtest"
)

// manSection returns the lines of a page between a heading, like .Sh OPTIONS, and the next heading of the same
// kind.
func manSection(t *testing.T, page, heading string) string {
	t.Helper()
	i := slices.IndexFunc(man.Pages[:], func(p man.Page) bool { return p.String() == page })
	require.GreaterOrEqual(t, i, 0, page)
	_, section, found := strings.Cut(man.Pages[i].Source, "\n"+heading+"\n")
	require.True(t, found, heading)
	section, _, _ = strings.Cut(section, "\n"+heading[:len(".Sh ")])
	return section
}

// manOptions returns the options of crew(1) in order, each in the form of --help, under the headings of their
// groups.
func manOptions(t *testing.T) []string {
	t.Helper()
	var list []string
	text := manSection(t, "crew(1)", ".Sh OPTIONS")
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if heading, found := strings.CutPrefix(line, ".Ss "); found {
			list = append(list, heading+":")
		}
		item, found := strings.CutPrefix(line, ".It Fl ")
		if !found {
			continue
		}
		item, value, hasValue := strings.Cut(item, " Ar ")
		item, optional := strings.CutSuffix(item, " Ns Oo = Ns")
		item = "-" + strings.ReplaceAll(item, " , Fl ", ", -")
		if optional {
			item += "[=" + strings.TrimSuffix(value, " Oc") + "]"
		} else if hasValue {
			item += " " + value
		}
		list = append(list, item)
	}
	return list
}

func tableOptions() []string {
	var list []string
	for _, o := range options() {
		switch {
		case o.commands == "":
			list = append(list, o.form+":")
		case o.ofRuns():
			list = append(list, o.form)
		}
	}
	return list
}

func TestManPageHasTheOptions(t *testing.T) {
	require.Equal(t, tableOptions(), manOptions(t))
}

// TestManPageHasTheVerbs looks for the verbs of crew ctl and crew engine in order, each with its options. RUN as
// an argument can also be an option. Entries do not repeat options that the section documents for all verbs.
func TestManPageHasTheVerbs(t *testing.T) {
	for _, c := range []struct{ tool, page, heading, common string }{
		{"ctl", "crew-serve(1)", ".Sh CONTROLLING A RUN", "--json"},
		{"engine", "crew-engine(1)", ".Ss Verbs", "--engine"},
	} {
		section := manSection(t, c.page, c.heading)
		for _, name := range commandNamed(c.tool).verbs() {
			_, rest, found := strings.Cut(section, ".It Cm "+name)
			require.True(t, found, name)
			section = rest
			entry, _, _ := strings.Cut(rest, ".It Cm ")
			v := commandNamed(c.tool + " " + name)
			for _, option := range v.optionNames() {
				of := v.long(option[2:])
				if !of.ofRuns() && option != c.common && option != "--help" && (option != "--run" || !strings.Contains(v.operands, "RUN")) {
					require.Regexp(t, `(Fl|,) -`+option[2:]+`\b`, entry, name)
				}
			}
		}
		require.NotContains(t, section, ".It Cm ")
	}
}

func TestHelp(t *testing.T) {
	text := helpText()
	for _, option := range tableOptions() {
		_, rest, found := strings.Cut(text, option)
		require.True(t, found, "%s is not listed in its place", option)
		text = rest
	}
	for i := range commands {
		for line := range strings.SplitSeq(commands[i].help(false), "\n") {
			require.LessOrEqual(t, utf8.RuneCountInString(line), 80, line)
			require.NotContains(t, line, "\t")
		}
	}
	for _, o := range options() {
		require.Equal(t, o.commands == "", o.text == "", o.name)
		if o.commands != "" && o.means == "" {
			_ = new(Options).set(o, "x") // panics if there is no such field
		}
	}
}

// TestColumns checks which command takes which option (+), refuses it by name (-), or does not know it, and that
// help and completion list each option that it takes once. TestManPageHasTheOptions and
// TestManPageHasTheVerbs compare the manual with the same rows.
func TestColumns(t *testing.T) {
	var table strings.Builder
	var helps, lists []string
	for i, c := range commands {
		helps = append(helps, c.help(false))
		lists = append(lists, complete("bash", append(strings.Fields(strings.TrimPrefix(c.name, DoRun)), "--")).Text(nil))
		table.WriteString(strings.Repeat("| ", i) + c.name + "\n")
		require.True(t, c.long("help") != nil || c.operands == takesTopic, c.name)
	}
	for _, o := range slices.DeleteFunc(slices.Clone(options()), func(o *option) bool { return o.commands == "" }) {
		row := optionRows(false, func(row *option) bool { return *row == *o })
		for i, c := range commands {
			at, is, got := c.name+" "+o.form, "  ", c.long(o.name)
			if got == nil {
				_, err := c.split([]string{"--" + o.name})
				require.True(t, err != nil || c.operands == takesTopic, at)
			} else if *got == *o {
				l, _ := c.split([]string{optionOf(&c, o.name)})
				read, _ := c.read(l)
				is = "+ "
				if strings.Contains(fmt.Sprint(read.refusals()), o.name+" is not an option of") {
					is = "- "
				}
			}
			require.Equal(t, c.takes(o), is == "+ ", at)
			for _, letter := range o.short {
				require.True(t, is != "+ " || *c.short(byte(letter)) == *o, at)
			}
			require.Equal(t, got != nil && c.takes(got), strings.Contains(lists[i], "\n--"+o.name+"\n"), at)
			if c.operands != takesVerb {
				require.Equal(t, is == "+ " || c.name == DoRun && o.ofRuns(), strings.Contains(helps[i], row), at)
			}
			table.WriteString(is)
		}
		table.WriteString(o.form + "\n")
		for of := range strings.FieldsSeq(o.commands) {
			require.True(t, of == detached.name || commandNamed(strings.Replace(of, "-", " ", 1)) != nil, of)
		}
	}
	t.Log("\n" + table.String())
}

// TestManPageHasTheChoices checks that sentences and lists of the man page name all choices of an option.
func TestManPageHasTheChoices(t *testing.T) {
	for _, o := range options() {
		if o.choices == "" {
			continue
		}
		text := manSection(t, "crew(1)", ".Sh OPTIONS")
		if !o.ofRuns() {
			text = manSection(t, "crew-serve(1)", ".Sh CONTROLLING A RUN")
		}
		_, entry, found := strings.Cut(text, ".It Fl -"+o.name+" ")
		require.True(t, found, o.name)
		entry, _, _ = strings.Cut(entry, ".It Fl ")
		for c := range strings.FieldsSeq(o.choices) {
			require.Regexp(t, `(?m)^(\.It )?\.?Cm (.* )?`+c+`\b|^\.It Cm `+c+`$`, entry, "%s %s", o.name, c)
		}
	}
}

// TestManPageHasTheWorkers checks that the man page shows each of the workers that TestScript runs.
func TestManPageHasTheWorkers(t *testing.T) {
	const dir = "../../../testdata/workers"
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, files, 6)
	section, _, _ := strings.Cut(manSection(t, "crew-workers(7)", ".Ss Six workers"), ".Sh ")
	section = strings.NewReplacer(`\&`, "", `\e`, `\`).Replace(section)
	for _, f := range files {
		require.Contains(t, section, "\n.Bd -literal -offset indent\n"+crewtest.ReadFile(t, dir+"/"+f.Name())+".Ed\n", f.Name())
	}
}

// TestHelpTopics checks that crew help answers each of its topics and those in the README and the cookbook,
// and an option with its entry.
func TestHelpTopics(t *testing.T) {
	all := append(topics(), Candidate{Word: "topics"})
	papers := crewtest.ReadFile(t, "../../../README.md") + crewtest.ReadFile(t, "../../../man/cookbook.md")
	for _, m := range regexp.MustCompile("`crew help ([a-z -]+)`").FindAllStringSubmatch(papers, -1) {
		all = append(all, Candidate{Word: m[1]})
	}
	for _, topic := range all {
		var o Options
		require.NoError(t, o.takeTopic(strings.Fields(topic.Word)), topic)
		require.NotEmpty(t, o.Print)
	}
	for _, o := range options() {
		text := optionHelp("--" + o.name)
		if require.Equal(t, o.commands == "", text == "", o.name); o.ofRuns() {
			require.Contains(t, text, "\n     "+o.form, o.name)
		}
	}
}

// TestHelpIndex checks that each word of the index leads to the first section that the index has for it.
func TestHelpIndex(t *testing.T) {
	sections := map[string][]string{} // by word
	for line := range strings.Lines(index) {
		title, words, _ := strings.Cut(strings.TrimSpace(line), ": ")
		require.Equal(t, title, man.Find(title)[0].Title)
		for word := range strings.SplitSeq(words, ", ") {
			require.NotContains(t, sections[word], title, word)
			sections[word] = append(sections[word], title)
		}
	}
	require.Greater(t, len(sections), 60)
	for word, titles := range sections {
		var o Options
		require.NoError(t, o.takeTopic(strings.Fields(strings.ToUpper(word))), word)
		first, rest, _ := strings.Cut(o.Print, "\n")
		require.Equal(t, titles[0], strings.TrimSpace(first), word)
		for _, title := range titles[1:] {
			require.Contains(t, rest[strings.LastIndex(rest, "See also:"):], title+" in crew", word)
		}
		require.LessOrEqual(t, len(titles), 4, word)
	}
}

// TestHelpAnswers checks that sections contain what newcomers look for there.
func TestHelpAnswers(t *testing.T) {
	crewtest.Examples(t, "testdata/answers.jsonl", func(t *testing.T, row struct{ Topic, Answer string }) {
		var o Options
		require.NoError(t, o.takeTopic(strings.Fields(row.Topic)))
		require.Contains(t, o.Print, row.Answer, row.Topic)
	})
}

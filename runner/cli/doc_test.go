package cli

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"crew/man"
)

// manSection returns the lines of a page below a heading, such as .Sh OPTIONS, and before
// the next one of its kind.
func manSection(t *testing.T, page, heading string) string {
	t.Helper()
	i := slices.IndexFunc(man.Pages[:], func(p man.Page) bool { return p.String() == page })
	require.GreaterOrEqual(t, i, 0, page)
	_, section, found := strings.Cut(man.Pages[i].Source(), "\n"+heading+"\n")
	require.True(t, found, heading)
	section, _, _ = strings.Cut(section, "\n"+heading[:len(".Sh ")])
	return section
}

// manOptions are the options of crew(1) in order, each as --help lists it, under the
// headings of their groups.
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
		case o.of == "":
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

// TestManPageHasTheVerbs looks for the verbs of crew ctl and crew engine in their
// order, each with its options. RUN, where it is an argument, can be an option, too;
// what the section says of all verbs, no entry has.
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
		require.Equal(t, o.of == "", o.text == "", o.name)
		if o.of != "" && o.means == "" {
			_ = new(Options).set(o, "x") // panics if there is no such field
		}
	}
}

// Each command has the options of a column that says so, each of them once.
func TestColumns(t *testing.T) {
	for i := range commands {
		c := &commands[i]
		seen := map[string]bool{}
		for _, o := range options() {
			if c.hasRun() && c.long(o.name) == o { // it is taken, or refused by name
				l, _ := c.split([]string{optionOf(c, o.name)})
				got, _ := c.read(l)
				require.Equal(t, c.takes(o), !strings.Contains(fmt.Sprint(got.refusals()), o.name+" is no option of"))
			}
			if !c.takes(o) {
				continue
			}
			for _, name := range append(strings.Split(o.short, ""), o.name) {
				require.False(t, name != "" && seen[name], "%s %s", c.name, name)
				seen[name] = true
			}
		}
		require.True(t, seen["help"] || c.operands == takesTopic, c.name)
	}
	for _, o := range options() {
		for of := range strings.FieldsSeq(o.of) {
			require.NotNil(t, commandNamed(strings.Replace(of, "-", " ", 1)), of)
		}
	}
}

// Choices that the man page lists in a sentence or a list are all there.
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

// The man page shows each of the workers that TestScript runs.
func TestManPageHasTheWorkers(t *testing.T) {
	const dir = "../../testdata/workers"
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, files, 6)
	section, _, _ := strings.Cut(manSection(t, "crew(7)", ".Ss Six workers"), ".Sh ")
	section = strings.NewReplacer(`\&`, "", `\e`, `\`).Replace(section)
	for _, f := range files {
		text, err := os.ReadFile(dir + "/" + f.Name())
		require.NoError(t, err)
		require.Contains(t, section, "\n.Bd -literal -offset indent\n"+string(text)+".Ed\n", f.Name())
	}
}

// Whatever crew help may be asked for, it answers; an option, with its entry.
func TestHelpTopics(t *testing.T) {
	for _, topic := range append(topics(), Candidate{Word: "topics"}) {
		var o Options
		require.NoError(t, o.takeTopic(strings.Fields(topic.Word)), topic)
		require.NotEmpty(t, o.Print)
	}
	for _, o := range options() {
		text := optionHelp("--" + o.name)
		if require.Equal(t, o.of == "", text == "", o.name); o.ofRuns() {
			require.Contains(t, text, "\n     "+o.form, o.name)
		}
	}
}

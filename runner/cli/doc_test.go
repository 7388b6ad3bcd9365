package cli

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

const manPage = "../../man/crew.1"

func manText(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(manPage)
	require.NoError(t, err)
	return string(text)
}

// manOptions are the options of the man page in order, each as --help lists
// it, under the headings of their groups.
func manOptions(t *testing.T) []string {
	t.Helper()
	var list []string
	text, _, found := strings.Cut(manText(t), ".Sh JSON")
	require.True(t, found)
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
		item, optional := strings.CutSuffix(item, " Oo Ns =")
		item = "-" + strings.ReplaceAll(item, " , Fl ", ", -")
		if optional {
			item += "[=" + strings.TrimSuffix(value, " Oc") + "]"
		} else if hasValue {
			item += " " + value
		}
		list = append(list, item)
	}
	return slices.DeleteFunc(list, func(s string) bool {
		return s == "Values on the command line:" || s == "Placeholders:"
	})
}

func tableOptions() []string {
	var list []string
	var in group
	for i := range options {
		if options[i].group != in {
			in = options[i].group
			list = append(list, string(in)+":")
		}
		list = append(list, strings.TrimSpace(options[i].forms()))
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
	for _, c := range []struct {
		tool                 *tool
		heading, end, common string
	}{
		{ctlTool(), ".Sh CONTROLLING A RUN", ".Sh ", "json"},
		{engineTool(), ".Ss The hub", ".Ss ", "engine"},
	} {
		_, section, _ := strings.Cut(manText(t), c.heading)
		section, _, _ = strings.Cut(section, c.end)
		for _, v := range c.tool.verbs {
			_, rest, found := strings.Cut(section, ".It Cm "+v.name)
			require.True(t, found, v.name)
			section = rest
			entry, _, _ := strings.Cut(rest, ".It Cm ")
			for option := range strings.FieldsSeq(v.options) {
				if option != c.common && (option != "run" || !strings.Contains(v.operands, "RUN")) {
					require.Regexp(t, `(Fl|,) -`+option+`\b`, entry, v.name)
				}
			}
		}
		require.NotContains(t, section, ".It Cm ")
	}
}

// helpOptions are the same out of what --help prints.
func helpOptions() []string {
	var list []string
	_, text, _ := strings.Cut(helpText(), helpHead)
	text = strings.TrimSuffix(text, helpTail)
	indent := strings.Repeat(" ", textColumn)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		switch {
		case i+1 < len(lines) && strings.HasPrefix(lines[i+1], indent): // it has a line of its own
			line = strings.TrimSpace(line)
		case strings.HasPrefix(line, " "):
			line = strings.TrimSpace(line[:textColumn])
		}
		if line != "" {
			list = append(list, line)
		}
	}
	return list
}

func TestHelp(t *testing.T) {
	require.Equal(t, tableOptions(), helpOptions())
	text := helpText()
	for line := range strings.Lines(text) {
		require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), 80, line)
		require.NotContains(t, line, "\t")
	}
	for i := range options {
		o := &options[i]
		require.NotEmpty(t, o.text, o.name)
		require.Equal(t, o.means == "", o.set != nil, o.name)
	}
}

// The help of crew serve and crew worker has the options that are not refused there.
func TestHelpOfWords(t *testing.T) {
	for _, word := range []*option{&serving, &working} {
		for i := range options {
			o := &options[i]
			d := defaults()
			d.Command.Words = []string{"any"}
			given := use{opt: o, spelled: "--" + o.name, value: strings.Join(o.choices, " ")}.resolve()
			refused := slices.ContainsFunc(d.draft([]use{{opt: word, spelled: word.name}, given}).refusals(), func(r *refusal) bool {
				of := func(u *use) bool { return u.opt == word }
				return r != nil && (slices.ContainsFunc(r.uses, of) || strings.Contains(r.msg, "crew "))
			})
			require.False(t, refused && word.takes(o), "%s %s", word.name, o.name)
		}
	}
}

func TestTableHasNoNameTwice(t *testing.T) {
	seen := map[string]bool{}
	for i := range options {
		for _, name := range append(strings.Split(options[i].short, ""), options[i].name) {
			require.False(t, seen[name], name)
			seen[name] = true
		}
	}
}

func TestCompletionHasTheOptions(t *testing.T) {
	for _, shell := range shells {
		script := completionScript(shell)
		for i := range options {
			o := &options[i]
			if shell == "fish" {
				require.Contains(t, script, " -l "+o.name+" ")
			} else {
				require.Regexp(t, `--`+o.name+`\b`, script)
			}
			for _, c := range o.choices {
				require.Contains(t, script, c)
			}
		}
	}
}

// The exit statuses of the man page are the constants of exit.go.
func TestManPageHasTheStatuses(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "exit.go", nil, 0)
	require.NoError(t, err)
	var want []string
	ast.Inspect(file, func(n ast.Node) bool {
		spec, is := n.(*ast.ValueSpec)
		if is && strings.HasPrefix(spec.Names[0].Name, "status") {
			value := spec.Values[0].(*ast.BasicLit).Value
			if spec.Names[0].Name == "statusSignal" {
				value += "+N"
			}
			want = append(want, value)
		}
		return true
	})
	_, section, _ := strings.Cut(manText(t), ".Sh EXIT STATUS")
	section, _, _ = strings.Cut(section, ".Sh ")
	var got []string
	for _, m := range regexp.MustCompile(`(?m)^\.It (\S+)$`).FindAllStringSubmatch(section, -1) {
		got = append(got, m[1])
	}
	require.ElementsMatch(t, want, got)
}

// Choices that the man page lists in a sentence or a list are all there.
func TestManPageHasTheChoices(t *testing.T) {
	text := manText(t)
	for i := range options {
		o := &options[i]
		if o.choices == nil {
			continue
		}
		_, entry, found := strings.Cut(text, ".It Fl -"+o.name+" ")
		require.True(t, found, o.name)
		entry, _, _ = strings.Cut(entry, ".It Fl ")
		for _, c := range o.choices {
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
	_, section, _ := strings.Cut(manText(t), ".Ss Six workers")
	section, _, _ = strings.Cut(section, ".Sh ")
	section = strings.NewReplacer(`\&`, "", `\e`, `\`).Replace(section)
	for _, f := range files {
		text, err := os.ReadFile(dir + "/" + f.Name())
		require.NoError(t, err)
		require.Contains(t, section, "\n.Bd -literal -offset indent\n"+string(text)+".Ed\n", f.Name())
	}
}

func TestManPageLint(t *testing.T) {
	mandoc, err := exec.LookPath("mandoc")
	if err != nil {
		t.Skip("no mandoc here")
	}
	// The base level leaves out that a see-also page is not installed here.
	out, err := exec.Command(mandoc, "-Tlint", "-Wstyle", manPage).CombinedOutput()
	var bad []string
	for line := range strings.Lines(string(out)) {
		if !strings.Contains(line, "outdated mandoc.db") {
			bad = append(bad, line)
		}
	}
	require.Empty(t, bad, "%v", err)
}

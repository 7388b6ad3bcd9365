package cli

import (
	"os"
	"os/exec"
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
	for i := range options {
		if options[i].of != "" {
			continue
		}
		if heading := options[i].group; heading != "" {
			list = append(list, heading+":")
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
	for _, c := range []struct{ tool, heading, end, common string }{
		{"ctl", ".Sh CONTROLLING A RUN", ".Sh ", "--json"},
		{"engine", ".Ss The hub", ".Ss ", "--engine"},
	} {
		_, section, _ := strings.Cut(manText(t), c.heading)
		section, _, _ = strings.Cut(section, c.end)
		for _, name := range commandNamed(c.tool).verbs() {
			_, rest, found := strings.Cut(section, ".It Cm "+name)
			require.True(t, found, name)
			section = rest
			entry, _, _ := strings.Cut(rest, ".It Cm ")
			v := commandNamed(c.tool + " " + name)
			for _, option := range v.optionNames() {
				of := v.long(option[2:]).of // without it, it is one of runs
				if of != "" && option != c.common && option != "--help" && (option != "--run" || !strings.Contains(v.operands, "RUN")) {
					require.Regexp(t, `(Fl|,) -`+option[2:]+`\b`, entry, name)
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

// Each command has the options of a column that says so, each of them once.
func TestColumns(t *testing.T) {
	for i := range commands {
		c := &commands[i]
		seen := map[string]bool{}
		for j := range options {
			o := &options[j]
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
	for i := range options {
		o := &options[i]
		for entry := range strings.SplitSeq(o.of, "; ") {
			tool, verbs, _ := strings.Cut(entry, ": ")
			for verb := range strings.FieldsSeq(verbs) {
				require.NotNil(t, commandNamed(tool+" "+verb), entry)
			}
		}
	}
}

// Choices that the man page lists in a sentence or a list are all there.
func TestManPageHasTheChoices(t *testing.T) {
	text := manText(t)
	for i := range options {
		o := &options[i]
		if o.choices == "" {
			continue
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

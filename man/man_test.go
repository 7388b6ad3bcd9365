package man

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
)

func (p *Page) file() string { return p.Name + "." + p.Section }

func pages() []*Page {
	var all []*Page
	for i := range Pages {
		all = append(all, &Pages[i])
	}
	return all
}

// mandoc returns the lines of a page as mandoc renders them, or skips the test.
func mandoc(t *testing.T, p *Page, width int) []string {
	t.Helper()
	crewtest.Needs(t, "mandoc")
	out, err := exec.Command("mandoc", "-Tascii", fmt.Sprint("-Owidth=", width), p.file()).Output()
	require.NoError(t, err)
	text := regexp.MustCompile(".\b").ReplaceAllString(string(out), "") // bold and underlined
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

func TestPages(t *testing.T) {
	files, err := filepath.Glob("*.[1-9]")
	require.NoError(t, err)
	var want []string
	for _, p := range pages() {
		want = append(want, p.file())
		require.Contains(t, p.Source, "\n.Nm "+p.Name+"\n")
		require.Contains(t, p.Source, ".Dt "+strings.ToUpper(p.Name)+" "+p.Section+"\n")
	}
	require.ElementsMatch(t, want, files)
}

// Text has the same words as the output of mandoc.
func TestRender(t *testing.T) {
	const width = 1000 // the most that mandoc takes; no word is cut at a hyphen
	for _, p := range pages() {
		theirs := mandoc(t, p, width)
		quotes := strings.NewReplacer("`", "'")
		want := strings.Fields(quotes.Replace(strings.Join(theirs[1:len(theirs)-1], "\n")))
		got := strings.Fields(quotes.Replace(p.Whole().Text(width)))
		for i := range min(len(want), len(got)) {
			if got[i] == "*" && want[i] == "o" { // a bullet
				continue
			}
			require.Equal(t, want[i], got[i], "%s: after %q", p, got[max(0, i-10):i])
		}
		require.Len(t, got, len(want), p)
	}
}

// No line is too long, except in examples.
func TestRenderLines(t *testing.T) {
	for _, p := range pages() {
		for _, columns := range []int{70, 80} {
			text := p.Whole().Text(columns)
			require.Contains(t, text, "\n\nSEE ALSO\n     ", p)
			for line := range strings.Lines(text) {
				words := strings.TrimSpace(line)
				long := utf8.RuneCountInString(line) > columns+1 && strings.Contains(words, " ")
				require.False(t, long && strings.Index(line, words) < indent+display, "%s: %q", p, line)
			}
		}
	}
}

func TestLint(t *testing.T) {
	crewtest.Needs(t, "mandoc")
	for _, p := range pages() {
		// Pages of other programs need not be installed here; TestReferences checks those of crew.
		out, err := exec.Command("mandoc", "-Tlint", "-Wstyle", p.file()).CombinedOutput()
		for line := range strings.Lines(string(out)) {
			require.Regexp(t, "outdated mandoc.db|referenced manual not found", line, "%v", err)
		}
	}
}

// Each reference to a section or page of crew exists.
func TestReferences(t *testing.T) {
	titles := map[string][]string{}
	for _, p := range pages() {
		titles[p.String()] = []string{}
		for _, part := range p.Parts() {
			titles[p.String()] = append(titles[p.String()], part.Title)
		}
		require.NotContains(t, titles[p.String()], "", p)
	}
	seen := 0
	for _, p := range pages() {
		source := p.Source
		for _, m := range regexp.MustCompile(`(?m)\bSx (.+?)(?: [.,:;)])*$`).FindAllStringSubmatch(source, -1) {
			require.Contains(t, titles[p.String()], m[1], p)
			seen++
		}
		for _, m := range regexp.MustCompile(`(?m)\bXr (crew\S*) (\d)`).FindAllStringSubmatch(source, -1) {
			require.Contains(t, titles, m[1]+"("+m[2]+")", p)
			seen++
		}
		// For example: see JOBSERVERS in crew(7).
		flat := regexp.MustCompile(`\.Xr (\S+) (\d)`).ReplaceAllString(strings.ReplaceAll(source, "\n", " "), "$1($2)")
		for _, m := range regexp.MustCompile(` in (crew\S*\(\d\))`).FindAllStringSubmatchIndex(flat, -1) {
			before := flat[:m[0]]
			require.True(t, slices.ContainsFunc(titles[flat[m[2]:m[3]]], func(title string) bool {
				return strings.HasSuffix(before, " "+title)
			}), "%s: ... %s", p, flat[m[0]-40:m[1]])
			seen++
		}
	}
	require.Greater(t, seen, 50)
}

// crew(1) stays short enough to read, and each page begins with examples.
func TestLength(t *testing.T) {
	lines := mandoc(t, &Pages[0], 78)
	require.LessOrEqual(t, len(lines), 700)
	require.Contains(t, lines, "EXAMPLES")
	for _, p := range pages() { // on the first screens
		lines := mandoc(t, p, 78)
		require.Contains(t, lines[:60], "FIRST EXAMPLES", p)
	}
}

// apropos finds the pages by common words.
func TestApropos(t *testing.T) {
	for _, tool := range []string{"mandb", "apropos"} {
		crewtest.Needs(t, tool)
	}
	dir := t.TempDir()
	for _, p := range pages() {
		in := filepath.Join(dir, "man"+p.Section)
		require.NoError(t, os.MkdirAll(in, 0o755))
		crewtest.WriteFile(t, filepath.Join(in, p.file()), p.Source, 0o644)
	}
	out, err := exec.Command("mandb", "--create", "--quiet", "--user-db", dir).CombinedOutput()
	require.NoError(t, err, "%s", out)
	for words, want := range map[string]string{
		"parallel": "crew (1), crew-migrate (7)", "xargs": "crew (1), crew-migrate (7)", "protocol": "crew-workers (7)", "queue": "crew-serve (1)",
		"ssh": "crew-engine (1)", "resume": "crew-state (1)", "reports": "crew-state (1)", "browser": "crew-state (1)", "crew": "crew (1), crew (7), crew-engine (1), crew-migrate (7), crew-serve (1), crew-state (1), crew-workers (7)",
	} {
		out, err := exec.Command("apropos", "-M", dir, words).CombinedOutput()
		require.NoError(t, err, "%s: %s", words, out)
		var got []string
		for line := range strings.Lines(string(out)) {
			name, _, _ := strings.Cut(line, ")")
			got = append(got, name+")")
		}
		slices.Sort(got)
		require.Equal(t, want, strings.Join(got, ", "), words)
	}
}

package stories

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReadmeIsShort(t *testing.T) {
	text, err := os.ReadFile("README.md")
	require.NoError(t, err)
	require.LessOrEqual(t, strings.Count(string(text), "\n"), 150, "lines of the README: move something to the cookbook or a manual page")
}

// TestLinks follows the links of the README and similar files to files and headings. It also checks
// their references to manual pages: `man PAGE`, and SECTION in [PAGE(N)](man/PAGE.N).
func TestLinks(t *testing.T) {
	code := regexp.MustCompile("(?ms)^```.*?^```$|`[^`\n]*`")
	page := regexp.MustCompile("`man ([a-z-]+)`")
	link := regexp.MustCompile(`\]\(([^)]*)\)`)
	section := regexp.MustCompile(`([A-Z]{2,}(?:\s[A-Z]+)*)\s+in\s+\[[a-z-]+\(\d\)\]\(([^)]+)\)`)
	for _, file := range []string{"README.md", "man/cookbook.md", ".github/CONTRIBUTING.md", ".github/CHANGELOG.md"} {
		bytes, err := os.ReadFile(file)
		require.NoError(t, err)
		text := string(bytes)
		for _, m := range page.FindAllStringSubmatch(text, -1) {
			found, _ := filepath.Glob("man/" + m[1] + ".[1-9]")
			require.NotEmpty(t, found, "%s: man %s", file, m[1])
		}
		text = code.ReplaceAllString(text, "")
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			target, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			path := file
			if target != "" {
				path = filepath.Join(filepath.Dir(file), target)
			}
			there, err := os.ReadFile(path)
			require.NoError(t, err, "%s: %s", file, m[1])
			if anchor != "" {
				require.Contains(t, anchors(string(there)), anchor, "%s: %s", file, m[1])
			}
		}
		for _, m := range section.FindAllStringSubmatch(text, -1) {
			there, err := os.ReadFile(filepath.Join(filepath.Dir(file), m[2]))
			require.NoError(t, err)
			require.Contains(t, string(there), "\n.Sh "+strings.Join(strings.Fields(m[1]), " ")+"\n", "%s: %s", file, m[0])
		}
	}
}

// anchors returns the anchors that GitHub generates for the headings of a text.
func anchors(text string) (names []string) {
	text = regexp.MustCompile("(?ms)^```.*?^```$").ReplaceAllString(text, "")
	times := map[string]int{}
	for _, m := range regexp.MustCompile(`(?m)^#+ +(.*?) *$`).FindAllStringSubmatch(text, -1) {
		name := regexp.MustCompile(`[^\pL\pN _-]`).ReplaceAllString(strings.ToLower(m[1]), "")
		name = strings.ReplaceAll(name, " ", "-")
		if n := times[name]; n > 0 {
			names = append(names, fmt.Sprint(name, "-", n))
		} else {
			names = append(names, name)
		}
		times[name]++
	}
	return names
}

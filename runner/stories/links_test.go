package stories

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
)

func TestReadmeIsShort(t *testing.T) {
	require.LessOrEqual(t, strings.Count(crewtest.ReadFile(t, "README.md"), "\n"), 150, "lines of the README: move something to the cookbook or a manual page")
}

// TestLinks follows the links of the README and similar files to files and headings. It also checks
// their references to manual pages: `man PAGE`, and SECTION in [PAGE(N)](man/PAGE.N).
func TestLinks(t *testing.T) {
	code := regexp.MustCompile("(?ms)^```.*?^```$|`[^`\n]*`")
	page := regexp.MustCompile("`man ([a-z-]+)`")
	link := regexp.MustCompile(`\]\(([^)]*)\)`)
	section := regexp.MustCompile(`([A-Z]{2,}(?:\s[A-Z]+)*)\s+in\s+\[[a-z-]+\(\d\)\]\(([^)]+)\)`)
	for _, file := range []string{"README.md", "man/cookbook.md", ".github/CONTRIBUTING.md", ".github/CHANGELOG.md"} {
		text := crewtest.ReadFile(t, file)
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
			there := crewtest.ReadFile(t, path)
			if anchor != "" {
				require.Contains(t, anchors(there), anchor, "%s: %s", file, m[1])
			}
		}
		for _, m := range section.FindAllStringSubmatch(text, -1) {
			require.Contains(t, crewtest.ReadFile(t, filepath.Join(filepath.Dir(file), m[2])), "\n.Sh "+strings.Join(strings.Fields(m[1]), " ")+"\n", "%s: %s", file, m[0])
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

package runner

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
)

// readImports returns what stands behind each wing, package and library in testdata/imports.txt.
func readImports(t *testing.T) map[string][]string {
	text := crewtest.ReadFile(t, "testdata/imports.txt")
	rules := map[string][]string{}
	for line := range strings.Lines(text) {
		if name, list, ok := strings.Cut(line, ":"); ok && line[0] != '#' {
			rules[name] = strings.Fields(list)
		}
	}
	return rules
}

// room returns the name of a package in testdata/imports.txt, and its wing, with a slash. A package
// outside the wings is its own wing.
func room(pkg string) (name, wing string) {
	if pkg == "crew" {
		return "main", "main"
	}
	name, in := strings.CutPrefix(pkg, "crew/runner/")
	if wing, _, below := strings.Cut(name, "/"); in && below {
		return name, wing + "/"
	}
	name = strings.TrimPrefix(name, "crew/")
	return name, name
}

func TestImports(t *testing.T) {
	rules, seen := readImports(t), map[string]bool{}
	err := filepath.WalkDir("..", func(file string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() && (d.Name() == "testdata" || d.Name() != ".." && strings.HasPrefix(d.Name(), ".")) {
			return fs.SkipDir
		}
		if err != nil || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return err
		}
		rel, err := filepath.Rel("..", filepath.Dir(file))
		require.NoError(t, err)
		pkg, wing := room(path.Join("crew", filepath.ToSlash(rel)))
		may, known := rules[pkg]
		require.True(t, known, "%s is a new package: say what it may import", pkg)
		seen[pkg], seen[wing] = true, true
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		require.NoError(t, err)
		for _, spec := range f.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			require.NoError(t, err)
			first, _, _ := strings.Cut(name, "/")
			switch {
			case first == "crew":
				name, of := room(name)
				require.Contains(t, may, name, file)
				if wing != pkg && of != wing {
					require.Contains(t, rules[wing], strings.TrimSuffix(of, "/"), file)
				}
			case strings.Contains(first, "."):
				require.NotContains(t, may, "std", "%s imports %s", file, name)
				if by, limited := rules[name]; limited {
					require.Contains(t, by, pkg, "%s imports %s", file, name)
				}
			}
		}
		return nil
	})
	require.NoError(t, err)
	for name := range rules {
		require.True(t, seen[name] || strings.Contains(name, "."), "there is no %s", name)
	}
}

// TestWalks checks that what the walks of CONTRIBUTING.md mention exists.
func TestWalks(t *testing.T) {
	text := crewtest.ReadFile(t, "../.github/CONTRIBUTING.md")
	walks, _, _ := strings.Cut(text, "\n## Building")
	mentions := regexp.MustCompile("`([a-z]+)(\\.[A-Za-z.]+)`").FindAllStringSubmatch(walks, -1)
	require.Greater(t, len(mentions), 20)
	for _, m := range mentions {
		code := ""
		for _, pattern := range []string{m[1], "*/" + m[1], "../" + m[1], "../runner"} {
			files, _ := filepath.Glob(pattern + "/*.go")
			for _, file := range files {
				if path.Base(path.Dir(file)) == m[1] {
					code += crewtest.ReadFile(t, file)
				}
			}
		}
		for name := range strings.SplitSeq(strings.TrimPrefix(m[2], "."), ".") {
			require.Regexp(t, `\b`+name+`\b`, code, m[0])
		}
	}
}

// What crew links, go version -m crew lists. Its start-up would pay for these.
func TestCrewLinksNoCompanion(t *testing.T) {
	list, err := exec.Command("go", "list", "-deps", "..").Output()
	require.NoError(t, err)
	require.Contains(t, string(list), "crew/runner/front/wiring")
	for _, lib := range []string{"nats", "tcell", "html/template", "crew/runner/show/view"} {
		require.NotContains(t, string(list), lib)
	}
	require.NotContains(t, strings.Fields(string(list)), "net/http")
}

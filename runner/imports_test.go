package runner

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// readImports returns what stands behind each package and library in testdata/imports.txt.
func readImports(t *testing.T) map[string][]string {
	text, err := os.ReadFile("testdata/imports.txt")
	require.NoError(t, err)
	rooms := map[string][]string{}
	for line := range strings.Lines(string(text)) {
		if name, list, ok := strings.Cut(line, ":"); ok && line[0] != '#' {
			rooms[name] = strings.Fields(list)
		}
	}
	return rooms
}

func TestImports(t *testing.T) {
	rooms, seen := readImports(t), map[string]bool{}
	err := filepath.WalkDir("..", func(file string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() && (d.Name() == "testdata" || d.Name() != ".." && strings.HasPrefix(d.Name(), ".")) {
			return fs.SkipDir
		}
		if err != nil || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return err
		}
		rel, err := filepath.Rel("..", filepath.Dir(file))
		require.NoError(t, err)
		pkg := path.Join("crew", filepath.ToSlash(rel))
		room, known := rooms[pkg]
		require.True(t, known, "%s is a new room: say what it may import", pkg)
		seen[pkg] = true
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		require.NoError(t, err)
		for _, spec := range f.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			require.NoError(t, err)
			first, _, _ := strings.Cut(name, "/")
			switch {
			case first == "crew":
				require.Contains(t, room, name, file)
			case strings.Contains(first, "."):
				require.NotContains(t, room, "std", "%s imports %s", file, name)
				if by, limited := rooms[name]; limited {
					require.Contains(t, by, pkg, "%s imports %s", file, name)
				}
			}
		}
		return nil
	})
	require.NoError(t, err)
	for pkg := range rooms {
		require.True(t, seen[pkg] || strings.Contains(pkg, "."), "there is no %s", pkg)
	}
}

// What crew links, go version -m crew lists. Its start-up would pay for these.
func TestCrewLinksNoCompanion(t *testing.T) {
	list, err := exec.Command("go", "list", "-deps", "..").Output()
	require.NoError(t, err)
	require.Contains(t, string(list), "crew/runner/wiring")
	for _, lib := range []string{"nats", "tcell", "html/template", "crew/runner/view"} {
		require.NotContains(t, string(list), lib)
	}
	require.False(t, slices.Contains(strings.Fields(string(list)), "net"), "crew links package net")
}

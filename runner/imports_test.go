package runner

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// rooms are the packages and what each may import of crew's own; DESIGN.md
// section 2 says why. Those with std import nothing but the standard library
// otherwise.
var rooms = map[string]struct {
	own []string
	std bool
}{
	"crew":                    {own: []string{"crew/runner/kernel", "crew/runner/proc", "crew/runner/wiring"}, std: true},
	"crew/runner/wiring":      {own: []string{"crew/runner", "crew/runner/cli", "crew/runner/control", "crew/runner/coproc", "crew/runner/core", "crew/runner/expand", "crew/runner/history", "crew/runner/input", "crew/runner/jobserver", "crew/runner/journal", "crew/runner/kernel", "crew/runner/machine", "crew/runner/proc", "crew/runner/report", "crew/runner/sink", "crew/runner/spool", "crew/runner/target", "crew/runner/task", "crew/runner/trust", "crew/sched"}},
	"crew/man":                {std: true},
	"crew/runner/address":     {},
	"crew/runner/credentials": {own: []string{"crew/runner/address", "crew/runner/trust"}},
	"crew/runner/cli":         {own: []string{"crew/man", "crew/runner/expand", "crew/runner/input", "crew/runner/kernel", "crew/runner/task", "crew/sched"}},
	"crew/runner":             {own: []string{"crew/runner/core", "crew/runner/kernel", "crew/runner/task"}},
	"crew/runner/core":        {own: []string{"crew/runner/task", "crew/sched"}},
	"crew/runner/input":       {own: []string{"crew/runner/expand", "crew/runner/task"}, std: true},
	"crew/runner/expand":      {own: []string{"crew/runner/task"}},
	"crew/runner/jobserver":   {own: []string{"crew/runner/kernel"}},
	"crew/runner/journal":     {own: []string{"crew/runner/kernel", "crew/runner/spool", "crew/runner/task", "crew/runner/trust"}},
	"crew/runner/sink":        {own: []string{"crew/runner/kernel", "crew/runner/spool", "crew/runner/task", "crew/runner/trust"}},
	"crew/runner/report":      {own: []string{"crew/runner/task", "crew/runner/trust"}},
	"crew/runner/proc":        {own: []string{"crew/runner/jobserver", "crew/runner/kernel", "crew/runner/spool", "crew/runner/task"}},
	"crew/runner/coproc":      {own: []string{"crew/runner/kernel", "crew/runner/proc", "crew/runner/spool", "crew/runner/task"}},
	"crew/runner/kernel":      {own: []string{"crew/runner/kernel/raw"}},
	"crew/runner/kernel/raw":  {std: true},
	"crew/runner/control":     {own: []string{"crew/runner/kernel", "crew/runner/task", "crew/runner/trust"}},
	"crew/runner/history":     {own: []string{"crew/runner/control", "crew/runner/journal", "crew/runner/task"}},
	"crew/runner/view":        {own: []string{"crew/runner/control", "crew/runner/history", "crew/runner/task"}},
	"crew/runner/machine":     {own: []string{"crew/runner/kernel"}, std: true},
	"crew/runner/outbox":      {own: []string{"crew/runner/task"}},
	"crew/runner/ssh":         {own: []string{"crew/runner/kernel", "crew/runner/task"}},
	"crew/runner/spool":       {own: []string{"crew/runner/kernel", "crew/runner/task"}},
	"crew/runner/task":        {std: true},
	"crew/runner/target":      {own: []string{"crew/runner/kernel", "crew/runner/task"}},
	"crew/runner/travel":      {own: []string{"crew/runner/outbox", "crew/runner/target", "crew/runner/task"}},
	"crew/runner/trust":       {own: []string{"crew/runner/kernel"}},
	"crew/runner/web":         {own: []string{"crew/runner/control", "crew/runner/history", "crew/runner/task", "crew/runner/trust", "crew/runner/view"}},
	"crew/runner/wire":        {std: true},
	"crew/sched":              {std: true},

	"crew/runner/engine":             {own: []string{"crew/runner", "crew/runner/address", "crew/runner/control", "crew/runner/coproc", "crew/runner/core", "crew/runner/credentials", "crew/runner/journal", "crew/runner/kernel", "crew/runner/outbox", "crew/runner/proc", "crew/runner/spool", "crew/runner/ssh", "crew/runner/task", "crew/runner/travel", "crew/runner/trust", "crew/runner/wire", "crew/runner/wiring"}},
	"crew/runner/engine/crew-engine": {own: []string{"crew/runner/engine", "crew/runner/kernel", "crew/runner/proc", "crew/runner/wiring"}, std: true},

	// Tests alone import this one.
	"crew/runner/crewtest": {own: []string{"crew/runner/kernel"}},

	"crew/runner/web/crew-web":     {own: []string{"crew/runner/web"}, std: true},
	"crew/runner/control/crew-top": {own: []string{"crew/runner/control", "crew/runner/kernel", "crew/runner/task"}},
}

// only are libraries that no rooms but these may import.
var only = map[string][]string{
	"github.com/gdamore/tcell/v2":              {"crew/runner/control/crew-top"},
	"github.com/urfave/cli/v2":                 {"crew/runner/cli"},
	"github.com/schollz/progressbar/v3":        {"crew/runner/sink"},
	"mvdan.cc/sh/v3/syntax":                    {"crew/runner/expand"},
	"github.com/nats-io/nats.go":               {"crew/runner/address", "crew/runner/engine", "crew/runner/outbox", "crew/runner/travel"},
	"github.com/nats-io/nats.go/jetstream":     {"crew/runner/engine", "crew/runner/travel"},
	"github.com/nats-io/nats-server/v2/server": {"crew/runner/credentials", "crew/runner/engine"},
	"github.com/nats-io/nkeys":                 {"crew/runner/engine"},
}

func TestImports(t *testing.T) {
	seen := map[string]bool{}
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
				require.Contains(t, room.own, name, file)
			case strings.Contains(first, "."):
				require.False(t, room.std, "%s imports %s", file, name)
				if by, limited := only[name]; limited {
					require.Contains(t, by, pkg, "%s imports %s", file, name)
				}
			}
		}
		return nil
	})
	require.NoError(t, err)
	for pkg := range rooms {
		require.True(t, seen[pkg], "there is no %s", pkg)
	}
	require.True(t, slices.IsSorted(rooms["crew/runner/wiring"].own))
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

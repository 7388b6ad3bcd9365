package wiring

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFaultADirectoryIsClosed: that is no fault of the command, so it ends one
// task alone; where it holds for all, nothing begins.
func TestFaultADirectoryIsClosed(t *testing.T) {
	t.Parallel()
	needRoot(t) // to become somebody who may not enter it
	for _, c := range []struct {
		name           string
		args           []string
		status         int
		stdout, stderr string
	}{
		{"of a task", []string{"-j1", "--input", "json"}, 123, "b\n", "crew: task 1: not started: change to directory closed: permission denied"},
		{"of all", []string{"--workdir", "closed", "echo"}, 2, "",
			"crew: change to directory closed: permission denied: give --workdir a directory that tasks can run in\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFault(t, c.args...).under(`exec "$@"`)
			f.Cmd.Stdin = strings.NewReader("{\"command\": \"echo a\", \"dir\": \"closed\"}\n{\"command\": \"echo b\"}\n")
			require.NoError(t, os.Mkdir(filepath.Join(f.dir, "closed"), 0o700))
			f.asUser(uint32(80000 + os.Getpid()%10000)) // not the one whose processes are limited
			f.start().Exits(c.status)
			require.Equal(t, c.stdout, f.Stdout())
			require.Contains(t, f.Stderr(), c.stderr)
		})
	}
}

package proc

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/decide/task"
)

// TestABlockIsTheStdin writes blocks from memory, from a file, and from a file that does not support
// splice(2).
func TestABlockIsTheStdin(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	long := strings.Repeat("0123456789", 300_000) // more than a pipe holds
	crewtest.WriteFile(t, path, long, 0o600)
	file, err := os.Open(path)
	require.NoError(t, err)
	defer file.Close()
	environ, err := os.Open("/proc/self/environ")
	require.NoError(t, err)
	defer environ.Close()
	all, err := io.ReadAll(environ)
	require.NoError(t, err)
	head := []byte("head\n")
	l := local(t, nil)
	for want, block := range map[string]task.Block{
		"text":                     {Text: []byte("text")},
		"head\n" + long:            {Head: head, Text: []byte(long)},
		"head\n3456":               {Head: head, File: file, Off: 3, Len: 4},
		long:                       {File: file, Len: int64(len(long))},
		"head\n" + string(all[1:]): {Head: head, File: environ, Off: 1, Len: int64(len(all)) - 1},
		"":                         {},
	} {
		for range 2 { // an attempt must not change the block for the next one
			r := run(l, &task.Task{ID: 1, Argv: []string{"cat"}, Block: &block})
			require.Equal(t, task.OK, r.Outcome)
			require.True(t, want == text(t, r.Stdout))
			r = run(l, &task.Task{ID: 1, Argv: []string{"true"}, Block: &block})
			require.Equal(t, task.OK, r.Outcome, "a task need not read it")
		}
	}
}

package proc

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/task"
)

// TestABlockIsTheStdin feeds blocks from memory, from a file, and from a file that
// splice(2) does not take.
func TestABlockIsTheStdin(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	long := strings.Repeat("0123456789", 300_000) // more than a pipe holds
	require.NoError(t, os.WriteFile(path, []byte(long), 0o600))
	file, err := os.Open(path)
	require.NoError(t, err)
	defer file.Close()
	environ, err := os.Open("/proc/self/environ")
	require.NoError(t, err)
	defer environ.Close()
	all, err := io.ReadAll(environ)
	require.NoError(t, err)
	head := []byte("head\n")
	for _, c := range []struct {
		block task.Block
		want  string
	}{
		{task.Block{Text: []byte("text")}, "text"},
		{task.Block{Head: head, Text: []byte(long)}, "head\n" + long},
		{task.Block{Head: head, File: file, Off: 3, Len: 4}, "head\n3456"},
		{task.Block{File: file, Len: int64(len(long))}, long},
		{task.Block{Head: head, File: environ, Off: 1, Len: int64(len(all)) - 1}, "head\n" + string(all[1:])},
		{task.Block{}, ""},
	} {
		l := local(t, nil)
		for range 2 { // an attempt takes nothing from the next
			r := run(l, &task.Task{ID: 1, Argv: []string{"cat"}, Block: &c.block})
			require.Equal(t, task.OK, r.Outcome)
			require.True(t, c.want == text(t, r.Stdout))
			r = run(l, &task.Task{ID: 1, Argv: []string{"true"}, Block: &c.block})
			require.Equal(t, task.OK, r.Outcome, "a task need not read it")
		}
	}
}

func TestABlockIsGone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, bytes.Repeat([]byte("x"), 1000), 0o600))
	file, err := os.Open(path)
	require.NoError(t, err)
	defer file.Close()
	r := run(local(t, nil), &task.Task{ID: 1, Argv: []string{"cat"}, Block: &task.Block{Name: path, File: file, Off: 900, Len: 101}})
	require.Equal(t, task.StartFailed, r.Outcome)
	require.Equal(t, 126, r.Code)
	require.EqualError(t, r.Err, "the file of its block has become shorter")
	require.Contains(t, r.Verdict(), "broken off: the file")
}

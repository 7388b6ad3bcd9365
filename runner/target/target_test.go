package target

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/task"
)

func making(targets ...string) *task.Task {
	t := &task.Task{ID: 1, Makes: &task.Making{Guessed: true}}
	for _, name := range targets {
		t.Makes.Targets = append(t.Makes.Targets, task.Target{Path: name, Temp: true})
	}
	return t
}

func TestMadeIsUpToDate(t *testing.T) {
	dir := t.TempDir()
	f := New(Config{Dir: dir, Journal: true, Directories: true})
	tk := making("sub/a.tar.gz")
	tk.Makes.Reads = []string{"in"}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "in"), nil, 0o666))
	a := task.Attempt{Task: tk, Number: 1}
	require.Nil(t, f.Begin(a))
	require.NoError(t, os.WriteFile(filepath.Join(dir, a.Task.Makes.TempName("sub/a.tar.gz")), []byte("x"), 0o666))
	r := &task.Result{Task: tk, Attempt: 1, Outcome: task.OK}
	f.End(r)
	require.Equal(t, task.OK, r.Outcome)
	require.FileExists(t, filepath.Join(dir, "sub/a.tar.gz"))
	res := f.Check(tk)
	require.Equal(t, "", tk.Makes.Why)
	require.NotNil(t, res)
}

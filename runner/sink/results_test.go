package sink

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/spool"
	"crew/runner/task"
)

// tree returns the files below dir and their content, except that of result.json.
func tree(t *testing.T, dir string) map[string]string {
	files := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		files[name] = ""
		if filepath.Base(path) != "result.json" {
			files[name] = contents(t, path)
		}
		return nil
	}))
	return files
}

// in returns dir for every task.
func in(dir string) func(*task.Task) string { return func(*task.Task) string { return dir } }

func TestResultsTree(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	s, err := OpenResults(dir, in(dir), Records{})
	require.NoError(t, err)
	require.Empty(t, tree(t, dir))

	first := ended(2, task.Result{Outcome: task.Exit, Code: 1, Stdout: spool.Text("half")})
	first.Kind = task.Retried
	require.NoError(t, s.Consume([]task.Event{
		{Kind: task.Started},
		ended(1, task.Result{Outcome: task.OK, Stdout: spool.Text("out"), Stderr: spool.Text("err")}),
		first,
	}))
	require.Equal(t, map[string]string{
		"1/stdout": "out", "1/stderr": "err", "1/result.json": "",
		"2/stdout.1": "half", "2/stderr.1": "",
	}, tree(t, dir))
	unrun := ended(3, task.Result{Outcome: task.NotRun})
	require.NoError(t, s.Consume([]task.Event{
		ended(2, task.Result{Outcome: task.OK, Attempt: 2, Stdout: spool.Text("whole")}), unrun,
		skippedEvent(1), skippedEvent(4),
	}))
	require.NoError(t, s.Close(task.Stats{}))
	require.Equal(t, map[string]string{
		"1/stdout": "out", "1/stderr": "err", "1/result.json": "",
		"2/stdout.1": "half", "2/stderr.1": "", "2/stdout": "whole", "2/stderr": "", "2/result.json": "",
	}, tree(t, dir))

	// a later run into the same directory
	require.NoError(t, os.WriteFile(filepath.Join(dir, "2", "mine"), []byte("kept"), 0o666))
	s, err = OpenResults(dir, in(dir), Records{})
	require.NoError(t, err)
	require.NoError(t, s.Consume([]task.Event{ended(2, task.Result{Outcome: task.OK})}))
	require.Equal(t, map[string]string{
		"1/stdout": "out", "1/stderr": "err", "1/result.json": "",
		"2/stdout": "", "2/stderr": "", "2/result.json": "", "2/mine": "kept",
	}, tree(t, dir))
}

// The end of a task that comes from a journal does not bring what attempts before
// the last have written: that stays.
func TestResultsOfEarlierRun(t *testing.T) {
	dir := t.TempDir()
	s, err := OpenResults(dir, in(dir), Records{})
	require.NoError(t, err)
	first := ended(1, task.Result{Outcome: task.Exit, Code: 1, Attempt: 1, Stdout: spool.Text("half")})
	first.Kind = task.Retried
	require.NoError(t, s.Consume([]task.Event{first}))

	s, err = OpenResults(dir, in(dir), Records{})
	require.NoError(t, err)
	last := ended(1, task.Result{Outcome: task.OK, Attempt: 2, Stdout: spool.Text("whole")})
	last.Task.Done = last.Result
	for range 2 {
		require.NoError(t, s.Consume([]task.Event{last}))
		require.Equal(t, map[string]string{
			"1/stdout.1": "half", "1/stderr.1": "", "1/stdout": "whole", "1/stderr": "", "1/result.json": "",
		}, tree(t, dir))
	}
}

func TestResultsErrors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o666))
	_, err := OpenResults(file, in(file), Records{})
	require.ErrorContains(t, err, "open results: mkdir "+file)

	crewtest.Examples(t, "testdata/resulterrors.jsonl", func(t *testing.T, c struct {
		It, At    string
		Dir, File string // which is in the way
		Event     happening
	}) {
		dir := filepath.Join(t.TempDir(), "dir")
		s, err := OpenResults(dir, in(dir), Records{})
		require.NoError(t, err)
		if c.Dir != "" {
			require.NoError(t, os.MkdirAll(filepath.Join(dir, c.Dir), 0o777))
		}
		if c.File != "" {
			path := filepath.Join(dir, c.File)
			require.NoError(t, os.RemoveAll(path))
			require.NoError(t, os.WriteFile(path, nil, 0o666))
		}
		err = s.Consume([]task.Event{c.Event.event(t)})
		require.ErrorContains(t, err, "write results: ")
		require.ErrorContains(t, err, dir+c.At)
	})
}

package report

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/decide/task"
	"crew/runner/exec/spool"
)

// example is a task, its attempts, and the expected reports.
type example struct {
	Task  task.Task // its Dir is below the test's directory
	Tries []struct {
		Outcome                   string
		Code, Signal              int
		Err, Stdout, Stderr, Host string
	}
	From, Root string // where crew runs, and the top of the sources, below that directory
	JUnit      string // the case
	CI         string // the annotation
}

// event returns the Finished event of the example.
func (e example) event(dir string) task.Event {
	var tries []task.Result
	for _, a := range e.Tries {
		r := task.Result{Code: a.Code, Signal: a.Signal, Host: a.Host, Stdout: spool.Text(a.Stdout), Stderr: spool.Text(strings.ReplaceAll(a.Stderr, "DIR", dir))}
		for r.Outcome.String() != a.Outcome {
			r.Outcome++
		}
		if a.Err != "" {
			r.Err = errors.New(a.Err)
		}
		tries = append(tries, r)
	}
	ev := ended("", tries...)
	*ev.Task = e.Task
	ev.Task.ID = 1
	if e.Task.Dir != "" {
		ev.Task.Dir = filepath.Join(dir, e.Task.Dir)
	}
	return ev
}

// TestCases checks that test cases are valid, and that each annotation is one line and names an existing
// file.
func TestCases(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "src", "a b"), 0o777))
	for _, name := range []string{"src/a.go", "src/a b/c,d.go"} {
		crewtest.WriteFile(t, filepath.Join(dir, name), "", 0o666)
	}
	crewtest.Examples(t, "testdata/cases.txt", func(t *testing.T, e example) {
		text := strings.ReplaceAll(write(t, "job {}", e.event(dir)), dir, "DIR")
		require.Equal(t, e.JUnit, text[strings.Index(text, "  <testcase"):strings.Index(text, " </testsuite>")])
		cfg := CIConfig{Dir: filepath.Join(dir, e.From)}
		if e.Root != "" {
			cfg.Root = filepath.Join(dir, e.Root)
		}
		said, _ := runCI(cfg, e.event(dir))
		require.Equal(t, e.CI, strings.ReplaceAll(said, dir, "DIR"))
	})
}

package sink

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/decide/task"
)

// tempDir makes a new directory the os.TempDir() of this test.
func tempDir(t *testing.T) string {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	t.Setenv("XDG_STATE_HOME", "")
	t.Setenv("HOME", "")
	return dir
}

// failedTask returns the end of a failed task with the given records.
func failedTask(records ...[]string) task.Event {
	e := ended(1, task.Result{Outcome: task.Exit, Code: 1})
	e.Task.Records = records
	return e
}

// crewLine is a RerunConfig.Line.
func crewLine(options, values string) string {
	return strings.Join(strings.Fields("crew -k "+options+" job "+values), " ")
}

// TestRerun checks the line that runs failed tasks again.
func TestRerun(t *testing.T) {
	crewtest.Examples(t, "testdata/rerun.jsonl", func(t *testing.T, c struct {
		It                             string
		Columns, JSON, Numbered, State bool
		Stdin                          string
		Header                         []string
		Batch                          int
		Events                         []happening
		Again                          string // the line, with FILE for a file; empty if there is none
		Rest                           string
		File                           text
	}) {
		dir := tempDir(t)
		cfg := RerunConfig{RerunRecords: RerunRecords{Columns: c.Columns, JSON: c.JSON, StdinEnd: c.Stdin, Batch: c.Batch}, State: c.State, Line: crewLine}
		if c.Header != nil {
			cfg.Header = func() []string { return c.Header }
		}
		if c.Numbered {
			cfg.WhyChanged = func(*task.Task) string { return "{#} would be another number" }
		}
		want := ""
		if c.Again != "" {
			options, values, found := strings.Cut(c.Again, ":::")
			if found {
				values = ":::" + values
			}
			want = "crew: run them again: " + crewLine(options, values) + "\n"
		}
		if c.Rest != "" {
			want += c.Rest + "\n"
		}
		got := digestOf(t, cfg, eventsOf(t, c.Events)...)
		left, err := filepath.Glob(dir + "/*")
		require.NoError(t, err)
		if strings.Contains(c.Again, "FILE") {
			require.Len(t, left, 1)
			require.Equal(t, string(c.File), crewtest.ReadFile(t, left[0]))
			info, err := os.Stat(left[0])
			require.NoError(t, err)
			require.Equal(t, os.FileMode(0o600), info.Mode())
			got = strings.Replace(got, left[0], "FILE", 1)
		} else {
			require.Empty(t, left)
		}
		require.Equal(t, want, strings.Replace(rerunOf(got), "run it again", "run them again", 1), c.It)
	})
}

// rerunOf returns the lines of a digest about running tasks again.
func rerunOf(digest string) (lines string) {
	for l := range strings.Lines(digest) {
		if strings.Contains(l, " again: ") || strings.Contains(l, " cannot be run ") || strings.Contains(l, "--retry-failed runs") {
			lines += l
		}
	}
	return lines
}

func TestRerunWhenNoFileCanBeCreated(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	tempDir(t)
	t.Setenv("TMPDIR", missing)
	for _, e := range []task.Event{
		failedTask([]string{"\x01"}), failedTask([]string{strings.Repeat("x", 3000)}), failedTask([]string{"a", "b"}, []string{"c"}),
	} {
		got := digestOf(t, RerunConfig{Line: crewLine}, e, e)
		require.Contains(t, got, "crew: no command to run them again, because their records cannot be saved: open "+missing)
		require.NotContains(t, got, "again: crew")
	}
}

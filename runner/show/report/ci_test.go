package report

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/decide/task"
	"crew/runner/exec/spool"
)

// runCI returns the output of a CI for the events.
func runCI(cfg CIConfig, events ...task.Event) (said string, notices []string) {
	cfg.Digest = func() string { return "" }
	cfg.Say = func(text string) { said += text }
	cfg.Notice = func(text string) { notices = append(notices, text) }
	c := NewCI(cfg)
	var s task.Stats
	for i := range events {
		events[i].ID = uint64(i + 1)
		events[i].Task.ID = events[i].ID
		s.Apply(&task.Event{Kind: task.Admitted, At: start, Task: events[i].Task})
		s.Apply(&events[i])
	}
	c.Consume(events)
	c.Close(s)
	return said, notices
}

// TestSummary checks that the summary is bounded, and left out if the file would be too large for GitHub.
func TestSummary(t *testing.T) {
	path := filepath.Join(t.TempDir(), "summary.md")
	long := task.Result{Outcome: task.Exit, Code: 1, Stderr: spool.Text(strings.Repeat("<"+strings.Repeat("é", 4000)+"\n", 100))}
	var events []task.Event
	for range 1000 {
		e := ended(strings.Repeat("<", 5000), long)
		e.Result.End = e.Result.End.Add(time.Duration(len(events)))
		events = append(events, e)
	}
	_, notices := runCI(CIConfig{Summary: path, Command: strings.Repeat("<", 5000)}, events...)
	require.Empty(t, notices)
	require.Less(t, len(crewtest.ReadFile(t, path)), 64<<10)
	require.NoError(t, os.Truncate(path, maxSummary-100))
	_, notices = runCI(CIConfig{Summary: path}, events...)
	require.Equal(t, []string{"write the summary for CI: " + path + " is full: GitHub shows no more than 1 MiB"}, notices)
}

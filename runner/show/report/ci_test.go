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

func TestSummary(t *testing.T) {
	path := filepath.Join(t.TempDir(), "summary.md")
	crewtest.WriteFile(t, path, "before\n", 0o666)
	bad := task.Result{Outcome: task.Exit, Code: 1, Stderr: spool.Text("</pre>**<b>**\n")}
	events := []task.Event{
		ended("1", task.Result{Outcome: task.OK}), ended("2", bad), ended("3", bad, task.Result{Outcome: task.OK}),
		ended("4", task.Result{Outcome: task.NotRun}),
	}
	_, notices := runCI(CIConfig{Summary: path, Command: "bin/job <{}>"}, events...)
	require.Empty(t, notices)
	text := crewtest.ReadFile(t, path)
	require.Equal(t, `before
### crew: 1 of 4 tasks failed in 0s

<pre>bin/job &lt;{}&gt;</pre>

| succeeded | failed | flaky | skipped | cancelled | not run |
|--:|--:|--:|--:|--:|--:|
| 2 | 1 | 1 | 0 | 0 | 1 |

#### Failed

<pre>
task 2: exit 1 after 100ms: bin/job 2
  | &lt;/pre&gt;**&lt;b&gt;**
</pre>

#### Flaky

<pre>
task 3: exit 1 after 100ms, passed in attempt 2: bin/job 3
</pre>

#### Slowest

<pre>
task 3: 200ms: bin/job 3
task 1: 100ms: bin/job 1
task 2: 100ms: bin/job 2
task 4: 100ms: bin/job 4
</pre>

`, text)

	// The output is bounded, and a summary that is too large for GitHub is left out.
	long := task.Result{Outcome: task.Exit, Code: 1, Stderr: spool.Text(strings.Repeat("<"+strings.Repeat("é", 4000)+"\n", 100))}
	events = nil
	for range 1000 {
		e := ended(strings.Repeat("<", 5000), long)
		e.Result.End = e.Result.End.Add(time.Duration(len(events)))
		events = append(events, e)
	}
	require.NoError(t, os.Remove(path))
	_, notices = runCI(CIConfig{Summary: path, Command: strings.Repeat("<", 5000)}, events...)
	require.Empty(t, notices)
	text = crewtest.ReadFile(t, path)
	require.Less(t, len(text), 64<<10)
	require.Contains(t, text, "\n… and 990 more\n")
	require.NoError(t, os.Truncate(path, maxSummary-100))
	_, notices = runCI(CIConfig{Summary: path}, events...)
	require.Equal(t, []string{"write the summary for CI: " + path + " is full: GitHub shows no more than 1 MiB"}, notices)
}

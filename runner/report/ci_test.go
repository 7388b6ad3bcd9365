package report

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/spool"
	"crew/runner/task"
)

// runCI returns what a CI says of the events.
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
	require.NoError(t, os.WriteFile(path, []byte("before\n"), 0o666))
	bad := task.Result{Outcome: task.Exit, Code: 1, Stderr: spool.Text("</pre>**<b>**\n")}
	events := []task.Event{
		ended("1", task.Result{Outcome: task.OK}), ended("2", bad), ended("3", bad, task.Result{Outcome: task.OK}),
		ended("4", task.Result{Outcome: task.NotRun}),
	}
	_, notices := runCI(CIConfig{Summary: path, Command: "bin/job <{}>"}, events...)
	require.Empty(t, notices)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
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

`, string(text))

	require.NoError(t, os.Remove(path))
	said, _ := runCI(CIConfig{Summary: path}, ended("1", task.Result{Outcome: task.OK}), ended("2", task.Result{Outcome: task.Skipped}))
	require.Empty(t, said)
	text, err = os.ReadFile(path)
	require.NoError(t, err)
	require.Contains(t, string(text), "### crew: 1 of 2 tasks succeeded, 1 skipped, in 0s\n")
	require.Contains(t, string(text), "\n| 1 | 0 | 0 | 1 | 0 | 0 |\n")

	// However much there is to say, it is little; and what would be too much for GitHub
	// is left out.
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
	text, err = os.ReadFile(path)
	require.NoError(t, err)
	require.Less(t, len(text), 64<<10)
	require.Contains(t, string(text), "\n… and 990 more\n")
	require.NoError(t, os.Truncate(path, maxSummary-100))
	_, notices = runCI(CIConfig{Summary: path}, events...)
	require.Equal(t, []string{"write the summary for CI: " + path + " is full: GitHub shows no more than 1 MiB"}, notices)
	_, notices = runCI(CIConfig{Summary: filepath.Join(path, "no")}, events...)
	require.Len(t, notices, 1)
}

func TestGroups(t *testing.T) {
	e := ended("a\n50%", task.Result{Outcome: task.Exit, Code: 2})
	e.Task.ID = 7
	log := NewLog()
	begin, end := log.GitHubGroup(e.Task, e.Result, false)
	m := regexp.MustCompile(`^::group::task 7: bin/job 'a\\n50%25': exit 2 after 100ms\n::stop-commands::([0-9A-Z]{20,})\n$`).FindStringSubmatch(begin)
	require.NotNil(t, m, "%q", begin)
	require.Equal(t, "::"+m[1]+"::\n::endgroup::\n", end)
	require.NotEqual(t, log, NewLog(), "no task can know it")
	begin, _ = log.GitHubGroup(e.Task, e.Result, true)
	require.Contains(t, begin, " (stderr)")

	// GitLab's markers: \e[0Ksection_start:UNIX_TIMESTAMP:NAME[OPTIONS]\r\e[0KHEADER and
	// \e[0Ksection_end:UNIX_TIMESTAMP:NAME\r\e[0K
	grammar := regexp.MustCompile(`^\x1b\[0Ksection_(start|end):([0-9]+):([a-zA-Z0-9_.-]+)(\[collapsed=true\])?\r\x1b\[0K([[:print:]]*)\n$`)
	for _, stderr := range []bool{false, true} {
		begin, end = log.GitLabGroup(e.Task, e.Result, stderr)
		b, x := grammar.FindStringSubmatch(begin), grammar.FindStringSubmatch(end)
		require.NotNil(t, b, "%q", begin)
		require.NotNil(t, x, "%q", end)
		require.Equal(t, []string{"start", fmt.Sprint(start.Unix())}, b[1:3])
		require.Equal(t, []string{"end", fmt.Sprint(start.Unix()), b[3], "", ""}, x[1:])
		require.Empty(t, b[4], "a failed one is open")
	}
	e.Result.Outcome = task.OK
	begin, _ = log.GitLabGroup(e.Task, e.Result, false)
	require.Contains(t, begin, "[collapsed=true]")
}

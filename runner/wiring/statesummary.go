package wiring

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"crew/runner/history"
	"crew/runner/journal"
	"crew/runner/task"
)

// showState carries out crew state: it prints a summary of the journal in dir, or the
// journal itself as lines of JSON.
func showState(dir string, json bool, stdout io.Writer) error {
	var err error
	t := stateText{now: time.Now()}
	if json {
		_, err = journal.Dump(dir, stdout)
	} else {
		t.s, t.r, err = history.State(dir)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s holds no journal", dir)
	case err != nil || json:
		return err
	}
	return printText(stdout, t.all())
}

const (
	slowest    = 5   // tasks
	shownWidth = 120 // bytes of a key
)

// stateText describes a journal for people.
type stateText struct {
	s   *journal.Summary
	r   *history.Report
	now time.Time
	b   strings.Builder
}

func (t *stateText) say(format string, args ...any) {
	t.b.WriteString(task.Printable(fmt.Sprintf(format, args...)) + "\n")
}

func (t *stateText) all() string {
	s := t.s
	t.say("%s", s.Command.Line)
	if s.Command.Dir != "" {
		t.say("in %s", s.Command.Dir)
	}
	t.head()
	t.list(int64(s.Running), task.Count(int64(s.Running), "task")+" "+t.unfinished(), len(s.Interrupted), func(i int) { t.running(&s.Interrupted[i]) })
	t.ended(t.r.Total.Failed, task.Count(t.r.Total.Failed, "task")+" failed", t.r.Failed.List, journal.MostMentioned)
	if n := min(len(t.r.Slowest.List), slowest); n > 1 {
		t.ended(int64(n), "slowest tasks", t.r.Slowest.List, n)
	}
	t.byKey()
	t.say("journal %s, outputs %s", task.Size(s.JournalBytes), task.Size(s.OutputBytes))
	if s.Damage != "" {
		t.say("journal %s", s.Damage)
	}
	return t.b.String()
}

// head says how the latest run stands and what became of the tasks.
func (t *stateText) head() {
	s, all := t.s, &t.r.Total
	state, until := "stopped on the way", s.Begun
	if n := len(t.r.Runs); n > 0 {
		until = t.r.Runs[n-1].End
	}
	switch {
	case s.Process == "0": // of another PID namespace
		state, until = "running", t.now
	case s.Process != "":
		state, until = "running as process "+s.Process, t.now
	case s.Closed:
		state = "ended"
	}
	head := fmt.Sprintf("%s, %s after the start at %s: %s finished, %d failed", state, task.Span(max(0, until.Sub(s.Begun))),
		s.Begun.Local().Format(time.DateTime), task.Count(all.Tasks, "task"), all.Failed)
	if s.Running > 0 {
		head += fmt.Sprintf(", %d %s", s.Running, t.unfinished())
	}
	if s.Waiting > 0 {
		head += fmt.Sprintf(", %d waiting", s.Waiting)
	}
	t.say("%s", head)
	var counts []string
	add := func(n int64, what string) {
		if n > 0 {
			counts = append(counts, strconv.FormatInt(n, 10)+" "+what)
		}
	}
	for o := range task.Outcomes {
		add(t.r.Outcomes[o], o.String())
	}
	add(all.Retries, "retried")
	add(int64(s.Begins), "to run again")
	add(int64(s.Before), "done before")
	add(int64(s.Unshown), "not shown yet")
	if len(counts) > 0 {
		t.say("%s", strings.Join(counts, ", "))
	}
	if len(t.r.Bins) > 0 {
		t.say("%s a task, %s in all; CPU time %s user, %s system", task.Span(all.Mean), task.Span(all.Time), task.Span(all.User), task.Span(all.System))
	}
}

// unfinished says what the tasks do that have started and not ended.
func (t *stateText) unfinished() string {
	if t.s.Process == "" {
		return "interrupted"
	}
	return "running"
}

// running describes a task that runs, or was running when the run stopped.
func (t *stateText) running(f *task.Facts) {
	since := "since " + f.Start.Local().Format(time.DateTime)
	if t.s.Process != "" {
		since = "for " + task.Span(max(0, t.now.Sub(f.Start))) + ", since " + f.Start.Local().Format(time.TimeOnly)
	}
	t.say("  task %d: %s, on %s%s: %s", f.Task, since, f.Place(), task.LaterAttempt(f.Attempt), f.Command)
}

// ended describes the first few of n tasks that have ended below a heading.
func (t *stateText) ended(n int64, heading string, some []history.Ended, few int) {
	t.list(n, heading, min(len(some), few), func(i int) {
		f := &some[i].Facts
		t.say("  task %d: %s%s: %s", f.Task, f.Verdict(), task.LaterAttempt(f.Attempt), f.Command)
	})
}

// list describes some of n things below a heading.
func (t *stateText) list(n int64, heading string, some int, describe func(int)) {
	if n == 0 {
		return
	}
	t.say("%s", heading)
	for i := range some {
		describe(i)
	}
	if more := n - int64(some); more > 0 {
		t.say("  … and %d more", more)
	}
}

// byKey prints the figures of the keys that took longest.
func (t *stateText) byKey() {
	keys, more := t.r.Keys.List, t.r.Total.Tasks
	if len(keys) == 0 || len(keys) == 1 && keys[0].Name == "" {
		return
	}
	const row = "  %7v  %7v  %8s  %8s  %s"
	t.say(row, "tasks", "failed", "in all", "a task", "key")
	for _, k := range keys[:min(len(keys), journal.MostMentioned)] {
		more -= k.Tasks
		t.say(row, k.Tasks, k.Failed, task.Span(k.Time), task.Span(k.Mean), task.Shorten(cmp.Or(k.Name, "(no key)"), shownWidth))
	}
	if more > 0 {
		t.say("  … and others, of %s", task.Count(more, "task"))
	}
}

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

	"crew/runner/journal"
	"crew/runner/task"
)

// showState carries out crew state: it prints a summary of the journal in dir, or the
// journal itself as lines of JSON.
func showState(dir string, json bool, stdout io.Writer) error {
	if json {
		return noJournal(dir, journal.Dump(dir, stdout))
	}
	s, err := journal.Summarize(dir)
	if err != nil {
		return noJournal(dir, err)
	}
	return printText(stdout, (&stateText{s: s, now: time.Now()}).all())
}

func noJournal(dir string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s holds no journal", dir)
	}
	return err
}

const (
	slowest    = 5   // tasks
	shownWidth = 120 // bytes of a key
)

// stateText describes a journal for people.
type stateText struct {
	s   *journal.Summary
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
	t.list(task.Count(int64(s.Running), "task")+" "+t.unfinished(), s.Interrupted, s.Running, t.running)
	t.list(task.Count(int64(s.Total.Failed), "task")+" failed", s.Failed, s.Total.Failed, t.ended)
	if some := s.Slowest[:min(len(s.Slowest), slowest)]; len(some) > 1 {
		t.list("slowest tasks", some, len(some), t.ended)
	}
	t.byKey()
	t.say("journal %s, outputs %s", task.Size(s.JournalBytes), task.Size(s.OutputBytes))
	if s.Damage.Lines > 0 {
		t.say("journal %v", s.Damage)
	}
	return t.b.String()
}

// head says how the latest run stands and what became of the tasks.
func (t *stateText) head() {
	s := t.s
	state, until := "stopped on the way", s.Until
	switch {
	case s.Process == "0": // of another PID namespace
		state, until = "running", t.now
	case s.Process != "":
		state, until = "running as process "+s.Process, t.now
	case s.Closed:
		state = "ended"
	}
	head := fmt.Sprintf("%s, %s after the start at %s: %s finished, %d failed", state, task.Span(max(0, until.Sub(s.Begun))),
		s.Begun.Local().Format(time.DateTime), task.Count(int64(s.Total.Tasks), "task"), s.Total.Failed)
	if s.Running > 0 {
		head += fmt.Sprintf(", %d %s", s.Running, t.unfinished())
	}
	if s.Waiting > 0 {
		head += fmt.Sprintf(", %d waiting", s.Waiting)
	}
	t.say("%s", head)
	var counts []string
	add := func(n int, what string) {
		if n > 0 {
			counts = append(counts, strconv.Itoa(n)+" "+what)
		}
	}
	for o := range task.Outcomes {
		add(s.ByOutcome[o], o.String())
	}
	add(s.Retries, "retried")
	add(s.Begins, "to run again")
	add(s.Before, "done before")
	add(s.Unshown, "not shown yet")
	if len(counts) > 0 {
		t.say("%s", strings.Join(counts, ", "))
	}
	if n := time.Duration(s.Total.Tasks - s.ByOutcome[task.Skipped]); n > 0 {
		t.say("%s a task, %s in all; CPU time %s user, %s system", task.Span(s.Total.Time/n),
			task.Span(s.Total.Time), task.Span(s.Total.User), task.Span(s.Total.System))
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

// ended describes a task that has ended.
func (t *stateText) ended(f *task.Facts) {
	t.say("  task %d: %s%s: %s", f.Task, f.Verdict(), task.LaterAttempt(f.Attempt), f.Command)
}

// list describes some of n tasks below a heading.
func (t *stateText) list(heading string, some []task.Facts, n int, describe func(*task.Facts)) {
	if n == 0 {
		return
	}
	t.say("%s", heading)
	for i := range some {
		describe(&some[i])
	}
	t.more(n - len(some))
}

// more says that a list lacks n lines.
func (t *stateText) more(n int) {
	if n > 0 {
		t.say("  … and %d more", n)
	}
}

// byKey prints the totals of the keys that took longest.
func (t *stateText) byKey() {
	if len(t.s.Keys) == 0 {
		return
	}
	const row = "  %7s  %7s  %8s  %8s  %s"
	t.say(row, "tasks", "failed", "in all", "a task", "key")
	for _, k := range t.s.Keys {
		t.say(row, strconv.Itoa(k.Tasks), strconv.Itoa(k.Failed), task.Span(k.Time),
			task.Span(k.Time/time.Duration(k.Tasks)), task.Shorten(cmp.Or(k.Key, "(no key)"), shownWidth))
	}
	if t.s.ManyKeys {
		t.say("  … and others: there are more than %d keys", len(t.s.Keys)+t.s.MoreKeys)
	} else {
		t.more(t.s.MoreKeys)
	}
}

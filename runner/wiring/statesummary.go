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
	show := printSummary
	if json {
		show = journal.Dump
	}
	err := show(dir, stdout)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s holds no journal", dir)
	}
	return err
}

// printSummary prints a summary of the journal in dir.
func printSummary(dir string, stdout io.Writer) error {
	s, err := journal.Summarize(dir)
	if err != nil {
		return err
	}
	text := &stateText{s: s, now: time.Now()}
	return printText(stdout, text.all())
}

const (
	slowest    = 5   // tasks
	shownWidth = 120 // bytes of a key
)

// stateText is what people read about a journal.
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
	if s.Running > 0 {
		t.say("%s %s", task.Count(int64(s.Running), "task"), t.unfinished())
		for i := range s.Interrupted {
			t.running(&s.Interrupted[i])
		}
		t.more(s.Running - len(s.Interrupted))
	}
	if s.Total.Failed > 0 {
		t.say("%s failed", task.Count(int64(s.Total.Failed), "task"))
		for i := range s.Failed {
			t.ended(&s.Failed[i])
		}
		t.more(s.Total.Failed - len(s.Failed))
	}
	if len(s.Slowest) > 1 {
		t.say("slowest tasks")
		for i := range s.Slowest[:min(len(s.Slowest), slowest)] {
			t.ended(&s.Slowest[i])
		}
	}
	t.byKey()
	t.say("journal %s, outputs %s", byteCount(s.JournalBytes), byteCount(s.OutputBytes))
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
	if n := time.Duration(s.Total.Tasks); n > 0 {
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

// byteCount returns n as people read it: 2.0 MiB.
func byteCount(n int64) string {
	if n < 1<<10 {
		return fmt.Sprintf("%d B", n)
	}
	size := float64(n) / (1 << 10)
	units := []string{"KiB", "MiB", "GiB"}
	for size >= 1<<10 && len(units) > 1 {
		size, units = size/(1<<10), units[1:]
	}
	return fmt.Sprintf("%.1f %s", size, units[0])
}

package sink

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rivo/uniseg"

	"crew/runner/decide/task"
)

const (
	barWidth  = 40          // columns of the bar itself, at most
	barLeast  = 8           // fewer columns than this are not worth a bar
	nameWidth = 30          // columns of a task's name, at most, beside others
	nameLeast = 6           // fewer columns than this are not worth a name
	nameAfter = time.Second // how long a task runs before it is named
	nameTasks = 5           // that are named, at most
)

// figures returns the parts of the progress line, the most important ones first.
func (t *Terminal) figures(n tally, now time.Time) []string {
	s := &t.stats
	count := strconv.FormatInt(n.done, 10)
	if n.known {
		count += "/" + strconv.FormatInt(n.total, 10)
	}
	f := []string{
		"crew: " + count + " done", fmt.Sprintf(", %d running", s.Running), fmt.Sprintf(", %d failed", s.Failed()), t.rest(n, now),
	}
	if passed := s.Elapsed(now).Round(time.Second); passed > 0 {
		f = append(f, ", after "+task.Brief(passed))
	}
	if speed := s.Rate(now); speed > 0 {
		f = append(f, ", "+task.Speed(speed))
	}
	if t.blocking != nil {
		f = append(f, ", "+task.Printable(t.blocking.Text(now)))
	}
	return f
}

// rest says how long the rest of the run takes or, if that cannot be said, how long
// the oldest task has been running.
func (t *Terminal) rest(n tally, now time.Time) string {
	at := t.stats.Clock.At(now)
	if n.known && n.waiting > 0 && !t.stats.Draining {
		if eta, ok := t.stats.ETA(n.waiting, t.load.ages(at), now); ok {
			return ", eta " + task.Brief(max(eta.Round(time.Second), time.Second))
		}
	}
	for _, a := range t.load.oldest(1) {
		if age := a.age(at); age > 0 {
			return ", oldest " + task.Brief(age)
		}
	}
	return ""
}

// age returns how long a has been running, in whole seconds.
func (a runningTask) age(now time.Time) time.Duration { return now.Sub(a.since).Truncate(time.Second) }

// name returns what people recognize a's task by, in at most so many columns.
func (a runningTask) name(columns int) string { return Cut(a.task.Label(4*columns), columns) }

// longest names the tasks that have run longest, in at most so many columns.
func (t *Terminal) longest(columns int, now time.Time) string {
	now = t.stats.Clock.At(now)
	line := ""
	for _, a := range t.load.oldest(nameTasks) {
		age := a.age(now)
		if age < nameAfter {
			break
		}
		next := task.Brief(age) + " "
		if line != "" {
			next = ", " + next
		}
		room := columns - uniseg.StringWidth(line) - len(next)
		if room < nameLeast {
			break
		}
		line += next + a.name(min(room, nameWidth))
	}
	return line
}

// fit returns the progress line for a terminal of the given width, without the last
// figures if there is no room. The last column stays free, since terminals
// differ in what they do after it. One figure also gives way to a bar.
func fit(f []string, n tally, columns int) string {
	columns--
	const around = len("  100% []")
	most := columns
	if n.known {
		most -= around + barLeast
	}
	for len(f) > 0 && uniseg.StringWidth(strings.Join(f, "")) > most {
		f, most = f[:len(f)-1], columns
	}
	line := strings.Join(f, "")
	if room := min(columns-uniseg.StringWidth(line)-around, barWidth); n.known && line != "" && room >= barLeast {
		return meter(line, n.done, n.total, room)
	}
	return line
}

// Cut shortens s to a number of columns of a terminal.
func Cut(s string, columns int) string {
	if uniseg.StringWidth(s) <= columns {
		return s
	}
	for uniseg.StringWidth(s) >= columns && s != "" {
		_, n := utf8.DecodeLastRuneInString(s)
		s = s[:len(s)-n]
	}
	return s + "…"
}

// Input tells what is known of the input before it has been read. The zero Input knows
// nothing.
type Input struct {
	// Tasks returns how many tasks the input makes, if that is known. The first call
	// may begin to count them. It waits for that, but not longer than wait. It may be
	// nil.
	Tasks func(wait time.Duration) (n int64, ok bool)
	// DoneBefore is how many of them an earlier run has done, as far as is known.
	DoneBefore int64
	// Resumable means that what is done is known to the next run, from a journal or from the
	// files that tasks make, so the same command goes on where a run has stopped.
	Resumable bool
	// Elsewhere means that the tasks run elsewhere, and only their results are shown.
	Elsewhere bool
}

// tally says how many tasks there are and what became of them.
type tally struct {
	total     int64 // at least, unless known
	known     bool  // total is exact
	done      int64 // succeeded, failed or skipped
	before    int64 // those of them that an earlier run has done
	cancelled int64 // interrupted
	waiting   int64 // all others, except running ones
}

// tally counts the tasks. It may wait for the number of tasks.
func (in Input) tally(s *task.Stats, wait time.Duration) tally {
	t := tally{total: s.Admitted, known: s.InputEnd, before: s.Resumed(), cancelled: s.Of(task.Cancelled)}
	if !t.known && in.Tasks != nil {
		if n, ok := in.Tasks(wait); ok && n >= s.Admitted {
			t.total, t.known = n, true
			// Those that are done already and not read yet.
			t.before += max(0, min(in.DoneBefore-t.before, n-s.Admitted))
		}
	}
	t.done = s.Done() + t.before - s.Resumed()
	t.waiting = max(0, t.total-t.done-t.cancelled-s.Running)
	return t
}

// load is the set of running tasks. Its times are on the run's clock.
type load map[uint64]runningTask

// runningTask is a task that runs, and since when.
type runningTask struct {
	task  *task.Task
	slot  int
	since time.Time
}

// apply takes an event that happened at a moment.
func (l load) apply(e *task.Event, at time.Time) {
	switch e.Kind {
	case task.Started:
		l[e.ID] = runningTask{e.Task, e.Slot, at}
	case task.Retried, task.Finished:
		delete(l, e.ID)
	}
}

// oldest returns the n attempts that have run longest, the oldest first.
func (l load) oldest(n int) []runningTask {
	list := slices.SortedFunc(maps.Values(l), func(a, b runningTask) int {
		return cmp.Or(a.since.Compare(b.since), cmp.Compare(a.slot, b.slot))
	})
	return list[:min(n, len(list))]
}

// ages returns how long the attempts have been running.
func (l load) ages(now time.Time) []time.Duration {
	ages := make([]time.Duration, 0, len(l))
	for _, a := range l {
		ages = append(ages, now.Sub(a.since))
	}
	return ages
}

package sink

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rivo/uniseg"

	"crew/runner/decide/task"
)

const (
	maxBarWidth  = 40          // maximum width of the bar
	minBarWidth  = 8           // a narrower bar is left out
	maxNameWidth = 30          // maximum width of a task's name among several
	minNameWidth = 6           // a narrower name is left out
	nameAfter    = time.Second // time after which a running task is named
	maxNames     = 5           // maximum number of names
)

// figures returns the parts of the progress line, with the most important ones first.
func (t *Terminal) figures(n Tally, now time.Time) []string {
	s := &t.stats
	count := strconv.FormatInt(n.Done, 10)
	if n.Known {
		count += "/" + strconv.FormatInt(n.Total, 10)
	}
	f := []string{
		"crew: " + count + " done", fmt.Sprintf(", %d running", s.Running), fmt.Sprintf(", %d failed", s.Failed()), t.remaining(n, now),
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

// remaining returns the estimated time left or, without an estimate, the age of the oldest running
// task.
func (t *Terminal) remaining(n Tally, now time.Time) string {
	at := t.stats.Clock.At(now)
	if left := n.waiting - t.stats.ByOutcome[task.NotRun]; n.Known && left > 0 && !t.stats.Draining {
		if eta, ok := t.stats.ETA(left, t.running.ages(at), now); ok {
			return ", eta " + task.Brief(eta)
		}
	}
	for _, a := range t.running.oldest(1) {
		if age := a.age(at); age > 0 {
			return ", oldest " + task.Brief(age)
		}
	}
	return ""
}

// age returns how long a has been running, in whole seconds.
func (a runningTask) age(now time.Time) time.Duration { return now.Sub(a.since).Truncate(time.Second) }

// name returns the label of a's task, cut to a number of columns.
func (a runningTask) name(columns int) string { return task.Cut(a.task.Label(4*columns), columns) }

// longestRunning names the tasks that have been running longest, within a number of columns.
func (t *Terminal) longestRunning(columns int, now time.Time) string {
	now = t.stats.Clock.At(now)
	line := ""
	for _, a := range t.running.oldest(maxNames) {
		age := a.age(now)
		if age < nameAfter {
			break
		}
		next := task.Brief(age) + " "
		if line != "" {
			next = ", " + next
		}
		room := columns - uniseg.StringWidth(line) - len(next)
		if room < minNameWidth {
			break
		}
		line += next + a.name(min(room, maxNameWidth))
	}
	return line
}

// fit joins the parts of the progress line and leaves out the last ones if the terminal is too
// narrow. To make room for a bar, it leaves out at most one. The last column stays free, because
// terminals differ in how they wrap.
func fit(f []string, n Tally, columns int) string {
	columns--
	const around = len("  100% []")
	most := columns
	if n.Known {
		most -= around + minBarWidth
	}
	for len(f) > 0 && uniseg.StringWidth(strings.Join(f, "")) > most {
		f, most = f[:len(f)-1], columns
	}
	line := strings.Join(f, "")
	if room := min(columns-uniseg.StringWidth(line)-around, maxBarWidth); n.Known && line != "" && room >= minBarWidth {
		return meter(line, n.Done, n.Total, room)
	}
	return line
}

// Input describes the input before it has been read. The zero Input knows nothing.
type Input struct {
	// Tasks returns the number of tasks in the input, if it is known. The first call may begin to
	// count them; each call waits for the result for up to wait. Tasks may be nil.
	Tasks func(wait time.Duration) (n int64, ok bool)
	// DoneBefore is how many of the tasks earlier runs have done, as far as it is known.
	DoneBefore int64
	// Resumable means that the next run knows which tasks are done, from a journal or from the
	// files that they make, so the same command resumes the run.
	Resumable bool
	// Elsewhere means that another process runs the tasks, and this one only shows their results.
	Elsewhere bool
}

// Tally is how many tasks there are in each state.
type Tally struct {
	Total      int64 // a lower bound unless Known is set
	Known      bool  // Total is exact
	Done       int64 // succeeded, failed or skipped
	doneBefore int64 // how many of these earlier runs have done
	cancelled  int64 // interrupted
	waiting    int64 // all others, except running ones
}

// Tally counts the tasks. It waits up to wait for their number.
func (in Input) Tally(s *task.Stats, wait time.Duration) Tally {
	t := Tally{Total: s.Admitted, Known: s.InputEnd, doneBefore: s.Resumed(), cancelled: s.ByOutcome[task.Cancelled]}
	if !t.Known && in.Tasks != nil {
		if n, ok := in.Tasks(wait); ok && n >= s.Admitted {
			t.Total, t.Known = n, true
			// done tasks that have not been read yet
			t.doneBefore += max(0, min(in.DoneBefore-t.doneBefore, n-s.Admitted))
		}
	}
	t.Done = s.Done() + t.doneBefore - s.Resumed()
	t.waiting = max(0, t.Total-t.Done-t.cancelled-s.Running)
	return t
}

// runningTasks holds the running tasks by ID. Its times are on the run's clock.
type runningTasks map[uint64]runningTask

// runningTask is a running task.
type runningTask struct {
	task  *task.Task
	slot  int
	since time.Time
}

// apply updates l from an event that happened at the given time.
func (l runningTasks) apply(e *task.Event, at time.Time) {
	switch e.Kind {
	case task.Started:
		l[e.ID] = runningTask{e.Task, e.Slot, at}
	case task.Retried, task.Finished:
		delete(l, e.ID)
	}
}

// oldest returns the n attempts that have been running longest, oldest first.
func (l runningTasks) oldest(n int) []runningTask {
	list := slices.SortedFunc(maps.Values(l), func(a, b runningTask) int {
		return cmp.Or(a.since.Compare(b.since), cmp.Compare(a.slot, b.slot))
	})
	return list[:min(n, len(list))]
}

// ages returns how long each attempt has been running.
func (l runningTasks) ages(now time.Time) []time.Duration {
	ages := make([]time.Duration, 0, len(l))
	for _, a := range l {
		ages = append(ages, now.Sub(a.since))
	}
	return ages
}

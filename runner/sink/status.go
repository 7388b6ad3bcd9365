package sink

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"crew/runner/task"
)

const (
	statusTasks  = 100                    // running tasks in a status
	statusWaits  = 10                     // groups of waiting tasks in a status
	statusWithin = 100 * time.Millisecond // how long a status waits for a Print
)

// Status prints what the run does, since when, and what waits for what. It does not
// wait for a Print that is stuck because nobody reads stdout, and then leaves the
// progress bar to the next Print.
func (s *Screen) Status(snap *task.Snapshot, in Input) {
	text := status(snap, in)
	for end := time.Now().Add(statusWithin); !s.mu.TryLock(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			_, _ = io.WriteString(patient{s.err.w}, s.clean()+text)
			return
		}
	}
	defer s.mu.Unlock()
	_, _ = io.WriteString(patient{s.err}, s.newline()+text)
}

// status returns the lines about a snapshot: the totals, the running tasks, the
// oldest first, and what the others wait for.
func status(snap *task.Snapshot, in Input) string {
	var b strings.Builder
	say := func(text string) { b.WriteString("crew: " + task.Printable(text) + "\n") }
	st := &snap.Stats
	n, of := in.tally(st, statusWithin), ""
	if !n.known {
		of = "at least "
	}
	say(fmt.Sprintf("%s, %s after the start: %d of %s%s finished, %d failed, %d running",
		snap.State, task.Span(st.Elapsed(snap.At)), n.done, of, task.Count(n.total, "task"), st.Failed(), len(snap.Running)))

	slices.SortStableFunc(snap.Running, func(x, y task.Running) int { return x.Since.Compare(y.Since) })
	for _, r := range snap.Running[:min(len(snap.Running), statusTasks)] {
		attempt := ""
		if r.Attempt > 1 {
			attempt = fmt.Sprintf(", attempt %d", r.Attempt)
		}
		name := cmp.Or(r.Task.TagOn(r.Slot), r.Task.CommandLine(r.Task.ArgvOn(r.Slot)))
		say(fmt.Sprintf("task %d: for %s, since %s, on worker %d%s: %s",
			r.Task.ID, task.Span(snap.At.Sub(r.Since)), r.Since.Format(time.TimeOnly), r.Slot, attempt, task.Shorten(name, digestCommand)))
	}
	if n := len(snap.Running) - statusTasks; n > 0 {
		say(fmt.Sprintf("… and %d more", n))
	}

	var waits []string
	delayed := snap.Blocking != nil && snap.Blocking.By == task.ByDelay
	if snap.Blocking != nil && snap.State != task.Paused {
		waits = append(waits, snap.Blocking.Text(snap.At))
	}
	for _, w := range snap.Waiting {
		if delayed && w.By == task.BySlots {
			continue // they are those that wait for --delay, as a worker is idle
		}
		if text := w.Text(snap.At); !slices.Contains(waits, text) {
			waits = append(waits, text)
		}
	}
	if snap.State == task.Done {
		waits = append(waits, "output waits for its reader")
	}
	for _, text := range waits[:min(len(waits), statusWaits)] {
		say(text)
	}
	if len(waits) > statusWaits {
		say("… and more")
	}
	say("a second SIGQUIT (Ctrl-\\) within 2s kills the tasks and crew")
	return b.String()
}

package sink

import (
	"time"

	"crew/runner/task"
)

// Input tells what is known of the input before it has been read. The zero Input knows
// nothing.
type Input struct {
	// Tasks returns how many tasks the input makes, if that is known. The first call
	// may begin to count them. It waits for that, but not longer than wait. It may be
	// nil.
	Tasks func(wait time.Duration) (n int64, ok bool)
	// Done is how many of them an earlier run has done, as far as is known.
	Done int64
	// Kept means that what is done is known to the next run, from a journal or from the
	// files that tasks make, so the same command goes on where a run has stopped.
	Kept bool
	// Shown means that the tasks run elsewhere, and only their results are shown.
	Shown bool
	// Foreign means that the tasks are those of other runs, which go on with them.
	Foreign bool
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
			t.before += max(0, min(in.Done-t.before, n-s.Admitted))
		}
	}
	t.done = s.Done() + t.before - s.Resumed()
	t.waiting = max(0, t.total-t.done-t.cancelled-s.Running)
	return t
}

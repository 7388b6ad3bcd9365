package task

import "time"

// Kind is the kind of an event.
type Kind uint8

// The kinds of events, with the fields that are set. The events of a task come in
// this order: Admitted, then Started and Retried for each attempt but the last, then
// Started, Finished, Released. A task that ends without an attempt has no Started.
const (
	Admitted  Kind = iota + 1 // Task
	Started                   // Task, Slot, Host, Units, Attempt, Retries
	Retried                   // Task, Result, Retries, Took: the attempt failed, was lost or ended for memory; another follows after Wait
	Finished                  // Task, Result; Attempt and Took, which are 0 if no attempt was running
	Released                  // the results of tasks ID to Last may be shown now, in this order
	InputEnd                  // the number of tasks is final
	Resized                   // Slot is the number of slots
	Draining                  // nothing more starts; Running may finish; Retries tasks lose their retry; Text says why
	Stopping                  // the same, but Running are asked to end
	Blocked                   // Blocking says why nothing starts although a slot is free; nil once something starts
	Continued                 // the run was suspended for Wait
	Notice                    // Text is a diagnostic, without "crew: "
)

// Event is something that happened in a run. Kind says which fields are set.
type Event struct {
	Kind    Kind
	At      time.Time
	ID      uint64 // of the task; 0 if the event is about no task
	Last    uint64
	Task    *Task
	Result  *Result // closed once every sink has consumed the event
	Dropped *Result // for Retried: an earlier attempt that Before omits from now on, or nil; closed likewise
	Slot    int
	Host    string  // of the slot; empty for this machine
	Units   []Units // units that the attempt holds
	Attempt int
	// Retries is the number of the retry in this run. It is 0 for a first attempt, and for the
	// replacement of an attempt that was lost, ended for memory or had not begun. For Retried it is
	// the number of earlier attempts in this run.
	Retries  int
	Wait     time.Duration
	Took     time.Duration // how long the attempt ran, without the time the run was suspended
	Running  []uint64      // IDs of running tasks, at most 10
	Blocking *Blocking
	Text     string
}

// Stats are the totals of a run. Only Apply changes them.
type Stats struct {
	Admitted       int64
	Running        int64
	Retried        int64 // tasks that were retried in this run
	Flaky          int64 // tasks that failed before they succeeded
	Lost           int64 // attempts that were lost after they had begun
	EndedForMemory int64 // attempts ended because too little memory was left
	Released       int64
	ByOutcome      [Outcomes]int64 // finished tasks
	Earlier        [Outcomes]int64 // finished tasks that an earlier run finished
	InputEnd       bool            // Admitted is final
	Draining       bool
	Start          time.Time     // of the first event
	Last           time.Time     // of the latest event
	Clock          Clock         // the run's clock, for times since the latest event
	First          time.Time     // start of the first attempt, on the run's clock
	Busy           time.Duration // total run time of the attempts that have ended
	Longest        time.Duration // longest run time of an attempt
	Ran            int64         // tasks that finished after an attempt
}

// Apply folds one event into the totals.
func (s *Stats) Apply(e *Event) {
	if s.Start.IsZero() {
		s.Start = e.At
	}
	s.Last = e.At
	switch e.Kind {
	case Admitted:
		s.Admitted++
	case Started:
		if s.First.IsZero() {
			s.First = s.Clock.At(e.At)
		}
		s.Running++
		if e.Retries == 1 {
			s.Retried++
		}
	case Retried:
		s.endAttempt(e.Took)
		s.countReplaced(e.Result)
	case Finished:
		s.ByOutcome[e.Result.Outcome]++
		if e.Result.FromEarlierRun() {
			s.Earlier[e.Result.Outcome]++
		} else if e.Result.Flaky() {
			s.Flaky++
		}
		if e.Attempt > 0 {
			s.endAttempt(e.Took)
			s.countReplaced(e.Result)
			s.Ran++
		}
	case Released:
		s.Released += int64(e.Last - e.ID + 1)
	case InputEnd:
		s.InputEnd = true
	case Draining, Stopping:
		s.Draining = true
	case Continued:
		s.Clock.Lost += e.Wait
	}
}

func (s *Stats) countReplaced(r *Result) {
	switch {
	case r == nil:
	case r.Outcome == Lost && !r.Unbegun:
		s.Lost++
	case r.Outcome == Memory:
		s.EndedForMemory++
	}
}

func (s *Stats) endAttempt(took time.Duration) {
	s.Running--
	s.Busy += took
	s.Longest = max(s.Longest, took)
}

// ETA estimates when the running tasks, of the given ages, and the waiting tasks will be done, from
// how long tasks have taken and how many ran at once so far. left is in whole seconds, and at least one.
// ok is false if there is no estimate: no task is finished yet, or one runs much longer than any has taken,
// so it may take as long again.
func (s *Stats) ETA(waiting int64, ages []time.Duration, now time.Time) (left time.Duration, ok bool) {
	passed := s.Clock.At(now).Sub(s.First)
	if s.Ran == 0 || passed <= 0 {
		return 0, false
	}
	mean := s.Busy / time.Duration(s.Ran)
	work, busy := time.Duration(waiting)*mean, s.Busy
	for _, age := range ages {
		if age > 2*s.Longest {
			return 0, false
		}
		busy += age
		rest := max(0, mean-age)
		work += rest
		left = max(left, rest)
	}
	left = max(left, time.Duration(float64(work)*float64(passed)/float64(max(busy, 1))))
	return max(left.Round(time.Second), time.Second), true
}

// Elapsed returns how long the run has taken until now, without the time it was suspended.
func (s *Stats) Elapsed(now time.Time) time.Duration { return s.Clock.At(now).Sub(s.Start) }

// Finished returns the number of finished tasks.
func (s *Stats) Finished() int64 { return sum(s.ByOutcome[:]) }

// Waiting returns the number of tasks that have been read, are not running and have not finished.
func (s *Stats) Waiting() int64 { return s.Admitted - s.Finished() - s.Running }

// Done returns the number of tasks that succeeded, failed or were skipped.
func (s *Stats) Done() int64 { return s.ByOutcome[OK] + s.ByOutcome[Skipped] + s.Failed() }

// Resumed returns the number of tasks that an earlier run finished.
func (s *Stats) Resumed() int64 { return sum(s.Earlier[:]) }

func sum(counts []int64) (n int64) {
	for _, c := range counts {
		n += c
	}
	return n
}

// Failed returns the number of tasks that failed.
func (s *Stats) Failed() (n int64) {
	for o := range Outcomes {
		if o.Failed() {
			n += s.ByOutcome[o]
		}
	}
	return n
}

// WithoutEarlier returns the totals without the tasks that an earlier run finished. All tasks must be
// released.
func (s Stats) WithoutEarlier() Stats {
	s.Admitted -= s.Resumed()
	s.Released = s.Admitted
	for o, n := range s.Earlier {
		s.ByOutcome[o] -= n
	}
	s.Earlier = [Outcomes]int64{}
	return s
}

// Rate returns how many tasks per second were done in this run, or 0 at its start.
func (s *Stats) Rate(now time.Time) float64 {
	passed := s.Elapsed(now)
	if s.Start.IsZero() || passed <= 0 {
		return 0
	}
	here := s.WithoutEarlier()
	return float64(here.ByOutcome[OK]+here.Failed()) / passed.Seconds()
}

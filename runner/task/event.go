package task

import "time"

// Kind says what happened.
type Kind uint8

// The kinds of events. A task's own come in this order: Admitted, then Started
// and Retried for each attempt but the last, Started, Finished, Released.
// Started is missing where a task ends without a process.
const (
	Admitted Kind = iota + 1 // Task
	Started                  // Task, Slot, Attempt, Retries
	Retried                  // Task, Result: the attempt failed and another follows after Wait; Retries
	Finished                 // Task, Result: its final one; Attempt is 0 where no attempt was running
	Released                 // ID to Last: their results may be shown now, in this order
	InputEnd                 // the number of tasks is final
	Resized                  // Slot: how many slots there are
	Draining                 // nothing more starts; Running are awaited; Retries tasks wait for a retry that they do not get; Text says why
	Stopping                 // the Running ones are being ended; Text says why
	Blocked                  // Blocking: why nothing starts beside a free slot; nil once something does
	Notice                   // Text: a diagnostic, without "crew: "
)

// Event is something that happened in the run. Which fields are set depends on
// Kind and stands beside each one.
type Event struct {
	Kind     Kind
	At       time.Time
	ID       uint64 // the task's, where one is concerned
	Last     uint64
	Task     *Task
	Result   *Result // its outputs are closed once every sink has consumed the event
	Slot     int
	Attempt  int
	Retries  int // of a task: its attempts that failed before in this run
	Wait     time.Duration
	Running  []uint64 // IDs, at most 10
	Blocking *Blocking
	Text     string
}

// Stats are the totals of a run. Apply is the only place where they are
// counted; everybody else reads them.
type Stats struct {
	Admitted  int64
	Running   int64
	Retried   int64 // tasks with an attempt that followed a failed one
	Released  int64
	ByOutcome [Outcomes]int64 // finished tasks
	Earlier   [Outcomes]int64 // of these, the ones that an earlier run finished
	Slots     int
	InputEnd  bool // Admitted is final
	Draining  bool
	Start     time.Time // of the first event
	Last      time.Time // of the latest event
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
		s.Running++
		if e.Retries == 1 {
			s.Retried++
		}
	case Retried:
		s.Running--
	case Finished:
		s.ByOutcome[e.Result.Outcome]++
		if e.Task != nil && e.Task.Done != nil {
			s.Earlier[e.Result.Outcome]++
		}
		if e.Attempt > 0 {
			s.Running--
		}
	case Released:
		s.Released += int64(e.Last - e.ID + 1)
	case InputEnd:
		s.InputEnd = true
	case Resized:
		s.Slots = e.Slot
	case Draining:
		s.Draining = true
	}
}

// Finished is the number of tasks that have an outcome.
func (s *Stats) Finished() int64 { return sum(s.ByOutcome[:]) }

// Resumed is the number of tasks that an earlier run finished.
func (s *Stats) Resumed() int64 { return sum(s.Earlier[:]) }

func sum(counts []int64) (n int64) {
	for _, c := range counts {
		n += c
	}
	return n
}

// Failed is the number of tasks that failed.
func (s *Stats) Failed() int64 { return failed(&s.ByOutcome) }

func failed(by *[Outcomes]int64) (n int64) {
	for o := range Outcomes {
		if o.Failed() {
			n += by[o]
		}
	}
	return n
}

// Of is the number of tasks that ended with o.
func (s *Stats) Of(o Outcome) int64 { return s.ByOutcome[o] }

// Here are the numbers of tasks that succeeded and failed in this run.
func (s *Stats) Here() (ok, bad int64) {
	return s.ByOutcome[OK] - s.Earlier[OK], failed(&s.ByOutcome) - failed(&s.Earlier)
}

// Rate is how many tasks this run has finished a second until now; 0 where
// nothing can be said yet.
func (s *Stats) Rate(now time.Time) float64 {
	passed := now.Sub(s.Start)
	if s.Start.IsZero() || passed <= 0 {
		return 0
	}
	return float64(s.Finished()-s.Resumed()) / passed.Seconds()
}

package task

import "time"

// Kind says what happened.
type Kind uint8

// The kinds of events. A task's own come in this order: Admitted, then Started
// and Retried for each attempt but the last, Started, Finished, Released.
// Started is missing where a task ends without a process.
const (
	Admitted Kind = iota + 1 // Task
	Started                  // Task, Worker, Attempt
	Retried                  // Task, Result: the attempt failed and another follows after Wait
	Finished                 // Task, Result: its final one; Attempt is 0 where no attempt was running
	Released                 // ID to Last: their results may be shown now, in this order
	InputEnd                 // the number of tasks is final
	Resized                  // Worker: the pool's new size
	Draining                 // nothing more starts; Running are awaited; Retries wait and get no other attempt; Text says why
	Stopping                 // the Running ones are being ended; Text says why
	Notice                   // Text: a diagnostic, without "crew: "
)

// Event is something that happened in the run. Which fields are set depends on
// Kind and stands beside each one.
type Event struct {
	Kind    Kind
	At      time.Time
	ID      uint64 // the task's, where one is concerned
	Last    uint64
	Task    *Task
	Result  *Result // its outputs are closed once every sink has consumed the event
	Worker  int
	Attempt int
	Wait    time.Duration
	Running []uint64 // ids, at most 10
	Retries int
	Text    string
}

// Stats are the totals of a run. Apply is the only place where they are
// counted; everybody else reads them.
type Stats struct {
	Admitted  int64
	Running   int64
	Retried   int64 // attempts that began after a failed one
	Finished  int64
	Resumed   int64 // of these, how many were done by an earlier run
	Released  int64
	ByOutcome [Outcomes]int64
	Workers   int
	InputEnd  bool // Admitted is final
	Draining  bool
	Start     time.Time // of the first event
	Last      time.Time // of the latest event
}

// Apply folds one event into the totals.
func (s *Stats) Apply(e Event) {
	if s.Start.IsZero() {
		s.Start = e.At
	}
	s.Last = e.At
	switch e.Kind {
	case Admitted:
		s.Admitted++
	case Started:
		s.Running++
		if e.Attempt > 1 {
			s.Retried++
		}
	case Retried:
		s.Running--
	case Finished:
		s.Finished++
		s.ByOutcome[e.Result.Outcome]++
		if e.Task != nil && e.Task.Done != nil {
			s.Resumed++
		}
		if e.Attempt > 0 {
			s.Running--
		}
	case Released:
		s.Released += int64(e.Last - e.ID + 1)
	case InputEnd:
		s.InputEnd = true
	case Resized:
		s.Workers = e.Worker
	case Draining:
		s.Draining = true
	}
}

// Failed is the number of tasks that failed.
func (s *Stats) Failed() int64 {
	var n int64
	for o := range Outcomes {
		if o.Failed() {
			n += s.ByOutcome[o]
		}
	}
	return n
}

// Of is the number of tasks that ended with o.
func (s *Stats) Of(o Outcome) int64 { return s.ByOutcome[o] }

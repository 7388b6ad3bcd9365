package journal

import (
	"fmt"
	"math"
	"time"

	"crew/runner/task"
)

// tasks is where tasks come from.
type tasks interface {
	Next(number func() uint64) (*task.Task, error)
}

// Source gives the tasks of another source, and with them the results that an
// earlier run has left. It is a runner.Source.
type Source struct {
	journal *Journal
	tasks   tasks
	hasher  hasher
}

// Source is src with what the journal knows of its tasks.
func (j *Journal) Source(src tasks) *Source { return &Source{journal: j, tasks: src} }

// Next returns the next task. Where the journal knows it as done, its Done is
// set; where the journal will have something to note of it, its Identity is.
func (s *Source) Next(number func() uint64) (*task.Task, error) {
	t, err := s.tasks.Next(number)
	if err != nil {
		return nil, err
	}
	past := s.journal.cfg.Past
	e := s.journal.entry(s.hasher.of(t), &s.hasher)
	if err := s.journal.past.table.err; err != nil {
		t.Err = fmt.Errorf("what is known of it cannot be read: %w", err)
	}
	if past.Costs {
		t.Cost = cost(e)
	}
	switch {
	case !e.stands(), e.outcome.Failed() && past.RetryFailed:
		t.Identity, t.Attempts = e.id, int(e.attempts)
		if !e.has(done) {
			t.Failures = int(e.failures)
		}
	case e.has(shown|logged) && !past.Replay:
		t.Done = &task.Result{Task: t, Outcome: e.outcome, Earlier: true, Logged: true}
	default:
		s.recall(t, *e)
	}
	return t, nil
}

// entry is what is known of the next task that does what id says. It counts as
// seen.
func (j *Journal) entry(id identity, h *hasher) *entry {
	e := j.past.table.add(id)
	e.seen++
	if n := e.seen; n > 1 {
		id = h.occurrence(id, n)
		if e = j.past.table.edit(id); e == nil {
			return &entry{id: id}
		}
		e.seen = 1
	}
	return e
}

// recall gives a task the result that the journal holds of it, to be shown or to
// be logged. One that is damaged is none: the task runs again.
func (s *Source) recall(t *task.Task, e entry) {
	j := s.journal
	r, err := j.result(t, &e)
	if err != nil {
		j.notice(fmt.Sprintf("task %d runs again: %v", t.ID, err))
		t.Identity, t.Attempts = e.id, int(e.attempts)
		return
	}
	t.Done = r
	r.Earlier = e.has(shown) && !j.cfg.Past.Replay
	r.Logged = e.has(logged)
	if !e.has(shown | logged) {
		t.Identity = e.id
	}
}

func (j *Journal) result(t *task.Task, e *entry) (*task.Result, error) {
	body, _, err := readLine(j.file, e.at())
	if err != nil {
		return nil, fmt.Errorf("its record cannot be read: %w", err)
	}
	r, err := parse(body)
	if err != nil {
		return nil, fmt.Errorf("its record cannot be read: %w", err)
	}
	res, err := r.result(t, &j.out)
	if err == nil && (r.Streamed || r.Dropped) && (!e.has(shown) || j.cfg.Past.Replay) {
		j.unkept.Add(1)
	}
	return res, err
}

// cost is how long a task took, in microseconds; what is not known could be
// longer than anything.
func cost(e *entry) int64 {
	if e.took <= 0 {
		return math.MaxInt64
	}
	return max(1, int64(float64(e.took)*float64(time.Second/time.Microsecond)))
}

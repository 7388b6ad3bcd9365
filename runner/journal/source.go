package journal

import (
	"fmt"
	"math"
	"time"

	"crew/runner/task"
)

// tasks is where tasks come from.
type tasks interface {
	Next() (*task.Task, error)
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
func (s *Source) Next() (*task.Task, error) {
	t, err := s.tasks.Next()
	if err != nil {
		return nil, err
	}
	table, past := s.journal.past.table, s.journal.cfg.Past
	id := s.hasher.of(t)
	e := table.add(id)
	e.seen++
	if e.seen > 1 {
		id = s.hasher.occurrence(id, e.seen)
		e = table.find(id)
	}
	if past.Costs {
		t.Cost = cost(e)
	}
	switch {
	case e == nil || !e.stands() || e.outcome.Failed() && past.RetryFailed:
		t.Identity = id
	case e.has(released) && !past.Replay:
		t.Done = &task.Result{Task: t, Outcome: e.outcome, Earlier: true}
	default:
		s.recall(t, e)
	}
	return t, nil
}

// recall gives a task the result that the journal holds of it, to be shown. One
// that is damaged is none: the task runs again.
func (s *Source) recall(t *task.Task, e *entry) {
	j := s.journal
	r, err := j.result(t, e)
	if err != nil {
		j.notice(fmt.Sprintf("task %d runs again: %v", t.ID, err))
		t.Identity = e.id
		return
	}
	t.Done = r
	if !e.has(released) {
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
	if err == nil && (r.Streamed || r.Dropped) {
		j.unkept.Add(1)
	}
	return res, err
}

// cost is how long a task took, in microseconds; what is not known could be
// longer than anything.
func cost(e *entry) int64 {
	if e == nil || e.took <= 0 {
		return math.MaxInt64
	}
	return max(1, int64(float64(e.took)*float64(time.Second/time.Microsecond)))
}

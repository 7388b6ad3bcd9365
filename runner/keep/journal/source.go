package journal

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"time"

	"crew/runner/decide/task"
)

// tasks is a source of tasks.
type tasks interface {
	Next(number func() uint64) (*task.Task, error)
}

// Source adds to the tasks of another source what the journal knows about them. It
// is a runner.Source.
type Source struct {
	journal *Journal
	tasks   tasks
	hasher  hasher
}

// Source returns a Source for the tasks of src.
func (j *Journal) Source(src tasks) *Source { return &Source{journal: j, tasks: src} }

// Next returns the next task. It sets Done if the task is done, and Identity if
// something may still be recorded about it: a failed one can be run again, as can one that
// makes files. Once the journal is closed there are no more tasks.
func (s *Source) Next(number func() uint64) (*task.Task, error) {
	t, err := s.tasks.Next(number)
	if err != nil {
		return nil, err
	}
	past := s.journal.cfg.Resume
	e, closed := s.entry(t)
	if closed {
		return nil, io.EOF
	}
	if err := s.journal.past.table.err; err != nil {
		t.Err = fmt.Errorf("read its entry of the journal: %w", err)
	}
	if past.Costs && t.Cost == 0 {
		t.Cost = cost(&e)
	}
	t.Identity, t.Attempts = e.id, int(e.attempts)
	switch {
	case t.Makes != nil:
		err = s.making(t, &e)
	case !e.reusable(), e.outcome.Failed() && past.RetryFailed:
		if !e.has(done) {
			t.Failures = int32(e.failures)
			s.journal.past.restoreTries(t)
		}
	case e.has(shown|logged) && !past.Replay && !past.Recall:
		t.Done = e.result(t)
	default:
		t.Done, err = s.journal.recall(t, &e)
	}
	switch {
	case t.Done != nil:
		t.Attempts = 0
		if e.has(shown|logged) && !e.outcome.Failed() {
			t.Identity = identity{}
		}
	case err != nil && !errors.Is(err, os.ErrClosed): // or the run is over
		s.journal.cfg.Notice(fmt.Sprintf("task %d runs again: %v", t.ID, err))
	}
	return t, nil
}

// making sets what is known of a task that makes files. The check says later whether it is
// done. A kill or a power cut may lose some of what a task did, but a file that is not the one
// wanted is noticed:
//   - It has begun, and its end is not recorded: it is made again.
//   - Its end is recorded, which is done after the target got its name, but a power cut has
//     undone the latter: the target last changed before Stamp.Since.
//   - The target is new, but its start is not recorded, which is done before: that, too, is
//     from a power cut. The target was synced before it got its name, so it is whole, and it
//     is taken for what the record has of it: a former stamp that is not that of now, or none.
func (s *Source) making(t *task.Task, e *entry) (err error) {
	j, m := s.journal, t.Makes
	m.Known = e.known()
	switch past := &j.cfg.Resume; {
	case m.Known != task.KnownMade:
		if !e.has(done) && e.made.Command == m.Stamp.Command { // another one has all its retries
			t.Failures = int32(e.failures)
			j.past.restoreTries(t)
		}
	case !e.has(shown|logged) || past.Replay || past.Recall:
		if m.Done, err = j.recall(t, e); err != nil {
			m.Known = task.KnownUnmade
			break
		}
		fallthrough
	default:
		m.Made = e.made
	}
	return err
}

// Buffered reports whether Next returns at once. See runner.Source.
func (s *Source) Buffered() bool {
	b, ok := s.tasks.(interface{ Buffered() bool })
	return ok && b.Buffered()
}

// entry returns a copy of the entry of the next task, and counts the task as seen.
func (s *Source) entry(t *task.Task) (_ entry, closed bool) {
	s.journal.using.Lock()
	defer s.journal.using.Unlock()
	table := s.journal.past.table
	if table.index == nil {
		return entry{}, true
	}
	id, command := s.hasher.of(t)
	if t.Makes != nil && t.Identity == (identity{}) {
		t.Makes.Stamp.Command = command
	}
	e := table.add(id)
	e.seen++
	if e.seen > 1 {
		id = s.hasher.occurrence(id, e.seen)
		if e = table.find(id); e == nil {
			return entry{id: id}, false
		}
		e.seen = 1
	}
	return *e, false
}

// result returns as much of the result of a task that is done as the entry holds.
func (e *entry) result(t *task.Task) *task.Result {
	return &task.Result{Task: t, Attempt: int(e.attempts), Outcome: e.outcome, Earlier: true, Logged: true}
}

// recall returns the whole result of a task that is done, to be shown or logged if it
// was not.
func (j *Journal) recall(t *task.Task, e *entry) (*task.Result, error) {
	rec, err := readRecord(j.past.file, e.offset)
	if err != nil {
		return nil, err
	}
	r, err := rec.result(t, j.out)
	if err != nil {
		return nil, err
	}
	r.Earlier = e.has(shown) && !j.cfg.Resume.Replay
	r.Logged = e.has(logged)
	if !r.Earlier && (rec.Streamed || rec.Dropped) {
		j.unkept.Add(1)
	}
	return r, nil
}

// cost returns how long a task took, in microseconds. An unknown duration counts as
// longer than any other.
func cost(e *entry) int64 {
	if e.duration <= 0 {
		return math.MaxInt64
	}
	return max(1, int64(time.Duration(e.duration)/time.Microsecond))
}

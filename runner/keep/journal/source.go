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

// source is the part of a runner.Source that a Source needs.
type source interface {
	Next(number func() uint64) (*task.Task, error)
}

// Source is a runner.Source that adds what earlier runs recorded to the tasks of another source.
type Source struct {
	journal *Journal
	src     source
	hasher  hasher
}

// Source returns a Source for the tasks of src.
func (j *Journal) Source(src source) *Source { return &Source{journal: j, src: src} }

// Next returns the next task. It sets Done if the task's end is recorded and its result was shown or can
// be read intact; otherwise the task runs. With Resume.RetryFailed, a failed task is not done. setMaking
// decides for tasks that make files. Next sets Identity if the task may still be recorded: failed tasks
// and tasks that make files can run again. After Close it returns io.EOF.
func (s *Source) Next(number func() uint64) (*task.Task, error) {
	t, err := s.src.Next(number)
	if err != nil {
		return nil, err
	}
	e, closed := s.entry(t)
	if closed {
		return nil, io.EOF
	}
	j, past, m := s.journal, &s.journal.cfg.Resume, t.Makes
	if err := j.contents.table.err; err != nil {
		t.Err = fmt.Errorf("read its journal entry: %w", err)
	}
	if past.Costs && t.Cost == 0 {
		t.Cost = cost(&e)
	}
	t.Identity, t.Attempts = e.id, int(e.attempts)
	settled, failed := e.has(j.contents.settledFlags), e.outcome.Failed()
	var r *task.Result
	again := !e.reusable() || failed && past.RetryFailed || m != nil && !e.outcome.Succeeded()
	switch {
	case again && e.has(done) && j.cfg.Output.Logs && !e.has(logged):
		rec, _ := readRecord(j.contents.file, e.offset)
		old, _ := rec.result(t, j.out)
		t.History = &task.AttemptHistory{Unlogged: old}
	case !again && (!settled || past.Replay || past.Recall):
		if r, err = j.recall(t, &e); err != nil && !errors.Is(err, os.ErrClosed) { // or Close was called
			j.cfg.Notice(fmt.Sprintf("task %d runs again: %v", t.ID, err))
		}
	case !again && m == nil:
		r = e.result(t)
	case !e.has(done) && (m == nil || m.Stamp.Command == e.made.Command): // a changed command gets all its retries
		j.contents.restorePrior(t)
	}
	switch {
	case m != nil:
		setMaking(m, &e, r, err)
	case r != nil:
		t.Done, t.Attempts = r, 0
		if settled && !failed {
			t.Identity = identity{}
		}
	}
	return t, nil
}

// setMaking sets the recorded facts about a task that makes files. r is its result, or nil if that was
// shown, and err the error of reading it. The check decides later whether the task is done. A kill or a
// power cut may lose some of its work, but a wrong target is noticed:
//   - The task has begun, but its end is not recorded. It runs again.
//   - Its end is recorded, which happens after the target was renamed, but a power cut has undone
//     the rename. Then the target last changed before Stamp.Since.
//   - The target is new, but the start is not recorded, which happens before. This too is due to a
//     power cut. The target was synced before it was renamed, so it is complete. Any stamp in the
//     journal is an old one and does not match, so the task runs again; without a stamp, the times
//     of the files decide.
func setMaking(m *task.Making, e *entry, r *task.Result, err error) {
	switch {
	case err == nil && e.reusable() && e.outcome.Succeeded():
		m.Known, m.Made, m.Done = task.KnownMade, e.made, r
	case e.flags&(done|begun) != 0:
		m.Known = task.KnownUnmade
	}
}

// Buffered reports whether Next returns at once. See runner.Source.
func (s *Source) Buffered() bool {
	b, ok := s.src.(interface{ Buffered() bool })
	return ok && b.Buffered()
}

// entry returns a copy of the entry of the next task and counts its occurrence.
func (s *Source) entry(t *task.Task) (_ entry, closed bool) {
	s.journal.tableMu.Lock()
	defer s.journal.tableMu.Unlock()
	table := s.journal.contents.table
	if table.index == nil {
		return entry{}, true
	}
	id, command := s.hasher.identify(t)
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

// result returns the result of a done task, without its details and outputs.
func (e *entry) result(t *task.Task) *task.Result {
	return &task.Result{Task: t, Attempt: int(e.attempts), Outcome: e.outcome, Earlier: true, Logged: true}
}

// recall returns the full result of a done task, to be shown or logged.
func (j *Journal) recall(t *task.Task, e *entry) (*task.Result, error) {
	rec, err := readRecord(j.contents.file, e.offset)
	if err != nil {
		return nil, err
	}
	r, err := rec.result(t, j.out)
	if err != nil {
		return nil, err
	}
	r.Earlier = e.has(shown) && !j.cfg.Resume.Replay
	r.Logged = e.has(logged) || e.has(j.contents.settledFlags)
	if !r.Earlier && (rec.Streamed || rec.Dropped) {
		j.unkept.Add(1)
	}
	return r, nil
}

// cost returns the duration of a task in microseconds. An unknown duration counts as longer than
// any other.
func cost(e *entry) int64 {
	if e.duration <= 0 {
		return math.MaxInt64
	}
	return max(1, int64(time.Duration(e.duration)/time.Microsecond))
}

package journal

import (
	"time"

	"crew/runner/task"
)

// Commit makes durable what has ended, before any other sink sees it: a result
// that is shown is on disk, as long as the disk takes it. One that it does not
// take is shown all the same, or it would be lost to a run that nobody goes on
// with; it is not recorded, and runs again in the next run. Commit is a
// runner.Sink that goes before all others.
type Commit struct{ journal *Journal }

// Commit is the sink that makes the record durable.
func (j *Journal) Commit() *Commit { return &Commit{j} }

// Consume makes the ends in a batch durable, all with one fsync. It records what
// ended without an attempt, or was finished by the run and not by its last
// attempt. An error is a *Fault: nothing is recorded any more.
func (c *Commit) Consume(events []task.Event) error {
	ended := false
	for i := range events {
		e := &events[i]
		if e.Kind != task.Finished || e.Task.Done != nil {
			continue
		}
		before := c.journal.attempts(e.ID, nil)
		if !c.journal.counts(e.Result) {
			continue
		}
		ended = true
		if e.Attempt == 0 || !c.journal.final(e.Result) {
			c.journal.ended(e.Task, e.Result, before)
		}
	}
	if ended {
		return c.journal.sync()
	}
	return c.journal.failure()
}

// Close returns what could not be recorded. The journal stays open.
func (c *Commit) Close(task.Stats) error { return c.journal.failure() }

// sink takes events and shows them.
type sink interface {
	Consume([]task.Event) error
	Close(task.Stats) error
}

// Shown is a sink that records what another one has shown. It is a runner.Sink.
type Shown struct {
	journal *Journal
	sink    sink
	waiting map[uint64]identity // ended here and not released
	now     []identity          // released in this batch
	buf     []byte
}

// Shown is s with a record of what it has shown.
func (j *Journal) Shown(s sink) *Shown {
	return &Shown{journal: j, sink: s, waiting: map[uint64]identity{}}
}

// Consume shows a batch and then records its results as released. That is not
// made durable at once: a result that crew was killed right after is shown again
// by the next run, and none is lost. When nothing else can be recorded any more
// this is still tried, since what was recorded before is shown, too, and should
// not be shown again.
func (s *Shown) Consume(events []task.Event) error {
	s.now = s.now[:0]
	for i := range events {
		e := &events[i]
		switch e.Kind {
		case task.Finished:
			if e.Task.Identity != (identity{}) && s.journal.counts(e.Result) && s.journal.cfg.Show != Streamed {
				s.waiting[e.ID] = e.Task.Identity
			}
		case task.Released:
			for n := e.ID; n <= e.Last; n++ {
				if id, ok := s.waiting[n]; ok {
					delete(s.waiting, n)
					s.now = append(s.now, id)
				}
			}
		}
	}
	if err := s.sink.Consume(events); err != nil {
		return err
	}
	for rest := s.now; len(rest) > 0; {
		n := min(len(rest), idsInLine)
		s.buf = appendReleased(s.buf[:0], rest[:n])
		s.journal.note(s.buf)
		rest = rest[n:]
	}
	return nil
}

func appendReleased(b []byte, ids []identity) []byte {
	from := len(b)
	b = append(begin(b, evReleased), `,"tasks":[`...)
	for i, id := range ids {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendID(append(b, '"'), id), '"')
	}
	return seal(append(b, ']'), from)
}

// Close closes the other sink, and records the run as ended in good order where
// both are well.
func (s *Shown) Close(stats task.Stats) error {
	if err := s.sink.Close(stats); err != nil {
		return err
	}
	j := s.journal
	b := appendTime(begin(nil, evClosed), "at", time.Now())
	if err := j.append(seal(b, 0)); err != nil {
		return nil // Commit has told
	}
	return j.sync()
}

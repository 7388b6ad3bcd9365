package journal

import (
	"fmt"
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

// Consume makes the ends in a batch durable, all with one fsync. An error is a
// *Fault: nothing is recorded any more.
func (c *Commit) Consume(events []task.Event) error {
	for i := range events {
		e := &events[i]
		if e.Kind == task.Finished && e.Task.Done == nil && c.journal.counts(e.Result) {
			time.Sleep(time.Until(c.journal.synced.Add(c.journal.pause)))
			return c.journal.sync()
		}
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

// Logs are sinks that keep results in files: the joblog and the results tree.
// Where one of them fails the journal knows that it lacks what comes after.
type Logs struct {
	journal *Journal
	sinks   []sink
}

// Logs is an empty Logs. It is a runner.Sink that goes before Shown.
func (j *Journal) Logs() *Logs { return &Logs{journal: j} }

// Add adds a sink, before the first batch.
func (l *Logs) Add(s sink) { l.sinks = append(l.sinks, s) }

// Consume has all the sinks consume a batch.
func (l *Logs) Consume(events []task.Event) (err error) {
	for _, s := range l.sinks {
		err = both(err, s.Consume(events))
	}
	l.journal.logsFailed = l.journal.logsFailed || err != nil
	return err
}

// Close closes all the sinks.
func (l *Logs) Close(stats task.Stats) (err error) {
	for _, s := range l.sinks {
		err = both(err, s.Close(stats))
	}
	return err
}

// both is two errors in one line; either may be nil.
func both(a, b error) error {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return fmt.Errorf("%w; %w", a, b)
}

// Shown is a sink that records what became of results: that another sink has
// shown them, and that Logs have kept them. It is a runner.Sink.
type Shown struct {
	journal *Journal
	sink    sink
	waiting map[uint64]waiter     // finished and not released
	fresh   []uint64              // of these, finished in this batch
	notes   map[string][]identity // of this batch, by the event that is noted
	buf     []byte
}

// waiter is a task whose result waits to be shown.
type waiter struct {
	id     identity
	logged bool
}

// Shown is s with a record of what it has shown.
func (j *Journal) Shown(s sink) *Shown {
	return &Shown{journal: j, sink: s, waiting: map[uint64]waiter{}, notes: map[string][]identity{}}
}

// Consume shows a batch and then notes what has become of its results. That is
// not made durable at once: a result that crew was killed right after is shown
// again by the next run, and none is lost. When nothing else can be recorded any
// more this is still tried, since what was recorded before is shown, too, and
// should not be shown again.
func (s *Shown) Consume(events []task.Event) error {
	out := &s.journal.cfg.Output
	logs := out.Logs && !s.journal.logsFailed
	s.fresh = s.fresh[:0]
	for i := range events {
		switch e := &events[i]; e.Kind {
		case task.Finished:
			s.finished(e, logs)
		case task.Released:
			for n := e.ID; n <= e.Last; n++ {
				if w, ok := s.waiting[n]; ok {
					delete(s.waiting, n)
					s.note(w.event(out, logs), w.id)
				}
			}
		}
	}
	if logs {
		for _, n := range s.fresh {
			if w, ok := s.waiting[n]; ok {
				s.note(evLogged, w.id)
				s.waiting[n] = waiter{w.id, true}
			}
		}
	}
	if err := s.sink.Consume(events); err != nil {
		clear(s.notes)
		return err
	}
	s.write()
	return nil
}

// finished takes down a result of which something is to be noted. What was shown
// while its task wrote it, or by an earlier run, is to be logged alone.
func (s *Shown) finished(e *task.Event, logs bool) {
	id := e.Task.Identity
	switch {
	case id == identity{} || !s.journal.counts(e.Result):
	case (!s.journal.cfg.Output.shownWithEnd() || e.Task.Done != nil) && !e.Result.Earlier:
		s.waiting[e.ID] = waiter{id: id}
		s.fresh = append(s.fresh, e.ID)
	case logs:
		s.note(evLogged, id)
	}
}

// event is what to note of a result that is released; nothing where it is empty.
func (w waiter) event(out *Output, logs bool) string {
	switch {
	case out.Null && (w.logged || !logs):
		return ""
	case out.Null:
		return evLogged
	case w.logged || out.Logs && !logs:
		return evShown
	}
	return evReleased
}

func (s *Shown) note(event string, id identity) {
	if event != "" {
		s.notes[event] = append(s.notes[event], id)
	}
}

// write writes the notes, with one write unless they are very many.
func (s *Shown) write() {
	s.buf = s.buf[:0]
	for event, ids := range s.notes {
		for rest := ids; len(rest) > 0; {
			n := min(len(rest), idsInLine)
			s.buf = appendNote(s.buf, event, rest[:n])
			rest = rest[n:]
			if len(s.buf) > mostLater {
				s.journal.note(s.buf)
				s.buf = s.buf[:0]
			}
		}
		s.notes[event] = ids[:0]
	}
	if len(s.buf) > 0 {
		s.journal.note(s.buf)
	}
}

func appendNote(b []byte, event string, ids []identity) []byte {
	from := len(b)
	b = append(begin(b, event), `,"tasks":[`...)
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
	if j.failure() != nil {
		return nil // Commit has told
	}
	b := task.AppendTime(begin(nil, evClosed), "at", time.Now())
	if err := j.append(seal(b, 0)); err != nil {
		return err
	}
	return j.sync()
}

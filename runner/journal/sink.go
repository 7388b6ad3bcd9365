package journal

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"crew/runner/task"
)

// sink is a runner.Sink.
type sink interface {
	Consume([]task.Event) error
	Close(task.Stats) error
}

// Commit is the sink that makes ends durable before any other sink sees them, so it
// must be the first. If the disk fails, results are shown all the same, or they
// would be lost if nobody resumed the run. They are then not recorded, and their
// tasks run again in the next run.
type Commit struct{ journal *Journal }

// Commit returns the sink that makes the record durable.
func (j *Journal) Commit() *Commit { return &Commit{j} }

// Consume makes the ends in a batch durable with one fsync. After an error nothing
// is recorded any more.
func (c *Commit) Consume(events []task.Event) error {
	j := c.journal
	ended := func(e task.Event) bool {
		return e.Kind == task.Finished && e.Task.Done == nil && j.finishes(e.Result)
	}
	if !slices.ContainsFunc(events, ended) {
		return j.failure()
	}
	if j.cfg.Queue != nil {
		j.endedWithout(events)
		defer j.compactIfWasteful()
	}
	if len(events) < manyEvents {
		time.Sleep(time.Until(j.synced.Add(j.pause)))
	}
	return j.sync()
}

// endedWithout records the ends of the tasks of a queue that had no attempt running,
// of which a runner.Recorder is not told.
func (j *Journal) endedWithout(events []task.Event) {
	for i := range events {
		e := &events[i]
		if e.Kind == task.Finished && e.Attempt == 0 && e.Task.Done == nil && j.finishes(e.Result) {
			j.appendLater(appendResult(make([]byte, 0, usualLine), evEnded, e.Task, e.Result, j.endMembers))
		}
	}
}

// Close returns the error that ended the recording, if any. The journal stays open.
func (c *Commit) Close(task.Stats) error { return c.journal.failure() }

// Logs combines the sinks that keep results in files, the joblog and the results
// tree. If one of them fails, later results are not recorded as logged.
type Logs struct {
	journal *Journal
	sinks   []sink
}

// Logs returns an empty Logs. It is a runner.Sink that must come before Shown.
func (j *Journal) Logs() *Logs { return &Logs{journal: j} }

// Add adds a sink. It must not be called after Consume.
func (l *Logs) Add(s sink) { l.sinks = append(l.sinks, s) }

// Consume passes a batch to all the sinks.
func (l *Logs) Consume(events []task.Event) (err error) {
	for _, s := range l.sinks {
		err = joinErrors(err, s.Consume(events))
	}
	l.journal.logsFailed = l.journal.logsFailed || err != nil
	return err
}

// Close closes all the sinks.
func (l *Logs) Close(stats task.Stats) (err error) {
	for _, s := range l.sinks {
		err = joinErrors(err, s.Close(stats))
	}
	return err
}

// joinErrors is errors.Join with a message of one line.
func joinErrors(a, b error) error {
	if a == nil || b == nil {
		return cmp.Or(a, b)
	}
	return fmt.Errorf("%w; %w", a, b)
}

// Shown wraps the sink that shows results and records which it has shown and Logs
// have kept. It is a runner.Sink.
type Shown struct {
	journal *Journal
	sink    sink
	pending map[uint64]pending    // results that are finished but not released, by task ID
	notes   map[string][]identity // of this batch, by event
	buf     []byte
}

// pending is a result that is finished but not released.
type pending struct {
	id     identity
	logged bool // recorded as logged
}

// maxIDs is how many tasks one line lists at most.
const maxIDs = 4000

// Shown returns s wrapped in a Shown.
func (j *Journal) Shown(s sink) *Shown {
	return &Shown{journal: j, sink: s, pending: map[uint64]pending{}, notes: map[string][]identity{}}
}

// Consume shows a batch and then records what happened to its results. The notes are
// not made durable at once: if crew is killed, the next run may show a result again,
// but none is lost. They are written even if nothing else can be recorded, because
// results that were recorded before that should not be shown again either.
func (s *Shown) Consume(events []task.Event) error {
	out := &s.journal.cfg.Output
	logs := out.Logs && !s.journal.logsFailed
	for i := range events {
		switch e := &events[i]; e.Kind {
		case task.Finished:
			s.finished(e, logs)
		case task.Released:
			for id := e.ID; id <= e.Last; id++ {
				if p, ok := s.pending[id]; ok {
					delete(s.pending, id)
					s.note(p.event(out, logs), p.id)
				}
			}
		}
	}
	if logs {
		for i := range events {
			id := events[i].ID
			if p, ok := s.pending[id]; ok && events[i].Kind == task.Finished {
				s.note(evLogged, p.id)
				s.pending[id] = pending{p.id, true}
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

// finished handles a finished result. If it was shown already, by an earlier run or
// while the task ran, only logging it remains to be recorded.
func (s *Shown) finished(e *task.Event, logs bool) {
	id := e.Task.Identity
	switch {
	case id == identity{} || !s.journal.finishes(e.Result) || e.Result.Earlier && e.Result.Logged:
	case (!s.journal.cfg.Output.shownAtEnd() || e.Task.Done != nil) && !e.Result.Earlier:
		s.pending[e.ID] = pending{id: id}
	case logs:
		s.note(evLogged, id)
	}
}

// event returns the event to record when a result is released, or "".
func (p pending) event(out *Output, logs bool) string {
	switch {
	case out.Null && (p.logged || !logs):
		return ""
	case out.Null:
		return evLogged
	case p.logged || out.Logs && !logs:
		return evShown
	}
	return evReleased
}

func (s *Shown) note(event string, id identity) {
	if event != "" {
		s.notes[event] = append(s.notes[event], id)
	}
}

// write writes the notes, with one system call unless they are very many.
func (s *Shown) write() {
	s.buf = s.buf[:0]
	for event, ids := range s.notes {
		for some := range slices.Chunk(ids, maxIDs) {
			s.buf = appendNote(s.buf, event, some)
			if len(s.buf) > maxWaiting {
				s.journal.appendNotes(s.buf)
				s.buf = s.buf[:0]
			}
		}
		s.notes[event] = ids[:0]
	}
	if len(s.buf) > 0 {
		s.journal.appendNotes(s.buf)
	}
}

// appendNotes appends notes about tasks, each about some of them.
func appendNotes(b []byte, event string, ids []identity) []byte {
	for some := range slices.Chunk(ids, maxIDs) {
		b = appendNote(b, event, some)
	}
	return b
}

func appendNote(b []byte, event string, ids []identity) []byte {
	from := len(b)
	return seal(appendIDs(begin(b, event), "tasks", ids), from)
}

// Close closes the wrapped sink and, if all went well, records that the run ended
// normally.
func (s *Shown) Close(stats task.Stats) error {
	if err := s.sink.Close(stats); err != nil {
		return err
	}
	j := s.journal
	if j.failure() != nil {
		return nil // Commit returns it
	}
	b := task.AppendTime(begin(nil, evClosed), "at", time.Now())
	if err := j.append(seal(b, 0)); err != nil {
		return err
	}
	return j.sync()
}

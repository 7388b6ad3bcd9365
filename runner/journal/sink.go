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
	j, ended := c.journal, false
	for i := range events {
		e := &events[i]
		if e.Kind != task.Finished || e.Result.Known() || e.Result.Earlier || !j.finishes(e.Result) {
			continue
		}
		ended = true
		if e.Attempt == 0 && e.Result.Final { // of which a runner.Recorder is not told
			_ = j.append(false, func(b []byte) []byte {
				return j.endMembers(appendResult(b, evEnded, e.Task, e.Result), e.Result)
			})
		}
	}
	if !ended {
		return j.failure()
	}
	if j.cfg.Queue != nil {
		defer j.compactIfWasteful()
	}
	return j.sync()
}

// Close returns the error that ended the recording, if any. The journal stays open.
func (c *Commit) Close(task.Stats) error { return c.journal.failure() }

// Log is a sink that keeps results in files: the joblog or the results tree.
type Log interface {
	sink
	// Sync makes durable what Consume has written.
	Sync() error
}

const (
	// logPause is the least time between two syncs of the logs. What the logs have but
	// no note says, a run that is resumed logs once more.
	logPause = time.Second
	// logShare is the part of the time, as a divisor, that syncs of the logs may take.
	logShare = 20
)

// Logs combines logs. If one of them fails, later results are not recorded as logged.
type Logs struct {
	journal *Journal
	logs    []Log
	dirty   bool      // written to since the last sync
	due     time.Time // when the next sync may begin
}

// Logs returns a Logs. It is a runner.Sink that must come before Shown.
func (j *Journal) Logs(logs ...Log) *Logs { return &Logs{journal: j, logs: logs} }

// Consume passes a batch to all the logs.
func (l *Logs) Consume(events []task.Event) (err error) {
	for _, log := range l.logs {
		err = joinErrors(err, log.Consume(events))
	}
	l.dirty = l.dirty || slices.ContainsFunc(events, func(e task.Event) bool { return e.Kind == task.Finished })
	if began := time.Now(); err == nil && l.dirty && !began.Before(l.due) {
		err = l.sync()
		now := time.Now()
		l.due = now.Add(max(logPause, logShare*now.Sub(began)))
	}
	l.journal.logsFailed = l.journal.logsFailed || err != nil
	return err
}

// sync makes all logs durable, so Shown may record that they have what they were given.
func (l *Logs) sync() (err error) {
	for _, log := range l.logs {
		err = joinErrors(err, log.Sync())
	}
	l.dirty = false
	l.journal.logsDurable = err == nil
	return err
}

// Close makes all the logs durable and closes them.
func (l *Logs) Close(stats task.Stats) (err error) {
	if l.dirty && !l.journal.logsFailed {
		err = l.sync()
	}
	for _, log := range l.logs {
		err = joinErrors(err, log.Close(stats))
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
	journal  *Journal
	sink     sink
	pending  map[uint64]identity // results that are finished but not released, by task ID
	released []identity          // of results in this batch
	logged   []identity          // of results that the logs have, maybe not yet on disk
	buf      []byte
}

// maxIDs is how many tasks one line lists at most.
const maxIDs = 4000

// Shown returns s wrapped in a Shown.
func (j *Journal) Shown(s sink) *Shown {
	return &Shown{journal: j, sink: s, pending: map[uint64]identity{}}
}

// Consume shows a batch and then records what happened to its results. The notes are
// not made durable at once: if crew is killed, the next run may show a result again,
// but none is lost. They are written even if nothing else can be recorded, because
// results that were recorded before that should not be shown again either.
func (s *Shown) Consume(events []task.Event) error {
	s.released = s.released[:0]
	for i := range events {
		switch e := &events[i]; e.Kind {
		case task.Finished:
			s.finished(e)
		case task.Released:
			for id := e.ID; id <= e.Last; id++ {
				if task, ok := s.pending[id]; ok {
					delete(s.pending, id)
					s.released = append(s.released, task)
				}
			}
		}
	}
	if err := s.sink.Consume(events); err != nil {
		return err
	}
	s.write()
	return nil
}

// finished handles a finished result. If it was shown already, by an earlier run or
// while the task ran, only logging it remains to be recorded.
func (s *Shown) finished(e *task.Event) {
	id, out := e.Task.Identity, &s.journal.cfg.Output
	switch {
	case id == identity{} || !s.journal.finishes(e.Result) || e.Result.Earlier && e.Result.Logged:
		return
	case (!out.shownAtEnd() || e.Result.Known()) && !e.Result.Earlier:
		s.pending[e.ID] = id
	}
	if out.Logs && !s.journal.logsFailed {
		s.logged = append(s.logged, id)
	}
}

// write writes the notes with one system call: about the results that were released, which
// the logs may have by then, but not on disk, and those that the logs have once they are
// durable.
func (s *Shown) write() {
	j, b := s.journal, s.buf[:0]
	switch out := &j.cfg.Output; {
	case out.Null:
	case out.Logs:
		b = appendNotes(b, evShown, s.released)
	default:
		b = appendNotes(b, evReleased, s.released)
	}
	if j.logsDurable {
		j.logsDurable = false
		b = appendNotes(b, evLogged, s.logged)
		s.logged = s.logged[:0]
	}
	if s.buf = b; len(b) > 0 {
		j.appendNotes(b)
	}
}

// appendNotes appends notes about tasks, each about some of them.
func appendNotes(b []byte, event string, ids []identity) []byte {
	for some := range slices.Chunk(ids, maxIDs) {
		from := len(b)
		b = seal(appendIDs(begin(b, event), some), from)
	}
	return b
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
	s.released = nil
	s.write()
	err := j.append(true, func(b []byte) []byte { return task.AppendTime(begin(b, evClosed), "at", time.Now()) })
	if err != nil {
		return err
	}
	return j.sync()
}

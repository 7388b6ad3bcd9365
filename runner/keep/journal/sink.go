package journal

import (
	"cmp"
	"slices"
	"time"

	"crew/runner/decide/task"
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

// logPause is the time between two syncs of the logs. What the logs have but no note says, a run
// that is resumed logs once more.
const logPause = time.Second

// Logs combines logs, and records what they have once that is durable. If one of them fails, later
// results are not recorded as logged.
type Logs struct {
	journal *Journal
	logs    []Log
	ended   []identity // of results that they have since the last sync
	due     time.Time  // when the next sync may begin
	failed  bool
}

// Logs returns a Logs. It is a runner.Sink that must come before Shown.
func (j *Journal) Logs(logs ...Log) *Logs { return &Logs{journal: j, logs: logs} }

// Consume passes a batch to all the logs.
func (l *Logs) Consume(events []task.Event) (err error) {
	for _, log := range l.logs {
		err = cmp.Or(err, log.Consume(events))
	}
	if l.failed = l.failed || err != nil; l.failed || !l.journal.cfg.Output.Logs {
		return err
	}
	for i := range events {
		if e := &events[i]; e.Kind == task.Finished && l.journal.owes(e) {
			l.ended = append(l.ended, e.Task.Identity)
		}
	}
	if len(l.ended) > 0 && time.Now().After(l.due) {
		err = l.sync()
		l.due = time.Now().Add(logPause)
	}
	return err
}

// sync makes all logs durable, and records that they have what they were given.
func (l *Logs) sync() (err error) {
	if l.failed || len(l.ended) == 0 {
		return nil
	}
	for _, log := range l.logs {
		err = cmp.Or(err, log.Sync())
	}
	if l.failed = err != nil; !l.failed {
		l.journal.appendNotes(appendNotes(nil, evLogged, l.ended))
		l.ended = l.ended[:0]
	}
	return err
}

// Close makes all the logs durable and closes them.
func (l *Logs) Close(stats task.Stats) (err error) {
	err = l.sync()
	for _, log := range l.logs {
		err = cmp.Or(err, log.Close(stats))
	}
	return err
}

// Shown wraps the sink that shows results and records which it has shown. It is a runner.Sink.
type Shown struct {
	journal *Journal
	sink    sink
	pending map[uint64]identity // results that are finished but not released, by task ID
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
	var released []identity
	for i := range events {
		switch e := &events[i]; e.Kind {
		case task.Finished:
			s.finished(e)
		case task.Released:
			for id := e.ID; id <= e.Last; id++ {
				if task, ok := s.pending[id]; ok {
					delete(s.pending, id)
					released = append(released, task)
				}
			}
		}
	}
	if err := s.sink.Consume(events); err != nil {
		return err
	}
	out, event := &s.journal.cfg.Output, evReleased
	if out.Logs { // which may have them by then, but not on disk
		event = evShown
	}
	if len(released) > 0 && !out.MaybeClosed {
		s.journal.appendNotes(appendNotes(nil, event, released))
	}
	return nil
}

// finished handles a finished result, which may have been shown already, by an earlier run or
// while the task ran.
func (s *Shown) finished(e *task.Event) {
	known := e.Result.Known() || !s.journal.cfg.Output.shownAtEnd()
	if known && !e.Result.Earlier && s.journal.owes(e) {
		s.pending[e.ID] = e.Task.Identity
	}
}

// owes reports whether something is to be recorded of what became of a finished result.
func (j *Journal) owes(e *task.Event) bool {
	r := e.Result
	return e.Task.Identity != identity{} && j.finishes(r) && !(r.Earlier && r.Logged)
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
	err := j.append(true, func(b []byte) []byte { return task.AppendTime(begin(b, evClosed), "at", time.Now()) })
	if err != nil {
		return err
	}
	return j.sync()
}

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

// Commit is the sink that makes results durable before any other sink sees them, so it must be the
// first sink. If the disk fails, results are still shown, because they would be lost if the run is
// never resumed. Such results are not recorded, so their tasks run again in the next run.
type Commit struct{ journal *Journal }

// Commit returns the sink that makes results durable.
func (j *Journal) Commit() *Commit { return &Commit{j} }

// Consume makes the results in a batch durable with one fsync. After an error, nothing more is
// recorded.
func (c *Commit) Consume(events []task.Event) error {
	j, ended := c.journal, false
	for i := range events {
		e := &events[i]
		if e.Kind != task.Finished || e.Result.FromEarlierRun() || e.Result.Earlier || !j.keeps(e.Result) {
			continue
		}
		ended = true
		if e.Attempt == 0 && (e.Result.Final || e.Result.Outcome == task.NotRun) { // Ended is not called for it
			_ = j.append(false, func(b []byte) []byte {
				return j.appendEndMembers(appendResult(b, evEnded, e.Task, e.Result), e.Result)
			})
		}
	}
	if j.cfg.Queue != nil {
		defer j.compactIfWasteful() // also if tasks only fail and are retried
	}
	if !ended {
		return j.failure()
	}
	return j.sync()
}

// Close returns the error that ended the recording, if any. It does not close the journal.
func (c *Commit) Close(task.Stats) error { return c.journal.failure() }

// Log is a sink that keeps results in files: the joblog or the results tree.
type Log interface {
	sink
	// Sync makes everything that Consume has written durable.
	Sync() error
}

// logPause is the time between two syncs of the logs. After a crash, a resumed run repeats the
// results that were not synced.
const logPause = time.Second

// Logs is a runner.Sink that passes events to the joblog and the results tree, and records which
// results are there once that is durable.
type Logs struct {
	journal  *Journal
	logs     []Log
	unsynced []identity // results logged since the last sync
	due      time.Time  // time of the next sync
}

// Logs returns the sink for the given logs. It must come before Shown.
func (j *Journal) Logs(logs ...Log) *Logs { return &Logs{journal: j, logs: logs} }

// Consume passes a batch to all logs.
func (l *Logs) Consume(events []task.Event) (err error) {
	for _, log := range l.logs {
		err = cmp.Or(err, log.Consume(events))
	}
	if err != nil || !l.journal.cfg.Output.Logs {
		return err
	}
	for i := range events {
		if e := &events[i]; e.Kind == task.Finished && l.journal.mustRecord(e) {
			l.unsynced = append(l.unsynced, e.Task.Identity)
		}
	}
	if len(l.unsynced) > 0 && time.Now().After(l.due) {
		err = l.sync()
		l.due = time.Now().Add(logPause)
	}
	return err
}

// sync makes all logs durable and records the results that are in them. After an error, another sync
// of the same results could succeed although they are lost.
func (l *Logs) sync() (err error) {
	added := l.unsynced
	if l.unsynced = nil; len(added) == 0 {
		return nil
	}
	for _, log := range l.logs {
		err = cmp.Or(err, log.Sync())
	}
	if err == nil {
		l.journal.appendNotes(appendNotes(nil, evLogged, added))
	}
	return err
}

// Close makes all logs durable and closes them.
func (l *Logs) Close(stats task.Stats) (err error) {
	err = l.sync()
	for _, log := range l.logs {
		err = cmp.Or(err, log.Close(stats))
	}
	return err
}

// Shown is a runner.Sink that wraps the sink that shows results, and records which results were
// shown.
type Shown struct {
	journal *Journal
	sink    sink
	pending map[uint64]identity // results that are finished but not released, by task ID
}

// maxIDs is the maximum number of tasks in one line.
const maxIDs = 4000

// Shown returns a sink that wraps s.
func (j *Journal) Shown(s sink) *Shown {
	return &Shown{journal: j, sink: s, pending: map[uint64]identity{}}
}

// Consume shows a batch and then records that its results were shown. The notes are not made
// durable at once: if crew is killed, the next run may show a result again, but no result is lost.
// Notes are written even after recording has failed, because results that were recorded before
// should not be shown again.
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
	if len(released) > 0 && !s.journal.cfg.Output.MaybeClosed {
		s.journal.appendNotes(appendNotes(nil, evShown, released))
	}
	return nil
}

// finished notes a finished result, unless it has already been shown by an earlier run or while its
// task ran.
func (s *Shown) finished(e *task.Event) {
	due := e.Result.FromEarlierRun() || !s.journal.cfg.Output.shownAtEnd()
	if due && !e.Result.Earlier && s.journal.mustRecord(e) {
		s.pending[e.ID] = e.Task.Identity
	}
}

// mustRecord reports whether it must be recorded that a finished result was shown or logged.
func (j *Journal) mustRecord(e *task.Event) bool {
	r := e.Result
	return e.Task.Identity != identity{} && j.finishes(r) && !(r.Earlier && r.Logged)
}

// appendNotes appends lines that list ids.
func appendNotes(b []byte, event string, ids []identity) []byte {
	for some := range slices.Chunk(ids, maxIDs) {
		from := len(b)
		b = seal(appendIDs(beginLine(b, event), some), from)
	}
	return b
}

// Close closes the wrapped sink and, if there was no error, records that the run ended normally.
func (s *Shown) Close(stats task.Stats) error {
	if err := s.sink.Close(stats); err != nil {
		return err
	}
	j := s.journal
	if j.failure() != nil {
		return nil // Commit returns the error
	}
	_ = j.append(false, func(b []byte) []byte {
		b = task.AppendTime(beginLine(b, evClosed), "at", time.Now())
		if j.cfg.Queue != nil || j.cfg.Output.All {
			return b
		}
		if left := stats.ByOutcome[task.Cancelled] + stats.ByOutcome[task.NotRun]; left > 0 {
			b = task.AppendInt(b, "left", left)
		}
		if !stats.InputEnd {
			b = task.AppendTrue(b, "unread")
		}
		return b
	})
	return j.sync()
}

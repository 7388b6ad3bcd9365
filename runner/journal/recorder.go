package journal

import (
	"fmt"
	"time"

	"crew/runner/task"
)

// Started records that an attempt is about to start. See runner.Recorder.
func (j *Journal) Started(a task.Attempt) {
	buf := j.lines.Get().(*[]byte)
	*buf = appendStarted((*buf)[:0], a, time.Now())
	_ = j.append(*buf)
	j.lines.Put(buf)
}

// Ended records how an attempt ended, with its outputs where that finishes its
// task. It need not be in the file when Ended returns: it is before another
// attempt starts, or with Idle where none does, and before the sinks after Commit
// see it. What cannot be written Commit reports. See runner.Recorder.
func (j *Journal) Ended(a task.Attempt, r *task.Result, final bool) {
	buf := j.lines.Get().(*[]byte)
	defer j.lines.Put(buf)
	if !final || !j.counts(r) {
		*buf = appendResult((*buf)[:0], evAttempt, a.Task, r, func(b []byte) []byte {
			if !final {
				b = task.AppendTrue(b, "retried")
			}
			return b
		})
		j.later(*buf)
		return
	}
	if j.failure() != nil {
		return
	}
	extents, err := j.out.saveAll(a.Task, r, j.cfg.Output.Plan.KeepsAttempts())
	if err != nil {
		j.fail(fmt.Errorf("keep output: %w", err))
		return
	}
	*buf = appendResult((*buf)[:0], evEnded, a.Task, r, func(b []byte) []byte {
		for i, name := range streams {
			b = appendExtent(b, name, extents[i])
		}
		return j.cfg.Output.append(b)
	})
	j.later(*buf)
}

// Idle writes the ends that wait to be written with a start. It does nothing once
// the journal is closed. See runner.Recorder.
func (j *Journal) Idle() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.closed {
		_ = j.flush()
	}
}

// counts says whether a task that ended so is done, and need not run again when
// the run is resumed.
func (j *Journal) counts(r *task.Result) bool {
	if r.Fault != nil || r.BadCommand && j.cfg.SameCommand {
		return false
	}
	return r.Outcome == task.OK || r.Outcome.Failed()
}

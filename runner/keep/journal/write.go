package journal

import (
	"fmt"
	"io/fs"
	"time"

	"crew/runner/decide/task"
)

// maxPending is the size of pending lines or outputs above which they are written.
const maxPending = 64 << 10

// Started records that an attempt is about to start. Several starts cost one write; more says that
// another one follows. See runner.Recorder.
func (j *Journal) Started(a task.Attempt, more bool) {
	_ = j.append(!more, func(b []byte) []byte { return appendStarted(b, a, time.Now()) })
}

// Ended records how an attempt ended and, if it finishes its task or Output.All is set, its outputs.
// The line may be written only with the next start, by Idle or by Commit, so that an end and a start
// together cost one write. Commit returns errors. See runner.Recorder.
func (j *Journal) Ended(a task.Attempt, r *task.Result, final bool) {
	if !final || !j.keeps(r) {
		_ = j.append(false, func(b []byte) []byte {
			b = appendResult(b, evAttempt, a.Task, r)
			switch {
			case r.Unbegun:
				b = task.AppendTrue(b, "unbegun")
			case !final && !r.Outcome.Replaced():
				b = task.AppendTrue(b, "retried")
			}
			return b
		})
		return
	}
	if j.failure() != nil {
		return
	}
	j.saveMu.RLock()
	defer j.saveMu.RUnlock()
	var saved []byte
	for i, out := range [...]task.Output{r.Stdout, r.Stderr} {
		p, err := j.out.save(out)
		if err != nil {
			j.fail(fmt.Errorf("keep output: %w", err))
			return
		}
		saved = appendExtent(saved, streams[i], p)
	}
	_ = j.append(false, func(b []byte) []byte {
		b = appendAttempts(append(appendResult(b, evEnded, a.Task, r), saved...), r.Before)
		if r.Omitted > 0 {
			b = task.AppendInt(b, "omitted", int64(r.Omitted))
		}
		return j.appendEndMembers(b, r)
	})
}

// appendEndMembers appends the members that follow the result of an ended task: in a queue the
// time, and how its output was treated.
func (j *Journal) appendEndMembers(b []byte, r *task.Result) []byte {
	if j.cfg.Queue != nil {
		b = task.AppendTime(b, "at", time.Now())
	}
	if !j.finishes(r) {
		b = task.AppendTrue(b, "unfinished")
	}
	o := &j.cfg.Output
	switch {
	case o.Plan.Keeps(), r.Outcome == task.Skipped:
	case o.Plan.Streams():
		b = task.AppendTrue(b, "streamed")
	default:
		b = task.AppendTrue(b, "dropped")
	}
	if o.shownAtEnd() {
		b = task.AppendTrue(b, evShown)
	}
	return b
}

// Idle writes the pending lines. It does nothing after Close. See runner.Recorder.
func (j *Journal) Idle() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.closed {
		_ = j.flushLocked()
	}
}

// finishes reports whether a task with result r is done, so that a resumed run does not run it
// again.
func (j *Journal) finishes(r *task.Result) bool {
	if (j.cfg.Queue != nil || j.cfg.Output.All) && r.Final && isDone(r.Outcome) {
		return true
	}
	return r.Fault == nil && !(r.BadCommand && j.cfg.SameCommand) && finishes(r.Outcome)
}

// keeps reports whether the final result r of a task is recorded with its outputs.
func (j *Journal) keeps(r *task.Result) bool { return j.cfg.Output.All || j.finishes(r) }

// append adds a line, whose body the function body appends, to the pending lines. It writes them if
// now is set or there are many. After an error it writes nothing more and returns the error again.
func (j *Journal) append(now bool, body func([]byte) []byte) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	from := len(j.pending)
	j.pending = seal(body(j.pending), from)
	if now || len(j.pending) > maxPending {
		return j.flushLocked()
	}
	return nil
}

// appendNotes writes lines about shown or logged results. It tries that even after an error,
// because results that were recorded before should not be shown again.
func (j *Journal) appendNotes(lines []byte) {
	j.mu.Lock()
	defer j.mu.Unlock()
	_ = j.flushLocked()
	if err := j.writeLocked(lines); err != nil {
		j.fail(err)
	}
}

// flushLocked writes the pending outputs and then the pending lines. The caller must hold mu.
func (j *Journal) flushLocked() error {
	if err := j.out.flush(); err != nil {
		j.fail(fmt.Errorf("keep output: %w", err))
	}
	lines := j.pending
	j.pending = j.pending[:0]
	if closed := fs.ErrClosed; j.closed {
		j.fault.CompareAndSwap(nil, &closed)
	}
	if err := j.failure(); err != nil || len(lines) == 0 {
		return err
	}
	if err := j.writeLocked(lines); err != nil {
		j.fail(err)
	}
	return j.failure()
}

func (j *Journal) writeLocked(lines []byte) error {
	if _, err := j.file.WriteAt(lines, j.end); err != nil {
		_ = j.file.Truncate(j.end)
		return err
	}
	j.end += int64(len(lines))
	j.dirty = true
	return nil
}

// fail ends the recording because of err, unless it has already ended.
func (j *Journal) fail(err error) {
	err = fmt.Errorf("record the run: %w; tasks that end from now on run again next time", err)
	j.fault.CompareAndSwap(nil, &err)
}

// failure returns the error that ended the recording, or nil.
func (j *Journal) failure() error {
	if err := j.fault.Load(); err != nil {
		return *err
	}
	return nil
}

// sync makes everything recorded so far durable: first the outputs, then the lines about them.
//
// A line that is written between the two syncs can be durable without its output, as can any line
// that the kernel writes back by itself. So the next run believes a recorded end only if the output
// has the right checksum, or if a note that was written after such a sync says that the result was
// shown. Holding lines back instead would make starts wait for the disk.
func (j *Journal) sync() error {
	j.syncMu.Lock()
	defer j.syncMu.Unlock()
	j.mu.Lock()
	_ = j.flushLocked()
	dirty := j.dirty
	j.dirty = false
	j.mu.Unlock()
	if !dirty { // another caller has synced the same lines
		return j.failure()
	}
	err := j.out.sync()
	if err == nil {
		err = j.file.Sync()
	}
	if err != nil {
		j.fail(err)
	}
	return j.failure()
}

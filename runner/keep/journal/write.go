package journal

import (
	"fmt"
	"io/fs"
	"time"

	"crew/runner/decide/task"
)

// maxWaiting is how many bytes of lines may wait to be written.
const maxWaiting = 64 << 10

// Started records that an attempt is about to start. The starts of several cost one
// write. See runner.Recorder.
func (j *Journal) Started(a task.Attempt, more bool) {
	_ = j.append(!more, func(b []byte) []byte { return appendStarted(b, a, time.Now()) })
}

// Ended records how an attempt ended, with its outputs if that finishes its task.
// The line may be written only with the next start, with Idle or by Commit, so that
// an end and a start together cost one write. Commit reports errors. See
// runner.Recorder.
func (j *Journal) Ended(a task.Attempt, r *task.Result, final bool) {
	if !final || !j.finishes(r) {
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
	j.saving.RLock()
	defer j.saving.RUnlock()
	var saved [len(streams)]extent
	for i, out := range [...]task.Output{r.Stdout, r.Stderr} {
		var err error
		if saved[i], err = j.out.save(out); err == nil && saved[i].n != task.Length(out) {
			err = fmt.Errorf("an output of %d bytes gave %d", out.Len(), saved[i].n)
		}
		if err != nil {
			j.fail(fmt.Errorf("keep output: %w", err))
			return
		}
	}
	_ = j.append(false, func(b []byte) []byte {
		b = appendResult(b, evEnded, a.Task, r)
		for i, name := range streams {
			b = appendExtent(b, name, saved[i])
		}
		b = appendAttempts(b, r.Before)
		if r.Omitted > 0 {
			b = task.AppendInt(b, "omitted", int64(r.Omitted))
		}
		return j.endMembers(b, r)
	})
}

// endMembers appends what a line says of a task that has ended, besides its result: when, in a
// queue, and what happens to its output.
func (j *Journal) endMembers(b []byte, r *task.Result) []byte {
	if j.cfg.Queue != nil {
		b = task.AppendTime(b, "at", time.Now())
	}
	o := &j.cfg.Output
	switch {
	case o.Plan.Keeps(), r.Outcome == task.Skipped:
	case o.Plan.Streams():
		b = task.AppendTrue(b, "streamed")
	default:
		b = task.AppendTrue(b, "dropped")
	}
	switch {
	case !o.shownAtEnd():
	case o.Logs:
		b = task.AppendTrue(b, evShown)
	default:
		b = task.AppendTrue(b, evReleased)
	}
	return b
}

// Idle writes the lines that wait to be written with a start. It does nothing once
// the journal is closed. See runner.Recorder.
func (j *Journal) Idle() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.closed {
		_ = j.flush()
	}
}

// finishes reports whether a task with this result is done, so that it does not run
// again when the run is resumed.
func (j *Journal) finishes(r *task.Result) bool {
	if j.cfg.Queue != nil && r.Final && isDone(r.Outcome) {
		return true
	}
	return r.Fault == nil && !(r.BadCommand && j.cfg.SameCommand) && finishes(r.Outcome)
}

// append adds a line, whose body is appended by body, to those that are waiting, and writes
// all of them if now is set or they are many. After an error it writes nothing more, and
// returns the error again.
func (j *Journal) append(now bool, body func([]byte) []byte) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	from := len(j.waiting)
	j.waiting = seal(body(j.waiting), from)
	if now || len(j.waiting) > maxWaiting {
		return j.flush()
	}
	return nil
}

// appendNotes writes lines about what was shown. It tries even after an error: what was
// recorded before that should not be shown again.
func (j *Journal) appendNotes(lines []byte) {
	j.mu.Lock()
	defer j.mu.Unlock()
	_ = j.flush()
	if err := j.write(lines); err != nil {
		j.fail(err)
	}
}

// flush writes the waiting lines, and before them the outputs that wait. The caller
// holds mu.
func (j *Journal) flush() error {
	if err := j.out.flush(); err != nil {
		j.fail(fmt.Errorf("keep output: %w", err))
	}
	lines := j.waiting
	j.waiting = j.waiting[:0]
	if closed := fs.ErrClosed; j.closed {
		j.fault.CompareAndSwap(nil, &closed)
	}
	if err := j.failure(); err != nil || len(lines) == 0 {
		return err
	}
	if err := j.write(lines); err != nil {
		j.fail(err)
	}
	return j.failure()
}

func (j *Journal) write(lines []byte) error {
	if _, err := j.file.WriteAt(lines, j.end); err != nil {
		_ = j.file.Truncate(j.end)
		return err
	}
	j.end += int64(len(lines))
	j.dirty = true
	return nil
}

// fail ends the recording because of err, unless it has ended.
func (j *Journal) fail(err error) {
	err = fmt.Errorf("record the run: %w; what ended after that runs again in the next run", err)
	j.fault.CompareAndSwap(nil, &err)
}

// failure returns why nothing is recorded any more, or nil.
func (j *Journal) failure() error {
	if err := j.fault.Load(); err != nil {
		return *err
	}
	return nil
}

// sync makes everything recorded so far durable: the outputs, and then the lines about them.
//
// A line that is written between the two syncs can be durable without its output, as
// can any line that the kernel writes back by itself. So the next run believes an end
// only if a note that was written after such a sync says that the result was shown, or
// if the output has the right checksum. Holding lines back instead would let starts
// wait for the disk.
func (j *Journal) sync() error {
	j.syncing.Lock()
	defer j.syncing.Unlock()
	j.mu.Lock()
	_ = j.flush()
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

package coproc

import (
	"bytes"
	"io"
	"slices"
	"strconv"

	"crew/runner/decide/task"
	"crew/runner/exec/kernel"
	"crew/runner/exec/spool"
)

const (
	smallOutput    = 1 << 10  // up to this size, an output needs no spool.Buffer
	attemptsAtOnce = 16       // number of attempts that are allocated together, which is faster
	maxPending     = 64 << 10 // maximum size of an unfinished output outside of the spool
	excerptSize    = 60       // maximum size of an answer in a message
)

// output holds the stderr of an attempt. It also holds its stdout if that is streamed or large, or
// comes from a filter.
type output struct {
	spool.Streams

	// used by other goroutines while the record is unanswered

	id     uint64
	number int
	last   []byte // the end of stderr; guarded by the loop's mu
}

// openOutput returns the output of an attempt. It creates it if necessary.
func (l *loop) openOutput(f *openAttempt) *output {
	if f.output == nil {
		a := f.attempt()
		a.Slot = l.slot
		f.output = &output{Streams: l.OpenStreams(a), id: f.Task.ID, number: f.Attempt}
	}
	return f.output
}

// discard closes and discards the output. s may be nil.
func (s *output) discard() {
	if s != nil {
		s.Discard()
	}
}

// addStderr appends p to the stderr of an attempt, and makes it visible to other goroutines.
func (l *loop) addStderr(f *openAttempt, p []byte) {
	s := l.openOutput(f)
	_, _ = s.Err.Write(p)
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.last == nil {
		l.liveStderr = append(l.liveStderr, s)
	}
	s.last = spool.AppendTail(s.last, p)
}

// unpublish hides the output from other goroutines. s may be nil.
func (l *loop) unpublish(s *output) {
	if s == nil || s.last == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.liveStderr = slices.DeleteFunc(l.liveStderr, func(o *output) bool { return o == s })
}

// eachLiveStderr calls each for the stderr of every record that has not been answered. The stderr does
// not change during the call.
func (w *Workers) eachLiveStderr(each func(*output)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range w.loops {
		l.mu.Lock()
		for _, s := range l.liveStderr {
			each(s)
		}
		l.mu.Unlock()
	}
}

// Live returns the worker's stderr so far for the unanswered record of a task, and the number of
// the attempt, or 0 if there is none. There is no stdout, because answers are complete or
// missing. For other tasks see proc.Local.
func (w *Workers) Live(id uint64) (stdout, stderr task.Live, attempt int) {
	w.eachLiveStderr(func(s *output) {
		if s.id == id && s.Err.Kept != nil {
			stderr, attempt = s.Err.Kept.Hold(), s.number
		}
	})
	if attempt == 0 {
		return w.Local.Live(id)
	}
	return nil, stderr, attempt
}

// Said returns the end of the worker's stderr for the unanswered record of each task.
func (w *Workers) Said() map[uint64][]byte {
	all := map[uint64][]byte{}
	w.eachLiveStderr(func(s *output) { all[s.id] = slices.Clone(s.last) })
	return all
}

// strayWriter returns the writer for stderr that belongs to no record.
func (l *loop) strayWriter() io.Writer {
	if l.strayTo == nil {
		l.strayTo = l.Stray(l.slot)
	}
	return l.strayTo
}

// readStderr reads at least all bytes that are in the pipe of stderr now. This includes all that was
// written before the answers that have been read. It does not read until the pipe is empty, because a
// flood of output might never end.
func (w *worker) readStderr() {
	for i := 0; i < floodReads && w.Err >= 0; i++ {
		if w.errBuf == nil {
			w.errBuf = make([]byte, pipeSize/4)
		}
		n := kernel.Read(&w.Err, w.errBuf)
		if n == 0 {
			return
		}
		w.lastOutput = w.now
		w.takeStderr(w.errBuf[:n])
	}
}

// takeStderr assigns a piece of stderr to a record, or to none.
func (w *worker) takeStderr(p []byte) {
	w.recentStderr = spool.AppendTail(w.recentStderr, p)
	switch {
	case w.protocol == task.FilterProtocol:
		w.takeFilterOutput(p, true)
	case w.begun() > 0:
		w.giveStderr(p)
	case w.started == 0 && len(w.attempts) > 0 && w.Plan.Show != task.ShowLines:
		w.addStderr(w.attempts[0], p) // the record that waits for the worker to be ready
	case w.started == 0 && len(w.pendingStderr) < maxPending && w.expects != task.ExpectNone:
		w.pendingStderr = append(w.pendingStderr, p...)
	default:
		_, _ = w.strayWriter().Write(p)
	}
}

// giveStderr adds stderr to the oldest record. If there is another record, it adds only whole lines:
// the end of a line may arrive after the answer, when the other record is the oldest.
func (w *worker) giveStderr(p []byte) {
	whole := len(p)
	if w.begun() > 1 && len(w.pendingStderr) < maxPending {
		whole = bytes.LastIndexByte(p, '\n') + 1
	}
	if whole > 0 {
		w.flushStderr()
		w.addStderr(w.attempts[0], p[:whole])
		w.checkRoom(w.attempts[0])
	}
	w.pendingStderr = append(w.pendingStderr, p[whole:]...)
}

// checkRoom ends the worker if it has written more for a record than it may.
func (w *worker) checkRoom(f *openAttempt) {
	if f.Outcome == 0 && f.output.Out.Room.Ends() {
		f.Outcome = task.TooMuch
		w.endWorker(task.Cancelled, false)
	}
}

// flushStderr adds pendingStderr to the oldest record.
func (w *worker) flushStderr() {
	if len(w.pendingStderr) > 0 {
		w.addStderr(w.attempts[0], w.pendingStderr)
		w.pendingStderr = nil
	}
}

// excerpt returns the beginning of an answer for a message. p is the last part of the answer.
func (w *worker) excerpt(p []byte) string {
	if kept := w.partial.Kept; kept != nil {
		first := make([]byte, excerptSize+1)
		n, _ := kept.ReadAt(first, 0)
		p = first[:n]
	}
	p = bytes.TrimRight(p, "\r\n\x00")
	if len(p) > excerptSize {
		return strconv.Quote(string(p[:excerptSize])) + "..."
	}
	return strconv.Quote(string(p))
}

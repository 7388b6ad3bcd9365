package coproc

import (
	"bytes"
	"crew/runner/decide/task"
	"crew/runner/exec/kernel"
	"crew/runner/exec/spool"
)

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
	}
	w.pendingStderr = append(w.pendingStderr, p[whole:]...)
}

// flushStderr adds pendingStderr to the oldest record.
func (w *worker) flushStderr() {
	if len(w.pendingStderr) > 0 {
		w.addStderr(w.attempts[0], w.pendingStderr)
		w.pendingStderr = nil
	}
}

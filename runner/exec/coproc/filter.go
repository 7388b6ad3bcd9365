package coproc

import (
	"crew/runner/decide/task"
	"crew/runner/exec/proc"
)

// openBlocks returns how many blocks have been written and not ended: the last block of a filter ends
// with the filter.
func (w *worker) openBlocks() int {
	if w.protocol == task.FilterProtocol {
		return w.encoded
	}
	return 0
}

// sendBlock writes a part of a block. It returns false if there is nothing to write.
func (w *worker) sendBlock() bool {
	if w.encoded == len(w.attempts) {
		return false
	}
	f := w.attempts[w.encoded]
	if f.Start.IsZero() {
		if w.retired {
			return false
		}
		w.beginRecord(f)
		w.blockInput = proc.InputOf(f.Task, w.started == 1)
	}
	n, err := w.blockInput.Write(w.In, w.buf)
	w.encodedPart += n
	w.encodedBytes += n
	switch {
	case err != nil:
		w.writeFailed(err)
	case n == 0: // the block is complete
		w.blockInput = proc.Input{}
		f.end = w.encodedBytes
		w.encodedPart = 0
		w.encoded++
		for w.encoded > 1 { // the first block is not the filter's last block
			w.recordAnswered(0, w.attempts[0].end <= w.bytesRead())
		}
	}
	return true
}

// takeFilterOutput stores output of the filter, which belongs to its last block.
func (w *worker) takeFilterOutput(p []byte, stderr bool) {
	if w.filterOutput == nil {
		f := openAttempt{Result: task.Result{Task: w.commandAttempt().Task, Attempt: 1}}
		w.filterOutput = w.openOutput(&f)
	}
	if stderr {
		_, _ = w.filterOutput.Err.Write(p)
	} else {
		_, _ = w.filterOutput.Out.Write(p)
	}
}

package coproc

import (
	"crew/runner/decide/task"
	"crew/runner/exec/proc"
)

// held returns how many written blocks have not ended, because the last one ends with
// its filter.
func (w *worker) held() int {
	if w.protocol == task.FilterProtocol {
		return w.placed
	}
	return 0
}

// feed writes a part of a block. It returns false if there is nothing to write.
func (w *worker) feed() bool {
	if w.placed == len(w.flights) {
		return false
	}
	f := w.flights[w.placed]
	if f.Start.IsZero() {
		if w.retired {
			return false
		}
		w.start(f)
		w.rest = proc.InputOf(f.Task, w.count == 1)
	}
	n, err := w.rest.Write(w.In, w.buf)
	w.part += n
	w.put += n
	switch {
	case err != nil:
		w.cannotWrite(err)
	case n == 0: // it is complete
		w.rest = proc.Input{}
		f.end = w.put
		w.part = 0
		w.placed++
		for w.placed > 1 { // the first block is not the last one of its filter
			w.answered(0, w.flights[0].end <= w.read())
		}
	}
	return true
}

// filtered takes output of the filter, which belongs to its last block.
func (w *worker) filtered(p []byte, stderr bool) {
	if w.own == nil {
		f := flight{Result: task.Result{Task: w.model().Task, Attempt: 1}}
		w.own = w.open(&f)
	}
	if stderr {
		_ = w.own.err.Write(p) // the result has the error
	} else {
		_ = w.own.out.Write(p)
	}
}

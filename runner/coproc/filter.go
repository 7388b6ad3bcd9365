package coproc

import (
	"fmt"
	"io"
	"syscall"

	"golang.org/x/sys/unix"

	"crew/runner/task"
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
	if w.placed == len(w.waiting()) {
		return false
	}
	f := &w.waiting()[w.placed]
	if f.start.IsZero() {
		if w.retired {
			return false
		}
		w.start(f)
	}
	n, err := w.feedBlock(f.task)
	w.part += n
	w.put += n
	switch {
	case err != nil:
		w.cannotWrite(err)
	case n == 0: // it is complete
		f.end = w.put
		w.part = 0
		w.placed++
		for w.placed > 1 {
			w.written()
		}
	}
	return true
}

// feedBlock writes a part of a task's block and returns its size, or 0 after the last.
// The header goes before the first block alone.
func (w *worker) feedBlock(t *task.Task) (int64, error) {
	b := t.Block
	if b == nil {
		b = &task.Block{Text: t.Stdin}
	}
	at, head := w.part, b.Head
	if w.count > 1 {
		head = nil
	}
	for _, p := range [...][]byte{head, b.Text} {
		if at < int64(len(p)) {
			n, err := syscall.Write(w.p.In, p[at:])
			return int64(max(n, 0)), err
		}
		at -= int64(len(p))
	}
	if b.File == nil || at >= b.Len {
		return 0, nil
	}
	off := b.Off + at
	n, err := unix.Splice(int(b.File.Fd()), &off, w.p.In, nil, int(b.Len-at), unix.SPLICE_F_NONBLOCK)
	if err == syscall.EINVAL { // the file's system has no splice(2)
		var k int
		if k, err = b.File.ReadAt(w.buf[:min(b.Len-at, pipeSize)], off); k > 0 {
			k, err = syscall.Write(w.p.In, w.buf[:k])
		}
		n = int64(max(k, 0))
	}
	if n == 0 && err == nil {
		err = io.ErrUnexpectedEOF
	}
	return max(n, 0), err
}

// written ends the first block, which is not the last one of its filter.
func (w *worker) written() {
	r := w.newResult(&w.waiting()[0])
	r.Outcome = task.OK
	w.ended = append(w.ended, &r.Result)
	w.pop()
	w.placed--
	w.answered()
}

// filtered takes output of the filter, which belongs to its last block.
func (w *worker) filtered(p []byte, stderr bool) {
	if w.own == nil {
		f := flight{task: w.model().Task, number: 1}
		w.own = w.open(&f)
	}
	to, kept := w.own.out, &w.partial
	if stderr {
		to, kept = w.own.err, &w.own.capture
	}
	if to != nil {
		_, _ = to.Write(p) // the sink itself reports an error to the run
	}
	w.collect(kept, p, w.cfg.Plan.Keeps())
}

// endFilter ends the last block that a filter got with its exit and its output.
func (w *worker) endFilter(f *flight, ws syscall.WaitStatus, how string, begun bool) {
	f.said, w.own = w.own, nil
	var r *result
	switch {
	case f.fate != 0:
		r = w.end(f, ws)
	case ws != 0:
		r = w.report(f, task.Exit, nil)
		if r.Code = ws.ExitStatus(); ws.Signaled() {
			r.Outcome, r.Code, r.Signal = task.Signal, 0, int(ws.Signal())
		}
	case !begun && !w.dismissed:
		r = w.report(f, task.BadAnswer, fmt.Errorf("the filter ended before it read block %d: %s", f.record(), how))
	default:
		r = w.report(f, task.OK, nil)
	}
	w.keep(&w.partial, r, &r.out, &r.Stdout)
}

package coproc

import (
	"fmt"
	"io"
	"syscall"

	"crew/runner/decide/task"
)

// send writes to the worker's stdin until the pipe is full or there is nothing to write.
func (w *worker) send() {
	for w.ready && !w.pipeFull && !w.stdinClosed && w.In >= 0 {
		if len(w.out) == 0 {
			if w.protocol == task.FilterProtocol {
				if !w.sendBlock() {
					return
				}
				continue
			}
			if w.encode(); len(w.out) == 0 {
				return
			}
		}
		n, err := syscall.Write(w.In, w.out)
		if err != nil {
			n = 0
			w.writeFailed(err)
		}
		w.out = w.out[n:]
	}
}

// writeFailed handles an error of a write to the worker.
func (w *worker) writeFailed(err error) {
	switch err {
	case syscall.EAGAIN:
		w.pipeFull = true
	case syscall.EINTR:
	case io.ErrUnexpectedEOF:
		f := w.attempts[w.encoded]
		f.Outcome, f.Err = task.StartFailed, fmt.Errorf("the input has become shorter than block %d", f.record())
		w.endWorker(task.Cancelled, false)
	default: // the worker may still answer the records that it has read, or be about to end
		w.retired, w.stdinClosed = true, true
		w.hangUpAt = min(w.hangUpAt, w.now+closeGrace)
	}
}

// beginRecord records that the next byte of the worker's input is the first byte of f.
func (w *worker) beginRecord(f *openAttempt) {
	f.begin, f.since, f.Start = w.encodedBytes+int64(len(w.out)), w.now, w.wall
	w.started++
	if w.started == w.Records {
		w.retired = true
	}
	if w.begun() == 0 {
		w.flushStderr()
	}
}

// encode fills out with the next bytes of the worker's input.
func (w *worker) encode() {
	b := w.outBuf[:0]
	if len(w.messages) > 0 && w.encodedPart == 0 {
		b = w.encodeMessages(b)
	}
	for w.encoded < len(w.attempts) && len(b) < pipeSize {
		f := w.attempts[w.encoded]
		o := f.attempt().Origin()
		if w.encodedPart == 0 {
			if w.retired {
				break
			}
			w.out = b
			w.beginRecord(f)
			b = w.protocol.Begin(b, o.Task)
		}
		rest := f.Task.Stdin[w.encodedPart:]
		n := min(len(rest), pipeSize)
		b = append(b, rest[:n]...)
		if n < len(rest) {
			w.encodedPart += int64(n)
			break
		}
		b = w.protocol.End(b, o.Number, o.Units, f.Task.Makes)
		f.end = w.encodedBytes + int64(len(b))
		w.encodedPart = 0
		w.encoded++
	}
	w.out, w.outBuf = b, b
	w.encodedBytes += int64(len(b))
}

package coproc

import (
	"bytes"
	"fmt"

	"crew/runner/decide/task"
	"crew/runner/exec/kernel"
	"crew/runner/exec/spool"
)

// readStdout reads once from stdout into buf. If stdout has ended, it sets a deadline for the worker's exit.
func (w *worker) readStdout() (n int) {
	n = kernel.Read(&w.Out, w.buf[w.to:])
	if w.Out < 0 && !w.exited {
		w.hangUpAt = min(w.hangUpAt, w.now+closeGrace)
	}
	return n
}

// yieldAndRead lets the worker run first if it shares a processor with the loop, and then reads its
// answer. It returns true if it has read an answer or the end of stdout.
func (w *worker) yieldAndRead() bool {
	if w.pin == nil || w.encoded == 0 || w.Out < 0 {
		return false
	}
	n := w.readStdout()
	if n == 0 && w.Out >= 0 {
		w.pin.Yield()
		n = w.readStdout()
	}
	if n == 0 {
		return w.Out < 0 // the end of stdout has set a deadline
	}
	w.now, w.wall = w.Clock.Now()
	w.lastOutput = w.now
	w.takeStdout(n)
	return true
}

// takeStdout handles n more bytes in buf, after the output on stderr that came before them.
func (w *worker) takeStdout(n int) {
	w.readStderr()
	w.to += n
	before := w.answers
	w.takeLines()
	if w.answers > before && w.encoded > 0 && w.protocol != task.JSONProtocol {
		f := w.attempts[0]
		f.since = max(f.since, w.now)
	}
}

// takeLines handles all complete answers in buf.
func (w *worker) takeLines() {
	read := w.bytesRead()
	for {
		mark := w.delimiter
		if !w.ready {
			mark = '\n'
		} else if w.protocol == task.FilterProtocol {
			w.takeFilterOutput(w.buf[w.from:w.to], false)
			w.from = w.to
		}
		i := bytes.IndexByte(w.buf[w.from:w.to], mark)
		if i < 0 {
			break
		}
		line := w.buf[w.from : w.from+i+1]
		w.from += i + 1
		w.takeLine(line, read)
	}
	w.makeRoom()
}

// makeRoom makes sure that buf has room for more bytes.
func (w *worker) makeRoom() {
	switch {
	case w.from == w.to:
		w.from, w.to = 0, 0
		if len(w.buf) > maxIdleBuffer {
			w.buf = make([]byte, pipeSize)
		}
	case w.from > 0:
		w.to = copy(w.buf, w.buf[w.from:w.to])
		w.from = 0
	case w.to < len(w.buf):
	case w.protocol != task.JSONProtocol:
		w.keepPartial(w.buf)
		if w.to = 0; w.partial.Room != nil {
			w.checkRoom(w.attempts[0])
		}
	case len(w.buf) < maxJSON:
		w.buf = append(w.buf, make([]byte, len(w.buf))...)
	default:
		w.to = 0
		w.takeGarbage(w.buf, "it is too long", w.bytesRead())
	}
}

// takeLine handles a line of stdout, including its end. When the worker wrote the line, it had read at
// most read bytes.
func (w *worker) takeLine(p []byte, read int64) {
	switch {
	case !w.ready:
		w.ready = w.readyLine.Match(p[:len(p)-1])
		w.dropPartial()
	case w.asked:
		w.dropPartial()
	case w.protocol == task.JSONProtocol:
		w.takeObject(p, read)
	case !w.owesAnswer(read):
		w.takeUnexpectedLine(p)
	case w.encoded == 0 || w.attempts[0].end > w.encodedBytes-int64(len(w.out)):
		w.badAnswer("one before the record was read: " + w.excerpt(p))
	default:
		w.takeAnswer(p)
	}
}

// owesAnswer reports whether a worker that has read this many bytes has begun to read a record that it
// has not answered.
func (w *worker) owesAnswer(read int64) bool { return w.begun() > 0 && w.attempts[0].begin < read }

// takeAnswer ends the oldest record with its answer. p is the last part of the answer.
func (w *worker) takeAnswer(p []byte) {
	f := w.attempts[0]
	if w.begun() == 1 {
		w.flushStderr()
	}
	short := w.partial.Kept == nil
	if short && len(p) <= smallOutput && w.Plan.Show != task.ShowLines && !w.bounded(f) {
		if w.recordAnswered(0, true); w.Plan.Keeps() {
			f.smallOut = bytes.Clone(p)
			f.Stdout = &f.smallOut
		}
		return
	}
	s := &w.openOutput(f).Out
	if short {
		_, _ = s.Write(p)
	} else {
		w.keepPartial(p)
		s.Take(&w.partial)
		w.dropPartial()
	}
	w.recordAnswered(0, true)
}

// bounded reports whether there is a bound on the output of an attempt.
func (w *worker) bounded(f *openAttempt) bool { return w.Plan.BoundOf(f.Task).Bytes > 0 }

// recordAnswered ends the attempt at index at. read is false if the worker may not have read its block.
func (w *worker) recordAnswered(at int, read bool) {
	w.report(w.attempts[at], task.OK, nil)
	w.removeAttempt(at)
	w.encoded--
	if !read {
		return
	}
	w.recentStderr = w.recentStderr[:0]
	if w.answers++; w.answers == 1 {
		w.resetFailures()
	}
}

// takeUnexpectedLine handles an answer that belongs to no record.
func (w *worker) takeUnexpectedLine(p []byte) {
	defer w.dropPartial()
	what := w.excerpt(p)
	if w.dismissed {
		if w.wroteAfterEnd {
			return
		}
		w.wroteAfterEnd = true
		w.notify("wrote a line after its last answer: " + what)
		return
	}
	if w.answers == 0 && w.Ready == "" {
		what += ": if that means that the worker is ready, add --worker-ready REGEX"
	}
	w.noteNeverRead("it wrote " + what)
	w.endWorker(task.Cancelled, false)
	switch {
	case w.neverReadWhy != "": // reap will report it
		return
	case len(w.ended) == 0:
		w.notify("is replaced, because it wrote a line that answers no record: " + what)
		return
	}
	r := w.ended[len(w.ended)-1]
	r.Outcome, r.Code = task.BadAnswer, 0
	r.Err = w.errUnexpected(r.Task.ID, "another one: "+w.excerpt(p))
}

// badAnswer ends the worker because of its answer to the oldest record.
func (w *worker) badAnswer(came string) {
	if f := w.attempts[0]; f.Outcome == 0 {
		f.Outcome, f.Err = task.BadAnswer, w.errUnexpected(f.Task.ID, came)
	}
	w.endWorker(task.Cancelled, false)
}

// errUnexpected returns an error for an answer that violates the protocol.
func (w *worker) errUnexpected(id uint64, came string) error {
	want := map[task.Protocol]string{
		task.LineProtocol: "one line", task.NULProtocol: "one answer that ends in NUL",
		task.JSONProtocol: "one JSON object with id and exit", task.FilterProtocol: "an exit",
	}
	return fmt.Errorf("expected %s for record %d, got %s", want[w.protocol], id, came)
}

// keepPartial stores a part of an answer that does not fit into buf.
func (w *worker) keepPartial(p []byte) {
	if w.partial.Kept == nil {
		w.partial.Kept = w.Store.Buffer()
		if w.begun() > 0 && w.bounded(w.attempts[0]) {
			w.partial.Room = w.openOutput(w.attempts[0]).Out.Room
		}
	}
	_, _ = w.partial.Write(p)
}

// dropPartial discards the stored part of an answer.
func (w *worker) dropPartial() {
	w.partial.Discard()
	w.partial = spool.Stream{}
}

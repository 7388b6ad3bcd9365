package coproc

import (
	"bytes"
	"fmt"

	"crew/runner/decide/task"
	"crew/runner/exec/kernel"
	"crew/runner/exec/spool"
)

// readOut reads stdout once into buf, and notices its end.
func (w *worker) readOut() (n int) {
	n = kernel.Read(&w.Out, w.buf[w.to:])
	if w.Out < 0 && !w.exited {
		w.over = min(w.over, w.run+grace)
	}
	return n
}

// peek lets the worker go first while it shares a processor with the loop, and takes its
// answer if that has come, or the end of stdout. It saves a poll(2), and with it a tenth
// of the time.
func (w *worker) peek() bool {
	if w.pin == nil || w.placed == 0 || w.Out < 0 {
		return false
	}
	n := w.readOut()
	if n == 0 && w.Out >= 0 {
		w.pin.Yield()
		n = w.readOut()
	}
	if n == 0 {
		return w.Out < 0 // which sets a time to wake up
	}
	w.run, w.at = w.Clock.Now()
	w.heard = w.run
	w.came(n)
	return true
}

// came looks at the answers in n more bytes in buf, after what came on stderr before them.
func (w *worker) came(n int) {
	w.readErrs()
	w.to += n
	before := w.answers
	w.split()
	if w.answers > before && w.placed > 0 && w.protocol != task.JSONProtocol {
		f := w.flights[0]
		f.since = max(f.since, w.run)
	}
}

// split looks at the answers in buf.
func (w *worker) split() {
	read := w.read()
	for {
		mark := w.mark
		if !w.ready {
			mark = '\n'
		} else if w.protocol == task.FilterProtocol {
			w.filtered(w.buf[w.from:w.to], false)
			w.from = w.to
		}
		i := bytes.IndexByte(w.buf[w.from:w.to], mark)
		if i < 0 {
			break
		}
		line := w.buf[w.from : w.from+i+1]
		w.from += i + 1
		w.line(line, read)
	}
	w.makeRoom()
}

// makeRoom makes room in buf.
func (w *worker) makeRoom() {
	switch {
	case w.from == w.to:
		w.from, w.to = 0, 0
		if len(w.buf) > mostIdle {
			w.buf = make([]byte, pipeSize)
		}
	case w.from > 0:
		w.to = copy(w.buf, w.buf[w.from:w.to])
		w.from = 0
	case w.to < len(w.buf):
	case w.protocol != task.JSONProtocol:
		w.keep(w.buf)
		w.to = 0
	case len(w.buf) < mostJSON:
		w.buf = append(w.buf, make([]byte, len(w.buf))...)
	default:
		w.to = 0
		w.garbage(w.buf, "it is too long", w.read())
	}
}

// line takes a line of stdout with its end, written when the worker had read at most so
// many bytes.
func (w *worker) line(p []byte, read int64) {
	switch {
	case !w.ready:
		w.ready = w.Ready.Match(p[:len(p)-1])
		w.drop()
	case w.ladder != task.NotAsked:
		w.drop()
	case w.protocol == task.JSONProtocol:
		w.object(p, read)
	case !w.owes(read):
		w.surplus(p)
	case w.placed == 0 || w.flights[0].end > w.put-int64(len(w.out)):
		w.bad("one before the record was read: " + w.excerpt(p))
	default:
		w.answer(p)
	}
}

// owes reports whether a worker that has read so many bytes has read of a record that is
// not answered.
func (w *worker) owes(read int64) bool { return w.begun() > 0 && w.flights[0].begin < read }

// answer ends the oldest record with its answer, of which p is the last part.
func (w *worker) answer(p []byte) {
	f := w.flights[0]
	if w.begun() == 1 {
		w.flush()
	}
	long := w.partial.Kept
	if w.Plan.Show == task.ShowLines {
		to := w.open(f).out.To
		if long != nil {
			_, _ = long.WriteTo(to)
		}
		_, _ = to.Write(p) // the sink itself reports an error to the run
	}
	small := long == nil && len(p) <= smallOutput
	if w.Plan.Keeps() && !small {
		w.keep(p)
		s := w.open(f)
		w.partial.To = s.out.To
		s.out, w.partial = w.partial, spool.Stream{}
	}
	w.drop()
	w.answered(0, true)
	if w.Plan.Keeps() && small {
		w.keepSmall(p, f)
	}
}

// answered ends the waiting flight at, which the worker has read or, if it is a block, may have.
func (w *worker) answered(at int, read bool) {
	w.report(w.flights[at], task.OK, nil)
	w.remove(at)
	w.placed--
	if !read {
		return
	}
	w.said = w.said[:0]
	if w.answers++; w.answers == 1 {
		w.proven()
	}
}

// surplus takes an answer for which there is no record.
func (w *worker) surplus(p []byte) {
	defer w.drop()
	if w.dismissed {
		if w.spoke {
			return
		}
		w.spoke = true
		w.tell("wrote a line after its last answer: " + w.excerpt(p))
		return
	}
	what := w.excerpt(p)
	if w.answers == 0 && w.Ready == nil {
		what += ": if that says that it is ready, add --worker-ready REGEX"
	}
	w.neverRead("it wrote " + what)
	w.finish(false)
	switch {
	case w.unread != "": // the user is told once it has ended
		return
	case len(w.ended) == 0:
		w.tell("wrote a line that answers no record, and is replaced: " + what)
		return
	}
	r := w.ended[len(w.ended)-1]
	r.Outcome, r.Code = task.BadAnswer, 0
	r.Err = w.unexpected(r.Task.ID, "another one: "+w.excerpt(p))
}

// bad ends the worker because of what it answered to its oldest record.
func (w *worker) bad(came string) {
	if f := w.flights[0]; f.Outcome == 0 {
		f.Outcome, f.Err = task.BadAnswer, w.unexpected(f.Task.ID, came)
	}
	w.finish(false)
}

// unexpected says what came instead of a record's answer.
func (w *worker) unexpected(id uint64, came string) error {
	want := map[task.Protocol]string{
		task.LineProtocol: "one line", task.NULProtocol: "one answer that ends in NUL",
		task.JSONProtocol: "one JSON object with id and exit", task.FilterProtocol: "an exit",
	}
	return fmt.Errorf("expected %s for record %d, got %s", want[w.protocol], id, came)
}

// keep keeps a part of an answer that is long.
func (w *worker) keep(p []byte) {
	if w.partial.Kept == nil {
		w.partial.Kept = w.Store.Buffer()
	}
	_ = w.partial.Write(p) // the result has the error
}

// drop forgets the beginning of an answer.
func (w *worker) drop() {
	if w.partial.Kept != nil {
		_ = w.partial.Kept.Close()
	}
	w.partial = spool.Stream{}
}

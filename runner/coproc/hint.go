package coproc

import (
	"fmt"
	"syscall"
	"time"

	"crew/runner/kernel"
	"crew/runner/task"
)

const (
	// So long is a record unanswered when the loop looks whether its worker flushes.
	hintAfter = 3 * time.Second
	lastAfter = 500 * time.Millisecond // if no record will follow
	lookAgain = 100 * time.Millisecond // at least, until it looks again

	readyAfter = 10 * time.Second // how long a worker may say nothing that Life.Ready matches
)

// hint looks at times whether the worker has read a record and waits for the next one
// without having answered, and tells the user once per run. If no record will follow, it
// closes the worker's stdin, at which a program writes what it has held back; one that is
// at work, where that is not known, reads the end only later. It returns when it is to be
// called again.
func (w *worker) hint() time.Duration {
	if !w.ready {
		return w.unready()
	}
	last := w.left != task.LeftMore || w.retired
	if w.placed == 0 || w.protocol == task.FilterProtocol || w.dismissed || !last && w.hinted.Load() {
		return never
	}
	f := &w.waiting()[0]
	after := hintAfter
	if last && w.protocol != task.JSONProtocol { // one that reads on may be at work on all that it has read
		after = lastAfter
	}
	at := max(f.since+after, w.look)
	if w.run < at {
		return at
	}
	// A look takes longer the more processes there are.
	w.look = w.run + min(max((w.run-f.since)/8, lookAgain), hintAfter)
	waits, known := w.waits()
	switch {
	case !waits:
		return w.look
	case known:
		if w.hinted.CompareAndSwap(false, true) {
			w.notice(fmt.Sprintf("worker %d has read record %d, answers nothing and waits for more: "+
				"does it flush? python -u, stdbuf -oL, jq --unbuffered, awk fflush()%s", w.slot.ID, f.record(), w.saying()))
		}
	case w.run < f.since+hintAfter:
		return w.look
	}
	if last {
		w.dismiss()
	}
	return w.look
}

// reads looks at times whether the worker reads, where it does not show by itself that it has
// closed its stdin. It returns when it is to be called again.
func (w *worker) reads() time.Duration {
	if kernel.PipeIsOne || w.begun() == 0 || w.p.In < 0 || w.shut {
		return never
	}
	if w.run < w.peer {
		return w.peer
	}
	before := w.unseen
	w.peer, w.unseen = w.run+hintAfter, w.p.Unread()
	stuck := w.unseen > 0 && w.unseen == before && (w.full || w.waiting()[0].begin >= w.read())
	switch {
	case stuck && w.p.Closed():
		w.cannotWrite(syscall.EPIPE)
		return w.over
	case stuck:
		if w.peer = never; !w.full { // and then shows when it reads
			w.p.Takes()
		}
	}
	return w.peer
}

// unready ends a worker that is not ready in time, and tells the user once per run of one
// that takes long. It returns when it is to be called again.
func (w *worker) unready() time.Duration {
	line := "a line on stdout that matches " + task.Quote(w.cfg.Life.Ready.String())
	end := never
	if limit := w.cfg.Life.Start; limit > 0 {
		if end = w.born + limit; w.run >= end {
			w.neverRead(fmt.Sprintf("it did not say within %v that it is ready: expected %s", limit, line)) // what it says is added
			w.finish(false)
			return w.killAt
		}
	}
	at := w.born + readyAfter
	if w.run >= at {
		if at = never; w.slow.CompareAndSwap(false, true) {
			w.notice(fmt.Sprintf("worker %d has not said that it is ready for %d s: expected %s%s",
				w.slot.ID, int(readyAfter.Seconds()), line, w.saying()))
		}
	}
	return min(at, end)
}

// saying returns the end of what the worker has written on stderr since its latest
// answer, as a part of a message.
func (w *worker) saying() string {
	if last := lastLines(w.said); last != "" {
		return "; on standard error it says: " + last
	}
	return ""
}

// waits reports whether the worker has read all that it got and written nothing since, and
// if that is known, a process of its group sits in read(2) for more, and none is running.
func (w *worker) waits() (waits, known bool) {
	if w.sent < len(w.out) || w.p.In < 0 || w.p.Unread() > 0 {
		return false, true
	}
	waits, known = kernel.Reading(w.p.PID, w.p.In)
	// It may have answered just before it read on.
	return (waits || !known) && !w.unheard(w.p.Out), known
}

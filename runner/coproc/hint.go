package coproc

import (
	"fmt"
	"time"

	"crew/runner/kernel"
	"crew/runner/task"
)

const (
	hintAfter = 3 * time.Second        // how long a record is unanswered when the user is asked whether its worker flushes
	hintAgain = 500 * time.Millisecond // when to look again if it has yet to read

	readyAfter = 10 * time.Second // how long a worker may say nothing that Life.Ready matches
)

// hint asks the user once per run about a worker that has read a record and answers nothing: it
// may be slow, or not flush. Once it has answered, it is slow. If no record will follow, hint
// closes the worker's stdin, at which a program writes what it has held back; one that is
// at work reads the end only later. It returns when it is to be called again.
func (w *worker) hint() time.Duration {
	if !w.ready {
		return w.unready()
	}
	last, asks := w.left != task.LeftMore || w.retired, w.answers == 0 && !w.hinted.Load()
	if w.placed == 0 || w.protocol == task.FilterProtocol || w.dismissed || !last && !asks {
		return never
	}
	f := w.flights[0]
	if at := f.since + hintAfter; w.run < at {
		return at
	}
	if w.read() < w.put || kernel.Readable(w.p.Out) {
		return w.run + hintAgain
	}
	if asks && w.hinted.CompareAndSwap(false, true) {
		w.tell(fmt.Sprintf("has not answered record %d for %d s: is it still at work, or does it not flush? "+
			"python -u, stdbuf -oL, jq --unbuffered, awk fflush()%s", f.record(), int(hintAfter.Seconds()), w.saying()))
	}
	if last {
		w.dismiss()
	}
	return never
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
			w.tell(fmt.Sprintf("has not said that it is ready for %d s: expected %s%s",
				int(readyAfter.Seconds()), line, w.saying()))
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

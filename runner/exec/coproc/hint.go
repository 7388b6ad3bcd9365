package coproc

import (
	"fmt"
	"time"

	"crew/runner/decide/task"
	"crew/runner/exec/kernel"
)

const (
	hintAfter = 3 * time.Second        // how long a record is unanswered when the user is asked whether its worker flushes
	hintAgain = 500 * time.Millisecond // when to look again if it has yet to read

	readyAfter = 10 * time.Second // how long a worker may say nothing that Life.Ready matches
)

// hint asks the user once per run about a worker that has read a record and answers nothing: it
// may be slow, or not flush. Once it has answered, it is slow. If no record will follow, hint
// closes the worker's stdin, at which a program writes what it has held back; one that is
// at work reads the end only later.
func (w *worker) hint() {
	if !w.ready {
		w.unready()
		return
	}
	last, asks := w.left != task.ExpectMore || w.retired, w.answers == 0 && !w.hinted.Load()
	if w.placed == 0 || w.protocol == task.FilterProtocol || w.dismissed || !last && !asks {
		return
	}
	f := w.flights[0]
	if !w.reached(f.since + hintAfter) {
		return
	}
	if w.read() < w.put || kernel.Readable(w.Out) {
		w.reached(w.run + hintAgain)
		return
	}
	if asks && w.hinted.CompareAndSwap(false, true) {
		w.tell(fmt.Sprintf("has not answered record %d for %d s: is it still at work, or does it not flush? "+
			"python -u, stdbuf -oL, jq --unbuffered, awk fflush()%s", f.record(), int(hintAfter.Seconds()), w.saying()))
	}
	if last {
		w.dismiss()
	}
}

// unready ends a worker that is not ready in time, and tells the user once per run of one
// that takes long.
func (w *worker) unready() {
	line := "a line on stdout that matches " + task.Quote(w.Ready.String())
	limit := w.Start
	switch {
	case limit > 0 && w.reached(w.born+limit):
		w.neverRead(fmt.Sprintf("it did not say within %v that it is ready: expected %s", limit, line)) // what it says is added
		w.finish(false)
	case w.reached(w.born+readyAfter) && w.slow.CompareAndSwap(false, true):
		w.tell(fmt.Sprintf("has not said that it is ready for %d s: expected %s%s",
			int(readyAfter.Seconds()), line, w.saying()))
	}
}

// saying returns the end of what the worker has written on stderr since its latest
// answer, as a part of a message.
func (w *worker) saying() string {
	if last := lastLines(w.said); last != "" {
		return "; on standard error it says: " + last
	}
	return ""
}

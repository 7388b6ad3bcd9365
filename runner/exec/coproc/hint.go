package coproc

import (
	"fmt"
	"time"

	"crew/runner/decide/task"
	"crew/runner/exec/kernel"
)

const (
	hintAfter = 3 * time.Second        // how long a record is unanswered before the user is asked whether its worker flushes
	hintRetry = 500 * time.Millisecond // pause before the next check if the worker still has to read

	readyAfter = 10 * time.Second // how long a worker may take to be ready before the user is told
)

// giveHint asks the user, once per run, about a worker that has read a record and does not answer: it
// may be slow, or it may not flush. A worker that has answered before is only slow. If no record will
// follow, giveHint closes the worker's stdin, which makes a program write the output that it has held
// back. A program that is still working reads the end later.
func (w *worker) giveHint() {
	if !w.ready {
		w.checkReady()
		return
	}
	last, asks := w.expects != task.ExpectMore || w.retired, w.answers == 0 && !w.hinted.Load()
	if w.encoded == 0 || w.protocol == task.FilterProtocol || w.dismissed || !last && !asks {
		return
	}
	f := w.attempts[0]
	if !w.reached(f.since + hintAfter) {
		return
	}
	if w.bytesRead() < w.encodedBytes || kernel.Readable(w.Out) {
		w.reached(w.now + hintRetry)
		return
	}
	if asks && w.hinted.CompareAndSwap(false, true) {
		w.notify(fmt.Sprintf("has not answered record %d for %d s: is it still at work, or does it not flush? "+
			"python -u, stdbuf -oL, jq --unbuffered, awk fflush()%s", f.record(), int(hintAfter.Seconds()), w.stderrHint()))
	}
	if last {
		w.closeStdin()
	}
}

// checkReady ends a worker that is not ready in time. It tells the user, once per run, about a worker
// that takes long.
func (w *worker) checkReady() {
	line := "a line on stdout that matches " + task.Quote(w.Ready)
	limit := w.Start
	switch {
	case limit > 0 && w.reached(w.born+limit):
		w.noteNeverRead(fmt.Sprintf("it did not say within %v that it is ready: expected %s", limit, line)) // workerDied adds its stderr
		w.endWorker(task.Cancelled, false)
	case w.reached(w.born+readyAfter) && w.slow.CompareAndSwap(false, true):
		w.notify(fmt.Sprintf("has not said that it is ready for %d s: expected %s%s",
			int(readyAfter.Seconds()), line, w.stderrHint()))
	}
}

// stderrHint returns the end of the worker's stderr since its latest answer, as the end of a
// message.
func (w *worker) stderrHint() string {
	if last := lastLines(w.recentStderr); last != "" {
		return "; on standard error it says: " + last
	}
	return ""
}

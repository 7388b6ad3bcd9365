package coproc

import (
	"cmp"
	"fmt"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"crew/runner/decide/task"
	"crew/runner/exec/kernel"
	"crew/runner/exec/proc"
)

// endWorker asks the worker to end, and kills it after the grace period if it has not ended. If kill is
// true, it kills it at once. For why see proc.Worker.Terminate. It does not wait: reap follows when the worker has exited.
func (w *worker) endWorker(why task.Outcome, kill bool) {
	grace := w.Limit.KillAfter
	if len(w.attempts) > 0 {
		grace = cmp.Or(w.attempts[0].Task.KillAfter, grace)
	}
	w.asked, w.retired = true, true
	kernel.Close(&w.In)
	w.Terminate(why, kill, grace)
}

// endHungUp ends a worker that has closed stdin or stdout and is still alive.
func (w *worker) endHungUp() {
	stream := "stdin"
	if w.Out < 0 {
		stream = "stdout"
	}
	w.noteNeverRead("it closed " + stream)
	if !w.asked && w.owesAnswer(w.bytesRead()) {
		w.badAnswer("none before it closed " + stream)
	}
	w.endWorker(task.Cancelled, false)
}

// noteNeverRead records why the worker is ended, if it has not read any record.
func (w *worker) noteNeverRead(why string) {
	if w.bytesRead() == 0 {
		w.neverReadWhy, w.encodedBytes, w.out = why, 0, nil // it will not read any
	}
}

// reap reaps a worker that has exited, and ends its attempts.
func (w *worker) reap() {
	if w.begun() > 0 {
		w.flushStderr()
	}
	read := w.bytesRead()
	w.pin.Release()
	ws := w.Reap()
	l, how := w.loop, cmp.Or(w.neverReadWhy, exitText(ws))
	worked := w.answers > 0 || read > 0 && !ws.Signaled()
	switch {
	case w.asked && w.neverReadWhy == "":
		worked = true
	case !w.dismissed:
		l.workerDied(how, w.recentStderr, worked, read > 0)
		if w.answers > 0 && w.begun() == 0 && ws != 0 {
			l.notify("ended while it had no record: " + how)
		}
	case w.begun() == 0 && ws != 0:
		l.notify("ended after its last answer: " + how)
	}
	took := w.attempts
	l.attempts = nil
	for i, f := range took {
		begun := i < w.begun() && f.begin < read
		known, alone := f.Outcome != 0, !w.asked
		filter := w.protocol == task.FilterProtocol && i == 0 && read > 0 && (known || alone)
		if filter {
			f.output, w.filterOutput = w.filterOutput, nil
			if ws != 0 && w.started > 1 {
				l.notify(fmt.Sprintf("failed somewhere in its %d blocks; the last one is reported", w.started))
			}
		}
		switch {
		case filter || known || begun && alone && (i == 0 || w.protocol == task.JSONProtocol):
			w.reportEnded(f, ws, how, begun)
		default:
			if s := f.output; s != nil && s.Err.To == nil && s.Err.Kept != nil && read > 0 { // otherwise workerDied has shown it
				_, _ = s.Err.Kept.WriteTo(w.strayWriter())
			}
			once := f.Task.Makes != nil || f.attempt().Origin().Once // another attempt needs new temporary names
			if !(once && begun) && l.expects != task.ExpectNone && (worked || w.dismissed) {
				l.unpublish(f.output)
				f.output.discard()
				l.addAttempt(f.attempt()) // for the next worker
			} else {
				w.report(f, task.Lost, nil).Unbegun = true
			}
		}
	}
	w.dropPartial()
	w.filterOutput.discard()
	if w.strayTo != nil {
		_ = w.strayTo.Close() // the sink reports an error to the run
		l.strayTo = nil
	}
	l.w = nil
}

// reportEnded ends an attempt that the worker had when it ended. The outcome is the attempt's own if it
// has one, and otherwise depends on the worker's exit.
func (w *worker) reportEnded(f *openAttempt, ws syscall.WaitStatus, how string, begun bool) {
	o, code, sig := proc.Classify(f.Outcome, ws)
	err := f.Err
	switch filter := w.protocol == task.FilterProtocol; {
	case f.Outcome != 0:
	case filter && o == task.OK && !begun && !w.dismissed:
		o, err = task.BadAnswer, fmt.Errorf("the filter ended before it read block %d: %s", f.record(), how)
	case filter:
	case o == task.OK:
		came := "none before it ended"
		if w.partial.Kept != nil || w.to > 0 {
			came = "half of one before it ended: " + w.excerpt(w.buf[:w.to])
		}
		o, err = task.BadAnswer, w.errUnexpected(f.Task.ID, came)
	default:
		err = fmt.Errorf("the worker ended before it answered: %s", how)
	}
	w.report(f, o, err)
	f.Code, f.Signal = code, sig
}

// exitText describes how a worker ended.
func exitText(ws syscall.WaitStatus) string {
	if ws.Signaled() {
		return "killed by " + unix.SignalName(ws.Signal())
	}
	return "exit status " + strconv.Itoa(ws.ExitStatus())
}

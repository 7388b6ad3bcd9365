package sink

import (
	"fmt"
	"time"

	"crew/runner/decide/task"
)

const (
	failuresFirst = 10               // failures that have a line each
	failuresEvery = 10 * time.Second // between two lines about others
	failureLabel  = 100              // bytes of a task's label
)

// Failures says on stderr that a task has failed, for good, when it happens: the first ten
// in a line each, and from then on in a line every ten seconds, so that they never flood
// what reads them. What it has not said is left to the digest.
type Failures struct {
	// configuration

	screen *Screen
	now    func() time.Time

	// state

	lines int       // that it has printed
	held  int       // failures that have no line yet
	only  string    // the line of the first of these
	next  time.Time // when they get one
}

// NewFailures returns a Failures that writes through screen.
func NewFailures(screen *Screen) *Failures { return &Failures{screen: screen, now: time.Now} }

// Consume prints lines about tasks that have failed. It never returns an error.
func (f *Failures) Consume(events []task.Event) error {
	for i := range events {
		// The end of the run tells of a command that nothing can run.
		if e := &events[i]; e.Kind == task.Finished && e.Result.Outcome.Failed() && !e.Result.Known() && !e.Result.BadCommand {
			if f.held++; f.held == 1 {
				f.only = f.line(e.Task, e.Result)
			}
			if f.lines < failuresFirst {
				f.say()
			}
		}
	}
	if f.held > 0 && !f.now().Before(f.next) {
		f.say()
	}
	return nil
}

// Close does nothing.
func (f *Failures) Close(task.Stats) error { return nil }

// say prints a line about the failures that have none, unless another program has the
// terminal.
func (f *Failures) say() {
	if !free(f.screen.err.w) {
		return
	}
	text := f.only
	if f.held > 1 {
		text = "crew: " + f.screen.red(fmt.Sprintf("%d more tasks failed", f.held)) + "\n"
	}
	f.screen.Say(text)
	f.lines++
	f.held, f.next = 0, f.now().Add(failuresEvery)
}

func (f *Failures) line(t *task.Task, r *task.Result) string {
	text := "crew: " + f.screen.red(fmt.Sprintf("task %d failed: %s", t.ID, r.Verdict()+task.LaterAttempt(r.Attempt)))
	if !t.NoArgs { // else the label is the number
		text += ": " + t.Label(failureLabel)
	}
	return text + "\n"
}

package sink

import (
	"fmt"
	"time"

	"crew/runner/decide/task"
)

const (
	failuresFirst = 10               // failures with a line of their own
	failuresEvery = 10 * time.Second // interval between lines about further failures
	failureLabel  = 100              // bytes of a task's label
)

// Failures prints failed tasks on stderr when they happen, after their last retry. It prints a line
// for each of the first ten, and then at most a line every ten seconds. Failures that it has not
// printed are left to the Digest.
type Failures struct {
	// configuration

	screen *Screen
	now    func() time.Time

	// state

	printed   int       // number of lines
	unprinted int       // number of failures without a line
	firstLine string    // line about the first of these
	due       time.Time // time of the next line
}

// NewFailures returns a Failures that writes to screen.
func NewFailures(screen *Screen) *Failures { return &Failures{screen: screen, now: time.Now} }

// Consume prints lines about failed tasks. It never returns an error.
func (f *Failures) Consume(events []task.Event) error {
	for i := range events {
		// A command that cannot be executed at all is reported when the run ends.
		if e := &events[i]; e.Kind == task.Finished && e.Result.Outcome.Failed() && !e.Result.FromEarlierRun() && !e.Result.BadCommand {
			if f.unprinted++; f.unprinted == 1 {
				f.firstLine = f.line(e.Task, e.Result)
			}
			if f.printed < failuresFirst {
				f.print()
			}
		}
	}
	if f.unprinted > 0 && !f.now().Before(f.due) {
		f.print()
	}
	return nil
}

// Close does nothing.
func (f *Failures) Close(task.Stats) error { return nil }

// print prints a line about the unprinted failures, unless another program has the terminal.
func (f *Failures) print() {
	if !mayWrite(f.screen.err.w) {
		return
	}
	text := f.firstLine
	if f.unprinted > 1 {
		text = "crew: " + f.screen.red(fmt.Sprintf("%d more tasks failed", f.unprinted)) + "\n"
	}
	f.screen.Say(text)
	f.printed++
	f.unprinted, f.due = 0, f.now().Add(failuresEvery)
}

func (f *Failures) line(t *task.Task, r *task.Result) string {
	text := "crew: " + f.screen.red(fmt.Sprintf("task %d failed: %s", t.ID, r.Verdict()+task.AttemptSuffix(r.Attempt)))
	if !t.NoArgs { // otherwise the label is the number
		text += ": " + t.Label(failureLabel)
	}
	return text + "\n"
}

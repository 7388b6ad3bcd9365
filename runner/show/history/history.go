// Package history reads what runs have left behind: joblogs, the results of --json,
// directories of --state, and what crew ctl watch --json prints. It tells all of them as
// the same lines, and folds lines into a Report.
package history

import (
	"crew/runner/decide/task"
	"crew/runner/steer/control"
)

// Began is the name of the event with which a run begins, or a resumed one goes on. Its
// Text is the command line, if that is known. Every source begins with one, and has one
// more for each further run.
const Began = "began"

// Over is the name of the event with which a run ended of its own, where the source tells
// that: a directory of --state and crew ctl watch --json do. Without it the run may go on,
// or was killed.
const Over = "over"

// Damaged is the name of the event at the end of a source some of which could not be read.
// Its Text says what was left out.
const Damaged = "damaged"

// Line is something that happened in a run, as crew ctl watch --json tells it: Began, Over
// and the events of control.Event. Of a joblog and of --json there are only Began, retried
// and finished.
//
// started has Task, Attempt, Worker, Host and Start. retried and finished have the facts
// of an attempt that ended; Worker is 0 where the source does not tell it, and Start is zero for a
// task that never ran. The attempts of a task come in order.
type Line struct {
	control.Event
	task.Facts
	Run    int    `json:"-"`     // of the source's runs, from 1 on; 0 for the one that began last
	Again  bool   `json:"again"` // finished: what became of the task then is void, as it was done again; only journals tell
	Output []byte `json:"-"`     // finished: the end of what a failed attempt wrote; valid until the next line
}

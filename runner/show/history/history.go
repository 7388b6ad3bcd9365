// Package history reads the records of earlier runs: joblogs, --json results, --state directories
// and the output of crew ctl watch --json. It turns each of them into the same stream of Lines, and
// a Fold turns Lines into a Report.
package history

import (
	"crew/runner/decide/task"
	"crew/runner/steer/control"
)

// Began is the name of the event that begins a run or resumes one. Its Text is the command line, or
// "" if that is unknown. Every source begins with a Began line and has another for each further run.
const Began = "began"

// Over is the name of the event of a run that ended by itself. Only --state directories and
// crew ctl watch --json record it. A run without it may still be running, or was killed.
const Over = "over"

// Left is the name of the event near the end of a --state directory. Its Count is how many tasks did not
// end, as far as they are known. The next run runs them.
const Left = "left"

// Damaged is the name of the event at the end of a source that could only be read in part. Its Text
// says what was left out.
const Damaged = "damaged"

// Line is one event of a run, as crew ctl watch --json prints it: Began, Over or an event of
// control.Event. Joblogs and --json results yield only Began, retried and finished.
//
// A started line has Task, Attempt, Worker, Host and, unless it is At, Start. A retried or finished line has the facts
// of an attempt that ended: Worker is 0 if the source does not record it, and Start is zero if the
// task never ran. Any line with Start has At. The attempts of a task come in order.
type Line struct {
	control.Event
	task.Facts
	Run    int    `json:"-"`     // number of the run in its source, from 1; 0 for the run that began last
	Again  bool   `json:"again"` // finished: this result is void, because the task ran again; only journals record it
	Output []byte `json:"-"`     // finished: the end of a failed attempt's output; valid until the next line

	Outcomes map[task.Outcome]int64 `json:"-"` // Over: the tasks of the run by outcome; nil if unknown
}

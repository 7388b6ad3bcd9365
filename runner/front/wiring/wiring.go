package wiring

import (
	"io"
	"os"

	"github.com/mattn/go-isatty"

	"crew/runner"
	"crew/runner/exec/jobserver"
	"crew/runner/exec/proc"
	"crew/runner/exec/spool"
	"crew/runner/front/cli"
	"crew/runner/keep/journal"
	"crew/runner/show/sink"
	"crew/runner/steer/control"
)

// Executor runs attempts. It is closed when none runs any more.
type Executor interface {
	runner.Executor
	io.Closer
}

// wiring makes a run of the packages that do the work. It holds what is open, so
// every path closes it.
type wiring struct {
	// configuration

	args    []string // the command line
	opts    *cli.Options
	plan    plan
	far     *Far // nil in crew
	in, out *os.File
	errs    *os.File
	screen  *sink.Screen

	// what is open

	times      *times // nil without --times
	share      *share // nil for all records
	source     *source
	total      *total
	inputTasks uint64 // number of tasks, if --halt needs it
	store      *spool.Store
	stdout     *sink.Stdout
	digest     *sink.Digest // nil if nobody reads it
	sinks      []runner.Sink
	control    *control.Server // nil if the run cannot be steered
	begun      chan struct{}   // closed once the run is made
	made       *runner.Run     // the run, once it is
	exec       runner.Executor // runs the tasks, once it is made
	hostFiles  []string        // of --ssh
	feed       *feed           // nil unless others feed the run
	signals    *runner.Signals
	lock       int               // descriptor of the file of --lock; 0 for none
	tokens     *jobserver.Tokens // nil if the places are shared with nobody
	worker     Worker            // nil unless its tasks are those of other runs
	detached   *DetachedRun      // nil unless it was handed over to a hub, whose process this is
	attached   Attached          // nil unless it shows the results of another run
	state      *journal.Journal  // nil without --state
	close      []func() error    // in order of opening
}

// onClose calls stop when the run is over.
func (w *wiring) onClose(stop func()) {
	w.close = append(w.close, func() error { stop(); return nil })
}

// remark says something, unless crew is to be silent while all is well.
func (w *wiring) remark(text string) {
	if !w.opts.Silent() {
		w.screen.Notice(text)
	}
}

// typed reports whether records are read from a terminal.
func (w *wiring) typed() bool { return w.opts.Input.ReadsStdin() && isatty.IsTerminal(w.in.Fd()) }

// outputs says what becomes of the outputs of tasks.
func (w *wiring) outputs() proc.Outputs {
	return proc.Outputs{Plan: w.plan.Plan, Store: w.store, Open: w.stdout.Open}
}

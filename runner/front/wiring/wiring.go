package wiring

import (
	"io"
	"os"
	"sync/atomic"

	"github.com/mattn/go-isatty"

	"crew/runner"
	"crew/runner/exec/jobserver"
	"crew/runner/exec/spool"
	"crew/runner/front/cli"
	"crew/runner/keep/journal"
	"crew/runner/keep/series"
	"crew/runner/show/sink"
	"crew/runner/steer/control"
)

// Executor is a runner.Executor that is closed after its last attempt has ended.
type Executor interface {
	runner.Executor
	io.Closer
}

// wiring assembles a run from the other packages. It holds everything that is open, so that
// every path closes it.
type wiring struct {
	// configuration

	command string // the command line, for display
	opts    *cli.Options
	plan    plan
	far     *Far // nil in crew
	in, out *os.File
	errs    *os.File
	screen  *sink.Screen

	// state

	times     *times // nil without --times
	share     *share // nil without --shard
	source    *source
	tasks     runner.Source // the source of the tasks: the input, or what takes its place
	total     *total
	input     sink.Input
	store     *spool.Store
	stdout    *sink.Stdout
	digest    *sink.Digest // nil if neither a person nor --notify reads it
	report    *reportSink  // nil without --report and --trace
	sinks     []runner.Sink
	control   *control.Server // nil if the run cannot be controlled
	curves    *series.Live    // nil like control
	made      chan struct{}   // closed once run is set
	resized   atomic.Bool     // a client has set the number of workers
	run       *runner.Run
	exec      runner.Executor
	hostFiles []string // the files that -S names
	feed      *feed    // nil unless clients add the tasks
	signals   *runner.Signals
	lock      int               // descriptor of the --lock file; 0 for none
	tokens    *jobserver.Tokens // nil if the run neither joins nor shares a jobserver
	worker    Worker            // nil except in crew worker
	detached  *DetachedRun      // nil unless this process submits a detached run for the hub
	attached  Attached          // nil unless this process shows the results of a detached run
	state     *journal.Journal  // nil without --state
	closers   []func() error    // in order of opening
}

// onEnd adds a function to call when the run is over. Functions are called in reverse order.
func (w *wiring) onEnd(stop func() error) { w.closers = append(w.closers, stop) }

// onClose is onEnd for a function that cannot fail.
func (w *wiring) onClose(stop func()) { w.onEnd(func() error { stop(); return nil }) }

// remark prints a notice, unless an option silences a run without problems.
func (w *wiring) remark(text string) {
	if !w.opts.Silent() {
		w.screen.Notice(text)
	}
}

// readsTerminal reports whether records are read from a terminal.
func (w *wiring) readsTerminal() bool {
	return w.opts.Input.ReadsStdin() && isatty.IsTerminal(w.in.Fd())
}

// outputs returns where the outputs of tasks go.
func (w *wiring) outputs() spool.Outputs {
	return spool.Outputs{Plan: w.plan.Plan, Store: w.store, Open: w.stdout.Open}
}

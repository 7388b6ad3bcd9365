package cli

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/mattn/go-isatty"

	"crew/runner"
	"crew/runner/catch"
	"crew/runner/input"
	"crew/runner/journal"
	"crew/runner/proc"
	"crew/runner/sink"
	"crew/runner/spool"
	"crew/runner/task"
)

const (
	// memoryBudget is what outputs may take in memory, all together; past it
	// they go to a temporary file.
	memoryBudget = 16 << 20
	// window is how many tasks may have ended and still wait for one before
	// them under --keep-order.
	window = 1 << 20
	// tick is how often sinks look around when nothing happens.
	tick = 200 * time.Millisecond
)

// Main is crew: it reads the command line, runs what it says and returns the
// exit status. Where a signal ended the run it does not return but dies by it.
func Main(args []string, stdin, stdout, stderr *os.File) int {
	catch.Reset(syscall.SIGQUIT) // for which Go has a trace of all goroutines
	if len(args) > 1 && args[1] == "state" {
		return stateCommand(args[2:], stdout, stderr)
	}
	if err := checkLimits(); err != nil {
		return complain(stderr, err)
	}
	opts, done, err := parse(args, os.Getenv, stdout, stderr)
	if err != nil {
		return complain(stderr, err)
	}
	if done {
		return statusOK
	}
	end := start(opts, stdin, stdout, stderr)
	for _, text := range end.last {
		_, _ = fmt.Fprintf(stderr, "crew: %s\n", text)
	}
	if end.err != nil {
		complain(stderr, end.err)
	}
	return end.exit()
}

// wiring holds what a run opens, so that every path closes it.
type wiring struct {
	opts   *Options
	stdin  *os.File
	screen *sink.Screen

	source     *source
	inputTasks uint64 // how many there are, where that was counted
	store      *spool.Store
	stdout     *sink.Stdout
	state      *journal.Journal // nil without --state
	close      []func() error
}

// start opens inputs, then outputs, runs, and closes all.
func start(opts *Options, stdin, stdout, stderr *os.File) (end ending) {
	w := &wiring{opts: opts, stdin: stdin, screen: sink.NewScreen(stdout, stderr)}
	defer func() {
		for i := len(w.close) - 1; i >= 0; i-- {
			if err := w.close[i](); err != nil && end.err == nil {
				end.err = err
			}
		}
	}()
	if err := w.open(); err != nil {
		return ending{err: err}
	}
	// Not before: a signal must end a crew that still waits for a header.
	commands := make(chan task.Command, 16)
	stop, err := runner.Signals(commands)
	if err != nil {
		return ending{err: err}
	}
	w.onClose(stop)
	if err := w.openState(); err != nil {
		return ending{err: err}
	}
	sinks, err := w.sinks()
	if err != nil {
		return ending{err: err}
	}
	exec, err := w.executor()
	if err != nil {
		return ending{err: err}
	}
	if opts.announces() {
		exec = sink.NewVerbose(w.screen).Before(exec)
	}
	cfg, err := w.config()
	if err != nil {
		return ending{err: err}
	}
	if file := opts.Pool.JobsFile; file != "" {
		w.onClose(watchJobs(file, opts.Pool.Jobs, commands, w.notice))
	}
	e, err := runner.Run(cfg, w.tasks(), w.recorded(exec), sinks, commands)
	if err != nil {
		return ending{err: err}
	}
	return w.ending(e)
}

// onClose has stop called when all is over.
func (w *wiring) onClose(stop func()) {
	w.close = append(w.close, func() error { stop(); return nil })
}

// open opens the input and the store.
func (w *wiring) open() error {
	o := w.opts
	if o.Pool.Workdir != "" {
		if _, err := os.Stat(o.Pool.Workdir + "/."); err != nil {
			return &usageError{
				"change to directory " + o.Pool.Workdir + ": " + errors.Unwrap(err).Error(),
				"give --workdir a directory that tasks can run in",
			}
		}
	}
	if readsStdin(o.Input) && isatty.IsTerminal(w.stdin.Fd()) {
		w.notice("reading tasks from the terminal: end with Ctrl-D")
	}
	from, stdin := o, w.stdin
	if o.Failure.Halt.Percent {
		c := &census{opts: *o, stdin: stdin}
		w.onClose(c.end)
		if err := c.take(); err != nil {
			return err
		}
		from, stdin, w.inputTasks = &c.opts, c.stdin, c.tasks
	}
	src, err := openSource(from, stdin)
	if err != nil {
		return err
	}
	// The input is never closed: the reader of a run that was stopped may still
	// stand in a read of it.
	w.source = src
	w.store = spool.New(memoryBudget, "")
	w.close = append(w.close, w.store.Close)
	return nil
}

// notice is a line of crew's own on stderr.
func (w *wiring) notice(text string) { w.screen.Notice(text) }

// sinks opens the outputs, in the order in which they look at results: the
// record first; stdout takes outputs away that have to wait for their turn, so
// it follows those that read them; the bar comes last.
func (w *wiring) sinks() ([]runner.Sink, error) {
	o := w.opts
	mode := map[string]sink.Mode{"group": sink.Group, "line": sink.Line, "raw": sink.Raw, "none": sink.None}[o.Output.Mode]
	cfg := sink.StdoutConfig{
		Mode: mode, KeepOrder: o.Output.KeepOrder, Tag: o.Output.Tag || o.Output.TagString != "", JSON: o.Output.JSON,
		Batches: o.Command.batches(), Store: w.store,
	}
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	terminal := sink.NewTerminal(w.screen, sink.TerminalConfig{Progress: w.progress()})
	w.stdout = sink.NewStdout(w.screen, cfg)

	sinks, last := w.recording(w.stdout)
	if o.Output.Joblog != "" {
		log, err := w.openJoblog(o.Output.Joblog)
		if err != nil {
			return nil, err
		}
		sinks = append(sinks, log)
	}
	if o.Output.Results != "" {
		tree, err := sink.OpenResults(o.Output.Results, o.Command.batches())
		if err != nil {
			return nil, err
		}
		sinks = append(sinks, tree)
	}
	if !o.Show.Quiet {
		sinks = append(sinks, sink.NewDigest(w.screen, w.source.rerun()))
	}
	if o.Show.Verbose && !o.announces() {
		sinks = append(sinks, sink.NewVerbose(w.screen))
	}
	return append(sinks, last, terminal), nil
}

// announces says whether commands are printed before their tasks start, which
// then may have to wait for whoever reads that: where tasks write by themselves.
func (o *Options) announces() bool {
	return o.Show.Verbose && (o.Output.Mode == "line" || o.Output.Mode == "raw")
}

// progress is what the bar does: nothing where tasks write past it.
func (w *wiring) progress() sink.Progress {
	switch o := w.opts; {
	case o.Output.Mode == "raw" || o.Show.Progress == "never":
		return sink.ProgressNever
	case o.Show.Progress == "always":
		return sink.ProgressAlways
	}
	return sink.ProgressAuto
}

// executor makes what runs the attempts.
func (w *wiring) executor() (runner.Executor, error) {
	o := w.opts
	if o.Show.DryRun {
		return sink.DryRun{Dir: o.Pool.Workdir}, nil
	}
	if err := proc.Nice(o.Pool.Nice); err != nil {
		return nil, fmt.Errorf("--nice %d: %w: only root may go below 0", o.Pool.Nice, err)
	}
	// An attempt is a thread while it runs.
	if most := o.Pool.Jobs + 2000; most > 10000 {
		debug.SetMaxThreads(most)
	}
	l, err := proc.New(proc.Config{
		Dir: o.Pool.Workdir, Env: os.Environ(), Timeout: o.Failure.Timeout, KillAfter: o.Failure.KillAfter,
		Capture: w.capture(), Store: w.store, Open: w.stdout.Open, Notice: w.notice,
	})
	if err != nil {
		return nil, err
	}
	w.close = append(w.close, l.Close)
	stop, err := l.JobControl()
	if err != nil {
		return nil, err
	}
	w.onClose(stop)
	return l, nil
}

func (w *wiring) capture() proc.Capture {
	switch o := w.opts.Output; {
	case o.Mode == "line":
		return proc.Stream
	case o.Mode == "raw":
		return proc.Inherit
	case o.Mode == "none" && o.Results == "":
		return proc.Discard
	}
	return proc.Keep
}

// config is how the run goes.
func (w *wiring) config() (runner.Config, error) {
	o := w.opts
	policy, err := newPolicy(o)
	if err != nil {
		return runner.Config{}, err
	}
	_, same := w.source.command()
	cfg := runner.Config{
		Pool: runner.Pool{
			Workers: o.Pool.Jobs, Policy: policy, Buffer: o.Pool.Buffer, PerKey: o.Sched.PerKey, Delay: o.Pool.Delay,
		},
		Order:     runner.Order{Keep: o.Output.KeepOrder, Window: window},
		Retry:     retry(o.Failure),
		Halt:      halt(o.Failure.Halt, w.inputTasks),
		KillAfter: o.Failure.KillAfter,
		Tick:      tick,

		Explain:     o.Show.Verbose,
		SameCommand: same,
	}
	if o.Sched.Topics.Auto {
		cfg.Pool.Procs = hereProcessors()
	}
	cfg.Retry.Keep = o.Output.showsAttempts()
	return cfg, nil
}

// ending is how the run ended, as the exit status wants to know it.
func (w *wiring) ending(e runner.Ending) ending {
	end := ending{signal: syscall.Signal(e.Signal), failed: e.Stats.Failed()}
	switch {
	case errors.Is(e.Err, syscall.EPIPE):
		end.signal = syscall.SIGPIPE
	case end.signal == syscall.SIGHUP && errors.Is(e.Err, syscall.EIO):
		// The terminal has gone away, as the signal said.
	case e.Err != nil:
		end.err = e.Err
	case e.Unshown:
		w.screen.Urge("nobody reads stdout: what had not been written there is lost")
	}
	for _, err := range e.More {
		w.screen.Urge(err.Error())
	}
	if n := e.Abandoned; n > 0 && !e.Unshown {
		w.screen.Urge(fmt.Sprintf("gave up waiting for tasks that were killed and did not end: %d", n))
	}
	if r := e.BadCommand; r != nil {
		if errors.Is(r.Err, proc.ErrInVain) { // it may have run before
			end.start = statusTrouble
			end.last = append(end.last, r.Err.Error())
		} else {
			end.start = r.Code
			end.last = append(end.last, fmt.Sprintf("%v: no task can run it", r.Err)+w.opts.Command.whyNoShell())
		}
	}
	if text := w.unkept(); text != "" {
		end.last = append(end.last, text)
	}
	if end.signal != 0 {
		end.last = nil // who asked for the end does not wait for a reader
	}
	switch h := w.opts.Failure.Halt; {
	case h.On == "fail" && h.N == 1 && !h.Percent, h.On == "success":
		end.halt = e.Halted
	}
	return end
}

// inputFormat says how records are cut.
func inputFormat(o Input) input.Format {
	f := input.Format{Delimiter: o.Delim, Colsep: o.Colsep, Header: o.Header}
	switch {
	case o.CSV:
		f.Kind = input.CSV
	case o.JSON:
		f.Kind = input.JSON
	}
	return f
}

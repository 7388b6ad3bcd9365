package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/mattn/go-isatty"

	"crew/runner"
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

// Executor runs attempts, and is closed when none runs any more.
type Executor interface {
	runner.Executor
	io.Closer
}

// Main is crew: it reads the command line, runs what it says on the executor
// that exec makes, and returns the exit status. Where a signal ended the run it
// does not return but dies by it.
func Main(args []string, stdin, stdout, stderr *os.File, exec func(proc.Config) (Executor, error)) int {
	if len(args) > 1 && args[1] == "state" {
		return stateCommand(args[2:], stdout, stderr)
	}
	opts, done, err := parse(args, os.Getenv, stdout, stderr)
	if err == nil && !done {
		err = checkLimits(opts)
	}
	if err != nil {
		return complain(stderr, err)
	}
	if done {
		return statusOK
	}
	w := &wiring{opts: opts, plan: opts.plan(), newExecutor: exec, in: stdin, out: stdout, screen: sink.NewScreen(stdout, stderr)}
	end := w.run()
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
	// configuration

	opts        *Options
	plan        task.Plan
	newExecutor func(proc.Config) (Executor, error)
	in, out     *os.File
	screen      *sink.Screen

	// what is open

	source     *source
	inputTasks uint64 // how many there are, where that was counted
	store      *spool.Store
	stdout     *sink.Stdout
	state      *journal.Journal // nil without --state
	close      []func() error
}

// run opens inputs, then outputs, runs, and closes all.
func (w *wiring) run() (end ending) {
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
	signals, err := runner.CatchSignals()
	if err != nil {
		return ending{err: err}
	}
	w.onClose(signals.Release)
	r, err := w.newRun()
	if err != nil {
		return ending{err: err}
	}
	signals.Serve(r)
	w.watch(r)
	return w.ending(r.Wait())
}

// newRun opens the outputs and makes the run.
func (w *wiring) newRun() (*runner.Run, error) {
	if err := w.openState(); err != nil {
		return nil, err
	}
	sinks, err := w.sinks()
	if err != nil {
		return nil, err
	}
	exec, err := w.executor()
	if err != nil {
		return nil, err
	}
	if w.announces() {
		exec = sink.NewVerbose(w.screen).Before(exec)
	}
	cfg, err := w.config()
	if err != nil {
		return nil, err
	}
	return runner.New(cfg, w.tasks(), exec, w.recorder(), sinks)
}

// watch has the run follow the file of --jobs, if there is one.
func (w *wiring) watch(r *runner.Run) {
	pool := w.opts.Pool
	if pool.JobsFile == "" {
		return
	}
	do := func(cmd task.Command) { r.Do(cmd) }
	if pool.Jobs == 0 {
		follow(1, 0, pool.JobsFile, do, w.notice)
	}
	w.onClose(watchJobs(pool.JobsFile, pool.Jobs, do, w.notice))
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
	if readsStdin(o.Input) && isatty.IsTerminal(w.in.Fd()) {
		w.notice("reading tasks from the terminal: end with Ctrl-D")
	}
	from, stdin := o, w.in
	if o.Failure.Halt.Percent {
		c := &taskCount{opts: *o, stdin: stdin}
		w.onClose(c.close)
		if err := c.count(); err != nil {
			return err
		}
		from, stdin, w.inputTasks = &c.opts, c.stdin, c.tasks
	}
	src, err := openSource(from, stdin)
	if err != nil {
		return err
	}
	// The input is never closed: the reader of a run that was stopped may still
	// be in a read of it.
	w.source = src
	w.store = spool.New(memoryBudget, "")
	w.close = append(w.close, w.store.Close)
	return nil
}

// notice is a line of crew's own on stderr.
func (w *wiring) notice(text string) { w.screen.Notice(text) }

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
	exec, err := w.newExecutor(proc.Config{
		Dir: o.Pool.Workdir, Env: os.Environ(), Plan: w.plan, Store: w.store, Open: w.stdout.Open, Notice: w.notice,
		RunDelay: o.Sched.Topics.Auto,
	})
	if err != nil {
		return nil, err
	}
	w.close = append(w.close, exec.Close)
	return exec, nil
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
			Workers: max(1, o.Pool.Jobs), Policy: policy, Buffer: o.Pool.Buffer, Bytes: o.Pool.BufferBytes,
			PerKey: o.Sched.PerKey, Delay: o.Pool.Delay,
		},
		Order: runner.Order{Keep: o.Output.KeepOrder, Window: window},
		Limit: runner.Limit{Timeout: o.Failure.Timeout, KillAfter: o.Failure.KillAfter},
		Retry: retry(o.Failure),
		Halt:  halt(o.Failure.Halt, w.inputTasks),
		Tick:  tick,

		SameCommand: same,
	}
	if o.Sched.Topics.Auto {
		cfg.Pool.Procs = hereProcessors()
	}
	cfg.Retry.Keep = w.plan.KeepsAttempts()
	return cfg, nil
}

// ending is what is left to do once the run has ended.
func (w *wiring) ending(e runner.Ending) ending {
	end := ending{status: statusOf(e, w.opts.Failure.Halt)}
	hungUp := e.Signal == int(syscall.SIGHUP) && errors.Is(e.Err, syscall.EIO) // the terminal has gone away, as the signal said
	switch {
	case e.Reason == runner.Broken && !hungUp:
		end.err = e.Err
	case e.Reason == runner.Told || hungUp:
		end.signal = syscall.Signal(e.Signal)
	case e.Reason == runner.BadCommand && end.status == statusTrouble:
		end.last = append(end.last, e.Result.Err.Error())
	case e.Reason == runner.BadCommand:
		end.last = append(end.last, fmt.Sprintf("%v: no task can run it", e.Result.Err)+w.opts.Command.whyNoShell())
	}
	if e.Unshown && end.err == nil {
		w.screen.Urge("nobody reads stdout: what had not been written there is lost")
	}
	for _, err := range e.More {
		w.screen.Urge(err.Error())
	}
	if n := e.Abandoned; n > 0 && !e.Unshown {
		w.screen.Urge(fmt.Sprintf("gave up waiting for tasks that were killed and did not end: %d", n))
	}
	if text := w.unkept(); text != "" {
		end.last = append(end.last, text)
	}
	end.last = append(end.last, w.missing(e)...)
	if end.signal != 0 || e.Reason == runner.Unread {
		end.last = nil // who asked for the end does not wait for a reader
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

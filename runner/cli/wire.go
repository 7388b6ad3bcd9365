// Package cli is crew's command line. It parses the options, makes the Configs of
// the other packages from them, connects these packages to a run, and returns the
// exit status. It is the only package that imports urfave/cli.
package cli

import (
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"slices"
	"syscall"
	"time"

	"github.com/mattn/go-isatty"

	"crew/runner"
	"crew/runner/control"
	"crew/runner/core"
	"crew/runner/jobserver"
	"crew/runner/journal"
	"crew/runner/proc"
	"crew/runner/sink"
	"crew/runner/spool"
	"crew/runner/task"
	"crew/sched"
)

const (
	memoryBudget = 16 << 20               // bytes of output in memory; the rest goes to a temporary file
	window       = 1 << 20                // tasks that --keep-order may admit beyond the first unreleased one
	tick         = 200 * time.Millisecond // how often the sinks are called while nothing happens
)

// Executor runs attempts. It is closed when none runs any more.
type Executor interface {
	runner.Executor
	io.Closer
}

// Main runs crew with a command line and returns its exit status. If a signal ended
// the run, Main does not return: the process dies by that signal.
func Main(args []string, stdin, stdout, stderr *os.File, programs Programs) int {
	if len(args) > 1 {
		switch args[1] {
		case "help":
			return helpCommand(args, stdin, stdout, stderr, programs)
		case "state":
			return stateCommand(args[2:], stdout, stderr)
		case "ctl":
			return ctlCommand(args, programs, stdin, stdout, stderr)
		case "engine":
			if !attaches(args[1:]) {
				return engineCommand(args, programs, stdout, stderr)
			}
		}
	}
	opts, done, err := parse(args, os.Getenv, stdout, stderr)
	if err == nil && !done {
		if programs.Far == nil && (opts.Engine.Worker || opts.far() || opts.Engine.Attach != "") {
			err = becomeEngine(args)
		} else {
			err = opts.ready(stdin)
		}
	}
	if err != nil {
		return complain(stderr, err)
	}
	if done {
		return statusOK
	}
	w := &wiring{
		args: args, opts: opts, plan: opts.plan(), programs: programs,
		in: stdin, out: stdout, errs: stderr, screen: sink.NewScreen(stdout, stderr), begun: make(chan struct{}),
	}
	end := w.run()
	for _, text := range end.last {
		w.screen.Last(text)
	}
	if end.err != nil {
		w.screen.Last(end.err.Error())
	}
	return end.exit()
}

// wiring makes a run of the packages that do the work. It holds what is open, so
// every path closes it.
type wiring struct {
	// configuration

	args     []string // the command line
	opts     *Options
	plan     task.Plan
	programs Programs
	in, out  *os.File
	errs     *os.File
	screen   *sink.Screen

	// what is open

	source     *source
	total      *total
	inputTasks uint64 // number of tasks, if --halt needs it
	store      *spool.Store
	stdout     *sink.Stdout
	control    *control.Server // nil if the run cannot be steered
	begun      chan struct{}   // closed once the run is made
	made       *runner.Run     // the run, once it is
	exec       runner.Executor // runs the tasks, once it is made
	feed       *feed           // nil unless others feed the run
	signals    *runner.Signals
	lock       int               // descriptor of the file of --lock; 0 for none
	tokens     *jobserver.Tokens // nil if the places are shared with nobody
	worker     Worker            // nil unless its tasks are those of other runs
	attached   Attached          // nil unless it shows the results of another run
	state      *journal.Journal  // nil without --state
	close      []func() error    // in order of opening
}

// run opens inputs and outputs, runs the tasks, and closes everything.
func (w *wiring) run() (end ending) {
	defer func() {
		for _, closeOne := range slices.Backward(w.close) {
			if err := closeOne(); err != nil && end.err == nil {
				end.err = err
			}
		}
	}()
	if err := w.takeLock(); err != nil {
		return ending{err: err}
	}
	if err := w.openInput(); err != nil {
		return ending{err: err}
	}
	w.store = spool.New(memoryBudget, "")
	w.close = append(w.close, w.store.Close)
	if err := w.openWorker(); err != nil {
		return ending{err: err}
	}
	// Not earlier: a signal must end a crew that waits for a header, or for the engine.
	signals, err := runner.CatchSignals()
	if err != nil {
		return ending{err: err}
	}
	w.onClose(signals.Release)
	w.signals = signals
	signals.Gentle = w.opts.Serve.On || w.opts.Engine.Worker
	r, err := w.newRun()
	if err != nil {
		return ending{err: err}
	}
	w.made = r
	close(w.begun)
	if err := w.announce(); err != nil {
		return ending{err: err}
	}
	signals.Serve(r, w.status, w.screen.Hide)
	if file := w.opts.Pool.JobsFile; file != "" {
		do := func(cmd task.Command) { r.Do(cmd) }
		w.onClose(watchJobs(file, w.opts.Pool.Jobs, do, w.screen.Notice))
	}
	return w.ending(r.Wait())
}

// onClose calls stop when the run is over.
func (w *wiring) onClose(stop func()) {
	w.close = append(w.close, func() error { stop(); return nil })
}

// openInput opens the input, which stays open: the reader of a stopped run may
// still be blocked in it.
func (w *wiring) openInput() (err error) {
	o := w.opts
	if o.Pool.PTY && !o.Show.DryRun && !o.far() {
		if err := proc.HasPTYs(); err != nil {
			return &usageError{"--pty needs pseudo-terminals: " + err.Error(), "drop --pty"}
		}
	}
	switch {
	case o.Pool.TTY && w.typed():
		return &usageError{"--tty gives the terminal to the tasks", "give the records with :::, -a FILE or a pipe"}
	case o.Pool.TTY && !o.Show.DryRun && !proc.HasTerminal():
		return &usageError{"--tty needs a terminal, and crew has none", "drop --tty"}
	case w.typed():
		w.screen.Notice("reading tasks from the terminal: end with Ctrl-D")
	}
	if u := o.wholeLines(); u != nil && !o.silent() {
		w.screen.Notice(u.spelled + " takes lines as they are: -C ' +' splits them at blanks")
	}
	if o.Command.takesFound() && !o.silent() {
		w.screen.Notice("{} after find's -exec is the record, too, and not what find has found: -I @ has @ stand for the record")
	}
	stdin := w.in
	w.total = newTotal(o, stdin)
	w.onClose(w.total.close)
	if o.Failure.Halt.Percent {
		c := &taskCount{opts: *o, stdin: stdin}
		w.onClose(c.close)
		if err := c.count(); err != nil {
			return err
		}
		o, stdin, w.inputTasks = &c.opts, c.stdin, c.tasks
		w.total.set(c.tasks)
	}
	w.source, err = openSource(o, stdin)
	w.total.source = w.source
	return err
}

// typed reports whether records are read from a terminal.
func (w *wiring) typed() bool { return w.opts.Input.readsStdin() && isatty.IsTerminal(w.in.Fd()) }

// newRun opens the outputs and makes the run.
func (w *wiring) newRun() (*runner.Run, error) {
	if err := w.openState(); err != nil {
		return nil, err
	}
	w.openFeed()
	sinks, err := w.sinks()
	if err != nil {
		return nil, err
	}
	if err := w.attach(); err != nil {
		return nil, err
	}
	if err := w.openTokens(); err != nil {
		return nil, err
	}
	exec, err := w.executor()
	if err != nil {
		return nil, err
	}
	w.exec = exec
	if x, ok := exec.(recordingExecutor); ok && w.state != nil {
		sinks = slices.Insert(sinks, 1, x.Sink())
	} else if ok && w.opts.Engine.Detach {
		sinks = append(sinks, x.Sink())
	}
	sinks = w.openControl(exec, sinks)
	if w.announces() {
		exec = announce(exec, sink.NewVerbose(w.screen))
	}
	cfg, err := w.config()
	if err != nil {
		return nil, err
	}
	var in runner.Source = w.source.tasks
	var rec runner.Recorder // nil without --state
	if w.state != nil {
		in, rec = w.state.Source(w.source.tasks), w.state
	}
	if w.feed != nil {
		in = w.feed
	} else if w.worker != nil {
		in, sinks = w.worker, append([]runner.Sink{w.worker}, sinks...)
	} else if w.attached != nil {
		in = tagged{w.attached, w.source.tasks.Tag}
	}
	return runner.New(cfg, in, exec, rec, sinks)
}

func (w *wiring) executor() (runner.Executor, error) {
	o := w.opts
	if o.Show.DryRun {
		return sink.DryRun{Dir: o.Pool.Workdir, Terminal: isatty.IsTerminal(w.out.Fd())}, nil
	}
	if err := proc.Nice(o.Pool.Nice); err != nil {
		return nil, fmt.Errorf("--nice %d: %w: only root may go below 0", o.Pool.Nice, err)
	}
	// A running attempt takes a thread, and crew ctl can make the pool larger.
	debug.SetMaxThreads(max(o.Pool.Jobs, 100_000) + 2000)
	switch {
	case w.attached != nil:
		return w.attached, nil
	case o.far():
		return w.submit()
	}
	cfg := proc.Config{
		Dir: o.Pool.Workdir, Env: w.environ(), Plan: w.plan, Store: w.store, Open: w.stdout.Open,
		Notice: w.screen.Notice, RunDelay: o.Sched.Topics.Auto, Terminal: o.Pool.TTY, PTY: o.Pool.PTY,
	}
	if w.worker != nil {
		return w.workLocally(cfg)
	}
	exec, err := w.local(cfg)
	if err != nil {
		return nil, err
	}
	if o.Coproc.Words != "" {
		return w.workers(exec.(*proc.Local))
	}
	return exec, nil
}

// local returns the executor of tasks on this machine.
func (w *wiring) local(cfg proc.Config) (Executor, error) {
	exec, err := w.programs.Local(cfg)
	if err != nil {
		return nil, err
	}
	w.close = append(w.close, exec.Close)
	if l, ok := exec.(*proc.Local); ok && w.lock != 0 {
		l.Hold(w.lock)
	}
	return exec, nil
}

func (w *wiring) config() (core.Config, error) {
	o := w.opts
	policy := sched.Config{Name: o.Sched.Policy, Topics: o.Sched.Topics}
	if o.Sched.LongestFirst {
		policy.Name = "longest-first"
	}
	p, err := sched.New(policy)
	cfg := core.Config{
		Pool: core.Pool{
			Workers: max(1, o.Pool.Jobs), Window: o.Coproc.Window, Remote: o.far(), Policy: p,
			Buffer: o.Pool.Buffer, Bytes: o.Pool.BufferBytes, Few: o.Pool.BufferFew, PerKey: o.Sched.PerKey, Delay: o.Pool.Delay,
		},
		Order: core.Order{Keep: o.Output.KeepOrder, Window: window},
		Limit: core.Limit{Timeout: o.Failure.Timeout, KillAfter: o.Failure.KillAfter},
		Retry: core.Retry{
			Max: o.Failure.Retries, Delay: o.Failure.RetryDelay, MaxDelay: o.Failure.RetryMaxDelay,
			On: o.Failure.RetryOn.match, Jitter: rand.Float64, Keep: w.plan.KeepsAttempts(),
		},
		Halt: o.Failure.Halt,
		Feed: core.Feed{
			Open: o.fed() && w.attached == nil, MaxQueued: o.Serve.MaxQueued, IdleExit: o.Serve.IdleExit, Remember: o.Serve.On || o.State.Dir != "",
		},
		Tick: tick,

		SameCommand: w.source.sameCommand(),
	}
	if o.Sched.Topics.Auto {
		if cfg.Pool.Procs = hereProcessors(); cfg.Pool.Remote {
			cfg.Pool.Procs = math.MaxInt // other machines have their own
		}
	}
	cfg.Halt.Tasks = w.inputTasks
	if w.tokens != nil {
		cfg.Pool.Tokens = w.tokens
	}
	if !o.Show.DryRun {
		cfg.Pool.Jitter = rand.N(o.Pool.Jitter + 1)
		cfg.Limit.Run, cfg.Limit.Until = o.Failure.Deadline.After, o.Failure.Deadline.Until
	}
	return cfg, err
}

// ending returns what remains to do after a run that ended with e.
func (w *wiring) ending(e core.Ending) ending {
	if w.opts.Serve.On {
		e.Stats = e.Stats.Own()
	}
	end := ending{status: statusOf(e, w.opts.Failure.Halt)}
	if w.worker != nil && end.status == statusFailed {
		end.status = statusOK // that is for the tasks' own runs to tell
	}
	// After SIGHUP the terminal is gone, so writing to it fails.
	hungUp := e.Signal == int(syscall.SIGHUP) && errors.Is(e.Err, syscall.EIO)
	switch {
	case e.Reason == core.Broken && !hungUp:
		end.err = e.Err
	case e.Reason == core.Told || hungUp:
		end.signal, end.group = syscall.Signal(e.Signal), e.Interrupted
	case e.Reason == core.BadCommand && end.status == statusTrouble:
		end.last = append(end.last, e.Result.Err.Error())
	case e.Reason == core.BadCommand:
		end.last = append(end.last, w.opts.Command.cannotRun(e.Result.Err))
	}
	if err := w.detached(e); err != nil {
		end.err = err
	}
	if o := w.opts; e.Stats.InputEnd && e.Stats.Admitted == 0 && o.mayLackColons() && !o.Show.Quiet && !o.Pipe.On &&
		!o.Input.SkipEmpty && o.Input.Shard.Of == 0 && !w.typed() {
		what := "values"
		if len(o.words()) == 0 {
			what = "commands"
		}
		end.last = append(end.last, "nothing ran, because standard input holds no records: "+
			"to give "+what+" on the command line, put ::: before them")
	}
	if e.Stats.InputEnd && e.Stats.Admitted > 0 {
		end.last = append(end.last, w.source.opts.share.notes(w.opts)...)
	}
	if e.Unshown && end.err == nil {
		w.screen.Urge("nobody reads stdout: what had not been written there is lost")
	}
	if n := w.stdout.Lost(); n > 0 && e.Reason != core.Unread {
		w.screen.Urge(w.lostText(n))
	}
	for _, err := range e.More {
		w.screen.Urge(err.Error())
	}
	if n := e.Abandoned; n > 0 && !e.Unshown {
		w.screen.Urge(fmt.Sprintf("gave up waiting for tasks that were killed and did not end: %d", n))
	}
	if end.signal != 0 || e.Reason == core.Unread {
		end.last = nil // exit without waiting for a reader of stderr
	} else if w.state != nil {
		end.last = append(end.last, w.stateNotes(e)...)
	}
	return end
}

// lostText says that n results could not be shown, and how to see them.
func (w *wiring) lostText(n int64) string {
	text := fmt.Sprintf("%d results could not be shown: nobody reads stdout any more", n)
	if n == 1 {
		text = "1 result could not be shown: nobody reads stdout any more"
	}
	if w.state != nil && w.plan.Recalls() {
		text += ": the same command shows what --state has kept"
	}
	return text
}

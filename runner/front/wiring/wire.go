// Package wiring carries out command lines. It turns cli.Options into the Configs of the other packages,
// connects these packages to form a run, and returns the exit status.
package wiring

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/mattn/go-isatty"

	"crew/runner"
	"crew/runner/decide/task"
	"crew/runner/exec/proc"
	"crew/runner/exec/spool"
	"crew/runner/exec/target"
	"crew/runner/front/cli"
	"crew/runner/show/sink"
	"crew/sched"
)

const memoryBudget = 16 << 20 // bytes of output in memory; the rest goes to a temporary file

// Main runs crew with a command line and returns its exit status. If a signal ended
// the run, Main does not return: the process dies by that signal. far is nil in crew, which
// replaces itself by crew-engine for anything that involves other machines.
func Main(args []string, stdin, stdout, stderr *os.File, far *Far) int {
	o, err := cli.Parse(args, os.Getenv)
	if err != nil {
		return printError(stderr, err)
	}
	tool, verb, _ := strings.Cut(o.Do, " ")
	switch {
	case o.Completion != nil:
		err = printText(stdout, o.Completion.Text(candidates(o.Completion)))
	case o.Print != "":
		err = printText(stdout, o.Print)
	case far == nil && o.Linked():
		err = becomeEngine(args)
	case tool == "state":
		err = showState(o.Ctl.Run, o.Ctl.JSON, stdout)
	case tool == cli.DoReport || tool == cli.DoWeb:
		err = web(o, stdout)
	case tool == "ctl":
		o.Ctl.Op = verb
		err = (&ctl{Ctl: &o.Ctl, far: far, in: stdin, out: stdout, errs: stderr}).do()
	case tool == "engine" && o.Do != cli.DoAttach:
		err = runEngine(o, verb, far, stdout, stderr)
	default:
		return run(args, o, far, stdin, stdout, stderr)
	}
	return printError(stderr, err)
}

// printText prints text on stdout or stderr.
func printText(f *os.File, text string) error {
	if _, err := (sink.Patient{Writer: f}).Write([]byte(text)); err != nil {
		return fmt.Errorf("write to %s: %w", filepath.Base(f.Name()), task.WithoutPath(err))
	}
	return nil
}

// run runs the tasks of a command line and returns the exit status.
func run(args []string, o *cli.Options, far *Far, stdin, stdout, stderr *os.File) int {
	p, err := newPlan(o, os.Getenv, isatty.IsTerminal(stderr.Fd()))
	if err == nil {
		err = checkReady(o, p, stdin)
	}
	if err != nil {
		return printError(stderr, err)
	}
	w := newWiring(args, o, p, far, stdin, stdout, stderr)
	end := w.execute()
	if end.err != nil {
		end.say(end.err.Error())
	}
	for _, text := range end.last {
		w.screen.Urgent(text)
	}
	w.notify(end)
	return end.exit()
}

func newWiring(args []string, o *cli.Options, p plan, far *Far, stdin, stdout, stderr *os.File) *wiring {
	store := spool.New(memoryBudget, "")
	return &wiring{
		command: commandLine(args), opts: o, plan: p, far: far,
		in: stdin, out: stdout, errs: stderr, screen: sink.NewScreen(stdout, stderr),
		store: store, closers: []func() error{store.Close}, made: make(chan struct{}),
	}
}

// execute opens everything that the run needs, runs the tasks, and closes everything again.
func (w *wiring) execute() (end ending) {
	defer func() {
		for _, closeOne := range slices.Backward(w.closers) {
			if err := closeOne(); err != nil && end.err == nil {
				end.err = err
			}
		}
	}()
	if w.opts.Engine.Detach {
		return w.detach()
	}
	for _, open := range []func() error{
		w.takeLock, w.openInput, w.checkResults, w.openWorker, w.openReport, w.openState,
		w.catchSignals, // not earlier: a signal must end a crew that waits for a header, the engine, crew-web or another crew
		w.reportResumed, w.openFeed, w.openSinks, w.attach, w.openTokens, w.openExecutor, w.openCurves, w.openControl, w.makeRun, w.announce,
	} {
		if err := open(); err != nil {
			return ending{err: err}
		}
	}
	w.signals.Serve(w.run, w.status, w.screen.HideBar)
	if file := w.plan.file; file != "" {
		do := func(cmd task.Command) { w.run.Do(cmd) }
		w.onClose(watchJobs(file, w.plan.jobs, do, w.screen.Notice))
	}
	if w.plan.auto != nil {
		w.onClose(adjustJobs(w.plan.auto, w.run.Do, &w.resized))
	}
	w.watchHosts()
	e := w.run.Wait()
	if w.detached != nil {
		return w.finishDetached(e)
	}
	return w.ending(e)
}

func (w *wiring) catchSignals() (err error) {
	if w.signals, err = runner.CatchSignals(); err == nil {
		w.onClose(w.signals.Release)
		w.signals.TermDrains = w.opts.Do == cli.DoServe || w.opts.Do == cli.DoWork
	}
	return err
}

// openInput opens the input. It is never closed: the reader of a stopped run may still be
// blocked in it.
func (w *wiring) openInput() (err error) {
	o := w.opts
	if o.Pool.PTY && !o.Show.DryRun && !o.Far() {
		if err := proc.HasPTYs(); err != nil {
			return misuse("--pty needs pseudo-terminals: "+err.Error(), "drop --pty")
		}
	}
	switch {
	case o.Pool.TTY && w.readsTerminal():
		return misuse("--tty gives the terminal to the tasks", "give their values with :::, -a FILE or a pipe")
	case o.Pool.TTY && !o.Show.DryRun && !proc.HasTerminal():
		return misuse("--tty needs a terminal, and crew has none", "drop --tty")
	case w.readsTerminal():
		w.screen.Notice(o.TerminalNotice())
	}
	if typed := o.WholeLines(); typed != "" {
		w.remark(typed + " takes lines as they are: -C ' +' splits them at blanks")
	}
	if o.Command.ReplacesFindBraces() {
		w.remark("crew replaces the {} of find's -exec by the record: with -I @, it replaces @ instead")
	}
	if w.times, err = openTimes(o); err != nil {
		return err
	}
	w.share = openShare(o, w.times)
	stdin, counted := w.in, o.Failure.Halt.Percent && !o.Engine.Detach // before the run
	if counted {
		if o, stdin, err = w.copyInput(); err != nil {
			return err
		}
	}
	w.total = newTotal(o, stdin)
	w.onClose(w.total.close)
	if w.source, err = openSource(o, w.plan.jobs, w.share, stdin); err != nil {
		return err
	}
	halt := &w.plan.limits.Halt
	w.total.source, w.tasks, halt.SameCommand = w.source, w.source.tasks, w.source.sameCommand()
	if counted {
		n, _ := w.total.get(forever) // if the input breaks, the run will report the error
		halt.Tasks = uint64(n)
	}
	if h := w.detached; h != nil { // its record brings the tasks and says what they need
		w.tasks, halt.Tasks, halt.SameCommand = h.Source, h.Tasks, h.SameCommand
		w.total.set(h.Tasks)
	}
	return nil
}

// makeRun makes the run from everything that was opened.
func (w *wiring) makeRun() error {
	o, cfg := w.opts, &w.plan.limits
	cfg.Queue.Policy = sched.New(cmp.Or(o.Sched.Order, o.Sched.Policy), o.Sched.Topics)
	cfg.Pool.Workers, cfg.Pool.Jitter = max(1, w.plan.jobs), rand.N(o.Pool.Jitter+1)
	if w.tokens != nil {
		cfg.Pool.Tokens = w.tokens
	}
	var rec runner.Recorder // nil without --state
	if w.state != nil {
		if err := w.state.Begin(); err != nil {
			return err
		}
		rec = w.state
	}
	if w.times != nil && o.Sched.Order != "" {
		w.tasks = completingSource{w.tasks, w.times.setCost}
	}
	if w.plan.announces {
		rec = announcer{cmp.Or[runner.Recorder](rec, nullRecorder{}), sink.NewVerbose(w.screen)}
	}
	w.run = runner.New(*cfg, w.tasks, w.exec, rec, append(w.firstSinks(), w.sinks...))
	w.watchMachine()
	if w.detached != nil && w.detached.Paused {
		w.run.Do(task.Command{Op: task.Pause})
	}
	if o.Makes.Any() {
		w.run.SetMaker(w.newMaker())
	}
	close(w.made)
	return nil
}

// newMaker returns the Maker of tasks that make files.
func (w *wiring) newMaker() runner.Maker {
	o, journaled, dir := w.opts, w.state != nil, w.opts.Pool.Workdir
	if o.Elsewhere() {
		dir = "" // --workdir is a directory of the other machines
	}
	return target.New(target.Config{
		Dir: dir, Always: o.Makes.Always, DryRun: o.Show.DryRun, Directories: journaled && o.Do == cli.DoRun && !o.Elsewhere(), Journal: journaled,
		FewThreads: proc.SavesThreads(w.plan.processes), Notice: w.screen.Notice,
	})
}

// firstSinks returns the sinks that get events before any sink that may block on a reader. A worker's
// sink comes before the journal's, so that the runs learn the results first.
func (w *wiring) firstSinks() (sinks []runner.Sink) {
	if w.worker != nil {
		sinks = append(sinks, w.worker)
	}
	if w.state != nil {
		sinks = append(sinks, w.state.Commit())
	}
	if w.control != nil {
		sinks = append(sinks, w.control.Sink(), w.curves)
	}
	if x, ok := w.exec.(interface{ Sink() runner.Sink }); ok && w.state != nil {
		sinks = append(sinks, x.Sink())
	}
	return sinks
}

// openExecutor sets the executor that runs the tasks.
func (w *wiring) openExecutor() (err error) {
	w.exec, err = w.executor()
	return err
}

func (w *wiring) executor() (runner.Executor, error) {
	o := w.opts
	if o.Show.DryRun || w.attached != nil {
		return sink.DryRun{Terminal: isatty.IsTerminal(w.out.Fd())}, nil
	}
	if err := proc.Nice(o.Pool.Nice); err != nil {
		return nil, fmt.Errorf("--nice %d: %w: only root may go below 0", o.Pool.Nice, err)
	}
	// Each running attempt may take a thread, and crew ctl can enlarge the pool.
	debug.SetMaxThreads(max(w.plan.jobs, 100_000) + 2000)
	if o.Far() {
		return w.submit()
	}
	cfg := proc.Config{
		Dir: o.Pool.Workdir, Env: w.environ(), Outputs: w.outputs(),
		Notice: w.screen.Notice, Terminal: o.Pool.TTY, PTY: o.Pool.PTY,
		Limit: o.Failure.Limit.Limit, Resources: proc.Resources{Processes: w.plan.processes},
	}
	if o.Makes.Any() {
		cfg.Spare = target.Descriptors()
	}
	if w.worker != nil { // it sends all output to the tasks' own runs
		cfg.Plan = task.Plan{Show: task.ShowNothing, Copy: true}
	}
	exec, err := proc.New(cfg)
	if err != nil {
		return nil, err
	}
	w.onEnd(exec.Close)
	if w.lock != 0 {
		exec.HoldOpen(w.lock)
	}
	if w.tokens != nil {
		exec.GuardTokens(w.tokens)
	}
	if w.worker == nil && o.Coproc.Words == "" {
		return exec, nil
	}
	return w.workerExecutor(exec), nil
}

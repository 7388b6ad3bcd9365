// Package wiring carries command lines out: it makes the Configs of the other packages
// from cli.Options, connects these packages to a run, and returns the exit status.
package wiring

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/mattn/go-isatty"

	"crew/runner"
	"crew/runner/decide/core"
	"crew/runner/decide/task"
	"crew/runner/exec/coproc"
	"crew/runner/exec/proc"
	"crew/runner/exec/spool"
	"crew/runner/exec/target"
	"crew/runner/front/cli"
	"crew/runner/show/sink"
	"crew/sched"
)

const memoryBudget = 16 << 20 // bytes of output in memory; the rest goes to a temporary file

// Main runs crew with a command line and returns its exit status. If a signal ended
// the run, Main does not return: the process dies by that signal. far is nil in crew,
// which becomes crew-engine if anything concerns other machines.
func Main(args []string, stdin, stdout, stderr *os.File, far *Far) int {
	task.SetZone()
	o, err := cli.Parse(args, os.Getenv)
	if err != nil {
		return complain(stderr, err)
	}
	tool, verb, _ := strings.Cut(o.Do, " ")
	switch {
	case o.Completion != nil:
		err = printText(stdout, o.Completion.Text(candidates(o.Completion)))
	case o.Print != "":
		err = printText(stdout, o.Print)
	case tool == "state":
		err = showState(o.Ctl.Run, o.Ctl.JSON, stdout)
	case tool == cli.DoReport || tool == cli.DoWeb:
		err = web(o, stdout)
	case tool == "ctl":
		err = (&ctl{Ctl: &o.Ctl, verb: verb, line: args, far: far, in: stdin, out: stdout, errs: stderr}).do()
	case tool == "engine" && o.Do != cli.DoAttach:
		err = engine(o, verb, far, args, stdout, stderr)
	default:
		return run(args, o, far, stdin, stdout, stderr)
	}
	return complain(stderr, err)
}

// printText prints what was asked for instead of a run.
func printText(stdout io.Writer, text string) error {
	if _, err := io.WriteString(stdout, text); err != nil {
		return fmt.Errorf("write to stdout: %w", err)
	}
	return nil
}

// run runs the tasks of a command line and returns the exit status.
func run(args []string, o *cli.Options, far *Far, stdin, stdout, stderr *os.File) int {
	p, err := planOf(o, os.Getenv, isatty.IsTerminal(stderr.Fd()))
	switch {
	case err != nil:
	case far == nil && (o.Do == cli.DoWork || o.Do == cli.DoAttach || o.Far()):
		err = becomeEngine(args)
	default:
		err = ready(o, p, stdin)
	}
	if err != nil {
		return complain(stderr, err)
	}
	w := newWiring(args, o, p, far, stdin, stdout, stderr)
	end := w.run()
	for _, text := range end.last {
		w.screen.Urgent(text)
	}
	if end.err != nil {
		w.screen.Urgent(end.err.Error())
	}
	w.notify(end)
	return end.exit()
}

func newWiring(args []string, o *cli.Options, p plan, far *Far, stdin, stdout, stderr *os.File) *wiring {
	store := spool.New(memoryBudget, "")
	return &wiring{
		args: args, opts: o, plan: p, far: far,
		in: stdin, out: stdout, errs: stderr, screen: sink.NewScreen(stdout, stderr),
		store: store, close: []func() error{store.Close}, begun: make(chan struct{}),
	}
}

// run opens what the run needs, runs the tasks, and closes everything.
func (w *wiring) run() (end ending) {
	defer func() {
		for _, closeOne := range slices.Backward(w.close) {
			if err := closeOne(); err != nil && end.err == nil {
				end.err = err
			}
		}
	}()
	if w.opts.Engine.Detach {
		return w.detach()
	}
	for _, open := range []func() error{
		w.takeLock, w.openInput, w.countDetached, w.checkResults, w.openWorker, w.openState,
		w.catchSignals, // not earlier: a signal must end a crew that waits for a header, for the engine, or for another crew
		w.tellState, w.openFeed, w.openSinks, w.attach, w.openTokens, w.openExecutor, w.openControl, w.makeRun, w.announce,
	} {
		if err := open(); err != nil {
			return ending{err: err}
		}
	}
	w.signals.Serve(w.made, w.status, w.screen.HideBar)
	if file := w.plan.file; file != "" {
		do := func(cmd task.Command) { w.made.Do(cmd) }
		w.onClose(watchJobs(file, w.plan.jobs, do, w.screen.Notice))
	}
	w.watchHosts()
	e := w.made.Wait()
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

// openInput opens the input, which stays open: the reader of a stopped run may
// still be blocked in it.
func (w *wiring) openInput() (err error) {
	o := w.opts
	if o.Pool.PTY && !o.Show.DryRun && !o.Far() {
		if err := proc.HasPTYs(); err != nil {
			return misuse("--pty needs pseudo-terminals: "+err.Error(), "drop --pty")
		}
	}
	switch {
	case o.Pool.TTY && w.typed():
		return misuse("--tty gives the terminal to the tasks", "give their values with :::, -a FILE or a pipe")
	case o.Pool.TTY && !o.Show.DryRun && !proc.HasTerminal():
		return misuse("--tty needs a terminal, and crew has none", "drop --tty")
	case w.typed():
		w.screen.Notice(o.Typing())
	}
	if typed := o.WholeLines(); typed != "" {
		w.remark(typed + " takes lines as they are: -C ' +' splits them at blanks")
	}
	if o.Command.TakesFound() {
		w.remark("{} after find's -exec is the record, too, and not what find has found: -I @ has @ stand for the record")
	}
	if w.times, err = openTimes(o); err != nil {
		return err
	}
	w.share = openShare(o, w.times)
	stdin := w.in
	if o.Failure.Halt.Percent && !o.Engine.Detach {
		if o, stdin, err = w.copyInput(); err != nil {
			return err
		}
	}
	w.total = newTotal(o, stdin)
	w.onClose(w.total.close)
	if w.source, err = openSource(o, w.plan.jobs, w.share, stdin); err != nil {
		return err
	}
	w.total.source = w.source
	if o.Failure.Halt.Percent && !o.Engine.Detach {
		n, _ := w.total.get(forever) // if the input breaks, the run will report the error
		w.inputTasks = uint64(n)
	}
	return nil
}

// makeRun makes the run of all that is open.
func (w *wiring) makeRun() error {
	o, cfg := w.opts, &w.plan.limits
	policy, err := sched.New(sched.Config{Name: cmp.Or(o.Sched.Order, o.Sched.Policy), Topics: o.Sched.Topics})
	if err != nil {
		return err
	}
	cfg.Queue.Policy, cfg.Pool.Workers = policy, max(1, w.plan.jobs)
	cfg.Halt.Tasks, cfg.Halt.SameCommand = w.inputTasks, w.sameCommand()
	if w.tokens != nil {
		cfg.Pool.Tokens = w.tokens
	}
	if !o.Show.DryRun {
		cfg.Pool.Jitter = rand.N(o.Pool.Jitter + 1)
	}
	var in runner.Source = w.source.tasks
	var rec runner.Recorder // nil without --state
	if w.detached != nil {
		in, cfg.Feed.Remember = w.detached.Source, false
	}
	if w.state != nil {
		in, rec = w.state.Source(in), w.state
	}
	if w.times != nil && o.Sched.Order != "" {
		in = completed{in, w.times.price}
	}
	if w.plan.announces {
		rec = announced{cmp.Or[runner.Recorder](rec, unrecorded{}), sink.NewVerbose(w.screen)}
	}
	switch {
	case w.feed != nil:
		in = w.feed
	case w.worker != nil:
		in = w.worker
	case w.attached != nil:
		in = completed{w.attached, w.source.tasks.Tag}
	}
	if w.made, err = runner.New(*cfg, in, w.exec, rec, append(w.firstSinks(), w.sinks...)); err != nil {
		return err
	}
	w.watchMachine()
	if w.detached != nil && w.detached.Paused {
		w.made.Do(task.Command{Op: task.Pause})
	}
	if o.Makes.Any() {
		kept, dir := w.state != nil, o.Pool.Workdir
		if o.Elsewhere() {
			dir = "" // that one is on the other machines
		}
		var m runner.Maker = target.New(target.Config{
			Dir: dir, Always: o.Makes.Always, DryRun: o.Show.DryRun, Directories: kept && o.Do == cli.DoRun && !o.Elsewhere(), Journal: kept,
			Notice: w.screen.Notice,
		})
		if proc.SavesThreads(w.plan.processes) {
			m = &inTurn{Maker: m}
		}
		w.made.SetMaker(m)
	}
	close(w.begun)
	return nil
}

// firstSinks lists the sinks that get events before those that can wait for a reader: the journal's
// behind that of a worker, whose runs are told first.
func (w *wiring) firstSinks() (sinks []runner.Sink) {
	if w.worker != nil {
		sinks = append(sinks, w.worker)
	}
	if w.state != nil {
		sinks = append(sinks, w.state.Commit())
	}
	if w.control != nil {
		sinks = append(sinks, w.control.Sink())
	}
	if x, ok := w.exec.(interface{ Sink() runner.Sink }); ok && w.state != nil {
		sinks = append(sinks, x.Sink())
	}
	return sinks
}

// inTurn is a Maker that ends one attempt at a time, since each may block a thread.
type inTurn struct {
	runner.Maker
	mu sync.Mutex
}

func (m *inTurn) End(r *task.Result) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.Maker.End(r)
}

// openExecutor makes what runs the tasks.
func (w *wiring) openExecutor() (err error) {
	w.exec, err = w.executor()
	return err
}

func (w *wiring) executor() (runner.Executor, error) {
	o := w.opts
	if o.Show.DryRun {
		return sink.DryRun{Terminal: isatty.IsTerminal(w.out.Fd())}, nil
	}
	if err := proc.Nice(o.Pool.Nice); err != nil {
		return nil, fmt.Errorf("--nice %d: %w: only root may go below 0", o.Pool.Nice, err)
	}
	// A running attempt takes a thread, and crew ctl can make the pool larger.
	debug.SetMaxThreads(max(w.plan.jobs, 100_000) + 2000)
	switch {
	case w.attached != nil:
		return w.attached, nil
	case o.Far():
		return w.submit()
	}
	cfg := proc.Config{
		Dir: o.Pool.Workdir, Env: w.environ(), Outputs: w.outputs(),
		Notice: w.screen.Notice, Terminal: o.Pool.TTY, PTY: o.Pool.PTY,
		Idle: o.Failure.Limit.Idle > 0, Processes: w.plan.processes,
	}
	if o.Makes.Any() {
		cfg.Spare = target.Descriptors()
	}
	if w.worker != nil { // which takes all output
		cfg.Plan = task.Plan{Show: task.ShowNothing, Copy: true}
	}
	exec, err := proc.New(cfg)
	if err != nil {
		return nil, err
	}
	w.close = append(w.close, exec.Close)
	if w.lock != 0 {
		exec.Hold(w.lock)
	}
	if w.tokens != nil {
		exec.Keep(w.tokens)
	}
	if w.worker == nil && o.Coproc.Words == "" {
		return exec, nil
	}
	return w.workers(coproc.Config{Local: exec, Stray: w.stray, Life: lifeOf(o.Coproc.Life, o.Failure.Limit)}), nil
}

// ending returns what remains to do after a run that ended with e.
func (w *wiring) ending(e core.Ending) ending {
	o := w.opts
	if o.Do == cli.DoServe {
		e.Stats = e.Stats.Own()
	}
	end := ending{status: statusOf(e, o.Failure)}
	say := func(lines ...string) { end.last = append(end.last, lines...) }
	if w.worker != nil && end.status == statusFailed {
		end.status = statusOK // that is for the tasks' own runs to tell
	}
	// After SIGHUP the terminal is gone, so writing to it fails.
	hungUp := e.Signal == int(syscall.SIGHUP) && errors.Is(e.Err, syscall.EIO)
	switch {
	case e.Reason == core.Broken && !hungUp:
		end.err = e.Err
	case e.Reason == core.Requested || hungUp:
		end.signal, end.group = syscall.Signal(e.Signal), e.Interrupted
	case e.Reason == core.BadCommand && end.status == statusTrouble:
		say(e.Result.Err.Error())
	case e.Reason == core.BadCommand:
		say(o.CannotRun(e.Result.Err, e.Result.Code))
	}
	lost := w.stdout.LostOutput()
	if w.attached != nil && e.Reason == core.Completed && !e.Unshown && !lost {
		end.err = w.attached.Forget() // all results were shown
		status, early := w.attached.Ended()
		if end.status = status; early != "" {
			say("run " + o.Ctl.Run + " has ended early: " + early)
		}
	}
	if e.Stats.InputEnd && e.Stats.Admitted == 0 && o.MayLackColons() && !o.Any("quiet pipe no-run-if-empty shard") && !w.typed() {
		what := "values"
		if len(o.Words()) == 0 {
			what = "commands"
		}
		say("nothing ran, because standard input holds no tasks: to give " + what + " on the command line, put ::: before them")
	}
	if e.Stats.InputEnd && e.Stats.Admitted > 0 {
		say(w.times.notes(o)...)
	}
	if o.Do == cli.DoRun && !o.Input.ReadsStdin() && !o.Any("quiet quiet-success dry-run") && strayInput(w.in) {
		say("standard input was not read: add :::: - to take values from it, or have the tasks read a file")
	}
	if e.Unshown && end.err == nil {
		w.screen.TryUrgent("nobody reads stdout: what had not been written there is lost")
	}
	if lost && e.Reason != core.PipeClosed {
		text := "results could not be shown: nobody reads stdout any more"
		if w.state != nil && w.plan.Recalls() {
			text += ": the same command shows what --state has kept"
		}
		w.screen.TryUrgent(text)
	}
	for _, err := range e.More {
		w.screen.TryUrgent(err.Error())
	}
	if n := e.Abandoned; n > 0 && !e.Unshown {
		w.screen.TryUrgent(fmt.Sprintf("gave up waiting for tasks that were killed and did not end: %d", n))
	}
	if end.signal != 0 || e.Reason == core.PipeClosed {
		end.last = nil // exit without waiting for a reader of stderr
	} else if w.state != nil {
		say(stateNotes(w.state, w.plan.Plan, e, o.Makes.Any() || o.Silent() || o.Fed())...)
	}
	return end
}

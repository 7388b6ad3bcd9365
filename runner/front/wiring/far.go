package wiring

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"crew/runner"
	"crew/runner/decide/task"
	"crew/runner/exec/spool"
	"crew/runner/front/cli"
	"crew/runner/keep/journal"
	"crew/runner/steer/control"
)

const (
	// engineProgram is the program that links the NATS library, so that the start of crew does not pay
	// for it.
	engineProgram = "crew-engine"
	// EngineProtocol is the version of the command line that crew passes to crew-engine.
	EngineProtocol = 2
	// RelayVerb makes crew-engine connect its standard input, a client of crew ctl, to a run. Like SubmitVerb,
	// it looks like an option, so that it is not the name of a user's command.
	RelayVerb = "--relay"
	// SubmitVerb makes crew-engine submit a detached run.
	SubmitVerb = "--submit"

	installHint = "run CGO_ENABLED=0 go install ./... in crew's source"
)

// Far holds the functions of crew-engine that need the NATS library.
type Far struct {
	Submit func(*Call) (Executor, error)
	Detach func(ctx context.Context, c *Call, orders Orders, tasks runner.Source) (run string, err error)
	Work   func(*Call) (Worker, error)
	Attach func(*Call) (Attached, error)
	Engine func(c *Call, verb string) error
	Leave  func(c *Call, each func(leave func(line []byte) error) error) error
}

// Call is a command line for crew-engine, with the functions and files of crew that it needs.
type Call struct {
	*cli.Options
	Notice func(string)
	Ready  func()   // called when crew engine serve is ready, or runs can find the worker, perhaps again
	Out    *os.File // of crew engine

	// of runs and workers

	spool.Outputs // of tasks; crew worker and crew engine attach use only the Store
	Do            func(task.Command) task.Reply
	Make          func(t *task.Task, names, caps []string) error // expands the worker's command with the task's Records and Object

	// of runs. The executor adds slots to the run and removes them. If it has a method Sink, that sink gets events
	// after the journal.

	Hosts            []cli.Host                // of -S; there is no URL then
	Names            []string                  // of columns
	Env              []string                  // of tasks
	Transfer, Return func(*task.Task) []string // files to copy to and from the workers; nil for none
	Journal          *journal.Journal          // nil without --state
	ServeClient      func(control.Link)        // passes a client to the run's control server

	// Arrive adds the tasks of a request from another machine under an ID, unless it has already done so.
	// err is nil once they are in the journal; later says that the same call may succeed later. Arrive is
	// nil if the run has no name, or has no journal that remembers the ID. Calls must not overlap.
	Arrive func(id string, line []byte) (later bool, err error)
}

// Attached fetches the results of a detached run. It yields the tasks in input order, each with its
// result, once it has ended.
type Attached interface {
	runner.Source
	Tasks() uint64 // number of tasks
	// Finish removes the run from the hub after all tasks were shown. It returns the exit status of the
	// run, and why it ended early, if it did.
	Finish() (status int, early string, err error)
	Close() error
}

// Worker takes tasks from the engine and sends back their results.
type Worker interface {
	runner.Source // blocks until the run is over
	runner.Sink
	Executor(local Executor) Executor // returns the executor for the tasks of other runs; local runs them
	Host() string                     // name of the worker
}

// runEngine carries out a command of crew engine.
func runEngine(o *cli.Options, verb string, far *Far, out, errs *os.File) error {
	c := &Call{Options: o, Out: out, Notice: func(text string) { printError(errs, errors.New(text)) }}
	c.Ready = func() { tellReady("crew engine "+verb, c.Notice) }
	return far.Engine(c, verb)
}

// call returns what crew-engine needs for the run.
func (w *wiring) call() *Call {
	o, s := w.opts, w.source
	c := &Call{
		Options: o, Notice: w.screen.Notice, Ready: w.workerReady, Outputs: w.outputs(), Do: w.do,
		Names: s.reader.Names(), Transfer: pathsFunc(s.transfer), Return: pathsFunc(s.returns), Journal: w.state, ServeClient: w.serveClient,
	}
	for _, name := range o.Engine.Env {
		if value, ok := os.LookupEnv(name); ok {
			c.Env = append(c.Env, name+"="+value)
		}
	}
	c.Env = withoutUnits(c.Env, o.AllCaps())
	return c
}

// submit makes the executor of a run on other machines.
func (w *wiring) submit() (Executor, error) {
	c := w.call()
	if w.feed != nil && w.state != nil && c.Control.Name != "" {
		c.Arrive = w.feed.Arrive
	}
	var err error
	if c.Hosts, err = w.hosts(); err != nil {
		return nil, err
	}
	exec, err := w.far.Submit(c)
	if err != nil {
		return nil, err
	}
	w.onEnd(exec.Close)
	w.onClose(w.signals.Release) // before exec.Close, so that a signal ends its wait
	return exec, nil
}

// serveClient passes a client of crew ctl on another machine to the control server.
func (w *wiring) serveClient(l control.Link) {
	if <-w.made; w.control == nil {
		_ = l.Close()
		return
	}
	w.control.ServeClient(l)
}

// relayCommand returns the path and the arguments of the program that connects to a run on another
// machine. It returns nil if run names no such run.
func relayCommand(run string) (words []string, err error) {
	url, name, far := cli.FarRun(run)
	switch {
	case !far:
		return nil, nil
	case name == "":
		return nil, misuse(run+" names no run", "write engine:URL/RUN, as crew engine status lists it")
	}
	path, err := findProgram(engineProgram, "a run elsewhere", installHint)
	return append([]string{path}, task.HelperCommand(engineProgram, EngineProtocol, RelayVerb, url, name)...), err
}

// hosts returns the hosts of -S.
func (w *wiring) hosts() (list []cli.Host, err error) {
	o := w.opts
	if len(o.Engine.Hosts) == 0 {
		return nil, nil
	}
	list, w.hostFiles, err = cli.Hosts(o.Engine.Hosts)
	for i := range list {
		if list[i].Slots == 0 && o.Pool.Jobs != "" {
			list[i].Slots = w.plan.jobs
		}
	}
	return list, err
}

// hostsInterval is how often the files of -S are checked for changes.
const hostsInterval = time.Second

// watchHosts rereads the files of -S whenever they change, so that hosts join and leave the run. A pipe
// cannot be read again: if one of the files is a pipe, none is reread.
func (w *wiring) watchHosts() {
	x, ok := w.exec.(interface{ SetHosts([]cli.Host) })
	pipe := func(file string) bool {
		st, err := os.Stat(file)
		return err == nil && !st.Mode().IsRegular()
	}
	if !ok || len(w.hostFiles) == 0 || slices.ContainsFunc(w.hostFiles, pipe) {
		return
	}
	w.onClose(watchFiles(w.hostFiles, hostsInterval, func(err error) {
		if path, missing := errors.AsType[*os.PathError](err); missing {
			err = fmt.Errorf("%s: %w", path.Path, path.Err)
		} else {
			var list []cli.Host
			if list, err = w.hosts(); err == nil {
				x.SetHosts(list)
			}
		}
		if err != nil {
			go w.screen.Notice(fmt.Sprintf("%v: the hosts stay as they are", err))
		}
	}))
}

// becomeEngine replaces this process by crew-engine. It returns only if that fails.
func becomeEngine(args []string) error {
	return become("this", installHint, task.HelperCommand(engineProgram, EngineProtocol, args[1:]...))
}

// become replaces this process by the helper program args[0]. It returns only if that fails. See findProgram.
func become(something, hint string, args []string) error {
	path, err := findProgram(args[0], something, hint)
	if err != nil {
		return err
	}
	return &os.PathError{Op: "execute", Path: path, Err: syscall.Exec(path, args, os.Environ())}
}

// EngineArgs returns the command line as crew got it. It returns an error if the crew that became
// crew-engine has another version of EngineProtocol.
func EngineArgs(args []string) ([]string, error) {
	words, err := task.HelperWords(args, EngineProtocol, 0, "crew worker, crew engine or crew --engine URL")
	return append([]string{"crew"}, words...), err
}

// findProgram returns the path of a helper program of crew. It looks beside this program first, and
// then in PATH. The error says that something needs the program.
func findProgram(name, something, hint string) (string, error) {
	own, _ := os.Executable()             // fails without /proc
	real, _ := filepath.EvalSymlinks(own) // on darwin it may be a link
	for _, beside := range [...]string{own, real, ""} {
		if path, err := exec.LookPath(filepath.Join(filepath.Dir(beside), name)); err == nil {
			return path, nil
		}
	}
	return "", errors.New(something + " needs the program " + name + ", which is neither beside crew nor in PATH: " + hint)
}

package wiring

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"crew/runner"
	"crew/runner/decide/core"
	"crew/runner/decide/task"
	"crew/runner/exec/proc"
	"crew/runner/exec/spool"
	"crew/runner/front/cli"
	"crew/runner/steer/control"
)

const (
	// engineProgram is the program that links the NATS library, so that the start of crew does not pay
	// for it.
	engineProgram = "crew-engine"
	// EngineProtocol is the version of the command line that crew passes to crew-engine.
	EngineProtocol = 1
	// RelayVerb makes crew-engine connect its standard input, a client of crew ctl, to a run.
	RelayVerb = "relay"
	// SubmitVerb makes crew-engine submit a detached run.
	SubmitVerb = "submit"

	installHint = "run go install ./... in crew's source"
)

// Far holds the functions of crew-engine that need the NATS library.
type Far struct {
	Submit func(Submission) (Executor, error)
	Detach func(ctx context.Context, h Detachment, fill func(add func(*task.Task) error) error) (run string, err error)
	Work   func(Work) (Worker, error)
	Attach func(Attachment) (Attached, error)
	Engine func(EngineCall) error
	Leave  func(Leaving) (leave func(line []byte) error, end func(), err error)
}

// Leaving describes where requests to add tasks are left: at a hub, for a crew serve. A request is a
// single line.
type Leaving struct {
	URL    string
	Name   string        // of the crew serve, which need not run yet
	Wait   time.Duration // how long to wait for a hub that is down or full
	Notice func(string)
}

// Submission describes a run on other machines. The executor that is made from it adds
// slots to the run and removes them. If the executor has a method Sink, that sink gets events after the
// journal.
type Submission struct {
	Place
	Load
	proc.Outputs
	Notice      func(string)
	Do          func(task.Command) task.Reply
	ServeClient func(control.Link) // passes a client to the run's control server

	// Arrive adds the tasks of a request that was left for this run at the hub under an ID, unless it has
	// already done so. The hub brings the request again as long as later is true. Arrive is nil if the run
	// has no name, or has no journal that remembers the ID.
	Arrive func(id string, line []byte) (later bool, err error)
}

// Place says where the tasks of a run go, and whether they resume an earlier run.
type Place struct {
	cli.Engine
	cli.State
	Hosts []cli.Host // of -S; there is no URL then
	Name  string     // of --name; "" for none
}

// Load describes the needs of a run's tasks on the workers.
type Load struct {
	Command Template
	Life    Life   // of persistent workers
	Window  int    // records that a slot holds at a time
	Workdir string // "" for the worker's own
	Env     []string
	PTY     bool // with Hosts: tasks write to pseudo-terminals
	Limit   core.Limit
	Bound   task.Bound
	Files   Files `json:"-"`
	Sign    string
	Needs   bool // tasks may need resources that workers offer
}

// Attachment names a detached run, to show its results.
type Attachment struct {
	URL, Run string
	Store    *spool.Store // of outputs
	Notice   func(string)
}

// Attached fetches the results of a detached run. As a Source it yields the tasks in input order, each
// once it has ended; as an Executor it returns the result instead of running the task.
type Attached interface {
	runner.Source
	Executor
	Tasks() uint64                     // number of tasks
	Ended() (status int, early string) // exit status, and why the run ended early, if it did
	Forget() error                     // removes the run from the engine
}

// Life says how long a persistent worker on another machine lives, as given by the options.
type Life = task.Life

// Template describes the command that runs values, or the command of persistent workers.
type Template struct {
	Words   []string
	Shell   string
	Replace string
	Stdin   bool // the record goes to standard input
	NoArgs  bool
	Objects bool // the records are JSON objects

	Protocol task.Protocol // of persistent workers; Words is then their command

	Names []string // of columns
	Caps  []string // names of limits
}

// Options returns the options that come with the command's words, quoted for a shell.
func (t *Template) Options() (words []string) {
	add := func(on bool, word string) {
		if on {
			words = append(words, word)
		}
	}
	add(t.Replace != "" && t.Replace != "{}", "-I "+task.Quote(t.Replace))
	add(t.Shell != "", "--shell "+task.Quote(t.Shell))
	add(t.Stdin, "--stdin")
	add(t.NoArgs, "-n0")
	add(t.Objects, "--input json")
	add(t.Protocol == task.NULProtocol, "--worker-protocol nul")
	add(t.Protocol == task.JSONProtocol, "--worker-protocol json")
	add(t.Protocol != task.NoProtocol, "--worker")
	return words
}

// Files describes the files that are copied to and from the workers.
type Files struct {
	Base             []string
	Transfer, Return func(*task.Task) []string // nil for none
	Makes, Stdout    bool                      // tasks have a Making, whose files are copied back; Stdout is one of them
	Cleanup          bool
}

// Any reports whether any files are copied.
func (f Files) Any() bool { return len(f.Base) > 0 || f.Transfer != nil || f.Return != nil || f.Makes }

// Work describes a crew worker: a run that gets its tasks from the engine.
type Work struct {
	cli.Engine
	Name     string                                         // "" for the machine's
	Workdir  string                                         // of tasks that have none; "" for this process's
	Store    *spool.Store                                   // of outputs and files to send back
	Window   int                                            // records that a persistent worker holds at a time
	Offers   []task.Cap                                     // resources for tasks that need them; they are the limits of this run
	Template Template                                       // has no Words if the worker brings no command
	Make     func(t *task.Task, names, caps []string) error // expands the template with the task's Records and Object
	Do       func(task.Command) task.Reply
	Notice   func(string)
	Ready    func() // called once runs can find the worker
}

// Worker takes tasks from the engine and sends back their results.
type Worker interface {
	runner.Source // blocks until the run is over
	runner.Sink
	Life(*task.Task) *Life            // of the persistent worker that the task brings; nil to use Template
	Executor(local Executor) Executor // returns the executor for the tasks of other runs; local runs them
	Host() string                     // name of the worker
}

// EngineCall is a command line of crew engine.
type EngineCall struct {
	cli.Hub
	cli.Ctl // Run is the operand
	Verb    string
	URL     string // or the name of a NATS context; "" to read the environment
	Out     *os.File
	Notice  func(string)
	Ready   func() // called once crew engine serve is ready
}

// runEngine carries out a command of crew engine, in crew-engine.
func runEngine(o *cli.Options, verb string, far *Far, line []string, out, errs *os.File) error {
	if far == nil {
		return becomeEngine(line)
	}
	c := EngineCall{Hub: o.Hub, Ctl: o.Ctl, Verb: verb, URL: o.Engine.URL, Out: out, Notice: func(text string) { printError(errs, errors.New(text)) }}
	c.Ready = func() { tellReady("crew engine "+verb, c.Notice) }
	return far.Engine(c)
}

// submit makes the executor of a run on other machines.
func (w *wiring) submit() (Executor, error) {
	place, err := w.place()
	if err != nil {
		return nil, err
	}
	s := Submission{Place: place, Load: w.load(), Outputs: w.outputs(), Notice: w.screen.Notice, Do: w.do, ServeClient: w.serveClient}
	if w.feed != nil && w.state != nil && place.Name != "" {
		s.Arrive = w.feed.Arrive
	}
	exec, err := w.far.Submit(s)
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
	name, far := strings.CutPrefix(run, cli.EnginePrefix)
	if !far {
		return nil, nil
	}
	i := strings.LastIndexByte(name, '/')
	if i < 1 || name[i-1] == '/' || name[i+1:] == "" {
		return nil, misuse("engine:"+name+" names no run", "write engine:URL/RUN, as crew engine status lists it")
	}
	path, err := findProgram(engineProgram, "a run elsewhere", installHint)
	return append([]string{path}, task.HelperCommand(engineProgram, EngineProtocol, RelayVerb, name[:i], name[i+1:])...), err
}

// place returns where the run's tasks go.
func (w *wiring) place() (Place, error) {
	o, e := w.opts, &w.opts.Engine
	p := Place{Engine: *e, State: o.State, Name: o.Control.Name}
	if len(e.Hosts) == 0 {
		if o.Fed() {
			p.Reach = 0 // workers may join later, for tasks that are added later
		}
		return p, nil
	}
	var err error
	p.Hosts, w.hostFiles, err = cli.Hosts(e.Hosts)
	for i := range p.Hosts {
		if p.Hosts[i].Slots == 0 && o.Pool.Jobs != "" {
			p.Hosts[i].Slots = w.plan.jobs
		}
	}
	return p, err
}

// hostsInterval is how often the files of -S are checked for changes.
const hostsInterval = time.Second

// watchHosts rereads the files of -S whenever they change, so that hosts join and leave the run. A pipe
// cannot be read again: if one of the files is a pipe, none is reread.
func (w *wiring) watchHosts() {
	x, ok := w.exec.(interface{ SetHosts(Place) error })
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
			var p Place
			if p, err = w.place(); err == nil {
				err = x.SetHosts(p)
			}
		}
		if err != nil {
			go w.screen.Notice(fmt.Sprintf("%v: the hosts stay as they are", err))
		}
	}))
}

// load returns the needs of the run's tasks on the workers.
func (w *wiring) load() Load {
	o, e := w.opts, &w.opts.Engine
	var env []string
	for _, name := range e.Env {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return Load{
		Command: w.source.commandTemplate(), Life: o.Coproc.Life, Window: o.Coproc.Window, Workdir: o.Pool.Workdir, Env: withoutUnits(env, o.AllCaps()), PTY: o.Pool.PTY,
		Limit: core.Limit{Timeout: o.Failure.Limit.Timeout, KillAfter: o.Failure.Limit.KillAfter}, Bound: w.plan.Bound,
		Files: Files{
			Base: e.BaseFiles, Transfer: pathsFunc(w.source.transfer), Return: pathsFunc(w.source.returns), Makes: o.Makes.Any(), Stdout: o.Makes.Stdout != "", Cleanup: e.Cleanup,
		},
		Sign: e.Sign, Needs: o.TakesOffers() && (o.Terms.Needs != "" || o.ObjectTasks()),
	}
}

// commandTemplate returns the command in the form that a worker compares with its own.
func (s *source) commandTemplate() Template {
	o := s.opts
	c := o.Command
	var caps []string
	for _, limit := range o.AllCaps() {
		caps = append(caps, limit.Name)
	}
	return Template{
		Words: o.Words(), Protocol: o.Protocol(), Shell: c.Shell, Replace: c.Replace, Stdin: c.Stdin, NoArgs: c.NoArgs,
		Objects: o.Input.JSON, Names: s.reader.Names(), Caps: caps,
	}
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
	dirs := filepath.SplitList(os.Getenv("PATH"))
	if own, err := os.Executable(); err == nil { // it fails without /proc
		real, _ := filepath.EvalSymlinks(own) // on darwin it may be a link
		dirs = append([]string{filepath.Dir(own), filepath.Dir(cmp.Or(real, own))}, dirs...)
	}
	for _, dir := range dirs {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); filepath.IsAbs(path) && err == nil && info.Mode().IsRegular() && unix.Access(path, unix.X_OK) == nil {
			return path, nil
		}
	}
	return "", errors.New(something + " needs the program " + name + ", which is neither beside crew nor in PATH: " + hint)
}

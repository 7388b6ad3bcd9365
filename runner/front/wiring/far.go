package wiring

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
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
	// engineProgram runs what needs the library of NATS, so that crew's start-up does
	// not pay for it.
	engineProgram = "crew-engine"
	// EngineProtocol is the version of what crew hands over to crew-engine: its command
	// line.
	EngineProtocol = 1
	// RelayVerb has crew-engine take a client of crew ctl, on its standard input, to a run.
	RelayVerb = "relay"
	// SubmitVerb has crew-engine submit a run that was handed over.
	SubmitVerb = "submit"
	engineHint = "run go install ./... in crew's source"
)

// Far holds the functions of crew-engine that need the library of NATS.
type Far struct {
	Submit func(Submission) (Executor, error)
	Detach func(ctx context.Context, h Detachment, fill func(add func(*task.Task) error) error) (run string, err error)
	Work   func(Work) (Worker, error)
	Attach func(Attachment) (Attached, error)
	Engine func(EngineCall) error
	Leave  func(Leaving) (leave func(line []byte) error, end func(), err error)
}

// Leaving says for which crew serve requests to add tasks are left at a hub, each as a line.
type Leaving struct {
	URL    string
	Name   string        // of the crew serve, which need not be there yet
	Wait   time.Duration // for the hub, which may be away or full
	Notice func(string)
}

// Submission describes a run whose tasks run on other machines. The executor that is
// made of it has slots join and leave the run. If it has a Sink, that gets the events
// after the journal.
type Submission struct {
	Place
	Load
	proc.Outputs
	Notice  func(string)
	Do      func(task.Command) task.Reply
	Welcome func(control.Link) // has the run's control server serve a client; nil if it has none

	// Arrive adds what the line of a request says that was left for this run at the hub, under an ID, unless
	// it has: it comes again until it was not to come later. Arrive is nil if the run has no name, or would
	// not remember the ID.
	Arrive func(id string, line []byte) (later bool, err error)
}

// Place says where the tasks of a run go, and what is known there of an earlier run.
type Place struct {
	cli.Engine
	cli.State
	Hosts []cli.Host // of --ssh; then there is no URL
	Name  string     // of --name; "" for none
}

// Load describes what the tasks of a run bring to the workers.
type Load struct {
	Command Template
	Life    Life   // of persistent workers
	Window  int    // records that a slot has at once
	Workdir string // "" for the worker's own
	Env     []string
	PTY     bool // with Hosts: tasks write to pseudo-terminals
	Limit   core.Limit
	Files   Files `json:"-"`
	Sign    string
	Needs   bool // tasks may need what workers offer
}

// Attachment names a run that was handed over.
type Attachment struct {
	URL, Run string
	Store    *spool.Store // of outputs
	Notice   func(string)
}

// Attached brings the results of a run that was handed over: its tasks come in input
// order once they have ended, and to run one only tells how.
type Attached interface {
	runner.Source
	Executor
	Tasks() uint64                     // how many there are
	Ended() (status int, early string) // of the run, once it is over
	Forget() error                     // removes the run from the engine
}

// Life says how long a persistent worker on another machine lives, as the options do.
type Life = task.Life

// Template describes the command of values, or that of persistent workers.
type Template struct {
	Words   []string
	Shell   string
	Replace string
	Stdin   bool // the record goes to standard input
	NoArgs  bool
	Objects bool // the records are JSON objects

	Protocol task.Protocol // of persistent workers, whose command Words is

	Names []string // of columns
	Caps  []string // names of limits
}

// Options returns the options that the command has beside its words, as a shell reads
// them.
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

// Files are the files that travel.
type Files struct {
	Base             []string
	Transfer, Return func(*task.Task) []string // nil for none
	Makes, Stdout    bool                      // tasks have a Making, whose files come back; it has Stdout
	Cleanup          bool
}

// Any reports whether there are any.
func (f Files) Any() bool { return len(f.Base) > 0 || f.Transfer != nil || f.Return != nil || f.Makes }

// Work describes a worker: a run whose tasks the engine brings.
type Work struct {
	cli.Engine
	Name     string                                         // "" for the machine's
	Workdir  string                                         // of tasks that have none; "" for this process's
	Store    *spool.Store                                   // of what tasks bring back
	Window   int                                            // records that a persistent worker has at once
	Offers   []task.Cap                                     // what it has for tasks that need it, which are the limits of its run
	Template Template                                       // without Words, it has none
	Make     func(t *task.Task, names, caps []string) error // expands the template with the task's Records and Object
	Do       func(task.Command) task.Reply
	Notice   func(string)
	Ready    func() // called once runs can find the worker
}

// Worker takes tasks from the engine, runs them, and brings back their results.
type Worker interface {
	runner.Source // blocks until the run is over
	runner.Sink
	Life(*task.Task) *Life            // of the persistent worker that the task brings; nil for that of Template
	Executor(local Executor) Executor // runs what the run starts
	Host() string                     // its name
}

// EngineCall is a command line of crew engine.
type EngineCall struct {
	cli.Hub
	cli.Ctl // Run is the operand
	Verb    string
	URL     string // or the name of a NATS context; "" if the environment tells
	Out     *os.File
	Notice  func(string)
	Ready   func() // called once serve does its work
}

// engine has crew-engine carry out a command of crew engine.
func engine(o *cli.Options, verb string, far *Far, line []string, out, errs *os.File) error {
	if far == nil {
		return becomeEngine(line)
	}
	c := EngineCall{Hub: o.Hub, Ctl: o.Ctl, Verb: verb, URL: o.Engine.URL, Out: out, Notice: func(text string) { complain(errs, errors.New(text)) }}
	c.Ready = func() { tellReady("crew engine "+verb, c.Notice) }
	return far.Engine(c)
}

// submit makes the executor of a run on other machines.
func (w *wiring) submit() (Executor, error) {
	place, err := w.place()
	if err != nil {
		return nil, err
	}
	s := Submission{Place: place, Load: w.load(), Outputs: w.outputs(), Notice: w.screen.Notice, Do: w.do, Welcome: w.welcome}
	if w.feed != nil && w.state != nil && place.Name != "" {
		s.Arrive = w.feed.Arrive
	}
	exec, err := w.far.Submit(s)
	if err != nil {
		return nil, err
	}
	w.close = append(w.close, exec.Close)
	w.onClose(w.signals.Release) // see workLocally
	return exec, nil
}

// welcome serves a client of crew ctl elsewhere.
func (w *wiring) welcome(l control.Link) {
	if <-w.begun; w.control == nil {
		_ = l.Close()
		return
	}
	w.control.Welcome(l)
}

// relay returns the program that leads to a run on another machine, and its arguments. Without any, it is no
// such run.
func relay(run string) (words []string, err error) {
	name, far := strings.CutPrefix(run, cli.EnginePrefix)
	if !far {
		return nil, nil
	}
	i := strings.LastIndexByte(name, '/')
	if i < 1 || name[i-1] == '/' || name[i+1:] == "" {
		return nil, misuse("engine:"+name+" names no run", "write engine:URL/RUN, as crew engine status lists it")
	}
	path, err := findProgram(engineProgram, "a run elsewhere", engineHint)
	return []string{path, engineProgram, "--protocol", strconv.Itoa(EngineProtocol), RelayVerb, name[:i], name[i+1:]}, err
}

// place says where the run's tasks go.
func (w *wiring) place() (Place, error) {
	o, e := w.opts, &w.opts.Engine
	p := Place{Engine: *e, State: o.State, Name: o.Control.Name}
	if len(e.Hosts) == 0 {
		if o.Fed() {
			p.Reach = 0 // others may come for what is added
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

// hostsEvery is how often the files of --ssh are looked at.
const hostsEvery = time.Second

// watchHosts reads the files of --ssh again whenever they have changed, so that hosts join
// and leave the run. A pipe cannot be read again: if one of the files is one, none
// is.
func (w *wiring) watchHosts() {
	x, ok := w.exec.(interface{ SetHosts(Place) error })
	pipe := func(file string) bool {
		st, err := os.Stat(file)
		return err == nil && !st.Mode().IsRegular()
	}
	if !ok || len(w.hostFiles) == 0 || slices.ContainsFunc(w.hostFiles, pipe) {
		return
	}
	w.onClose(watch(w.hostFiles, hostsEvery, func(err error) {
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

// load says what the run's tasks bring.
func (w *wiring) load() Load {
	o, e := w.opts, &w.opts.Engine
	return Load{
		Command: w.source.commandTemplate(), Life: o.Coproc.Life, Window: o.Coproc.Window, Workdir: o.Pool.Workdir, Env: withoutUnits(travelling(e.Env), o.AllCaps()), PTY: o.Pool.PTY,
		Limit: core.Limit{Timeout: o.Failure.Limit.Timeout, KillAfter: o.Failure.Limit.KillAfter},
		Files: Files{
			Base: e.BaseFiles, Transfer: pathsOf(w.source.transfer), Return: pathsOf(w.source.returns), Makes: o.Makes.Any(), Stdout: o.Makes.Stdout != "", Cleanup: e.Cleanup,
		},
		Sign: e.Sign, Needs: o.TakesOffers() && (o.Terms.Needs != "" || o.ObjectTasks()),
	}
}

// commandTemplate returns the command as a worker compares it with its own.
func (s *source) commandTemplate() Template {
	c := s.opts.Command
	var caps []string
	for _, limit := range s.opts.AllCaps() {
		caps = append(caps, limit.Name)
	}
	return Template{
		Words: s.opts.Words(), Protocol: s.opts.Protocol(), Shell: c.Shell, Replace: c.Replace, Stdin: c.Stdin, NoArgs: c.NoArgs,
		Objects: s.opts.Input.JSON, Names: s.reader.Names(), Caps: caps,
	}
}

// travelling returns the variables of crew's environment with these names.
func travelling(names []string) (env []string) {
	for _, name := range names {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// becomeEngine replaces this process by crew-engine. It returns only if that fails.
func becomeEngine(args []string) error {
	path, err := findProgram(engineProgram, "this", engineHint)
	if err != nil {
		return err
	}
	argv := append([]string{engineProgram, "--protocol", strconv.Itoa(EngineProtocol)}, args[1:]...)
	return &os.PathError{Op: "execute", Path: path, Err: syscall.Exec(path, argv, os.Environ())}
}

// EngineArgs checks that the crew that has become crew-engine speaks its version of
// their protocol, and returns the command line as crew got it.
func EngineArgs(args []string) ([]string, error) {
	if len(args) < 3 || args[1] != "--protocol" {
		return nil, errors.New(engineProgram + " is started by crew: write crew worker, crew engine or crew --engine URL")
	}
	if args[2] != strconv.Itoa(EngineProtocol) {
		return nil, errors.New("crew and " + engineProgram + " are of different versions: " + engineHint)
	}
	return append([]string{"crew"}, args[3:]...), nil
}

// findProgram returns the path of a program of crew's, which something needs, beside
// this one, or else in PATH.
func findProgram(name, something, hint string) (string, error) {
	dirs := filepath.SplitList(os.Getenv("PATH"))
	if own, err := os.Executable(); err == nil { // or else there is no /proc
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

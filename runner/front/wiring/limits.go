package wiring

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"crew/runner"
	"crew/runner/decide/core"
	"crew/runner/decide/task"
	"crew/runner/exec/kernel"
	"crew/runner/exec/machine"
	"crew/runner/exec/proc"
	"crew/runner/exec/target"
	"crew/runner/front/cli"
)

const (
	// execve takes argMaxLeast whatever the stack limit is.
	argMaxLeast = 128 << 10
	// argMaxSpare is left free: for the variables that crew adds, for the
	// kernel's own, and because xargs leaves as much.
	argMaxSpare = 4096
	pointer     = 8
	// ownFiles are the descriptors that a run always takes beside those of its
	// executor: the Go runtime's poller, and a pipe for signals.
	ownFiles = 4
	// stateFiles are journal, outputs and lock.
	stateFiles = 3
	// workerFiles are those of a persistent worker as long as it lives: its standard
	// streams, a pidfd, and an eventfd that wakes its goroutine.
	workerFiles = 5
)

// checkLimits refuses limits under which the run is not possible.
func checkLimits(o *cli.Options, p plan) error {
	left, most, need := proc.FilesLeft(), kernel.Limit(syscall.RLIMIT_NOFILE), files(o, p)
	if left < need {
		return fmt.Errorf("the run needs %d open files, and may have %d: raise the limit with ulimit -n",
			int64(most)-left+need, most)
	}
	if n := int64(p.jobs); o.Coproc.Words != "" && !o.Far() && (left-need)/workerFiles < n-1 {
		return fmt.Errorf("%d persistent workers need %d open files, and may have %d: raise the limit with ulimit -n, or write -j%d",
			n, int64(most)-left+need+workerFiles*(n-1), most, 1+(left-need)/workerFiles)
	}
	if p.processes < proc.LeastProcesses {
		return fmt.Errorf("no run is possible with %d processes and threads: raise the limit with ulimit -u, or that of the container (pids.max)", max(0, p.processes))
	}
	return nil
}

// files is how many descriptors the run opens with one task at a time.
func files(o *cli.Options, p plan) int64 {
	inputs := len(slices.DeleteFunc(o.Input.Paths(), func(path string) bool { return path == "-" }))
	if o.Failure.Halt.Percent {
		inputs += 1 + inputs // copies of what can be read only once, stdin too
	}
	n := ownFiles + proc.LeastFiles + inputs
	if p.join != nil || o.Jobserver.Mode == "share" {
		n += 4 // both ends of the pipe or FIFO, of which crew opens its own, or the purse
	}
	if o.State.Dir != "" {
		n += stateFiles
	}
	if o.Output.Joblog != "" {
		n++
	}
	if o.Command.Stdin || o.ObjectTasks() || o.Pipe.On && o.Coproc.Words == "" {
		n += 2
	}
	if o.Makes.Any() {
		n += target.Descriptors()
	}
	if o.Coproc.Words != "" {
		n += 3 // stdin, and the eventfd that wakes its goroutine
	}
	return int64(n)
}

// mostEnviron returns the environment, with all units of limits by name.
func mostEnviron(caps []task.Cap) []string {
	env := os.Environ()
	for _, c := range caps {
		units := strings.Join(c.Units, ",")
		if env = append(env, task.CapVariable(c.Name)+"="+units); c.Name == task.Devices {
			env = append(env, task.DevicesVariable+"="+units)
		}
	}
	return env
}

// argMax is how many bytes of arguments, each with its NUL and its pointer, a
// command may have beside an environment.
func argMax(environ []string) int {
	most := int(min(max(kernel.Limit(syscall.RLIMIT_STACK)/4, argMaxLeast), kernel.ArgMax))
	for _, kv := range environ {
		most -= len(kv) + 1 + pointer
	}
	return max(most-argMaxSpare, argMaxSpare)
}

// ready returns why a run could do nothing here, if that shows before it reads anything.
func ready(o *cli.Options, p plan, stdin *os.File) error {
	if err := checkLimits(o, p); err != nil {
		return err
	}
	if o.Pool.Workdir != "" && !o.Elsewhere() {
		if strings.Contains(o.Pool.Workdir, "{}") {
			return misuse("--workdir is one directory for all tasks", "write the command as 'cd {} && …'")
		}
		if _, err := os.Stat(o.Pool.Workdir + "/."); err != nil {
			return misuse("change to directory "+o.Pool.Workdir+": "+errors.Unwrap(err).Error(),
				"give --workdir a directory that tasks can run in")
		}
	}
	if err := findCommand(o); err != nil {
		return err
	}
	if o.MayLackColons() && isNull(stdin) {
		return o.NoRecords()
	}
	return nil
}

// findCommand looks for the program that all tasks run, before the run waits for records
// in vain. With --state there may be no task left to run, and a log tells of the task;
// but a shell is needed to compile a script.
func findCommand(o *cli.Options) error {
	name := o.Template().Program()
	told := !o.Input.ReadsStdin() || o.Any("state joblog results junit")
	if name == "" || o.Elsewhere() || o.Show.DryRun || told && o.Command.Shell == "" {
		return nil
	}
	if status, err := proc.Find(name, o.Pool.Workdir); err != nil {
		return &failure{o.CannotRun(err, status), status}
	}
	return nil
}

// isNull reports whether f is /dev/null, which a closed standard input is, too.
func isNull(f *os.File) bool {
	var st, null unix.Stat_t
	return unix.Fstat(int(f.Fd()), &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFCHR &&
		unix.Stat(os.DevNull, &null) == nil && null.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == null.Rdev
}

// strayInput reports whether in is a pipe with data in it that is for nobody else. A pipe that
// is the standard input of crew's parent, too, may be a loop's list or the rest of a script.
func strayInput(in *os.File) bool {
	own, err := in.Stat()
	if err != nil || own.Mode()&os.ModeNamedPipe == 0 {
		return false
	}
	n, err := kernel.Unread(int(in.Fd()))
	parents, unknown := os.Stat(fmt.Sprintf("/proc/%d/fd/0", os.Getppid()))
	return err == nil && unknown == nil && n > 0 && !os.SameFile(own, parents)
}

// boundsOf returns the bounds for the load and the memory that options set on a machine. The error
// is that it does not tell these.
func boundsOf(o *cli.Options, m *machine.Machine) (b core.Machine, err error) {
	name := "load"
	if load := o.Machine.Load; load.N > 0 {
		b.Load = load.Of(float64(m.Processors()))
		_, err = m.Load()
	}
	if free := o.Machine.MemFree; free.N > 0 && err == nil {
		var total int64
		name = "memfree"
		_, total, err = m.Memory()
		if b.Memory = int64(free.Of(float64(total))); err == nil && b.Memory >= total {
			return b, misuse(o.Typed(name)+": there are only "+task.Size(total)+" of memory in all", "write less, or such as 10%")
		}
		b.End = o.Failure.RetryOn.Names(task.Memory)
	}
	if err != nil {
		err = misuse(o.Typed(name)+": "+err.Error(), "drop it")
	}
	return b, err
}

// watchMachine has the run know the machine that its tasks run on.
func (w *wiring) watchMachine() {
	if o := w.opts; o.Show.DryRun || o.Far() || w.attached != nil {
		return
	}
	here := machine.New("")
	deaths := machine.NewDeaths(here)
	w.onClose(deaths.Close)
	w.made.SetMachine(runner.Machine{Starved: deaths.Another, Figures: func() (processes float64, free int64) {
		processes, _ = here.Load()
		free, _, err := here.Memory()
		if err != nil {
			free = math.MaxInt64
		}
		return processes, free
	}})
}

package wiring

import (
	"errors"
	"fmt"
	"math"
	"os"
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
	// argMaxLeast bytes are accepted by execve whatever the stack limit is.
	argMaxLeast = 128 << 10
	// argMaxSpare bytes are left free for variables that crew and the kernel add. xargs leaves as many.
	argMaxSpare = 4096
	pointer     = 8
	// runFiles is how many descriptors a run uses at most with one task at a time, not counting its input
	// and the directories of made files.
	runFiles = proc.LeastFiles + 18
	// taskFiles is the number of descriptors of a task, and workerFiles that of a persistent worker: its
	// standard streams, a pidfd, and an eventfd that wakes its goroutine.
	taskFiles, workerFiles = 4, 5
)

// checkLimits returns an error if the limits on files or processes are too low for the run.
func checkLimits(o *cli.Options, p plan) error {
	left, most, need := proc.FilesLeft(), kernel.Limit(syscall.RLIMIT_NOFILE), filesNeeded(o)
	if left < need {
		return fmt.Errorf("the run needs %d open files, and the limit is %d: raise the limit with ulimit -n",
			int64(most)-left+need, most)
	}
	if n, can := int64(p.jobs), 1+(left-need)/workerFiles; keepsFiles(o) && can < n {
		return fmt.Errorf("%d persistent workers need %d open files, and the limit is %d: raise the limit with ulimit -n, or write -j%d",
			n, int64(most)-left+need+workerFiles*(n-1), most, can)
	}
	if p.processes < proc.LeastProcesses {
		return fmt.Errorf("no run is possible with %d processes and threads: raise the limit with ulimit -u, or that of the container (pids.max)", max(0, p.processes))
	}
	return nil
}

// keepsFiles reports whether the workers keep their descriptors between tasks.
func keepsFiles(o *cli.Options) bool { return o.Coproc.Words != "" && !o.Far() }

// mostTasks returns how many tasks can run at a time with the descriptors that are left and with a
// number of processes and threads.
func mostTasks(o *cli.Options, processes int64) int {
	each := int64(taskFiles)
	if keepsFiles(o) {
		each = workerFiles
	}
	return int(min(maxJobs, proc.AtOnce(processes), max(1, 1+(proc.FilesLeft()-filesNeeded(o))/each)))
}

// filesNeeded returns the number of descriptors that suffice for the run with one task at a time.
func filesNeeded(o *cli.Options) int64 {
	n := len(o.Input.Paths())
	if o.Failure.Halt.Percent {
		n *= 2 // copies of stdin and of files that can be read only once
	}
	if o.Makes.Any() {
		n += target.Descriptors()
	}
	return int64(runFiles + n)
}

// largestEnviron returns crew's environment with all units of all limits: no task's can be larger.
func largestEnviron(caps []task.Cap) []string {
	env := os.Environ()
	for _, c := range caps {
		units := strings.Join(c.Units, ",")
		if env = append(env, task.CapVariable(c.Name)+"="+units); c.Name == task.Devices {
			env = append(env, task.DevicesVariable+"="+units)
		}
	}
	return env
}

// argMax returns how many bytes of arguments a command may have in addition to an environment. Each
// argument counts with its NUL and its pointer.
func argMax(environ []string) int {
	most := int(min(max(kernel.Limit(syscall.RLIMIT_STACK)/4, argMaxLeast), kernel.ArgMax))
	for _, kv := range environ {
		most -= len(kv) + 1 + pointer
	}
	return max(most-argMaxSpare, argMaxSpare)
}

// checkReady returns an error if it is clear, before anything is read, that the run cannot do anything.
func checkReady(o *cli.Options, p plan, stdin *os.File) error {
	if err := checkLimits(o, p); err != nil {
		return err
	}
	if o.Pool.Workdir != "" && !o.Elsewhere() {
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

// findCommand returns an error if the program that all tasks run is missing. It looks only if the run would
// otherwise wait for records on standard input first, and not with --state, which may leave no task to
// run, or if a log or report is to show the failed task. A shell is always needed, to compile the script.
func findCommand(o *cli.Options) error {
	name := o.Template().Program()
	later := !o.Input.ReadsStdin() || o.Any("state joblog results junit")
	if name == "" || o.Elsewhere() || o.Pool.Varies() || o.Show.DryRun || later && o.Command.Shell == "" {
		return nil
	}
	if status, err := proc.Find(name, o.Pool.Workdir); err != nil {
		return failure(status, o.CannotRun(err, status))
	}
	return nil
}

// isNull reports whether f is /dev/null. A standard input that was closed is /dev/null, too.
func isNull(f *os.File) bool {
	var st, null unix.Stat_t
	return unix.Fstat(int(f.Fd()), &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFCHR &&
		unix.Stat(os.DevNull, &null) == nil && null.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == null.Rdev
}

// inputUnread reports whether in is a pipe with unread data that no other process is likely to read. If
// the pipe is also the standard input of crew's parent, it may hold the list of a loop or the rest of a
// script.
func inputUnread(in *os.File) bool {
	own, err := in.Stat()
	if err != nil || own.Mode()&os.ModeNamedPipe == 0 {
		return false
	}
	n, err := kernel.Unread(int(in.Fd()))
	parents, unknown := os.Stat(fmt.Sprintf("/proc/%d/fd/0", os.Getppid()))
	return err == nil && unknown == nil && n > 0 && !os.SameFile(own, parents)
}

// machineBounds returns the bounds that the options set on the load and the memory of a machine. It
// returns an error if the machine does not report them.
func machineBounds(o *cli.Options, m *machine.Machine) (b core.Machine, err error) {
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
			return b, misuse(o.Typed(name)+": there are only "+task.Size(total)+" of memory in all", "write less, for example 10%")
		}
		b.End = o.Failure.RetryOn.Names(task.Memory)
	}
	if err != nil {
		err = misuse(o.Typed(name)+": "+err.Error(), "drop it")
	}
	return b, err
}

// watchMachine lets the run observe the load and the memory of the machine that its tasks run on.
func (w *wiring) watchMachine() {
	if o := w.opts; o.Show.DryRun || o.Far() || w.attached != nil {
		return
	}
	here := machine.New("")
	kills := machine.NewOOMKills(here)
	w.onClose(kills.Close)
	w.run.SetMachine(runner.Machine{Starved: kills.Claim, Figures: func() (processes float64, free int64) {
		processes, _ = here.Load()
		free, _, err := here.Memory()
		if err != nil {
			free = math.MaxInt64
		}
		return processes, free
	}})
}

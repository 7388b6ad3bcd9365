package wiring

import (
	"fmt"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"crew/runner/cli"
	"crew/runner/kernel"
	"crew/runner/proc"
	"crew/runner/task"
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
	// leastProcesses is how many threads a run takes at least; with fewer the Go
	// runtime dies, and not in words that help.
	leastProcesses = 16
)

// checkLimits refuses limits under which the run is not possible.
func checkLimits(o *cli.Options, p pool) error {
	left, most, need := proc.FilesLeft(), limit(syscall.RLIMIT_NOFILE), files(o, p)
	if left < need {
		return fmt.Errorf("the run needs %d open files, and may have %d: raise the limit with ulimit -n",
			int64(most)-left+need, most)
	}
	if n := int64(p.jobs); o.Coproc.Words != "" && !o.Far() && (left-need)/workerFiles < n-1 {
		return fmt.Errorf("%d persistent workers need %d open files, and may have %d: raise the limit with ulimit -n, or write -j%d",
			n, int64(most)-left+need+workerFiles*(n-1), most, 1+(left-need)/workerFiles)
	}
	if n := limit(unix.RLIMIT_NPROC); n < leastProcesses && syscall.Getuid() != 0 {
		return fmt.Errorf("no run is possible with %d processes and threads: raise the limit with ulimit -u", n)
	}
	return nil
}

// files is how many descriptors the run opens with one task at a time.
func files(o *cli.Options, p pool) int64 {
	inputs := len(o.Input.Files)
	for _, g := range o.Input.Groups {
		if g.Files {
			inputs += len(g.Words)
		}
	}
	if o.Failure.Halt.Percent {
		inputs += 1 + inputs // copies of what can be read only once, stdin too
	}
	n := ownFiles + proc.LeastFiles + inputs
	if p.join != nil || o.Jobserver.Mode == "share" {
		n += 5 // both ends of the pipe or FIFO, the purse, and both ends of the socket to the keeper
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
		n++ // the directory of what a task makes
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
		env = append(env, task.CapVariable(c.Name)+"="+strings.Join(c.Units, ","))
	}
	return env
}

// argMax is how many bytes of arguments, each with its NUL and its pointer, a
// command may have beside an environment.
func argMax(environ []string) int {
	most := int(min(max(limit(syscall.RLIMIT_STACK)/4, argMaxLeast), kernel.ArgMax))
	for _, kv := range environ {
		most -= len(kv) + 1 + pointer
	}
	return max(most-argMaxSpare, argMaxSpare)
}

package cli

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	// argMaxLeast is what execve takes whatever the stack limit is, and
	// argMaxMost what Linux takes at most (execve(2), ARG_MAX).
	argMaxLeast = 128 << 10
	argMaxMost  = 6 << 20
	// argMaxSpare is left free: for the variables that crew adds, for the
	// kernel's own, and because xargs leaves as much.
	argMaxSpare = 4096
	pointer     = 8
	// leastFiles and leastProcesses are how many descriptors and threads a run
	// takes at least; with fewer the Go runtime dies, and not in words that help.
	leastFiles     = 16
	stateFiles     = 5 // journal, outputs, lock, index, and a directory while it is synced
	leastProcesses = 16
)

// checkLimits refuses limits under which the run is not possible.
func checkLimits(o *Options) error {
	if n, needs := limit(syscall.RLIMIT_NOFILE), o.files(); n < needs {
		return fmt.Errorf("the run needs %d open files, and may have %d: raise the limit with ulimit -n", needs, n)
	}
	if n := limit(unix.RLIMIT_NPROC); n < leastProcesses && syscall.Getuid() != 0 {
		return fmt.Errorf("no run is possible with %d processes and threads: raise the limit with ulimit -u", n)
	}
	return nil
}

// files is how many descriptors the run takes with one task at a time.
func (o *Options) files() uint64 {
	n := leastFiles + len(o.Input.Files)
	for _, g := range o.Input.Groups {
		if g.Files {
			n += len(g.Words)
		}
	}
	for _, more := range []struct {
		given bool
		files int
	}{
		{o.State.Dir != "", stateFiles}, {o.Output.Joblog != "", 1}, {o.Output.Results != "", 1},
		{o.Command.Stdin || o.Input.JSON, 2}, {o.Failure.Halt.Percent, 1},
	} {
		if more.given {
			n += more.files
		}
	}
	return uint64(n)
}

// argMax is how many bytes of arguments, each with its NUL and its pointer, a
// command may have beside an environment.
func argMax(environ []string) int {
	most := argMaxLeast
	var stack syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_STACK, &stack); err == nil {
		most = int(min(max(stack.Cur/4, argMaxLeast), argMaxMost))
	}
	for _, kv := range environ {
		most -= len(kv) + 1 + pointer
	}
	return max(most-argMaxSpare, argMaxSpare)
}

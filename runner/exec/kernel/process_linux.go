//go:build !crew_portable

package kernel

import (
	"os"
	"runtime"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Process 1 of a PID namespace, as a container has one, differs from other processes
// in two ways: it inherits the orphans of the namespace and has to reap them, and the
// kernel spares it the default action of signals.

// reapEvery is the interval at which process 1 reaps orphans.
const reapEvery = 100 * time.Millisecond

// deadly are the signals that crew resets and whose default action is to end the
// process; fatal gets them in process 1.
var (
	deadly = [...]syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT}
	fatal  = make(chan syscall.Signal, 1)
)

// IsInit reports whether this is process 1.
func IsInit() bool { return os.Getpid() == 1 }

// The main goroutine of process 1 keeps the main thread to itself. The kernel makes
// orphans children of that thread, and tasks are children of the threads that start
// them, so the main thread cannot reap a task, whose exit status would be lost.
func init() {
	if IsInit() {
		runtime.LockOSThread()
	}
}

// Run calls main and returns the exit status that main returns. As process 1 it reaps
// orphans meanwhile, and returns early if a signal whose default action is to end the
// process comes while it has that action; the status is 128 plus its number then. Run
// must be called from the main goroutine.
func Run(main func() int) int {
	if !IsInit() {
		return main()
	}
	for _, sig := range deadly {
		if !Ignored(sig) {
			Reset(sig)
		}
	}
	ended := make(chan int, 1)
	go func() { ended <- main() }()
	for {
		select {
		case status := <-ended:
			return status
		case sig := <-fatal:
			return 128 + int(sig)
		case <-time.After(reapEvery):
		}
		for pid := 1; pid > 0; {
			pid, _ = syscall.Wait4(-1, nil, syscall.WNOHANG|unix.WALL|unix.WNOTHREAD, nil)
		}
	}
}

// Reset gives a signal its default action, or what Run makes of that.
func Reset(sig syscall.Signal) {
	if !IsInit() || !slices.Contains(deadly[:], sig) || Take(fatal, sig) != nil {
		reset(sig)
	}
}

// Portable reports whether this is the portable form.
const Portable = false

// DieWith has a process that is started with attr get a signal when the thread that starts
// it ends (PR_SET_PDEATHSIG). It returns attr.
func DieWith(attr *syscall.SysProcAttr, sig syscall.Signal) *syscall.SysProcAttr {
	attr.Pdeathsig = sig
	return attr
}

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

// Process 1 of a PID namespace, for instance of a container, differs from other processes
// in two ways: it inherits the orphans of the namespace and has to reap them, and signals
// do not have their default action in it.

// reapEvery is the interval at which process 1 reaps orphans.
const reapEvery = 100 * time.Millisecond

// deadly lists the signals that crew resets and whose default action is to end the
// process. Process 1 receives them on fatal.
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

// Run calls main and returns its exit status. It must be called from the main goroutine. In process 1
// it also reaps orphans, and it returns early, with status 128 plus the signal's number, if a signal
// arrives that has its default action and that action is to end the process.
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

// Reset gives a signal its default action. In process 1, Run takes that action.
func Reset(sig syscall.Signal) {
	if !IsInit() || !slices.Contains(deadly[:], sig) || Notify(fatal, sig) != nil {
		reset(sig)
	}
}

// Portable reports whether this is the portable code.
const Portable = false

// DieWithParent makes the kernel send sig to a process started with attr when the thread that started
// it ends (PR_SET_PDEATHSIG). It returns attr.
func DieWithParent(attr *syscall.SysProcAttr, sig syscall.Signal) *syscall.SysProcAttr {
	attr.Pdeathsig = sig
	return attr
}

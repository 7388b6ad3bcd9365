package kernel

import (
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Wait waits until a child has ended and reaps it. ws and ru may be nil.
func Wait(pid int, ws *syscall.WaitStatus, ru *syscall.Rusage) {
	for {
		if _, err := syscall.Wait4(pid, ws, 0, ru); err != syscall.EINTR {
			return
		}
	}
}

// The states of a child in childInfo.code: CLD_KILLED, CLD_DUMPED and CLD_STOPPED of sigaction(2).
const (
	killedChild  = 2
	dumpedChild  = 3
	stoppedChild = 5
)

// childInfo is the part of siginfo_t that waitid(2) fills in.
type childInfo struct {
	_, _, code     int32
	_              union
	pid, _, status int32 // pid stays 0 if there is no such child
	_              [104]byte
}

// Stopped returns the signal that stopped a child, or 0. It does not wait, and it returns the signal
// only once for each stop.
func Stopped(pid int) syscall.Signal {
	var info childInfo
	if waitChild(pid, unix.WSTOPPED|unix.WNOHANG, &info) != 0 || info.pid == 0 {
		return 0
	}
	return syscall.Signal(info.status)
}

// Exited waits until a child has exited, without reaping it, and reports whether it has. With
// unix.WNOHANG in options it does not wait; with unix.WSTOPPED it also returns if the child has
// stopped. It returns true if there is no such child.
func Exited(pid, options int) bool {
	info, errno := waitExit(pid, options)
	return errno != 0 || info.pid != 0 && info.code != stoppedChild
}

// waitExit calls waitChild for a child that exits, without reaping it, until no signal interrupts the call.
func waitExit(pid, options int) (info childInfo, errno syscall.Errno) {
	for {
		if errno = waitChild(pid, unix.WEXITED|unix.WNOWAIT|options, &info); errno != syscall.EINTR {
			return info, errno
		}
		info = childInfo{}
	}
}

// KilledEarly waits until a child has exited, without reaping it. It reports whether the child was
// killed before it executed its program, by a signal for this process's group, which the child had not
// left yet.
func KilledEarly(pid int) bool {
	info, _ := waitExit(pid, 0)
	if info.code != killedChild && info.code != dumpedChild {
		return false
	}
	p, _ := FindProcess(pid)
	return p.BeforeExec
}

// forkExec is syscall.ForkExec with two differences. It fails with EMFILE if the child found no free
// descriptor: dup2(2) then fails with EBADF, because ForkExec asks for the number after the highest
// one. And it clears Foreground: ForkExec does not block SIGTTOU, so a child in the background would
// stop and ForkExec would wait for ever.
func forkExec(path string, argv []string, attr *syscall.ProcAttr) (pid int, err error) {
	attr.Sys.Foreground = false
	pid, err = syscall.ForkExec(path, argv, attr)
	if err == syscall.EBADF {
		err = syscall.EMFILE
	}
	return pid, err
}

// Process describes a process as the system reports it.
type Process struct {
	PID, Parent, Group, Session int

	Start      int64  // start time in units of the system's choice; with PID it identifies the process
	Name       string // of the program; may be truncated
	Ended      bool   // a zombie without any threads left
	Stopped    bool
	Used       time.Duration // CPU time, including that of reaped children; Linux only
	Memory     int64         // resident bytes; Linux only
	BeforeExec bool          // has not executed a program since it was forked
	exiting    bool          // is exiting or has exited; for Dying
}

// ResumeStuck continues the children of parent that were stopped before they executed their program, by
// a signal for parent's process group.
func ResumeStuck(parent int) {
	for _, p := range Processes() {
		if p.Parent == parent && p.BeforeExec && p.Stopped {
			_ = syscall.Kill(p.PID, syscall.SIGCONT)
		}
	}
}

// Unstick calls ResumeStuck for this process every 10 ms until done is closed. The calls that start
// children would otherwise wait for ever.
func Unstick(done <-chan struct{}) {
	for {
		select {
		case <-done:
			return
		case <-time.After(10 * time.Millisecond):
		}
		ResumeStuck(os.Getpid())
	}
}

package kernel

import (
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// DirError says that the working directory of a new process cannot be entered.
type DirError struct{ syscall.Errno }

// Wait waits until a child has ended and reaps it. ws and ru may be nil.
func Wait(pid int, ws *syscall.WaitStatus, ru *syscall.Rusage) {
	for {
		if _, err := syscall.Wait4(pid, ws, 0, ru); err != syscall.EINTR {
			return
		}
	}
}

// Close closes a descriptor unless that is -1, which it is then.
func Close(fd *int) {
	if *fd >= 0 {
		_ = syscall.Close(*fd)
		*fd = -1
	}
}

// Read reads once from a descriptor, and closes it at the end of the stream or after an
// error, also of a terminal, which ends with EIO. It returns 0 if nothing is there.
func Read(fd *int, p []byte) int {
	n, err := syscall.Read(*fd, p)
	if err == syscall.EINTR || err == syscall.EAGAIN {
		return 0
	}
	if err != nil || n == 0 {
		Close(fd)
		return 0
	}
	return n
}

// What has become of a child: CLD_KILLED, CLD_DUMPED and CLD_STOPPED of sigaction(2).
const (
	killedChild  = 2
	dumpedChild  = 3
	stoppedChild = 5
)

// Stopped returns a child that has stopped, and the signal that stopped it, of those that
// kind and id mean. It does not wait: pid is 0 if there is none. A child that was returned
// is returned again only once it has been continued and stopped again.
func Stopped(kind, id int) (pid int, sig syscall.Signal) {
	pid, _, status, err := waitID(kind, id, unix.WSTOPPED|unix.WNOHANG)
	if err != nil {
		return 0, 0
	}
	return pid, syscall.Signal(status)
}

// Exited waits until a child has exited, and leaves it to be reaped. It reports
// whether the child has exited: with unix.WNOHANG it does not wait, and with
// unix.WSTOPPED it also returns if the child has stopped.
func Exited(pid, options int) bool {
	for {
		got, code, _, err := waitID(OneChild, pid, unix.WEXITED|unix.WNOWAIT|options)
		if err != unix.EINTR {
			return err != nil || got != 0 && code != stoppedChild
		}
	}
}

// KilledEarly reports whether a child that has exited was killed before it executed its
// program: by a signal for this process's group, which it had not left yet. It must not have
// been reaped.
func KilledEarly(pid int) bool {
	_, code, _, err := waitID(OneChild, pid, unix.WEXITED|unix.WNOWAIT|unix.WNOHANG)
	return err == nil && (code == killedChild || code == dumpedChild) && !executed(pid)
}

// forkExec is syscall.ForkExec, but fails with a DirError if the directory is at
// fault. It ignores Foreground: ForkExec does not block SIGTTOU, so a child in the
// background would stop, and ForkExec wait for ever.
func forkExec(path string, argv []string, attr *syscall.ProcAttr) (pid int, err error) {
	plain, sys := *attr, *attr.Sys
	sys.Foreground = false
	plain.Sys = &sys
	pid, err = syscall.ForkExec(path, argv, &plain)
	if err != nil && attr.Dir != "" {
		var st syscall.Stat_t
		if bad, ok := syscall.Stat(attr.Dir+"/.", &st).(syscall.Errno); ok {
			return 0, DirError{bad}
		}
	}
	return pid, err
}

// Processes returns the IDs of all processes, and perhaps of others that are gone.
func Processes() (pids []int) {
	const most = 99999 // where /proc does not list them
	names, _ := filepath.Glob("/proc/[0-9]*")
	for _, name := range names {
		if pid, err := strconv.Atoi(filepath.Base(name)); err == nil {
			pids = append(pids, pid)
		}
	}
	for pid := 1; len(names) == 0 && pid <= most; pid++ {
		pids = append(pids, pid)
	}
	return pids
}

//go:build amd64 || arm64

package linux

import (
	"math"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"crew/runner/linux/raw"
)

// DelayedExec is a program to be started after a pause, by a process that shares
// this one's memory until then: that costs less than a program, and a run that
// is over before the pause never pays for one. Keep it until the program runs.
type DelayedExec struct {
	script
	program
	wait syscall.Timespec
}

// NewDelayedExec prepares a program that runs in a process group of its own, in
// the root directory, with null as its three standard streams and keep, which is
// above 2, as its only other descriptor, where that can be had.
func NewDelayedExec(path string, argv, env []string, null, keep int, wait time.Duration) *DelayedExec {
	d := &DelayedExec{program: program{path, argv, env, null, keep}, wait: syscall.NsecToTimespec(int64(wait))}
	d.begin([]string{path, "/"}, argv, env)
	file, root := d.word(path), d.word("/")
	d.addWords(argv)
	d.addWords(env)
	d.call(0, syscall.SYS_SETPGID, 0, 0)
	for fd := range uintptr(3) {
		if uintptr(null) != fd {
			d.call(fd, syscall.SYS_DUP3, uintptr(null), fd, 0)
		}
	}
	// Without close_range(2), before Linux 5.9 or under a seccomp filter, it
	// holds the rest for as long as it lives, hardly longer than this process.
	if unix.CloseRange(math.MaxUint32, math.MaxUint32, 0) == nil {
		if keep > 3 {
			d.call(0, unix.SYS_CLOSE_RANGE, 3, uintptr(keep-1), 0)
		}
		d.call(0, unix.SYS_CLOSE_RANGE, uintptr(keep+1), math.MaxUint32, 0)
	}
	d.call(0, syscall.SYS_FCNTL, uintptr(keep), syscall.F_SETFD, 0)
	d.call(0, syscall.SYS_CHDIR, pointer(root))
	d.call(0, syscall.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&d.wait)), 0)
	d.exec(file, len(argv))
	return d
}

// Start starts it; at once where the kernel or a seccomp filter knows no
// clone3(2).
func (d *DelayedExec) Start() (pid int, err error) {
	pid, errno := raw.SpawnBeside(d.calls)
	switch syscall.Errno(errno) {
	case 0:
		return pid, nil
	case syscall.ENOSYS, syscall.EPERM, syscall.EINVAL:
		return d.StartNow()
	}
	return 0, syscall.Errno(errno)
}

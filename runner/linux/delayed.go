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

// DelayedExec is a program to be started after a delay. Until then its process
// shares the memory of this one, which is cheaper: a run that ends before the
// delay never pays for an exec. Keep the DelayedExec reachable until the program
// runs.
type DelayedExec struct {
	script
	program
}

// NewDelayedExec prepares a program that runs in a process group of its own, in
// the root directory, with null as its three standard streams. keep, which ascends
// and is above 2, are its only other descriptors, if the kernel has close_range(2).
func NewDelayedExec(path string, argv, env []string, null int, keep []int, wait time.Duration) *DelayedExec {
	d := &DelayedExec{program: program{path, argv, env, null, keep}}
	d.wait = syscall.NsecToTimespec(int64(wait))
	file, root := d.begin(path, "/", argv, env)
	d.call(0, syscall.SYS_SETPGID, 0, 0)
	for fd := range uintptr(3) {
		if uintptr(null) != fd {
			d.call(fd, syscall.SYS_DUP3, uintptr(null), fd, 0)
		}
	}
	// Before Linux 5.9, or under a seccomp filter, there is no close_range(2).
	// The child then keeps the descriptors open until it ends, hardly later than
	// this process.
	if unix.CloseRange(math.MaxUint32, math.MaxUint32, 0) == nil {
		from := 3
		for _, fd := range keep {
			if fd > from {
				d.call(0, unix.SYS_CLOSE_RANGE, uintptr(from), uintptr(fd-1), 0)
			}
			from = fd + 1
		}
		d.call(0, unix.SYS_CLOSE_RANGE, uintptr(from), math.MaxUint32, 0)
	}
	for _, fd := range keep {
		d.call(0, syscall.SYS_FCNTL, uintptr(fd), syscall.F_SETFD, 0)
	}
	d.call(0, syscall.SYS_CHDIR, pointer(root))
	d.call(0, syscall.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&d.wait)), 0)
	d.exec(file, len(argv))
	return d
}

// Start starts the program after the delay, or at once if the kernel lacks
// clone3(2) or a seccomp filter forbids it. It does not wait.
func (d *DelayedExec) Start() (pid int, err error) {
	pid, errno := raw.Spawn(d.calls, nil, &d.self, true)
	switch err := syscall.Errno(errno); err {
	case 0:
		return pid, nil
	case syscall.ENOSYS, syscall.EPERM, syscall.EINVAL:
		return d.StartNow()
	default:
		return 0, err
	}
}

//go:build (amd64 || arm64) && !crew_portable

package kernel

import (
	"math"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"crew/runner/kernel/raw"
)

// Helper starts a helper after a delay. Until then that shares the memory of this
// process, which is cheaper: a run that ends before the delay never pays for an exec.
// Keep the Helper reachable until the delay is over.
type Helper struct {
	script
	program
}

// NewHelper prepares a helper that gets the descriptors and the word.
func NewHelper(name string, null int, fds []int, word string, wait time.Duration) *Helper {
	d := &Helper{program: newProgram(name, null, fds, word)}
	d.wait = syscall.NsecToTimespec(int64(wait))
	file, root := d.begin("/proc/self/exe", "/", d.argv, helperEnv)
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
		for _, fd := range d.keep {
			if fd > from {
				d.call(0, unix.SYS_CLOSE_RANGE, uintptr(from), uintptr(fd-1), 0)
			}
			from = fd + 1
		}
		d.call(0, unix.SYS_CLOSE_RANGE, uintptr(from), math.MaxUint32, 0)
	}
	for _, fd := range d.keep {
		d.call(0, syscall.SYS_FCNTL, uintptr(fd), syscall.F_SETFD, 0)
	}
	d.call(0, syscall.SYS_CHDIR, pointer(root))
	d.call(0, syscall.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&d.wait)), 0)
	d.exec(file, len(d.argv))
	return d
}

// Start starts the helper after the delay, or at once if the kernel lacks
// clone3(2) or a seccomp filter forbids it. It does not wait.
func (d *Helper) Start() (pid int, err error) {
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

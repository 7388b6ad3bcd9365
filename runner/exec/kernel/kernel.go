// Package kernel holds the code that differs between systems. On Linux it replaces parts of Go's
// standard library that cost too much here. These are the tricks, each with the time that a run takes
// without it, relative to a run with it, measured interleaved on two processors:
//
//   - starting processes with clone3(2) and a prepared list of system calls (Spawner): 1.6 for no-op
//     tasks, 1.10 for /bin/true;
//   - pinning a brief task and its thread to one processor (Pins): 1.26 and 1.00, and 1.4 for cat as a
//     worker;
//   - signal handlers in assembly (Notify): 1.07 and 1.03, and 1.13 for one task.
//
// The tricks need amd64 or arm64. Code that needs Linux is in files named x_linux.go. Its portable
// counterpart is in x_other.go and relies only on features that POSIX systems share. The build tag
// crew_portable selects the portable code on Linux too, so that it can be tested. Names that differ
// from system to system are in os_linux.go, os_bsd.go, os_darwin.go and os_freebsd.go.
package kernel

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// Modes returns the modes of a terminal. It fails if fd is not a terminal.
func Modes(fd int) (*unix.Termios, error) { return unix.IoctlGetTermios(fd, getModes) }

// SetModes sets the modes of a terminal.
func SetModes(fd int, modes *unix.Termios) error { return unix.IoctlSetTermios(fd, setModes, modes) }

// Unread returns how many bytes can be read from a pipe, a terminal or a socket without waiting.
func Unread(fd int) (int, error) { return unix.IoctlGetInt(fd, unread) }

// OpenPTY opens a pseudo-terminal. theirs is write-only. After an error, a descriptor that is not -1 is
// open.
func OpenPTY() (ours, theirs int, err error) {
	m, t, err := pty.Open()
	if err == syscall.ENXIO { // darwin's error if all terminals are in use
		err = syscall.ENOSPC
	}
	if err != nil {
		return -1, -1, err
	}
	defer m.Close()
	defer t.Close()
	if ours, err = unix.FcntlInt(m.Fd(), unix.F_DUPFD_CLOEXEC, 0); err != nil {
		return -1, -1, err
	}
	theirs, err = syscall.Open(t.Name(), syscall.O_WRONLY|syscall.O_NOCTTY|syscall.O_CLOEXEC, 0)
	return ours, theirs, err
}

// IgnoreEINTR calls call until it fails with an error other than EINTR, or succeeds.
func IgnoreEINTR(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}

// Poll calls done, with growing pauses, until it returns true or some time has passed. It reports whether done
// has returned true.
func Poll(within time.Duration, done func() bool) bool {
	end := time.Now().Add(within)
	for pause := 50 * time.Microsecond; !done(); pause = min(2*pause, 16*time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
		time.Sleep(pause)
	}
	return true
}

// Errno returns the error of the system call that failed, or err if none did.
func Errno(err error) error {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno
	}
	return err
}

// Limit returns the soft limit of a resource. It returns math.MaxUint64 if there is no limit.
func Limit(resource int) uint64 {
	var r syscall.Rlimit
	if err := syscall.Getrlimit(resource, &r); err != nil {
		return math.MaxUint64
	}
	return uint64(r.Cur)
}

// countBelow is the limit below which UserProcesses counts the user's processes.
const countBelow = 1024

// UserProcesses returns how many processes and threads, including its own, this process can have under
// its user's limit, or math.MaxInt64 if there is no limit. If the limit is below countBelow, the user's
// other processes are subtracted, and root has no limit, except root of a user namespace that is a
// different user outside.
func UserProcesses() int64 {
	left, uid := int64(min(Limit(unix.RLIMIT_NPROC), math.MaxInt64)), os.Getuid()
	if left >= countBelow {
		return left
	}
	if uid == 0 {
		outside, _ := os.ReadFile("/proc/self/uid_map")
		if f := strings.Fields(string(outside)); len(f) < 2 || f[1] == "0" {
			return math.MaxInt64
		}
	}
	tasks, _ := filepath.Glob("/proc/[0-9]*/task")
	for _, dir := range tasks {
		if n, owner := threads(dir); owner == uid {
			left -= n
		}
	}
	return left + Threads()
}

// Threads returns how many threads this process has, or 1 if the system does not tell.
func Threads() int64 {
	n, _ := threads("/proc/self/task")
	return max(n, 1)
}

// threads returns the number of subdirectories of a directory of /proc, and the directory's owner.
// owner is -1 if the directory is gone.
func threads(dir string) (n int64, owner int) {
	var st syscall.Stat_t
	if syscall.Stat(dir, &st) != nil {
		return 0, -1
	}
	return int64(st.Nlink) - 2, int(st.Uid)
}

// CreateUnnamed creates a file in dir, open for reading and writing, and removes its name.
func CreateUnnamed(dir string) (*os.File, error) {
	f, err := os.CreateTemp(dir, "crew-")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// reopen opens a file for reading, without waiting for the writer of a pipe. fd is -1 after an error.
func reopen(path string, flags int) (fd int, err error) {
	err = IgnoreEINTR(func() error {
		fd, err = unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC|flags, 0o666)
		return err
	})
	return fd, err
}

// SyncDir makes the names in a directory durable.
func SyncDir(path string) error { return syncBy(path+"/.", (*os.File).Sync) }

// syncBy makes a file or a directory durable with call, if its file system supports that.
func syncBy(path string, call func(*os.File) error) error {
	f, err := os.OpenFile(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, unix.EACCES) { // not readable, even by its owner
		unix.Sync()
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if err = call(f); errors.Is(err, unix.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	return err
}

// Ignored reports whether a signal is ignored. It may have been ignored since before this process
// started; package os/signal can only tell for SIGHUP and SIGINT.
func Ignored(sig syscall.Signal) bool {
	const ignore = 1
	var now [16]uintptr
	return action(sig, &now) == 0 && now[0] == ignore
}

// routes maps each taken signal to its channel.
var (
	routesMu sync.Mutex
	routes   [65]chan<- syscall.Signal
)

// route sends a received signal to its channel.
func route(sig syscall.Signal) {
	routesMu.Lock()
	to := routes[sig]
	routesMu.Unlock()
	send(to, sig)
}

// send sends a signal to a channel if there is room. SIGCONT may use only half of the room: several at
// once mean the same as one, and they must not displace SIGTERM.
func send(to chan<- syscall.Signal, sig syscall.Signal) {
	if sig == syscall.SIGCONT && len(to) > cap(to)/2 {
		return
	}
	select {
	case to <- sig:
	default:
	}
}

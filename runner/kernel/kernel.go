// Package kernel is where systems differ. On Linux it replaces parts of Go's standard
// library that cost too much here. Each trick earns its keep. These are the times that a run takes without it,
// relative to one with it, measured interleaved on two processors:
//
//   - starting processes with clone3(2) and a prepared list of system calls
//     (Spawner): 1.6 for no-op tasks, 1.10 for /bin/true;
//   - pinning a brief task and its thread to one processor (Pins): 1.26 and 1.00, and
//     1.4 for cat as a worker;
//   - signal handlers in assembly (Take): 1.07 and 1.03, and 1.13 for one task.
//
// The tricks need amd64 or arm64. What needs Linux is in files named x_linux.go; the
// portable form of the same, in x_other.go, stands on what POSIX systems share. On Linux the
// build tag crew_portable selects that one, too, so that it can be tested. What each system
// calls by another name is in os_linux.go, os_bsd.go and their like.
package kernel

import (
	"math"
	"syscall"

	"golang.org/x/sys/unix"
)

// Modes returns the modes of a terminal. It fails if the descriptor is none.
func Modes(fd int) (*unix.Termios, error) { return unix.IoctlGetTermios(fd, getModes) }

// SetModes sets the modes of a terminal.
func SetModes(fd int, modes *unix.Termios) error { return unix.IoctlSetTermios(fd, setModes, modes) }

// Unread returns how many bytes a descriptor has to read at once: of a pipe, a terminal or
// a socket.
func Unread(fd int) (int, error) { return unix.IoctlGetInt(fd, unread) }

// Again repeats a system call that a signal has interrupted.
func Again(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}

// Limit returns the soft limit of a resource, or math.MaxUint64 for none.
func Limit(resource int) uint64 {
	var r syscall.Rlimit
	if err := syscall.Getrlimit(resource, &r); err != nil {
		return math.MaxUint64
	}
	return uint64(r.Cur)
}

// reopen opens a file for reading, without waiting for the writer of a pipe. fd is -1 after
// an error.
func reopen(path string, flags int) (fd int, err error) {
	err = Again(func() error {
		fd, err = unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC|flags, 0o666)
		return err
	})
	return fd, err
}

//go:build !linux || crew_portable

package kernel

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// Pipe makes a pipe that programs do not inherit: its ends for reading and writing.
func Pipe(ends *[2]int) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	err := syscall.Pipe(ends[:])
	if err == nil {
		syscall.CloseOnExec(ends[0])
		syscall.CloseOnExec(ends[1])
	}
	return err
}

// Widen does nothing.
func Widen(int, int) {}

// Splice fails with EINVAL: the caller has to copy.
func Splice(int, int64, int, int) (int64, error) { return 0, syscall.EINVAL }

// CloseFrom closes all descriptors from fd on that a process usually has.
func CloseFrom(fd int) {
	for n := fd; n < 1<<16; n++ {
		_ = syscall.Close(n)
	}
}

// PipeIsOne is false: the ends of a pipe have inodes of their own.
const PipeIsOne = false

// Reopen duplicates the descriptor: whether it blocks is up to all that share it.
func Reopen(fd, _ int) (int, error) { return unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0) }

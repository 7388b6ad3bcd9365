//go:build !linux || crew_portable

package kernel

import (
	"os"
	"strconv"
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

// CloseFrom closes all descriptors from fd on that /dev/fd lists or, where it lists
// standard streams alone, the first thousand.
func CloseFrom(fd int) {
	const usual, most = 3, 1024
	names, _ := os.ReadDir("/dev/fd")
	for _, name := range names {
		if n, err := strconv.Atoi(name.Name()); err == nil && n >= fd {
			_ = syscall.Close(n)
		}
	}
	if len(names) <= usual {
		for n := fd; n < most; n++ {
			_ = syscall.Close(n)
		}
	}
}

// PipeIsOne is false: the ends of a pipe have inodes of their own.
const PipeIsOne = false

// Reopen duplicates the descriptor: whether it blocks is up to all that share it.
func Reopen(fd, _ int) (int, error) { return unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0) }

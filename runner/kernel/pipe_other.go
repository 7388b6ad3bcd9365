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

// PipeIsOne is false: the ends of a pipe have inodes of their own, and only the one for
// reading tells what there is to read.
const PipeIsOne = false

// Pending returns how many bytes a pipe holds, as far as its end for writing tells: Darwin
// does, by fstat(2).
func Pending(fd int) int {
	var st unix.Stat_t
	_ = unix.Fstat(fd, &st)
	return int(st.Size)
}

// Reopen duplicates the descriptor: whether it blocks is up to all that share it.
func Reopen(fd, _ int) (int, error) { return unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0) }

//go:build !linux || crew_portable

package kernel

import (
	"os"
	"strconv"
	"syscall"
)

// Pipe makes a pipe that programs do not inherit: its ends for reading and writing.
func Pipe(ends *[2]int) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := syscall.Pipe(ends[:]); err != nil {
		return err
	}
	syscall.CloseOnExec(ends[0])
	syscall.CloseOnExec(ends[1])
	return nil
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

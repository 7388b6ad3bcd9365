//go:build !crew_portable

package kernel

import (
	"math"
	"strconv"

	"golang.org/x/sys/unix"
)

// Pipe makes a pipe that programs do not inherit: its ends for reading and writing.
func Pipe(ends *[2]int) error { return unix.Pipe2(ends[:], unix.O_CLOEXEC) }

// Widen gives a pipe room for so many bytes, if the kernel lets it.
func Widen(fd, size int) { _, _ = unix.FcntlInt(uintptr(fd), unix.F_SETPIPE_SZ, size) }

// Splice moves up to n bytes of a file, from an offset on, to a pipe that does not block. It
// fails with EINVAL if that cannot be done without a copy.
func Splice(from int, off int64, to, n int) (int64, error) {
	moved, err := unix.Splice(from, &off, to, nil, n, unix.SPLICE_F_NONBLOCK)
	return int64(moved), err // the type of moved differs between architectures
}

// CloseFrom closes all descriptors from fd on.
func CloseFrom(fd int) { _ = unix.CloseRange(uint(fd), math.MaxUint32, 0) }

// PipeIsOne tells that both ends of a pipe are one file: their Fstat is the same.
const PipeIsOne = true

// Reopen opens an end of a pipe once more, so that it can be set to not block without doing
// so for others, and does that if the system can.
func Reopen(fd, mode int) (int, error) {
	return unix.Open("/proc/self/fd/"+strconv.Itoa(fd), mode|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
}

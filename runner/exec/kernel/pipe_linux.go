//go:build !crew_portable

package kernel

import (
	"math"
	"strconv"

	"golang.org/x/sys/unix"
)

// Pipe creates a pipe with close-on-exec set. ends[0] is for reading, ends[1] for writing.
func Pipe(ends *[2]int) error { return unix.Pipe2(ends[:], unix.O_CLOEXEC) }

// SetPipeSize makes room for size bytes in a pipe, if the kernel allows that.
func SetPipeSize(fd, size int) { _, _ = unix.FcntlInt(uintptr(fd), unix.F_SETPIPE_SZ, size) }

// Splice moves up to n bytes of a file, starting at offset off, to a pipe without blocking. It fails
// with EINVAL if that is not possible without a copy.
func Splice(from int, off int64, to, n int) (int64, error) {
	moved, err := unix.Splice(from, &off, to, nil, n, unix.SPLICE_F_NONBLOCK)
	return int64(moved), err // the type of moved differs between architectures
}

// CloseFrom closes all descriptors from fd on.
func CloseFrom(fd int) { _ = unix.CloseRange(uint(fd), math.MaxUint32, 0) }

// PipeEndsShareInode reports whether both ends of a pipe are the same file for fstat(2).
const PipeEndsShareInode = true

// Reopen opens an end of a pipe a second time, in non-blocking mode. The mode of fd itself, which other
// processes may share, does not change.
func Reopen(fd, mode int) (int, error) {
	return unix.Open("/proc/self/fd/"+strconv.Itoa(fd), mode|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
}

//go:build !linux || crew_portable

package kernel

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// Pipe creates a pipe with close-on-exec set. ends[0] is for reading, ends[1] for writing.
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

// SetPipeSize does nothing.
func SetPipeSize(int, int) {}

// Splice fails with EINVAL: the caller has to copy.
func Splice(int, int64, int, int) (int64, error) { return 0, syscall.EINVAL }

// CloseFrom closes all descriptors from fd on, up to the highest number that a process usually has.
func CloseFrom(fd int) {
	for n := fd; n < 1<<16; n++ {
		_ = syscall.Close(n)
	}
}

// PipeEndsShareInode reports whether both ends of a pipe are the same file for fstat(2). Here each has
// an inode of its own.
const PipeEndsShareInode = false

// Reopen duplicates fd. The duplicate blocks or not, as all other descriptors of the same pipe end do.
func Reopen(fd, _ int) (int, error) { return unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0) }

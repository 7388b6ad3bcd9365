//go:build !linux || crew_portable

package kernel

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

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

// OpenAgain opens a file once more by its name, with an offset of its own. It fails if another
// file has that name by now.
func OpenAgain(f *os.File) (*os.File, error) {
	again, err := os.Open(f.Name())
	if err != nil {
		return nil, err
	}
	is, err1 := again.Stat()
	was, err2 := f.Stat()
	if err = errors.Join(err1, err2); err == nil && !os.SameFile(is, was) {
		err = errors.New(f.Name() + " was replaced")
	}
	if err != nil {
		again.Close()
		return nil, err
	}
	return again, nil
}

// SocketPair makes two connected sockets that programs do not inherit.
func SocketPair() (ends [2]int, err error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if ends, err = unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0); err == nil {
		syscall.CloseOnExec(ends[0])
		syscall.CloseOnExec(ends[1])
	}
	return ends, err
}

// Reading knows nothing.
func Reading(int, int) (reads, known bool) { return false, false }

package journal

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// makeRoom has the disk set n bytes aside for what is written to f from off on,
// without a change of its length. It is an error only where there are not as
// many; a file system that sets nothing aside is none.
func makeRoom(f *os.File, off, n int64) error {
	err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, off, n)
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return &os.PathError{Op: "write", Path: f.Name(), Err: err}
	}
	return nil
}

//go:build !linux || crew_portable

package kernel

import (
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// OwnPath returns the path of this program. Its file may have been replaced meanwhile.
func OwnPath() (string, error) { return os.Executable() }

// NewShared makes memory that helpers can share, and its descriptor: a file without a
// name. It has the first of the sizes that the limit on the size of files allows.
func NewShared(name string, sizes ...int64) (memory []byte, fd int, err error) {
	for _, dir := range slices.Compact([]string{os.TempDir(), "/tmp", "/var/tmp"}) {
		for _, size := range sizes {
			if fd, err = newShared(dir, name, size); err == nil {
				break
			}
		}
		if err == nil {
			break
		}
	}
	if err != nil {
		return nil, 0, err
	}
	if memory, err = OpenShared(fd); err != nil {
		_ = unix.Close(fd)
	}
	return memory, fd, err
}

// newShared makes the file. It is written, as a full disk would kill the process that
// stores something in a hole.
func newShared(dir, name string, size int64) (fd int, err error) {
	f, err := os.CreateTemp(dir, name)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	if err = os.Remove(f.Name()); err == nil {
		_, err = f.Write(make([]byte, size))
	}
	if err != nil {
		return 0, err
	}
	return unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 3)
}

//go:build !crew_portable

package kernel

import "golang.org/x/sys/unix"

// OwnPath returns the path of this very program, even if its file has been replaced.
func OwnPath() (string, error) { return "/proc/self/exe", nil }

// NewShared makes memory that helpers can share, and its descriptor. It has the first of
// the sizes that the limit on the size of files allows.
func NewShared(name string, sizes ...int64) (memory []byte, fd int, err error) {
	if fd, err = unix.MemfdCreate(name, unix.MFD_CLOEXEC); err != nil {
		return nil, 0, err
	}
	for _, size := range sizes {
		if err = unix.Ftruncate(fd, size); err == nil {
			break
		}
	}
	if err == nil {
		memory, err = OpenShared(fd)
	}
	if err != nil {
		_ = unix.Close(fd)
	}
	return memory, fd, err
}

package kernel

import (
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// Close closes *fd and sets it to -1. It does nothing if *fd is negative.
func Close(fd *int) {
	if *fd >= 0 {
		_ = syscall.Close(*fd)
		*fd = -1
	}
}

// Read reads once from *fd. At the end of the stream or after an error it closes *fd; the end of a
// terminal is the error EIO. It returns 0 if there is nothing to read.
func Read(fd *int, p []byte) int {
	n, err := syscall.Read(*fd, p)
	if err == syscall.EINTR || err == syscall.EAGAIN {
		return 0
	}
	if err != nil || n == 0 {
		Close(fd)
		return 0
	}
	return n
}

// Readable reports whether at least one of the descriptors has something to read. Negative descriptors
// are ignored.
func Readable(fds ...int) bool {
	return slices.ContainsFunc(fds, func(fd int) bool {
		set := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		_, _ = unix.Poll(set, 0)
		return set[0].Revents&unix.POLLIN != 0
	})
}

//go:build unix

package sink

import (
	"io"
	"syscall"

	"golang.org/x/sys/unix"
)

// awaitWritable blocks until w can be written to, or its reader is gone.
func awaitWritable(w io.Writer) error {
	c, ok := w.(syscall.Conn)
	if !ok {
		return syscall.EAGAIN
	}
	rc, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var polled error
	err = rc.Control(func(fd uintptr) {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
		for {
			if _, polled = unix.Poll(fds, -1); polled != unix.EINTR {
				return
			}
		}
	})
	if err != nil {
		return err
	}
	return polled
}

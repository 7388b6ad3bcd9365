package kernel

import "golang.org/x/sys/unix"

// again repeats a system call that a signal has interrupted.
func again(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}

// reopen opens what exists for reading, without waiting for the writer of a pipe. fd is -1
// after an error.
func reopen(path string, flags int) (fd int, err error) {
	err = again(func() error {
		fd, err = unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC|flags, 0o666)
		return err
	})
	return fd, err
}

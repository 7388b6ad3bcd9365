package wiring

import "golang.org/x/sys/unix"

// notifySocket is the variable that names the socket of sd_notify(3).
const notifySocket = "NOTIFY_SOCKET"

// notifyReady tells systemd, which listens at a socket, that crew serve is ready. With the
// name "" it does nothing. The beginning of a drain is not told: TimeoutStopSec= would
// count from there, even if crew ctl drain asked for it.
func notifyReady(socket string) error {
	if socket == "" {
		return nil
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Sendto(fd, []byte("READY=1"), unix.MSG_NOSIGNAL, &unix.SockaddrUnix{Name: socket})
}

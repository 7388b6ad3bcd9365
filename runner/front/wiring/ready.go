package wiring

import (
	"os"

	"golang.org/x/sys/unix"

	"crew/runner/exec/kernel"
)

// notifySocket is the variable that names the socket of sd_notify(3).
const notifySocket = "NOTIFY_SOCKET"

// tellReady tells systemd that what it has started is ready, if it waits for that.
func tellReady(what string, notice func(string)) {
	if err := notifyReady(os.Getenv(notifySocket)); err != nil {
		notice("cannot tell systemd that " + what + " is ready: " + err.Error())
	}
}

// notifyReady tells systemd, which listens at a socket, that crew is ready. With the
// name "" it does nothing. The beginning of a drain is not told: TimeoutStopSec= would
// count from there, even if crew ctl drain asked for it.
func notifyReady(socket string) error {
	if socket == "" {
		return nil
	}
	fd, err := kernel.Socket(unix.SOCK_DGRAM)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Sendto(fd, []byte("READY=1"), unix.MSG_NOSIGNAL, &unix.SockaddrUnix{Name: socket})
}

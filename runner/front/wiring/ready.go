package wiring

import (
	"net"
	"os"

	"crew/runner/exec/kernel"
)

// notifySocket names the variable with the socket of sd_notify(3).
const notifySocket = "NOTIFY_SOCKET"

// tellReady tells systemd that a service is ready, if systemd asks for that. The notice of an error names the service
// as what.
func tellReady(what string, notice func(string)) {
	if err := notifyReady(os.Getenv(notifySocket)); err != nil {
		notice("cannot tell systemd that " + what + " is ready: " + err.Error())
	}
}

// notifyReady tells systemd at a socket that crew is ready. If the name of the socket is "", it does
// nothing. There is no STOPPING=1 when a drain starts: TimeoutStopSec= would count from then, even if
// crew ctl drain asked for it.
func notifyReady(socket string) error {
	if socket == "" {
		return nil
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: socket})
	if err == nil {
		defer c.Close()
		_, err = c.Write([]byte("READY=1"))
	}
	return kernel.Errno(err)
}

package wiring

import (
	"net"
	"os"

	"crew/runner/exec/kernel"
)

// notifySocket names the variable with the socket of sd_notify(3).
const notifySocket = "NOTIFY_SOCKET"

// tellReady tells systemd that a service is ready, if systemd asks for that. The notice of an error names the service
// as what. There is no STOPPING=1 when a drain starts: TimeoutStopSec= would count from then, even if crew ctl
// drain asked for it.
func tellReady(what string, notice func(string)) {
	socket := os.Getenv(notifySocket)
	if socket == "" {
		return
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: socket})
	if err == nil {
		defer c.Close()
		_, err = c.Write([]byte("READY=1"))
	}
	if err != nil {
		notice("cannot tell systemd that " + what + " is ready: " + kernel.Errno(err).Error())
	}
}

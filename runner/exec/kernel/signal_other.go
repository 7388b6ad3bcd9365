//go:build !linux || crew_portable || (!amd64 && !arm64)

package kernel

import (
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
)

var (
	received = make(chan os.Signal, 64)
	deliver  = sync.OnceFunc(func() {
		go func() {
			for sig := range received {
				route(sig.(syscall.Signal))
			}
		}()
	})
)

// Notify sends the signals to a channel from now on, as signal.Notify does. It drops a signal if the
// channel is full, so the channel needs room for all signals that may arrive at once. Notify stays in
// effect until Reset or the end of the process. Child processes start with the default action. Notify is
// safe for concurrent use. Do not use os/signal for the same signals.
func Notify(to chan<- syscall.Signal, sigs ...syscall.Signal) error {
	routesMu.Lock()
	defer routesMu.Unlock()
	deliver()
	for _, sig := range sigs {
		routes[sig] = to
		signal.Notify(received, sig)
	}
	return nil
}

// SignalThreads is how many threads Notify needs for itself: package os/signal waits in one.
const SignalThreads = 1

// SurvivePipes makes a write to a closed pipe fail with EPIPE instead of killing
// the process, on stdout and stderr too.
func SurvivePipes() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

func reset(sig syscall.Signal) { signal.Reset(sig) }

// Kill is kill(2), except that SIGQUIT has its default action in this process. The Go runtime would
// print the stacks of all goroutines and exit; only a shell in place of this process avoids that.
func Kill(pid int, sig syscall.Signal) error {
	if sig != syscall.SIGQUIT || pid != 0 && pid != os.Getpid() {
		return syscall.Kill(pid, sig)
	}
	return syscall.Exec("/bin/sh", []string{"sh", "-c", "kill -s QUIT " + strconv.Itoa(pid)}, os.Environ())
}

//go:build !linux || crew_portable || (!amd64 && !arm64)

package kernel

import (
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
)

// routes holds the channel of each signal taken, and fences those of the marks that have
// not come yet.
var (
	routesMu sync.Mutex
	routes   = map[syscall.Signal]chan<- syscall.Signal{}
	fences   []func()
	came     = make(chan os.Signal, 64)
	deliver  = sync.OnceFunc(func() { go route() })
)

// fencing is the signal that this process sends itself to see a mark behind those that have
// come before: package os/signal tells of signals that come together in the order of their
// numbers, and those that a user may mean by what he does have lower ones.
const fencing = syscall.SIGWINCH

// Take sends the signals to a channel from now on, as signal.Notify does. It
// drops a signal when the channel has no room, so give it room for those that may
// arrive at once. The signals stay taken until Reset or the end of the process;
// child processes start with the default action. Take is safe for concurrent use.
// Do not use os/signal for the same signals.
func Take(to chan<- syscall.Signal, sigs ...syscall.Signal) error {
	routesMu.Lock()
	defer routesMu.Unlock()
	deliver()
	for _, sig := range sigs {
		routes[sig] = to
		signal.Notify(came, sig)
	}
	return nil
}

// SignalThreads is how many threads Take needs for itself alone: that in which package os/signal
// waits.
const SignalThreads = 1

// Fence sends mark to the channel of Take, behind all signals that have come before.
func Fence(to chan<- syscall.Signal, mark syscall.Signal) {
	routesMu.Lock()
	defer routesMu.Unlock()
	if len(routes) == 0 {
		send(to, mark)
		return
	}
	fences = append(fences, func() { send(to, mark) })
	signal.Notify(came, fencing)
	_ = syscall.Kill(os.Getpid(), fencing)
}

// route sends the signals that arrive to their channels.
func route() {
	for sig := range came {
		routesMu.Lock()
		if sig == fencing {
			for _, mark := range fences {
				mark()
			}
			fences = nil
		} else {
			send(routes[sig.(syscall.Signal)], sig.(syscall.Signal))
		}
		routesMu.Unlock()
	}
}

// SurvivePipes makes a write to a closed pipe fail with EPIPE instead of killing
// the process, on stdout and stderr too.
func SurvivePipes() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

func reset(sig syscall.Signal) { signal.Reset(sig) }

// Kill is kill(2), with the default action in this process: the Go runtime would write the
// stacks of all goroutines at SIGQUIT, and exit. Only a shell in its place does without.
func Kill(pid int, sig syscall.Signal) error {
	if sig != syscall.SIGQUIT || pid != 0 && pid != os.Getpid() {
		return syscall.Kill(pid, sig)
	}
	return syscall.Exec("/bin/sh", []string{"sh", "-c", "kill -s QUIT " + strconv.Itoa(pid)}, os.Environ())
}

//go:build amd64 || arm64

package linux

import (
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"crew/runner/linux/raw"
)

// routes says where the signals go that are taken.
var (
	routesMu sync.Mutex
	routes   [65]chan<- syscall.Signal
)

// Take has the signals sent to a channel from now on, as signal.Notify does. It
// does not block for that, so the channel needs room for those that may come at
// once. What is taken stays taken until Reset or the end of the process; a
// program that the process starts begins with the default. It is safe for
// concurrent use. Do not use os/signal for the same signals.
//
// Package signal starts three threads and switches between two of them for each
// signal. Here a handler in assembly writes the signal's number to a pipe, and a
// goroutine that the runtime's poller wakes reads it.
func Take(to chan<- syscall.Signal, sigs ...syscall.Signal) error {
	routesMu.Lock()
	defer routesMu.Unlock()
	if raw.Pipe == 0 {
		var ends [2]int
		if err := syscall.Pipe2(ends[:], syscall.O_CLOEXEC|syscall.O_NONBLOCK); err != nil {
			return fmt.Errorf("take signals: %w", err)
		}
		raw.Pipe = int32(ends[1])
		go deliver(os.NewFile(uintptr(ends[0]), "signals"))
	}
	note, _, restore := raw.Handlers()
	for _, sig := range sigs {
		routes[sig] = to
		if errno := raw.Sigaction(int(sig), handler(note, restore), nil); errno != 0 {
			return fmt.Errorf("take signal %d: %w", sig, syscall.Errno(errno))
		}
	}
	return nil
}

func handler(f, restore uintptr) *raw.Action {
	return &raw.Action{Handler: f, Flags: raw.HandlerFlags, Restorer: restore, Mask: ^uint64(0)}
}

// deliver sends what comes out of the pipe where it belongs.
func deliver(from *os.File) {
	var came [16]byte
	for {
		n, err := from.Read(came[:])
		if err != nil {
			return
		}
		for _, sig := range came[:n] {
			routesMu.Lock()
			to := routes[sig]
			routesMu.Unlock()
			select {
			case to <- syscall.Signal(sig):
			default:
			}
		}
	}
}

// SurvivePipes makes a write to a closed pipe an error and no death, on stdout
// and stderr too.
func SurvivePipes() {
	signal.Ignore(syscall.SIGPIPE) // which the runtime asks itself when it sees the error
	_, nothing, restore := raw.Handlers()
	raw.Sigaction(int(syscall.SIGPIPE), handler(nothing, restore), nil)
}

// Reset gives a signal its default action.
func Reset(sig syscall.Signal) { raw.Sigaction(int(sig), &raw.Action{}, nil) }

// Ignored says whether a signal is ignored, as it may have been from the start.
func Ignored(sig syscall.Signal) bool {
	const ignore = 1
	var now raw.Action
	return raw.Sigaction(int(sig), nil, &now) == 0 && now.Handler == ignore
}

//go:build (amd64 || arm64) && !crew_portable

package kernel

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"crew/runner/exec/kernel/raw"
)

// Notify sends the signals to a channel from now on, as signal.Notify does. It drops a signal if the
// channel is full, so the channel needs room for all signals that may arrive at once. Notify stays in
// effect until Reset or the end of the process. Child processes start with the default action. Notify is
// safe for concurrent use. Do not use os/signal for the same signals.
//
// Package os/signal starts three threads and switches between two of them for each signal. Here a
// handler in assembly writes the signal's number to a pipe, and the runtime's poller wakes a goroutine
// that reads it.
func Notify(to chan<- syscall.Signal, sigs ...syscall.Signal) error {
	routesMu.Lock()
	defer routesMu.Unlock()
	if raw.Pipe == 0 {
		var ends [2]int
		if err := syscall.Pipe2(ends[:], syscall.O_CLOEXEC|syscall.O_NONBLOCK); err != nil {
			return fmt.Errorf("catch signals: %w", err)
		}
		raw.Pipe = int32(ends[1])
		go deliver(os.NewFile(uintptr(ends[0]), "signals"))
	}
	note, _, restore := raw.Handlers()
	for _, sig := range sigs {
		routes[sig] = to
		raw.Sigaction(int(sig), handler(note, restore))
	}
	return nil
}

func handler(f, restore uintptr) *raw.Action {
	return &raw.Action{Handler: f, Flags: raw.HandlerFlags, Restorer: restore, Mask: ^uint64(0)}
}

// SignalThreads is how many threads Notify needs for itself.
const SignalThreads = 0

// deliver sends the signals that arrive through the pipe to their channels.
func deliver(from *os.File) {
	var received [16]byte
	for {
		n, err := from.Read(received[:])
		if err != nil {
			return
		}
		for _, sig := range received[:n] {
			route(syscall.Signal(sig))
		}
	}
}

// SurvivePipes makes a write to a closed pipe fail with EPIPE instead of killing the process, on stdout
// and stderr too.
func SurvivePipes() {
	// When a write to stdout or stderr fails, the runtime asks whether SIGPIPE is
	// ignored. Children must not inherit that, so the kernel gets a handler.
	signal.Ignore(syscall.SIGPIPE)
	_, nothing, restore := raw.Handlers()
	raw.Sigaction(int(syscall.SIGPIPE), handler(nothing, restore))
}

func reset(sig syscall.Signal) { raw.Sigaction(int(sig), &raw.Action{}) }

// Kill is kill(2).
func Kill(pid int, sig syscall.Signal) error { return syscall.Kill(pid, sig) }

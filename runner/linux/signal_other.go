//go:build !amd64 && !arm64

package linux

import (
	"os"
	"os/signal"
	"syscall"
)

// Take has the signals sent to to from now on. It does not block for that, so to
// needs room for those that may come at once. It is safe for concurrent use.
func Take(to chan<- syscall.Signal, sigs ...syscall.Signal) error {
	in := make(chan os.Signal, max(1, cap(to)))
	for _, sig := range sigs {
		signal.Notify(in, sig)
	}
	go func() {
		for sig := range in {
			select {
			case to <- sig.(syscall.Signal):
			default:
			}
		}
	}()
	return nil
}

// SurvivePipes makes a write to a closed pipe an error and no death, on stdout
// and stderr too.
func SurvivePipes() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

// Reset gives a signal its default action.
func Reset(sig syscall.Signal) { signal.Reset(sig) }

// Ignored says whether a signal is ignored, as it may have been from the start.
func Ignored(sig syscall.Signal) bool { return signal.Ignored(sig) }

//go:build !linux || crew_portable || (!amd64 && !arm64)

package kernel

import (
	"os"
	"os/signal"
	"syscall"
	"time"
)

// Spawner starts processes. It is safe for concurrent use.
type Spawner struct{}

// NewSpawner returns a Spawner.
func NewSpawner() *Spawner { return new(Spawner) }

// Start starts a program as attr says. If the directory cannot be entered, Start
// fails with a DirError.
func (*Spawner) Start(path string, argv []string, attr *syscall.ProcAttr, _ *int32, _ *Pin) (pid int, err error) {
	return forkExec(path, argv, attr)
}

// Helper starts a helper.
type Helper struct{ program }

// NewHelper prepares a helper that gets the descriptors and the word.
func NewHelper(name string, null int, fds []int, word string, _ time.Duration) *Helper {
	return &Helper{newProgram(name, null, fds, word)}
}

// Start starts the helper at once.
func (h *Helper) Start() (pid int, err error) { return h.StartNow() }

// Brief is the longest time of a task that counts as brief.
const Brief = 0

// Pins does nothing: ForkExec could not reset the affinity of a child.
type Pins struct{}

// Pin is always nil.
type Pin struct{}

// Take returns nil.
func (*Pins) Take() *Pin { return nil }

// TakeAny returns nil.
func (*Pins) TakeAny() *Pin { return nil }

// Join does nothing.
func (*Pin) Join(int) {}

// Lasted does nothing.
func (*Pins) Lasted(time.Duration, int64) {}

// Release does nothing.
func (*Pin) Release() {}

// Yield does nothing.
func (*Pin) Yield() {}

// Take sends the signals to a channel from now on, if it has room for them. It is
// safe for concurrent use.
func Take(to chan<- syscall.Signal, sigs ...syscall.Signal) error {
	in := make(chan os.Signal, max(1, cap(to)))
	for _, sig := range sigs {
		signal.Notify(in, sig)
	}
	go func() {
		for sig := range in {
			Fence(to, sig.(syscall.Signal))
		}
	}()
	return nil
}

// Fence sends mark to a channel if that has room.
func Fence(to chan<- syscall.Signal, mark syscall.Signal) {
	select {
	case to <- mark:
	default:
	}
}

// SurvivePipes makes a write to a closed pipe fail with EPIPE instead of killing
// the process, on stdout and stderr too.
func SurvivePipes() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

func reset(sig syscall.Signal) { signal.Reset(sig) }

// Ignored reports whether a signal is ignored, as it may have been from the
// start.
func Ignored(sig syscall.Signal) bool { return signal.Ignored(sig) }

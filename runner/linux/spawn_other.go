//go:build !amd64 && !arm64

package linux

import (
	"syscall"
	"time"
)

// Spawner starts processes. It is safe for concurrent use.
type Spawner struct{}

// NewSpawner returns a Spawner.
func NewSpawner() *Spawner { return new(Spawner) }

// Start starts a program as attr says. Where the directory cannot be entered it
// fails with a DirError.
func (*Spawner) Start(path string, argv []string, attr *syscall.ProcAttr, _ *int32, _ *Pin) (pid int, err error) {
	return forkExec(path, argv, attr)
}

// DelayedExec is a program to be started later.
type DelayedExec struct{ program }

// NewDelayedExec prepares a program that runs in a process group of its own, in
// the root directory, with null as its three standard streams and keep, which is
// above 2, as its only other descriptor.
func NewDelayedExec(path string, argv, env []string, null, keep int, _ time.Duration) *DelayedExec {
	return &DelayedExec{program{path, argv, env, null, keep}}
}

// Start starts it without a delay.
func (d *DelayedExec) Start() (pid int, err error) { return d.StartNow() }

// Brief is how long a task may take to count as brief.
const Brief = 0

// Pins are for processes that can leave them, which ForkExec does not see to.
type Pins struct{}

// Pin is always nil.
type Pin struct{}

// Take returns nil.
func (*Pins) Take() *Pin { return nil }

// Lasted does nothing.
func (*Pins) Lasted(time.Duration, int64) {}

// Release does nothing.
func (*Pin) Release() {}

// Yield does nothing.
func (*Pin) Yield() {}

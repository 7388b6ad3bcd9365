//go:build !linux || crew_portable || (!amd64 && !arm64)

package kernel

import (
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Spawner starts processes one at a time, so that at most one process is not registered yet when this
// process is killed. It is safe for concurrent use.
type Spawner struct{ mu sync.Mutex }

// NewSpawner returns a Spawner.
func NewSpawner() *Spawner { return new(Spawner) }

// Start starts a program as attr says, and stores the process ID in *born unless born is nil.
func (s *Spawner) Start(path string, argv []string, attr *syscall.ProcAttr, born *int32, _ *Pin) (pid int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if pid, err = forkExec(path, argv, attr); err == nil && born != nil {
		atomic.StoreInt32(born, int32(pid))
	}
	return pid, err
}

// ErrExpired is never returned.
const ErrExpired = syscall.Errno(0)

// ExpireAt does nothing.
func (s *Spawner) ExpireAt(time.Duration) {}

// StartHelper starts a helper with the given descriptors and word.
func StartHelper(name string, null int, fds []int, word string, _ time.Duration) (keep any, pid int, err error) {
	pid, err = startNow(helper(name, null, fds, word))
	return nil, pid, err
}

// Brief is the longest duration of a brief task.
const Brief = 0

// Pins does nothing here: ForkExec could not reset the affinity of a child.
type Pins struct{}

// Pin is always nil.
type Pin struct{}

// Take returns nil.
func (*Pins) Take(bool) *Pin { return nil }

// AddProcess does nothing.
func (*Pin) AddProcess(int) {}

// Observe does nothing.
func (*Pins) Observe(time.Duration, int64) {}

// Release does nothing.
func (*Pin) Release() {}

// Yield does nothing.
func (*Pin) Yield() {}

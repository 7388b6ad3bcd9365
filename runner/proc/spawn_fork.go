//go:build !amd64 && !arm64

package proc

import (
	"syscall"
	"time"
)

// spawner starts processes. It is safe for concurrent use.
type spawner struct{}

func newSpawner() *spawner { return new(spawner) }

// start starts full with argv as attr says. Where the directory cannot be entered
// it fails with a dirError.
func (*spawner) start(full string, argv []string, attr *syscall.ProcAttr, _ *int32, _ *seat) (pid int, err error) {
	return forkExec(full, argv, attr)
}

// brief is how long a task may take to count as brief.
const brief = 0

// seats are for tasks that package vfork starts, which can leave them.
type seats struct{}

type seat struct{}

func (*seats) take() *seat                 { return nil }
func (*seats) lasted(time.Duration, int64) {}
func (*seat) leave()                       {}
func (*seat) giveWay()                     {}

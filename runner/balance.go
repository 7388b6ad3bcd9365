package runner

import (
	"math"
	"time"

	"crew/runner/task"
)

// usages knows which topics keep the processors busy: under --topics auto more
// slots than processors would only slow those down.
type usages struct {
	procs int
	of    map[uint64]*usage // by key; forgotten when nothing ran for a while
}

// usage is what a topic's tasks took lately: each round halves it.
type usage struct {
	work, wall time.Duration // on a processor or waiting for one, and in all
	bound      bool
}

// A topic whose tasks are at work for more than boundAbove of their time is
// limited by the processors. It keeps the mark until its share falls below
// boundBelow.
const (
	boundAbove = 0.7
	boundBelow = 0.5
)

func newUsages(procs int) *usages { return &usages{procs: procs, of: map[uint64]*usage{}} }

// saw counts a result in.
func (u *usages) saw(key uint64, r *task.Result) {
	t := u.of[key]
	if t == nil {
		t = &usage{}
		u.of[key] = t
	}
	t.work += r.User + r.System + r.RunDelay
	t.wall += r.Duration()
}

// most ends a round and says how many slots a key may have.
func (u *usages) most() func(key uint64) int {
	for key, t := range u.of {
		if t.wall < time.Microsecond {
			delete(u.of, key)
			continue
		}
		share := float64(t.work) / float64(t.wall)
		t.bound = share > boundAbove || t.bound && share > boundBelow
		t.work, t.wall = t.work/2, t.wall/2
	}
	return func(key uint64) int {
		if t := u.of[key]; t != nil && t.bound {
			return max(u.procs, 1)
		}
		return math.MaxInt
	}
}

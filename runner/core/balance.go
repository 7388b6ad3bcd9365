package core

import (
	"math"
	"time"

	"crew/runner/task"
)

// usages finds the topics that keep the processors busy. With automatic topics,
// giving those more slots than there are processors would only slow them down.
type usages struct {
	procs int
	of    map[uint64]*usage // by key; removed when nothing has run for a while
}

// usage is the time that a topic's tasks took lately. Each round halves it.
type usage struct {
	work, wall time.Duration // on a processor or waiting for one; in all
	bound      bool
}

// A topic is CPU-bound once its tasks work for more than boundAbove of their
// time, and until they work for less than boundBelow of it.
const (
	boundAbove = 0.7
	boundBelow = 0.5
)

func newUsages(procs int) *usages { return &usages{procs: procs, of: map[uint64]*usage{}} }

// saw adds a result.
func (u *usages) saw(key uint64, r *task.Result) {
	t := u.of[key]
	if t == nil {
		t = &usage{}
		u.of[key] = t
	}
	t.work += r.User + r.System + r.RunDelay
	t.wall += r.Duration()
}

// most ends a round and returns how many slots each key may have.
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

package runner

import (
	"time"

	"crew/runner/task"
	"crew/sched"
)

// balanceEvery is how often the workers of automatic topics are shared out anew.
const balanceEvery = time.Second

// balancer shares the workers of automatic topics out (--topics auto) and knows
// which topics keep the processors busy: more workers than processors would
// only slow those down.
type balancer struct {
	topic *sched.ByTopic
	procs int
	next  time.Time
	use   map[uint64]*usage // by key; forgotten when nothing ran for a while
}

// usage is what a topic's tasks took lately: each round halves it.
type usage struct {
	cpu, wall time.Duration
	bound     bool
}

// Over boundAbove of its time on a processor a task is limited by it. Tasks
// that compete for processors show less, so a topic keeps the mark until its
// share falls below boundBelow.
const (
	boundAbove = 0.7
	boundBelow = 0.2
)

// saw counts a result in.
func (b *balancer) saw(key uint64, r *task.Result) {
	u := b.use[key]
	if u == nil {
		u = &usage{}
		b.use[key] = u
	}
	u.cpu += r.User + r.System
	u.wall += r.Duration()
}

// run shares out, if it is time.
func (b *balancer) run(now time.Time) {
	if now.Before(b.next) {
		return
	}
	b.next = now.Add(balanceEvery)
	for key, u := range b.use {
		if u.wall < time.Microsecond {
			delete(b.use, key)
			continue
		}
		share := float64(u.cpu) / float64(u.wall)
		u.bound = share > boundAbove || u.bound && share > boundBelow
		u.cpu, u.wall = u.cpu/2, u.wall/2
	}
	b.topic.Balance(b.procs, func(key uint64) bool { u := b.use[key]; return u != nil && u.bound })
}

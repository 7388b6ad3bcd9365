package sink

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"crew/runner/task"
)

// load is the set of running tasks. Its times are on the run's clock.
type load struct {
	running map[uint64]runningTask // by task
}

// runningTask is a task that runs, and since when.
type runningTask struct {
	task  *task.Task
	slot  int
	host  string
	since time.Time
}

// apply takes an event that happened at a moment.
func (l *load) apply(e *task.Event, at time.Time) {
	switch e.Kind {
	case task.Started:
		if l.running == nil {
			l.running = map[uint64]runningTask{}
		}
		l.running[e.ID] = runningTask{e.Task, e.Slot, e.Host, at}
	case task.Retried, task.Finished:
		delete(l.running, e.ID)
	}
}

// oldest returns the n attempts that have run longest, the oldest first.
func (l *load) oldest(n int) []runningTask {
	list := slices.SortedFunc(maps.Values(l.running), func(a, b runningTask) int {
		return cmp.Or(a.since.Compare(b.since), cmp.Compare(a.slot, b.slot))
	})
	return list[:min(n, len(list))]
}

// ages returns how long the attempts have been running.
func (l *load) ages(now time.Time) []time.Duration {
	ages := make([]time.Duration, 0, len(l.running))
	for _, a := range l.running {
		ages = append(ages, now.Sub(a.since))
	}
	return ages
}

package sink

import (
	"cmp"
	"slices"
	"time"

	"crew/runner/task"
)

// load is what runs, and how long attempts have taken. Its times are on the run's
// clock.
type load struct {
	running map[uint64]runningTask // by task
	began   time.Time              // when the first attempt did
	busy    time.Duration          // sum of the attempts that have ended
	longest time.Duration          // of them
	tasks   int64                  // finished after an attempt
}

// runningTask is a task that runs, and since when.
type runningTask struct {
	task  *task.Task
	slot  int
	since time.Time
}

// apply takes an event that happened at a moment.
func (l *load) apply(e *task.Event, at time.Time) {
	switch e.Kind {
	case task.Started:
		if l.running == nil {
			l.running, l.began = map[uint64]runningTask{}, at
		}
		l.running[e.ID] = runningTask{e.Task, e.Slot, at}
	case task.Retried, task.Finished:
		a, ok := l.running[e.ID]
		if !ok {
			return
		}
		delete(l.running, e.ID)
		took := at.Sub(a.since)
		l.busy += took
		l.longest = max(l.longest, took)
		if e.Kind == task.Finished {
			l.tasks++
		}
	}
}

// oldest returns the n attempts that have run longest, the oldest first.
func (l *load) oldest(n int) []runningTask {
	list := make([]runningTask, 0, len(l.running))
	for _, a := range l.running {
		list = append(list, a)
	}
	slices.SortFunc(list, func(a, b runningTask) int {
		return cmp.Or(a.since.Compare(b.since), cmp.Compare(a.slot, b.slot))
	})
	return list[:min(n, len(list))]
}

// eta estimates how long it takes until the running tasks and the waiting ones are
// done, from how long tasks took and how many ran at once until now. ok is false
// if nothing can be said: no task is finished yet, or one runs much longer than
// any has taken, so it may take as long again.
func (l *load) eta(waiting int64, now time.Time) (left time.Duration, ok bool) {
	passed := now.Sub(l.began)
	if l.tasks == 0 || passed <= 0 {
		return 0, false
	}
	mean := l.busy / time.Duration(l.tasks)
	work := time.Duration(waiting) * mean
	busy := l.busy
	for _, a := range l.running {
		age := now.Sub(a.since)
		if age > 2*l.longest {
			return 0, false
		}
		busy += age
		rest := max(0, mean-age)
		work += rest
		left = max(left, rest)
	}
	return max(left, time.Duration(float64(work)*float64(passed)/float64(max(busy, 1)))), true
}

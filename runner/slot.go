package runner

import (
	"context"
	"time"

	"crew/runner/task"
)

// slot is a worker's place. Its context goes from attempt to attempt until one
// of them is cancelled.
type slot struct {
	id     uint64 // of the task that runs there, or ran last
	ctx    context.Context
	cancel context.CancelFunc
}

// start starts all that may start now, each in a goroutine of its own.
func (l *loop) start(now time.Time) {
	for {
		a, s, ok := l.next(now)
		if !ok {
			return
		}
		go l.work(a, s)
	}
}

// next is the attempt that starts now, if one does, and where.
func (l *loop) next(now time.Time) (a task.Attempt, s *slot, ok bool) {
	if len(l.outbox)+len(l.core.events) >= outboxFull {
		return a, nil, false
	}
	if a, ok = l.core.next(now); !ok {
		return a, nil, false
	}
	a.Kill = l.kill
	for len(l.slots) < a.Worker {
		l.slots = append(l.slots, nil)
	}
	s = l.slots[a.Worker-1]
	if s == nil || s.ctx.Err() != nil {
		s = new(slot)
		s.ctx, s.cancel = context.WithCancel(l.ctx)
		l.slots[a.Worker-1] = s
	}
	s.id = a.Task.ID
	return a, s, true
}

// work runs an attempt, and others after it as long as one may start when one
// has ended.
func (l *loop) work(a task.Attempt, s *slot) {
	for ok := true; ok; {
		r := l.exec.Run(s.ctx, a)
		a, s, ok = l.ended(r)
	}
}

// ended takes in a result and is the attempt that starts in its place, if one
// does. It wakes the loop only for what cannot be left until the loop wakes by
// itself.
func (l *loop) ended(r *task.Result) (a task.Attempt, s *slot, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return a, nil, false
	}
	now := time.Now()
	l.core.ended(r, now)
	a, s, ok = l.next(now)
	if !ok || l.needed() {
		select {
		case l.bell <- struct{}{}:
		default:
		}
	}
	return a, s, ok
}

// needed says whether there is something that the loop, which sleeps, does not
// know of.
func (l *loop) needed() bool {
	c := l.core
	switch {
	case len(c.events) >= batch, len(c.events) > 0 && !l.looks && len(l.outbox) == 0:
		return true // the pump is to get them
	case !l.reading && c.low():
		return true
	}
	return len(c.cancels) > 0 || !c.wake().IsZero()
}

// cancelSome ends the attempts that the core wants ended.
func (l *loop) cancelSome() {
	for _, id := range l.core.cancels {
		for _, s := range l.slots {
			if s != nil && s.id == id {
				s.cancel()
			}
		}
	}
	l.core.cancels = l.core.cancels[:0]
	if l.core.stopping {
		l.stop()
		l.limit()
	}
}

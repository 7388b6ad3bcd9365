package control

import (
	"cmp"
	"sync"
	"time"

	"crew/runner/task"
)

const (
	// share is the part of the time, as a divisor, for which questions may hold the
	// door.
	share = 20
	// rarest is the longest wait for an answer.
	rarest = 500 * time.Millisecond
)

// looks asks the run questions whose answers can take a while. Together they hold the
// door for a small share of the time only, however many clients ask.
type looks struct {
	do      func(task.Command) task.Reply
	closing <-chan struct{}

	turn   sync.Mutex     // held from the wait for a question's turn to its answer
	from   time.Time      // when the next one may be asked; under turn
	latest *task.Snapshot // under turn
}

// ask asks when it is the question's turn.
func (l *looks) ask(cmd task.Command) task.Reply {
	l.turn.Lock()
	defer l.turn.Unlock()
	return l.next(cmd)
}

// next is ask for a caller that holds turn.
func (l *looks) next(cmd task.Command) task.Reply {
	if wait := time.Until(l.from); wait > 0 {
		select {
		case <-time.After(wait):
		case <-l.closing:
		}
	}
	began := time.Now()
	reply := l.do(cmd)
	now := time.Now()
	l.from = now.Add(min(share*now.Sub(began), rarest))
	return reply
}

// snapshot returns a snapshot that is not older than the call. Those who ask while
// one is on the way share it.
func (l *looks) snapshot() (*task.Snapshot, error) {
	asked := time.Now()
	l.turn.Lock()
	defer l.turn.Unlock()
	if l.latest == nil || l.latest.At.Before(asked) {
		reply := l.next(task.Command{Op: task.Look})
		if reply.Snapshot == nil || reply.Err != nil {
			return nil, cmp.Or(reply.Err, error(errOver))
		}
		l.latest = reply.Snapshot
	}
	return l.latest, nil
}

package control

import (
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

// looks asks the run questions that can take it long to answer. Together they hold
// the door for a small share of the time only, however many clients ask.
type looks struct {
	do      func(task.Command) task.Reply
	closing <-chan struct{}

	turn sync.Mutex // held from the wait for a question's turn to its answer
	from time.Time  // when the next one may be asked; under turn

	mu   sync.Mutex
	next *look // the snapshot that those who ask now share; nil if nobody waits for one
}

type look struct {
	done  chan struct{}
	reply task.Reply
}

// ask asks when it is the question's turn. It calls first, which may be nil, before.
func (l *looks) ask(cmd task.Command, first func()) task.Reply {
	l.turn.Lock()
	defer l.turn.Unlock()
	if wait := time.Until(l.from); wait > 0 {
		select {
		case <-time.After(wait):
		case <-l.closing:
		}
	}
	if first != nil {
		first()
	}
	began := time.Now()
	reply := l.do(cmd)
	now := time.Now()
	l.from = now.Add(min(share*now.Sub(began), rarest))
	return reply
}

// snapshot returns a snapshot that is not older than the call.
func (l *looks) snapshot() (*task.Snapshot, error) {
	l.mu.Lock()
	mine, first := l.next, l.next == nil
	if first {
		mine = &look{done: make(chan struct{})}
		l.next = mine
	}
	l.mu.Unlock()
	if first {
		mine.reply = l.ask(task.Command{Op: task.Look}, func() {
			l.mu.Lock()
			l.next = nil
			l.mu.Unlock()
		})
		close(mine.done)
	}
	<-mine.done
	if mine.reply.Snapshot == nil && mine.reply.Err == nil {
		return nil, errOver
	}
	return mine.reply.Snapshot, mine.reply.Err
}

package control

import (
	"cmp"
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

// ask asks the run a question whose answer can take a while. Together such questions hold
// the door for a small share of the time only, however many clients ask.
func (s *Server) ask(cmd task.Command) task.Reply {
	s.turn.Lock()
	defer s.turn.Unlock()
	return s.next(cmd)
}

// next is ask for a caller that holds turn.
func (s *Server) next(cmd task.Command) task.Reply {
	if wait := time.Until(s.from); wait > 0 {
		select {
		case <-time.After(wait):
		case <-s.closing:
		}
	}
	began := time.Now()
	reply := s.cfg.Do(cmd)
	now := time.Now()
	s.from = now.Add(min(share*now.Sub(began), rarest))
	return reply
}

// snapshot returns a snapshot that is not older than the call. Those who ask while
// one is on the way share it.
func (s *Server) snapshot() (*task.Snapshot, error) {
	asked := time.Now()
	s.turn.Lock()
	defer s.turn.Unlock()
	if s.latest == nil || s.latest.At.Before(asked) {
		reply := s.next(task.Command{Op: task.Look})
		if reply.Snapshot == nil || reply.Err != nil {
			return nil, cmp.Or(reply.Err, error(errOver))
		}
		s.latest = reply.Snapshot
	}
	return s.latest, nil
}

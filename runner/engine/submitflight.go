package engine

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"crew/runner/outbox"
	"crew/runner/task"
	"crew/runner/travel"
)

// orderAfter is after which time an order is sent again if the attempt has not ended.
const orderAfter = time.Second

// flights are the attempts that workers have been given and that have not ended, and
// what is sent for them until it has arrived.
type flights struct {
	out *outbox.Outbox
	nc  *nats.Conn

	mu       sync.Mutex
	m        map[uint64]*flight // by task
	expected map[int][]*expected
}

// expected is an attempt that is to be sent to its slot after those before it.
type expected struct {
	task     uint64
	recalled bool
	turn     chan struct{} // closed when its turn comes, if somebody waits for that; else nil
}

// flight is an attempt that a worker has been given.
type flight struct {
	attempt task.Attempt
	id      ID
	token   Token
	worker  *worker // nil for one of an earlier epoch
	from    string  // its worker's ID
	subject string
	body    travel.Blob   // its message, if that is long
	take    []travel.File // that its task takes
	final   *Final        // of an earlier epoch's
	done    chan end      // gets one end

	// under flights.mu

	op      string    // the latest order; "" for none
	ordered time.Time // when that was sent

	out outputs
}

// end tells how a flight ended.
type end struct {
	final   *Final // nil if the attempt is lost
	err     error  // then why
	unbegun bool   // then that it had not begun
}

// expect adds an attempt to those that are to be sent.
func (s *flights) expect(a task.Attempt) {
	s.mu.Lock()
	s.expected[a.Slot.ID] = append(s.expected[a.Slot.ID], &expected{task: a.Task.ID})
	s.mu.Unlock()
}

// expects returns the place of an attempt of a task among those of its slot, or -1. Its caller holds
// mu.
func (s *flights) expects(slot int, id uint64) int {
	return slices.IndexFunc(s.expected[slot], func(x *expected) bool { return x.task == id })
}

// await waits for the turn of an attempt.
func (s *flights) await(ctx context.Context, a task.Attempt) {
	s.mu.Lock()
	i := s.expects(a.Slot.ID, a.Task.ID)
	if i <= 0 {
		s.mu.Unlock()
		return
	}
	turn := make(chan struct{})
	s.expected[a.Slot.ID][i].turn = turn
	s.mu.Unlock()
	select {
	case <-turn:
	case <-ctx.Done():
	}
}

// sent notes that an attempt has been sent, or will not be.
func (s *flights) sent(a task.Attempt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.expects(a.Slot.ID, a.Task.ID)
	if i < 0 {
		return
	}
	line := slices.Delete(s.expected[a.Slot.ID], i, i+1)
	if s.expected[a.Slot.ID] = line; i == 0 && len(line) > 0 && line[0].turn != nil {
		close(line[0].turn)
	}
}

// add adds a flight unless it is recalled.
func (s *flights) add(f *flight) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	slot := f.attempt.Slot.ID
	if i := s.expects(slot, f.id.Task); i >= 0 && s.expected[slot][i].recalled {
		return false
	}
	s.m[f.id.Task] = f
	return true
}

// recall returns the flight of an attempt. If it is still to come, it never will.
func (s *flights) recall(a task.Attempt) *flight {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := s.expects(a.Slot.ID, a.Task.ID); i >= 0 {
		s.expected[a.Slot.ID][i].recalled = true
	}
	if f := s.m[a.Task.ID]; f != nil && f.id.Number == a.Number {
		return f
	}
	return nil
}

func (s *flights) remove(f *flight) {
	s.mu.Lock()
	if s.m[f.id.Task] == f {
		delete(s.m, f.id.Task)
	}
	s.mu.Unlock()
}

// find returns the flight of a task, or nil.
func (s *flights) find(id uint64) *flight {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.m[id]
}

// of returns the flights with a worker, or all if it is nil.
func (s *flights) of(w *worker) (list []*flight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.m {
		if w == nil || f.worker == w {
			list = append(list, f)
		}
	}
	return list
}

// order sends an order about a flight, again and again until that ends.
func (s *flights) order(f *flight, op string) {
	s.mu.Lock()
	if f.op == opKill && op == opCancel {
		op = opKill
	}
	f.op, f.ordered = op, time.Now()
	s.mu.Unlock()
	s.send(f, op)
}

func (s *flights) send(f *flight, op string) {
	_ = s.nc.Publish(f.worker.orders, Order{Op: op, ID: f.id}.encode()) // resend tries again
}

// resend sends again what has not arrived. now is zero if nothing that was sent before
// is believed to arrive.
func (s *flights) resend(now time.Time) {
	s.out.Again(now.IsZero())
	orders := map[*flight]string{}
	s.mu.Lock()
	for _, f := range s.m {
		if f.op != "" && (now.IsZero() || f.op != opReturn && now.Sub(f.ordered) >= orderAfter) {
			f.ordered = time.Now()
			orders[f] = f.op
		}
	}
	s.mu.Unlock()
	for f, op := range orders {
		s.send(f, op)
	}
}

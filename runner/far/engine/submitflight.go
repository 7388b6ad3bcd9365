package engine

import (
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"crew/runner/decide/task"
	"crew/runner/far/outbox"
	"crew/runner/far/travel"
)

// orderAfter is after which time an order is sent again if the attempt has not ended.
const orderAfter = time.Second

// flights are the attempts that are to go to workers, that workers have, and whose results workers keep
// until they are on record. As a sink they see what is. Their messages go by out.
type flights struct {
	out    *outbox.Outbox
	nc     *nats.Conn
	forget func(t *task.Task) // a task has finished

	sending sync.Mutex // held to send to a worker, and to drop that; not while mu is

	mu    sync.Mutex
	m     map[attemptKey]*flight
	lines map[int][]*flight           // by slot: those to be sent, in order
	past  map[[16]byte][]earlierFinal // results of earlier epochs, by the identity of their tasks
}

// attemptKey names an attempt within an epoch.
type attemptKey struct {
	task   uint64
	number int
}

// flight is an attempt from when it is to go to a worker.
type flight struct {
	attempt task.Attempt
	id      ID            // of an earlier epoch if its result was taken from there
	turn    chan struct{} // closed once those before it in its slot were sent
	done    chan *Final   // gets one
	body    travel.Blob   // its message, if that is long
	take    []travel.File // that its task takes
	out     outputs

	// under flights.mu

	token   Token
	worker  *worker   // nil before it has one
	arrived bool      // its worker has it
	kept    bool      // it has ended, and its worker keeps the result until it is told not to
	op      string    // the latest order; "" for none
	ordered time.Time // when that was sent
}

func keyOfAttempt(a task.Attempt) attemptKey { return attemptKey{a.Task.ID, a.Number} }

// open returns the flight of an attempt, behind those of its slot that are to be sent.
func (s *flights) open(a task.Attempt) *flight {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.m[keyOfAttempt(a)]
	if f == nil {
		f = &flight{attempt: a, turn: make(chan struct{}), done: make(chan *Final, 1)}
		s.m[keyOfAttempt(a)] = f
		line := append(s.lines[a.Slot.ID], f)
		if s.lines[a.Slot.ID] = line; len(line) == 1 {
			close(f.turn)
		}
	}
	return f
}

// sent notes that a flight has been sent, or will not be.
func (s *flights) sent(f *flight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	slot := f.attempt.Slot.ID
	i := slices.Index(s.lines[slot], f)
	line := slices.Delete(s.lines[slot], i, i+1)
	if s.lines[slot] = line; i == 0 && len(line) > 0 {
		close(line[0].turn)
	}
}

// find returns the flight of an attempt, or nil.
func (s *flights) find(key attemptKey) *flight {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.m[key]
}

// of returns the flights for which which holds, which is called with mu held.
func (s *flights) of(which func(*flight) bool) (list []*flight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.m {
		if which(f) {
			list = append(list, f)
		}
	}
	return list
}

// running returns the flight of a task that a worker has, or nil.
func (s *flights) running(id uint64) *flight {
	for _, f := range s.of(func(f *flight) bool { return f.attempt.Task.ID == id && f.worker != nil && !f.kept }) {
		return f
	}
	return nil
}

// awaited returns the flight that a result with this token belongs to, or nil. It must come from
// the worker that was given the attempt.
func (s *flights) awaited(from string, id ID, t Token) *flight {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.m[attemptKey{id.Task, id.Number}]; f != nil && f.worker != nil && f.id == id && f.worker.id == from && f.token == t {
		return f
	}
	return nil
}

// land notes that a flight has ended, and whether its worker keeps the result: until that is on record, or
// if wait is not set until now.
func (s *flights) land(f *flight, kept, wait bool) {
	s.mu.Lock()
	f.kept, f.op = kept, ""
	s.mu.Unlock()
	if !kept || !wait {
		s.remove(keyOfAttempt(f.attempt))
	}
}

// order sends an order about a flight, again and again until that ends.
func (s *flights) order(f *flight, op string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if op == opKill || f.op == "" || f.op == opReturn {
		f.op = op
	}
	s.sendOrder(f)
}

// arrive notes that the worker of a flight has it, and sends what was ordered meanwhile.
func (s *flights) arrive(f *flight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.arrived = true
	s.sendOrder(f)
}

// sendOrder sends the order about a flight, if there is one and its worker has it. Its caller holds mu.
func (s *flights) sendOrder(f *flight) {
	if f.arrived && f.op != "" {
		f.ordered = time.Now()
		go s.nc.Publish(f.worker.orders, Order{Op: f.op, ID: f.id}.encode()) // it may wait; repeat tries again
	}
}

// repeat sends orders again that may not have arrived.
func (s *flights) repeat(now time.Time) {
	s.of(func(f *flight) bool {
		if now.Sub(f.ordered) >= orderAfter {
			s.sendOrder(f)
		}
		return false
	})
}

// Consume sees which attempts are on record. See runner.Sink.
func (s *flights) Consume(events []task.Event) error {
	for i := range events {
		if e := &events[i]; e.Kind == task.Finished || e.Kind == task.Retried {
			s.remove(attemptKey{e.ID, e.Attempt})
			if e.Kind == task.Finished && e.Task != nil {
				s.forget(e.Task)
			}
		}
	}
	return nil
}

// remove forgets a flight, and has its worker not keep the result any more.
func (s *flights) remove(key attemptKey) {
	s.mu.Lock()
	f := s.m[key]
	delete(s.m, key)
	s.mu.Unlock()
	if f != nil && f.kept {
		s.settle(f.worker, f.id)
	}
}

// settle tells a worker that a result is on record.
func (s *flights) settle(w *worker, id ID) { s.send(w, encode(kindKept, &id), func() {}) }

// send sends a message to a worker, unless that is lost. there is called when it has arrived.
func (s *flights) send(w *worker, msg []byte, there func()) {
	s.sending.Lock()
	defer s.sending.Unlock()
	if w.ctx.Err() == nil {
		s.out.Send(w.tasks, msg, there)
	}
}

// drop drops what was sent to a worker that is lost: one that comes has its name, if it was not.
func (s *flights) drop(w *worker) {
	s.sending.Lock()
	defer s.sending.Unlock()
	s.out.Drop(func(subject string) bool { return subject == w.tasks })
}

// Close does nothing. See runner.Sink.
func (s *flights) Close(task.Stats) error { return nil }

package engine

import (
	"sync"

	"crew/runner/task"
)

// results are those whose workers keep them until they are on record.
type results struct {
	settle func(f *flight)    // its worker need not keep the result of a flight any more
	forget func(t *task.Task) // nor those of earlier epochs for a task

	mu   sync.Mutex
	kept map[attemptKey]*flight
}

// attemptKey names an attempt within an epoch.
type attemptKey struct {
	task   uint64
	number int
}

// receive takes what a worker tells of attempts. It ignores what no attempt of the run waits for, and
// garbage: the token tells.
func (x *submitter) receive(subject string, data []byte) {
	from := senderOf(subject)
	for part := range parts(data) {
		if c, err := DecodeChunk(part); err == nil {
			if f := x.awaits(from, c.ID, c.Token); f != nil {
				x.chunk(f, c, f.worker == nil)
			}
		} else if fin, err := DecodeFinal(part); err == nil {
			f := x.awaits(from, fin.ID, fin.Token)
			switch {
			case f == nil:
			case f.worker == nil:
				if !x.past.add(f, fin) {
					x.settle(f)
				}
			default:
				x.results.keep(f, attemptKey{f.id.Task, f.id.Number}, x.lasting || len(fin.blobs()) > 0)
				f.finish(end{final: fin})
			}
		}
	}
}

// awaits returns the flight that a result with this token belongs to, or nil. It must come from
// the worker that was given the attempt.
func (x *submitter) awaits(from string, id ID, t Token) *flight {
	if id.Run != x.run {
		return nil
	}
	if id.Epoch != x.epoch {
		return x.earlier(from, id, t)
	}
	if f := x.flights.find(id.Task); f != nil && f.id == id && f.worker.id == from && f.token == t {
		return f
	}
	return nil
}

// keep has the worker of a flight be told that its result is not needed any more, if it keeps that.
func (r *results) keep(f *flight, as attemptKey, kept bool) {
	if !kept {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kept[as] = f
}

// Consume sees which attempts are on record. See runner.Sink.
func (r *results) Consume(events []task.Event) error {
	for i := range events {
		if e := &events[i]; e.Kind == task.Finished || e.Kind == task.Retried {
			r.done(attemptKey{e.ID, e.Attempt})
			if e.Kind == task.Finished && e.Task != nil {
				r.forget(e.Task)
			}
		}
	}
	return nil
}

// done has the worker of an attempt not keep its result any more, if it does.
func (r *results) done(key attemptKey) {
	r.mu.Lock()
	f := r.kept[key]
	delete(r.kept, key)
	r.mu.Unlock()
	if f != nil {
		r.settle(f)
	}
}

// settle tells the worker of a flight that its result is on record.
func (x *submitter) settle(f *flight) {
	if w := x.roster.find(f.from); w != nil {
		x.sendTo(w, f.subject, encode(kindKept, &f.id))
	}
}

// sendTo sends a message to a worker, unless that is lost.
func (x *submitter) sendTo(w *worker, subject string, msg []byte) {
	if x.flights.out.Send(subject, msg, func() {}); w.ctx.Err() != nil { // and what was sent was dropped, maybe before
		x.flights.out.Drop(func(s string) bool { return s == subject })
	}
}

// Close does nothing. See runner.Sink.
func (r *results) Close(task.Stats) error { return nil }

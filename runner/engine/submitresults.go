package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"crew/runner/task"
)

const (
	purgeBytes  = 8 << 20         // results that are not needed any more, at which to purge at once
	keptShare   = 4               // of the stream's limit: how much of it this run may keep for its next epoch
	keptBytes   = 256 << 20       // the same where the stream has no limit
	catchUpWait = 5 * time.Second // how long to wait for results that are in the stream

	catchUpAgain = 200 * time.Millisecond // after which the server is asked again that has not answered
)

// results reads the run's results and removes what is done with from the stream.
type results struct {
	stream  jetstream.Stream
	subject string
	seq     atomic.Uint64          // of the latest message that was read
	latest  atomic.Pointer[flight] // whose output was in it
	reading sync.Mutex             // until a message that was read is behind the mark

	mu   sync.Mutex
	mark mark
	held map[attemptKey]*held // with --state: results that are not on record
}

// attemptKey names an attempt within an epoch.
type attemptKey struct {
	task   uint64
	number int
}

// openResults begins to read the run's results, from the first there is.
func (x *submitter) openResults() (err error) {
	r := &x.results
	r.subject, r.held = resultSubject(x.sub.Queue, anyOne, x.run), map[attemptKey]*held{}
	if r.stream, err = x.s.lookup(x.ctx, resultsStream); err != nil {
		return notReady(err)
	}
	r.mark.most = keptBytes
	if most := r.stream.CachedInfo().Config.MaxBytes; most > 0 {
		r.mark.most = most / keptShare
	}
	read, err := x.s.follow(x.ctx, r.subject, x.s.waits.On(x.receiving), x.receive)
	if err == nil {
		x.end.Go(read)
	}
	return err
}

// receiving says which results are on their way.
func (x *submitter) receiving(int64, time.Duration) string {
	f := x.results.latest.Load()
	if f == nil {
		return "receiving results from the hub"
	}
	f.out.mu.Lock()
	defer f.out.mu.Unlock()
	return fmt.Sprintf("receiving the output of task %d: %s so far", f.id.Task, task.Size(f.out.both[0].n+f.out.both[1].n))
}

// receive takes a message of the results' stream. It ignores what no attempt of the
// run waits for, and garbage: the token tells.
func (x *submitter) receive(m jetstream.Msg, meta *jetstream.MsgMetadata) {
	data, from := m.Data(), senderOf(m.Subject())
	seq := meta.Sequence.Stream
	r := &x.results
	r.reading.Lock()
	defer r.reading.Unlock()
	for part := range parts(data) {
		x.receiveOne(from, part, seq)
	}
	r.seq.Store(seq)
	r.mu.Lock()
	r.mark.pass(seq, int64(len(data)))
	r.mu.Unlock()
}

func (x *submitter) receiveOne(from string, data []byte, seq uint64) {
	var f *flight
	if c, err := DecodeChunk(data); err == nil {
		if f = x.awaits(from, c.ID, c.Token); f != nil {
			x.results.latest.Store(f)
			x.keep(f, seq)
			x.chunk(f, c, f.worker == nil)
		}
	} else if fin, err := DecodeFinal(data); err == nil {
		if f = x.awaits(from, fin.ID, fin.Token); f != nil {
			x.results.latest.Store(nil)
			x.keep(f, seq)
			if f.worker == nil {
				x.past.add(f, fin)
			} else {
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

// keep keeps a message, and those behind it, in the stream until the attempt's end is
// on record, if the run has one.
func (x *submitter) keep(f *flight, seq uint64) {
	if !x.lasting || f.held != nil {
		return
	}
	r := &x.results
	r.mu.Lock()
	defer r.mu.Unlock()
	f.held = &held{seq: seq}
	r.mark.hold(f.held)
	if f.worker != nil {
		r.held[attemptKey{f.id.Task, f.id.Number}] = f.held
	}
}

// Consume sees which attempts are on record. See runner.Sink.
func (r *results) Consume(events []task.Event) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range events {
		e := &events[i]
		if e.Kind != task.Finished && e.Kind != task.Retried {
			continue
		}
		key := attemptKey{e.ID, e.Attempt}
		if h := r.held[key]; h != nil {
			h.done = true
			delete(r.held, key)
		}
	}
	return nil
}

// drop has the stream not keep what came of an attempt that had not begun.
func (r *results) drop(f *flight) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f.held != nil {
		f.held.done = true
		delete(r.held, attemptKey{f.id.Task, f.id.Number})
	}
}

// Close does nothing. See runner.Sink.
func (r *results) Close(task.Stats) error { return nil }

// purge removes from the stream what is done with: at once if that is much, or else
// with the next heartbeat.
func (x *submitter) purge() func() {
	r, purged, latest := &x.results, uint64(0), time.Now()
	return func() {
		r.mu.Lock()
		first, size := r.mark.first()
		r.mu.Unlock()
		if first <= purged+1 || size < purgeBytes && time.Since(latest) < heartbeatEvery || !x.s.nc.IsConnected() {
			return
		}
		latest = time.Now()
		if r.stream.Purge(x.ctx, jetstream.WithPurgeSubject(r.subject), jetstream.WithPurgeSequence(first)) == nil {
			purged = first - 1
			r.mu.Lock()
			r.mark.forget(size)
			r.mu.Unlock()
		}
	}
}

// catchUp waits until all results have been read that are in the stream now, or until ctx is done.
// It asks again which they are: the server may not answer, and what is removed is not read.
func (x *submitter) catchUp(ctx context.Context) error {
	r := &x.results
	for last := uint64(math.MaxUint64); ; {
		m, err := r.stream.GetLastMsgForSubject(ctx, r.subject)
		wait := catchUpAgain
		switch {
		case errors.Is(err, jetstream.ErrMsgNotFound):
			return nil
		case err == nil:
			last, wait = min(last, m.Sequence), catchUpWait
		}
		for end := time.Now().Add(wait); r.seq.Load() < last && time.Now().Before(end); {
			if !pause(ctx, 5*time.Millisecond) {
				return ctx.Err()
			}
		}
		if r.seq.Load() >= last {
			return nil
		}
	}
}

// mark is up to where the stream of results is done with.
type mark struct {
	most int64   // how many bytes may be held at once
	last uint64  // the latest message
	size int64   // of messages since the latest purge
	open []*held // in order
}

// held is the first message of an attempt whose end is not on record.
type held struct {
	seq  uint64
	size int64 // of it and the messages behind it, up to the next held
	done bool
}

func (m *mark) hold(h *held) { m.open = append(m.open, h) }

// pass notes that a message was read.
func (m *mark) pass(seq uint64, size int64) {
	m.last = seq
	m.size += size
	if n := len(m.open); n > 0 {
		m.open[n-1].size += size
	}
}

// first returns the first message that is still needed, and how many bytes have come
// since the latest purge. Where that is more than most, the oldest are given up: if
// the submitter dies now, their attempts run again.
func (m *mark) first() (seq uint64, size int64) {
	var open int64
	for _, h := range m.open {
		open += h.size
	}
	for len(m.open) > 0 && (m.open[0].done || open > m.most) {
		open -= m.open[0].size
		m.open = m.open[1:]
	}
	if len(m.open) > 0 {
		return m.open[0].seq, m.size - open
	}
	return m.last + 1, m.size
}

// forget notes that messages of so many bytes are purged.
func (m *mark) forget(size int64) { m.size -= size }

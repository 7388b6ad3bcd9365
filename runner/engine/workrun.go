package engine

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"time"

	"crew/runner/outbox"
	"crew/runner/task"
	"crew/runner/travel"
	"crew/runner/wiring"
)

const (
	restSize  = outbox.Piece / 3 // the most of a stream that rides with the end of its attempt
	liveAfter = 100 * time.Millisecond
)

// publisher is the executor of the worker's run.
type publisher struct {
	wiring.Executor
	w *crewWorker
}

// Run runs an attempt and publishes how it ended.
func (p *publisher) Run(ctx context.Context, a task.Attempt) *task.Result {
	w := p.w
	w.mu.Lock()
	h := w.tasks[a.Task.ID]
	w.mu.Unlock()
	r := p.seated(ctx, h, a)
	r.Worker = a.Slot.ID
	r.Final = r.Outcome == task.Cancelled && context.Cause(ctx) == task.ErrCancelled
	w.finish(h, r)
	return r
}

// seated runs an attempt in the process of its seat, if it is for one. The seat is left
// before the run knows, and sends the next attempt of its slot.
func (p *publisher) seated(ctx context.Context, h *job, a task.Attempt) *task.Result {
	s, by := &p.w.seats, h.holder()
	if by.Run == "" && s.Window == 1 {
		return p.run(ctx, h, a)
	}
	it := s.Take(ctx, by, h.ownCommand())
	if it == nil {
		return notStarted(ctx, a, nil)
	}
	defer s.Leave(it, by)
	if by.Run != "" {
		a.Slot.ID = it.Number
	}
	return p.run(ctx, h, a)
}

// Life returns how long the persistent worker lives that a run sends. See wiring.Worker.
func (w *crewWorker) Life(t *task.Task) *wiring.Life {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := w.tasks[t.ID]
	if h.ownCommand() {
		return nil
	}
	return &h.Attempt.Life
}

// holder returns whose process takes the attempt, if that is a record.
func (h *job) holder() Holder {
	if h.Protocol == task.NoProtocol {
		return Holder{}
	}
	return h.from()
}

// ownCommand reports whether the attempt is for the command of the worker.
func (h *job) ownCommand() bool { return len(h.Argv) == 0 && !h.Shell }

// run runs an attempt, unless it must not begin any more, once its files are there, and sends
// those that it was to leave.
func (p *publisher) run(ctx context.Context, h *job, a task.Attempt) *task.Result {
	p.w.mu.Lock()
	h.begun = !h.over()
	p.w.mu.Unlock()
	if !h.begun {
		return outcome(a, task.Cancelled, nil, true)
	}
	if len(h.Take)+len(h.Return)+len(h.Makes) == 0 {
		return p.Executor.Run(ctx, a)
	}
	files, trip := p.w.files, &travel.Trip{
		Run: h.Run, Attempt: h.name(), Dir: h.Dir, Take: h.Take, Return: h.Return, Makes: h.Makes, Temp: h.Temp, Cleanup: h.Cleanup,
	}
	defer files.Leave(trip)
	if err := files.Take(ctx, trip); err != nil {
		return notStarted(ctx, a, err)
	}
	r := p.Executor.Run(ctx, a)
	switch r.Outcome {
	case task.OK, task.Exit, task.Signal, task.Timeout:
		back, err := files.Bring(context.Background(), trip, r.Outcome == task.OK)
		h.returned = back
		if _, here := errors.AsType[*fs.PathError](err); here {
			r.Outcome, r.Err = task.NoOutput, err
		} else if err != nil {
			r.Outcome, r.Err = task.Lost, err
		}
	}
	return r
}

// Close closes the worker, too.
func (p *publisher) Close() error {
	p.w.close()
	return p.Executor.Close()
}

// Open returns where the output of an attempt goes.
func (w *crewWorker) Open(a task.Attempt) (out, err io.WriteCloser) {
	w.mu.Lock()
	h := w.tasks[a.Task.ID]
	w.mu.Unlock()
	return &h.out, &h.err
}

// finished publishes the end of a task that has ended without an attempt.
func (w *crewWorker) finished(e *task.Event) {
	w.mu.Lock()
	h := w.tasks[e.ID]
	delete(w.tasks, e.ID)
	w.mu.Unlock()
	if h != nil && e.Attempt == 0 {
		w.finish(h, e.Result)
	}
}

// finish publishes the end of an attempt. It waits for the streams to take its output.
func (w *crewWorker) finish(h *job, r *task.Result) {
	w.next(h)
	f := h.final(r)
	w.mu.Lock()
	if h.ended {
		w.mu.Unlock()
		return
	}
	h.ended = true
	alive, unwanted := w.leased(h.lease), h.unwanted
	w.mu.Unlock()
	switch {
	case !alive: // whatever it did counts as lost
	case unwanted:
		w.forget(h)
	default:
		w.out.Wait()
		h.result = f.Encode()
		w.send(h)
	}
}

// send sends the result of an attempt.
func (w *crewWorker) send(h *job) {
	w.out.Send(h.results(), h.result, func() {
		w.mu.Lock()
		h.told = true
		if w.forgotten.Broadcast(); !h.Keep {
			w.letGo(h)
		}
		w.mu.Unlock()
	})
}

// results is the subject of what the attempt brings.
func (h *job) results() string { return resultSubject(h.User, h.Run, h.lease.id) }

// forget lets go of an attempt whose result nobody wants.
func (w *crewWorker) forget(h *job) {
	w.mu.Lock()
	w.letGo(h)
	w.mu.Unlock()
}

// letGo takes an attempt from those that are held. Its caller holds mu.
func (w *crewWorker) letGo(h *job) {
	if h.lease.lost || w.held[h.ID] != h {
		return
	}
	delete(w.held, h.ID)
	w.runs[h.Run].attempts--
	w.forgotten.Broadcast()
}

// final describes how an attempt ended, once the submitter has all its output but the rest.
func (h *job) final(r *task.Result) *Final {
	f := &Final{
		ID: h.ID, Token: h.Token, Identity: h.Identity, Facts: r.Facts(), BadCommand: r.BadCommand, Returned: h.returned,
	}
	byName := false
	if f.Outcome, byName = h.outcome(r); byName {
		f.Error = "cancelled by crew ctl on " + task.Bytes(h.worker.host)
	} else if f.Outcome == task.Cancelled {
		f.Error = "" // its submitter knows why
	}
	f.Host, f.Key = task.Bytes(h.worker.host), ""
	if h.Echo && textSize(r.Argv) <= restSize {
		f.Argv = r.Argv
	}
	f.Stdout, f.StdoutLen = h.out.rest()
	f.Stderr, f.StderrLen = h.err.rest()
	return f
}

// outcome returns the attempt's outcome for its submitter, and whether somebody here has
// cancelled it by name. What was ended here otherwise, and not by the submitter, runs elsewhere.
func (h *job) outcome(r *task.Result) (o task.Outcome, byName bool) {
	h.worker.mu.Lock()
	defer h.worker.mu.Unlock()
	switch r.Outcome {
	case task.NotRun:
		return task.Lost, false
	case task.Cancelled:
		if h.back || !h.ordered && !r.Final {
			return task.Lost, false
		}
		return r.Outcome, !h.ordered
	}
	return r.Outcome, false
}

func textSize(list []string) (n int) {
	for _, s := range list {
		n += len(s) + 8
	}
	return n
}

// wake wakes the goroutines that wait for the streams to take the attempt's output.
func (h *job) wake() {
	h.output.Lock()
	h.changed.Broadcast()
	h.output.Unlock()
}

// outlet is one of the outputs of an attempt on its way to the submitter.
type outlet struct {
	*job
	stderr bool

	// under job.output

	buf      []byte // not sent yet
	sent     int64
	inFlight bool        // a chunk is not answered yet: chunks come in order
	timer    *time.Timer // nil unless what there is will be sent soon
}

// Write takes output. It blocks while the submitter does not take what there is.
func (s *outlet) Write(p []byte) (int, error) {
	s.worker.out.Wait()
	s.output.Lock()
	defer s.output.Unlock()
	if s.drain(chunkSize - len(p)); s.discards() {
		s.buf = nil
		return len(p), nil
	}
	s.buf = append(s.buf, p...)
	switch {
	case len(s.buf) > restSize && !s.inFlight:
		s.send()
	case s.Live && s.timer == nil:
		s.timer = time.AfterFunc(liveAfter, s.flush)
	}
	return len(p), nil
}

// Close does nothing: the rest goes with the end of the attempt.
func (s *outlet) Close() error { return nil }

// drain waits until most bytes at most are left to be sent, or nobody is to get them.
// Its caller holds the lock.
func (s *outlet) drain(most int) {
	for len(s.buf) > max(most, 0) && !s.discards() {
		if s.inFlight {
			s.changed.Wait()
		} else {
			s.send()
		}
	}
}

// discards reports whether nobody is to get the output any more.
func (s *outlet) discards() bool {
	s.worker.mu.Lock()
	defer s.worker.mu.Unlock()
	return s.unwanted || s.lease.lost
}

// send sends what there is as a chunk, or as much as that holds. Its caller holds the lock.
func (s *outlet) send() {
	n := min(len(s.buf), chunkSize)
	c := Chunk{ID: s.ID, Token: s.Token, Stderr: s.stderr, Offset: s.sent, Data: s.buf[:n]}
	msg := c.Encode()
	s.sent += int64(n)
	s.buf, s.inFlight = s.buf[:copy(s.buf, s.buf[n:])], true
	s.worker.out.Send(s.results(), msg, func() {
		s.output.Lock()
		s.inFlight = false
		s.changed.Broadcast()
		s.output.Unlock()
	})
}

// flush sends what a live attempt has written by now, as soon as it can.
func (s *outlet) flush() {
	s.output.Lock()
	defer s.output.Unlock()
	switch s.timer = nil; {
	case len(s.buf) == 0 || s.discards():
	case s.inFlight:
		s.timer = time.AfterFunc(liveAfter, s.flush)
	default:
		s.send()
	}
}

// rest returns what no chunk brings, once all chunks are answered, and the length of the
// whole stream.
func (s *outlet) rest() (rest []byte, length int64) {
	s.output.Lock()
	defer s.output.Unlock()
	s.drain(restSize)
	for s.inFlight && !s.discards() {
		s.changed.Wait()
	}
	if s.timer != nil {
		s.timer.Stop()
	}
	rest, s.buf = s.buf, nil
	return rest, s.sent + int64(len(rest))
}

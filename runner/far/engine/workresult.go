package engine

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"time"

	"crew/runner/decide/task"
	"crew/runner/far/outbox"
	"crew/runner/front/wiring"
)

const (
	maxInline = outbox.Piece / 3 // the most of an output that rides with the end of its attempt
	liveAfter = 100 * time.Millisecond
)

// publisher is the executor of the worker's run.
type publisher struct {
	wiring.Executor
	w *worker
}

// Run runs an attempt and publishes how it ended.
func (p *publisher) Run(ctx context.Context, a task.Attempt) *task.Result {
	w := p.w
	w.mu.Lock()
	h := w.tasks[a.Task.ID]
	w.mu.Unlock()
	r := p.runInSeat(ctx, h, a)
	r.Worker = a.Slot.ID
	if r.Fault != nil { // its output is not whole
		r.Outcome, r.Err = task.Lost, r.Fault
	}
	r.Final = r.Outcome == task.Cancelled && context.Cause(ctx) == task.ErrCancelled
	w.finish(h, r)
	return r
}

// seated runs an attempt in the process of its seat, if it is for one. The seat is left
// before the run knows, and sends the next attempt of its slot.
func (p *publisher) runInSeat(ctx context.Context, h *heldAttempt, a task.Attempt) *task.Result {
	s, by := &p.w.seats, h.seatHolder()
	if by.Run == "" && s.Window == 1 {
		return p.run(ctx, h, a)
	}
	seat := s.Acquire(ctx, by, h.ownCommand())
	if seat == nil {
		return notStarted(ctx, a, nil)
	}
	defer s.Release(seat, by)
	if by.Run != "" {
		a.Slot.ID = seat.Number
	}
	return p.run(ctx, h, a)
}

// Life returns how long the persistent worker lives that a run sends. See wiring.Worker.
func (w *worker) Life(t *task.Task) *wiring.Life {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := w.tasks[t.ID]
	if h.ownCommand() {
		return nil
	}
	return &h.Attempt.Life
}

// holder returns whose process takes the attempt, if that is a record.
func (h *heldAttempt) seatHolder() RunSlot {
	if h.Protocol == task.NoProtocol {
		return RunSlot{}
	}
	return h.runSlot()
}

// ownCommand reports whether the attempt is for the command of the worker.
func (a *Attempt) ownCommand() bool { return len(a.Argv) == 0 && !a.Shell }

// run runs an attempt, unless it must not begin any more, once its files are there, and sends
// those that it was to leave.
func (p *publisher) run(ctx context.Context, h *heldAttempt, a task.Attempt) *task.Result {
	p.w.mu.Lock()
	over := h.stoppedLocked()
	if !over {
		h.phase = phaseBegun
	}
	p.w.mu.Unlock()
	if over {
		return outcome(a, task.Cancelled, nil, true)
	}
	if h.Live {
		ended := make(chan struct{})
		defer close(ended)
		go p.w.sendLive(h, a.Task.ID, ended)
	}
	if len(h.Take)+len(h.Return)+len(h.Makes) == 0 {
		return p.Executor.Run(ctx, a)
	}
	files, trip := p.w.files, &h.Trip
	defer files.Leave(trip)
	if err := files.Take(ctx, h.Run, trip); err != nil {
		return notStarted(ctx, a, err)
	}
	r := p.Executor.Run(ctx, a)
	switch r.Outcome {
	case task.OK, task.Exit, task.Signal, task.Timeout:
		back, err := files.Bring(trip, r.Outcome == task.OK)
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

// finished publishes the end of a task that has ended without an attempt.
func (w *worker) taskFinished(e *task.Event) {
	w.mu.Lock()
	h := w.tasks[e.ID]
	delete(w.tasks, e.ID)
	w.mu.Unlock()
	if h != nil && e.Attempt == 0 {
		w.finish(h, e.Result)
	}
}

// finish publishes the end of an attempt.
func (w *worker) finish(h *heldAttempt, r *task.Result) {
	w.dequeue(h)
	h.cancel()
	w.mu.Lock()
	again := h.phase >= phaseEnded
	h.phase = max(h.phase, phaseEnded)
	w.mu.Unlock()
	if again {
		return
	}
	f := w.final(h, r)
	w.out.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	h.result, h.blobs = f.Encode(), f.blobs()
	switch {
	case !w.leasedLocked(h.lease), w.held[h.ID] != h: // whatever it did counts as lost, or nobody wants it
		w.s.blobs.Drop(h.blobs...)
		w.heldChanged.Broadcast()
	case h.stop == stopDiscard:
		w.forgetLocked(h)
	default:
		w.sendResultLocked(h)
	}
}

// send sends the result of an attempt.
func (w *worker) sendResultLocked(h *heldAttempt) {
	w.out.Send(h.resultSubject(), h.result, func() {
		w.mu.Lock()
		h.phase = phaseReported
		if w.heldChanged.Broadcast(); !h.Keep && len(h.blobs) == 0 {
			w.forgetLocked(h)
		}
		w.mu.Unlock()
	})
}

// results is the subject of what the attempt brings.
func (h *heldAttempt) resultSubject() string { return resultSubject(h.User, h.Run, h.lease.id) }

// letGo takes an attempt from those that are held. Its caller holds mu.
func (w *worker) forgetLocked(h *heldAttempt) {
	if w.held[h.ID] == h {
		delete(w.held, h.ID)
		w.s.blobs.Drop(h.blobs...)
		w.heldChanged.Broadcast()
	}
}

// final describes how an attempt ended. It takes the outputs off the result.
func (w *worker) final(h *heldAttempt, r *task.Result) *Final {
	f := &Final{
		ID: h.ID, Token: h.Token, Identity: h.Identity, Facts: r.Facts(), BadCommand: r.BadCommand, Returned: h.returned,
	}
	byName := false
	if f.Outcome, byName = h.outcome(r); byName {
		f.Error = "cancelled by crew ctl on " + task.Bytes(w.host)
	} else if f.Outcome == task.Cancelled {
		f.Error = "" // its submitter knows why
	}
	f.Host, f.Key = task.Bytes(w.host), ""
	for i, o := range []task.Output{r.Stdout, r.Stderr} {
		if o == nil {
			continue
		}
		if err := w.setOutput(f.outputs()[i], o); err != nil {
			f.Outcome = task.Lost
		}
		if f.Outcome != task.OK {
			r.Tail, _ = o.Tail(maxInline)
		}
		_ = o.Close()
	}
	r.Stdout, r.Stderr = nil, nil
	return f
}

// written has an output be in a message or, if it is long, keeps it.
func (w *worker) setOutput(as *FinalOutput, o task.Output) (err error) {
	if live, holds := o.(interface{ Hold() task.Live }); holds && o.Len() > maxInline {
		as.Blob, err = w.s.blobs.Keep(live.Hold(), o.Len())
		return err
	}
	var text bytes.Buffer
	_, err = o.WriteTo(&text)
	as.Text = text.Bytes()
	return err
}

// follow sends what an attempt writes, as far as the submitter takes it, until it has ended.
func (w *worker) sendLive(h *heldAttempt, id uint64, ended <-chan struct{}) {
	local, ok := w.local.(interface {
		Live(id uint64) (stdout, stderr task.Live, attempt int)
	})
	var both [2]task.Live
	var at [2]int64
	number := 0
	taken, buf := make(chan struct{}, 1), make([]byte, chunkSize)
	for ok {
		if number == 0 {
			both[0], both[1], number = local.Live(id)
		}
		sent := false
		for i, from := range both {
			if from == nil {
				continue
			}
			n, _ := from.ReadAt(buf, at[i])
			if n == 0 {
				continue
			}
			c := Chunk{ID: h.ID, Token: h.Token, Stderr: i == 1, Offset: at[i], Data: buf[:n]}
			at[i], sent = at[i]+int64(n), true
			w.out.Send(h.resultSubject(), c.Encode(), func() { nudge(taken) })
			select {
			case <-taken:
			case <-ended:
			}
		}
		pause := liveAfter
		if sent {
			pause = 0
		}
		select {
		case <-time.After(pause):
		case <-ended:
			ok = false
		}
	}
	for _, from := range both {
		if from != nil {
			_ = from.Close()
		}
	}
}

// outcome returns the attempt's outcome for its submitter, and whether somebody here has
// cancelled it by name. What was ended here otherwise, and not by the submitter, runs elsewhere.
func (h *heldAttempt) outcome(r *task.Result) (o task.Outcome, byName bool) {
	h.worker.mu.Lock()
	defer h.worker.mu.Unlock()
	switch r.Outcome {
	case task.NotRun:
		return task.Lost, false
	case task.Cancelled:
		if h.stop == stopReturn || h.stop == stopNone && !r.Final {
			return task.Lost, false
		}
		return r.Outcome, h.stop == stopNone
	}
	return r.Outcome, false
}

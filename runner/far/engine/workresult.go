package engine

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"crew/runner/decide/task"
	"crew/runner/far/outbox"
	"crew/runner/far/travel"
	"crew/runner/front/wiring"
)

const (
	maxInline = outbox.Piece / 3       // most bytes of an output in a Final
	liveAfter = 100 * time.Millisecond // pause before looking for new output
)

// publisher is the executor of the worker's run.
type publisher struct {
	wiring.Executor
	w *worker
}

// Run runs an attempt and publishes its result.
func (p *publisher) Run(ctx context.Context, a task.Attempt) *task.Result {
	w := p.w
	w.mu.Lock()
	h := w.tasks[a.Task.ID]
	w.mu.Unlock()
	r := p.runInSeat(ctx, h, a)
	r.Worker = a.Slot.ID
	if r.Fault != nil { // its output is incomplete
		r.Outcome, r.Err = task.Lost, r.Fault
	}
	r.Final = r.Outcome == task.Cancelled && context.Cause(ctx) == task.ErrCancelled
	w.finish(h, r)
	return r
}

// runInSeat runs an attempt, in a seat if it needs one. It releases the seat before the run learns of
// the result and sends the next attempt of the slot.
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

// seatHolder returns the slot of a run that owns the seat for the attempt. It is zero if the task is
// no record of a persistent worker.
func (h *heldAttempt) seatHolder() RunSlot {
	if h.Protocol == task.NoProtocol {
		return RunSlot{}
	}
	return RunSlot{Run: h.Run, Epoch: h.Epoch, Slot: h.Slot}
}

// ownCommand reports whether the attempt is for the worker's own command.
func (a *Attempt) ownCommand() bool { return len(a.Argv) == 0 && !a.Shell }

// run runs an attempt unless it was stopped. It first waits for the attempt's files, and afterwards
// offers the files that the attempt has to return.
func (p *publisher) run(run context.Context, h *heldAttempt, a task.Attempt) *task.Result {
	ctx, cancel := context.WithCancelCause(h.ctx) // done before there is another lease, under which it could start
	defer cancel(nil)
	defer context.AfterFunc(run, func() { cancel(context.Cause(run)) })()
	p.w.mu.Lock()
	over, sending := h.stoppedLocked(), h.run.ctx
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
		go p.w.sendLive(sending, h, a.Task.ID, ended)
	}
	if len(h.Take)+len(h.Return)+len(h.Makes) == 0 {
		return p.Executor.Run(ctx, a)
	}
	files, trip := p.w.files, &h.Trip
	defer files.Release(trip)
	if err := files.Fetch(ctx, h.Run, trip); err != nil {
		return notStarted(ctx, a, err)
	}
	r := p.Executor.Run(ctx, a)
	switch r.Outcome {
	case task.OK, task.Exit, task.Signal, task.Timeout, task.TooMuch:
		back, err := files.Collect(trip, r.Outcome == task.OK)
		h.returned = back
		if _, here := errors.AsType[*fs.PathError](err); here {
			r.Outcome, r.Err = task.NoOutput, err
		} else if err != nil {
			r.Outcome, r.Err = task.Lost, err
		}
	}
	return r
}

// Close closes the worker and the executor.
func (p *publisher) Close() error {
	p.w.close()
	return p.Executor.Close()
}

// taskFinished publishes the end of a task that ended without an attempt.
func (w *worker) taskFinished(e *task.Event) {
	w.mu.Lock()
	h := w.tasks[e.ID]
	delete(w.tasks, e.ID)
	w.mu.Unlock()
	if h != nil && e.Attempt == 0 {
		w.finish(h, e.Result)
	}
}

// finish publishes the result of an attempt, unless it has published one before.
func (w *worker) finish(h *heldAttempt, r *task.Result) {
	h.cancel()
	w.mu.Lock()
	again := h.phase >= phaseEnded
	h.phase = max(h.phase, phaseEnded)
	w.mu.Unlock()
	if again {
		return
	}
	f := w.final(h, r)
	w.mu.Lock()
	defer w.mu.Unlock()
	h.result, h.blobs = encode(kindFinal, f), f.blobs()
	switch {
	case h.lease.lost, w.held[h.ID] != h, h.stop == stopDiscard:
		w.forgetLocked(h)
	case !w.leasedLocked(h.lease): // expire forgets it
	case h.stop == stopSilent:
		if lost := w.loseLocked(h); !h.run.silent {
			w.sendResultLocked(lost)
		}
	default:
		w.sendResultLocked(h)
	}
}

// loseLocked replaces an attempt that has ended by what is needed to report it lost: its run may never
// reappear. The caller must hold mu.
func (w *worker) loseLocked(h *heldAttempt) *heldAttempt {
	w.forgetLocked(h)
	a := &Attempt{ID: h.Attempt.ID, Token: h.Token, Trip: travel.Trip{User: h.User}}
	result := encode(kindFinal, &Final{ID: a.ID, Token: a.Token, Facts: task.Facts{Outcome: task.Lost}})
	lost := &heldAttempt{worker: w, lease: h.lease, run: h.run, ID: h.ID, Attempt: a, cancel: h.cancel, phase: phaseEnded, result: result}
	w.held[h.ID] = lost
	return lost
}

// sendResultLocked sends the result of an attempt. The caller must hold mu.
func (w *worker) sendResultLocked(h *heldAttempt) {
	w.out.Send(h.run.ctx, h.resultSubject(), h.result, func() {
		w.mu.Lock()
		h.phase = phaseReported
		if w.heldChanged.Broadcast(); !h.Keep && len(h.blobs) == 0 {
			w.forgetLocked(h)
		}
		w.mu.Unlock()
	})
}

// resultSubject returns the subject of the attempt's output and result.
func (h *heldAttempt) resultSubject() string { return resultSubject(h.User, h.Attempt.Run, h.lease.id) }

// forgetLocked removes an attempt from held, and drops its blobs. The caller must hold mu.
func (w *worker) forgetLocked(h *heldAttempt) {
	if w.held[h.ID] == h {
		delete(w.held, h.ID)
	}
	w.s.blobs.Drop(h.blobs...)
	w.heldChanged.Broadcast()
}

// final returns the message about the end of an attempt. It moves the outputs from r to the message.
func (w *worker) final(h *heldAttempt, r *task.Result) *Final {
	f := &Final{
		ID: h.Attempt.ID, Token: h.Token, Identity: h.Identity, Facts: r.Facts(), BadCommand: r.BadCommand, Returned: h.returned,
	}
	byName := false
	if f.Outcome, byName = h.outcome(r); byName {
		f.Error = "cancelled by crew ctl on " + task.Bytes(w.host)
	} else if f.Outcome == task.Cancelled {
		f.Error = "" // the submitter knows why
	}
	f.Host, f.Key = task.Bytes(w.host), ""
	if f.Outcome != task.OK {
		r.Tail, _ = r.OutputTail()
	}
	for i, o := range [...]task.Output{r.Stdout, r.Stderr} {
		if o != nil && w.setOutput(f.outputs()[i], o) != nil {
			f.Outcome = task.Lost
		}
	}
	r.Close()
	r.Stdout, r.Stderr = nil, nil
	return f
}

// setOutput sets the output of a Final: the text, or a blob that the session keeps if the output is
// long.
func (w *worker) setOutput(as *FinalOutput, o task.Output) (err error) {
	if live, holds := o.(interface{ Hold() task.Live }); holds && o.Len() > maxInline {
		as.Blob = w.s.blobs.Add(live.Hold(), o.Len())
		return nil
	}
	as.Text, err = task.Tail(o, maxInline) // all of it
	return err
}

// sendLive sends the outputs of a running attempt, part by part as the submitter confirms them, until it
// has ended.
func (w *worker) sendLive(ctx context.Context, h *heldAttempt, id uint64, ended <-chan struct{}) {
	local, ok := w.local.(interface {
		Live(id uint64) (stdout, stderr task.Live, attempt int)
	})
	var both [2]task.Live
	var at [2]int64
	var text [2][chunkSize]byte
	number := 0
	taken := make(chan struct{}, 1)
	for ok {
		if number == 0 {
			both[0], both[1], number = local.Live(id)
		}
		f, pause := &Final{ID: h.Attempt.ID, Token: h.Token}, liveAfter
		for i, o := range f.outputs() {
			if both[i] != nil {
				n, _ := both[i].ReadAt(text[i][:], at[i])
				if o.At, o.Text = at[i], text[i][:n]; n > 0 {
					at[i], pause = at[i]+int64(n), 0
				}
			}
		}
		if pause == 0 {
			w.out.Send(ctx, h.resultSubject(), encode(kindFinal, f), func() { nudge(taken) })
			select {
			case <-taken:
			case <-ended:
			}
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

// outcome returns the outcome to report to the submitter, and whether crew ctl on this worker
// cancelled the attempt. An attempt that was ended here for another reason, and not by the submitter,
// is lost and so runs elsewhere.
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

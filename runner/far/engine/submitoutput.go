package engine

import (
	"cmp"
	"context"
	"errors"
	"os"
	"sync"
	"syscall"
	"time"

	"crew/runner/decide/task"
	"crew/runner/exec/spool"
	"crew/runner/far/travel"
)

// outputs holds the output of an attempt that has arrived so far.
type outputs struct {
	mu            sync.Mutex
	closed        bool // no more is accepted
	opened        bool // output has arrived
	spool.Streams      // once opened
}

// openOutputsLocked sets where the output of an attempt goes, unless it has done so before. The caller
// must hold p.out.mu, or be the only user of p.out.
func (x *submitter) openOutputsLocked(p *pendingAttempt) {
	if p.out.opened {
		return
	}
	p.out.opened, p.out.Streams = true, x.OpenStreams(p.attempt)
	if stdout := &p.out.Out; x.Makes.Stdout != "" { // it is a file that the task makes
		if stdout.End(); stdout.Kept == nil {
			stdout.Kept = x.Store.Buffer()
		}
	}
}

// receiveParts appends parts of the outputs of a running attempt.
func (x *submitter) receiveParts(p *pendingAttempt, fin *Final) {
	p.out.mu.Lock()
	defer p.out.mu.Unlock()
	for i, o := range fin.outputs() {
		if !p.out.closed {
			x.appendLocked(p, p.out.Both()[i], o)
			if p.out.closed = p.out.Fault() != nil; p.out.closed {
				go x.attempts.order(p, opKill)
			}
		}
	}
}

// appendLocked appends the new bytes of o.Text to a stream, unless an earlier part is missing:
// fetchRest fetches both. The caller must hold p.out.mu, or be the only user of p.out.
func (x *submitter) appendLocked(p *pendingAttempt, s *spool.Stream, o *FinalOutput) {
	if from := s.Size - o.At; 0 <= from && from < int64(len(o.Text)) {
		x.openOutputsLocked(p)
		_, _ = s.Write(o.Text[from:])
	}
}

var (
	errCut     = errors.New("its worker has not sent all of its output")
	errUnbegun = errors.New("its worker returned it")
)

// fetchRest appends the rest of an output. The caller must be the only user of p.out.
func (x *submitter) fetchRest(ctx context.Context, p *pendingAttempt, s *spool.Stream, o *FinalOutput) (err error) {
	size := max(o.Size, int64(len(o.Text)))
	if x.appendLocked(p, s, o); s.Size < size && o.Name != "" {
		x.openOutputsLocked(p)
		err = x.s.blobs.Pull(ctx, p.worker.user(), o.Blob, s.Size, s)
	}
	if err == nil && s.Size != size {
		err = errCut
	}
	return err
}

// live returns the output so far. See submitter.Live.
func (p *pendingAttempt) live() (stdout, stderr task.Live, attempt int) {
	p.out.mu.Lock()
	defer p.out.mu.Unlock()
	if p.out.closed || p.out.Err.Kept == nil { // once closed, result uses the streams without the lock
		return nil, nil, 0
	}
	return p.out.Out.Kept.Hold(), p.out.Err.Kept.Hold(), p.attempt.Number
}

// maxDelay is how much longer than the quickest result another one may take to arrive. If one takes
// longer, the worker's clock is taken to have been set.
const maxDelay = 10 * time.Second

// clock converts times of a worker's clock to this machine's. It takes the shortest delay of a result as
// the offset of the clocks. So attempts that ran one after another do not overlap, however late their
// results come. It is safe for concurrent use.
type clock struct {
	mu     sync.Mutex
	offset time.Duration // this machine's clock less the worker's; 0 if unknown
}

// toLocal converts there, when an attempt ended by the worker's clock. Its result arrived at now.
func (c *clock) toLocal(there, now time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	now = now.Round(0) // compare wall clocks
	if d := now.Sub(there); c.offset == 0 || d < c.offset || d > c.offset+maxDelay {
		c.offset = d
	}
	return there.Add(c.offset)
}

// result returns the result of an attempt that ended with fin; fin is nil if the worker is lost. If
// the result cannot be fetched, the attempt is lost.
func (x *submitter) result(ctx context.Context, p *pendingAttempt, fin *Final) *task.Result {
	p.out.mu.Lock()
	p.out.closed = true
	p.out.mu.Unlock()
	r, err := x.fetchResult(ctx, p, fin)
	if err == nil {
		p.out.HandOver(r)
		return r
	}
	p.out.Discard()
	unbegun := errors.Is(err, errUnbegun)
	if ctx.Err() != nil && !unbegun {
		return outcome(p.attempt, task.OutcomeOf(context.Cause(ctx)), err, false)
	}
	r = outcome(p.attempt, task.Lost, err, unbegun)
	if fin != nil {
		r.PID = fin.PID
	}
	return r
}

// fetchResult converts fin to a result and fetches its outputs and files. On error the attempt is
// lost.
func (x *submitter) fetchResult(ctx context.Context, p *pendingAttempt, fin *Final) (*task.Result, error) {
	a, w, end := p.attempt, p.worker, time.Now()
	cut := p.out.Fault() != nil // output could not be written, so receiveParts has killed the attempt
	switch {
	case fin == nil:
		return nil, context.Cause(w.ctx)
	case fin.Outcome == task.Lost || fin.Outcome == task.NotRun:
		return nil, errUnbegun
	case fin.Outcome == task.Cancelled && fin.Error == "" && ctx.Err() == nil && !cut:
		return nil, errors.New("its worker ended")
	}
	asked := ctx.Err() != nil
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(w.ctx, cancel)()
	for i, o := range fin.outputs() {
		if err := x.fetchRest(ctx, p, p.out.Both()[i], o); err != nil {
			return nil, err
		}
	}
	r := fin.Facts.Result(a.Task)
	r.Attempt, r.Worker, r.Host, r.Units = a.Number, a.Slot.ID, a.Slot.Host, allUnits(a, r.Units)
	r.Argv = a.Task.ArgvOn(r.Worker, r.Host, r.Units)
	if !r.Start.IsZero() {
		end = w.clock.toLocal(r.Start.Add(time.Duration(fin.Duration)), end)
	}
	r.Start, r.End = end.Add(-time.Duration(fin.Duration)), end
	r.BadCommand, r.Final = fin.BadCommand, r.Outcome == task.Cancelled && !asked && !cut
	err := x.fetchMade(ctx, r, p, fin)
	if err == nil && x.files != nil {
		err = x.files.Fetch(ctx, w.user(), r.Task, &fin.Facts, fin.Returned)
	}
	if err != nil && (errors.Is(err, travel.ErrNone) || ctx.Err() != nil) {
		return nil, err
	}
	if r.Outcome != task.NoOutput {
		r.Fault = err
	}
	return r, nil
}

// fetchMade fetches the files that a task has made, under their temporary names. If one cannot be
// stored, the attempt has failed.
func (x *submitter) fetchMade(ctx context.Context, r *task.Result, p *pendingAttempt, fin *Final) error {
	m := r.Task.Makes
	if m == nil {
		return nil
	}
	stdout := &p.out.Out
	if m.Stdout {
		defer stdout.Discard()
	}
	if r.Outcome != task.OK {
		return nil
	}
	err := x.files.FetchMade(ctx, p.worker.user(), r.Task, &fin.Facts, fin.Returned)
	if err == nil && m.Stdout {
		err = save(stdout.Kept, m.TempName(m.Targets[len(m.Targets)-1].Path), cmp.Or(m.Mode, 0o666))
	}
	if err != nil {
		r.Outcome, r.Err = task.NoOutput, err
	}
	return err
}

// save writes an output to a file, with the permissions mode if the file is new. kept is nil if it is empty.
func save(kept *spool.Buffer, path string, mode uint32) error {
	w, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|syscall.O_NOFOLLOW, os.FileMode(mode))
	if err != nil {
		return err
	}
	if kept != nil {
		_, err = kept.WriteTo(w)
	}
	return errors.Join(err, w.Close())
}

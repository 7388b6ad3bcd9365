package engine

import (
	"cmp"
	"context"
	"errors"
	"os"
	"sync"
	"syscall"
	"time"

	"crew/runner/proc"
	"crew/runner/spool"
	"crew/runner/task"
	"crew/runner/travel"
)

// outputs hold the output of an attempt that has arrived so far.
type outputs struct {
	mu    sync.Mutex
	over  bool      // nothing more comes
	both  [2]stream // stdout and stderr
	fault error     // why something could not be kept
}

// stream is one of the outputs. It keeps nothing before anything has come.
type stream struct {
	n   int64 // how much has come
	gap bool  // something is missing
	spool.Stream
}

// writeAt takes the bytes at an offset. They come in order, maybe again.
func (s *stream) writeAt(off int64, p []byte) error {
	switch {
	case off+int64(len(p)) <= s.n || s.gap:
		return nil
	case off != s.n:
		s.gap = true
		return nil
	}
	s.n += int64(len(p))
	return s.Write(p)
}

// intake takes the outputs of attempts to where they go.
type intake struct {
	proc.Outputs
	toFiles bool // the standard output of all tasks goes to files that they make
}

// open sets where the output of an attempt goes, once there is some. keep is for the
// attempt of an earlier epoch, whose turn to be shown comes later. The caller holds o.mu or is the only one to use o.
func (in *intake) open(o *outputs, a task.Attempt, keep bool) {
	both := &o.both
	if both[0].Kept != nil || both[0].To != nil {
		return
	}
	if in.Plan.Keeps() || keep && in.Plan.Show == task.ShowLines {
		both[0].Kept, both[1].Kept = in.Store.Buffer(), in.Store.Buffer()
	}
	if !keep && in.Plan.Show == task.ShowLines {
		both[0].To, both[1].To = in.Open(a)
	}
	if in.toFiles {
		in.divert(&both[0])
	}
}

// divert has stdout be kept until it goes to a file, and not shown.
func (in *intake) divert(s *stream) {
	if s.End(); s.Kept == nil {
		s.Kept = in.Store.Buffer()
	}
	s.To = nil
}

// chunk takes a part of an attempt's output. The caller is as for open.
func (in *intake) chunk(o *outputs, a task.Attempt, c *Chunk, keep bool) {
	in.open(o, a, keep)
	if err := o.both[c.stream()].writeAt(c.Offset, c.Data); err != nil && o.fault == nil {
		o.fault = err
	}
}

var errCut = errors.New("its worker has not sent all of its output")

// rest takes what the Final of an attempt brings. It fails if something is missing. The
// caller is as for open.
func (in *intake) rest(o *outputs, a task.Attempt, fin *Final) error {
	if len(fin.Stdout)+len(fin.Stderr) > 0 {
		in.open(o, a, false)
	}
	for i, part := range [...]struct {
		rest []byte
		n    int64
	}{{fin.Stdout, fin.StdoutLen}, {fin.Stderr, fin.StderrLen}} {
		s := &o.both[i]
		if err := s.writeAt(s.n, part.rest); err != nil && o.fault == nil {
			o.fault = err
		}
		if s.gap || s.n != part.n {
			return errCut
		}
	}
	return nil
}

// chunk takes a part of a flight's output.
func (x *submitter) chunk(f *flight, c *Chunk, keep bool) {
	o := &f.out
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.over {
		return
	}
	faulty := o.fault != nil
	if x.intake.chunk(o, f.attempt, c, keep); o.fault != nil && !faulty && f.worker != nil {
		go x.flights.order(f, opKill)
	}
}

// handOver gives the outputs to a result.
func (o *outputs) handOver(r *task.Result) {
	o.close(false)
	r.Fault = o.fault
	spool.HandOver(r, &o.both[0].Stream, &o.both[1].Stream)
}

// close closes the writers, and what was kept if it is not handed over.
func (o *outputs) close(kept bool) {
	for i := range o.both {
		s := &o.both[i]
		s.End()
		if kept && s.Kept != nil {
			_ = s.Kept.Close()
		}
	}
}

// finish ends the flight unless it has ended.
func (f *flight) finish(e end) {
	f.out.mu.Lock()
	first := !f.out.over
	f.out.over = true
	f.out.mu.Unlock()
	if first {
		f.done <- e
	}
}

// live returns what has come. See submitter.Live.
func (f *flight) live() (stdout, stderr task.Live, attempt int) {
	f.out.mu.Lock()
	defer f.out.mu.Unlock()
	out, err := f.out.both[0].Kept, f.out.both[1].Kept
	if f.out.over || out == nil || err == nil {
		return nil, nil, 0
	}
	return out.Hold(), err.Hold(), f.id.Number
}

// result makes the result of a flight that has ended.
func (x *submitter) result(ctx context.Context, f *flight, e end) *task.Result {
	e = x.accept(ctx, f, e)
	fin := e.final
	if fin == nil {
		f.out.close(true)
		if e.unbegun {
			x.results.done(attemptKey{f.id.Task, f.id.Number})
		} else if ctx.Err() != nil {
			return outcome(f.attempt, task.EndedBy(context.Cause(ctx)), e.err, false)
		}
		return outcome(f.attempt, task.Lost, e.err, e.unbegun)
	}
	a := f.attempt
	r := fin.Facts.Result(a.Task)
	r.Attempt, r.Worker, r.Host, r.Units = a.Number, a.Slot.ID, a.Slot.Host, unitsOf(a, r.Units)
	if r.Argv = fin.Argv; !x.maker.echo {
		r.Argv = a.Task.ArgvOn(r.Worker, r.Host, r.Units)
	}
	r.End = time.Now() // by this machine's clock
	if f.worker != nil && !r.Start.IsZero() {
		r.End = f.worker.clock.end(r.Start.Add(time.Duration(fin.Duration)), r.End)
	}
	r.Start = r.End.Add(-time.Duration(fin.Duration))
	r.BadCommand, r.Final = fin.BadCommand, r.Outcome == task.Cancelled && ctx.Err() == nil
	if err := x.keepMade(r, f, fin); errors.Is(err, travel.ErrGone) {
		f.out.close(true)
		return outcome(a, task.Lost, err, false)
	}
	f.out.handOver(r)
	if x.files != nil {
		err := x.fetch(func() error { return x.files.Fetch(x.ctx, r.Task, &fin.Facts, fin.Returned) })
		r.Fault = cmp.Or(r.Fault, err)
	}
	return r
}

// fetch has files be fetched, again while there is no connection and one may come.
func (x *submitter) fetch(get func() error) error {
	err := get()
	for err != nil && x.away(err) && !x.s.nc.IsClosed() && x.wait(time.Second) {
		err = get()
	}
	return x.s.explain(err)
}

// keepMade has what a task has made be here under its temporary names. An attempt whose files
// cannot be kept has failed. The error is that they are nowhere.
func (x *submitter) keepMade(r *task.Result, f *flight, fin *Final) error {
	m := r.Task.Makes
	if m == nil {
		return nil
	}
	stdout := &f.out.both[0]
	defer func() {
		if m.Stdout {
			stdout.Discard()
		}
	}()
	if r.Outcome != task.OK {
		return nil
	}
	err := x.fetch(func() error { return x.files.FetchMade(x.ctx, r.Task, &fin.Facts, fin.Returned) })
	if err == nil && m.Stdout {
		err = stdout.save(m.TempName(m.Targets[len(m.Targets)-1].Path), cmp.Or(m.Mode, 0o666))
	}
	if err != nil && !errors.Is(err, travel.ErrGone) {
		r.Outcome, r.Err = task.NoOutput, err
	}
	return err
}

// save writes what was kept to a file, which has these permissions if it is new.
func (s *stream) save(path string, mode uint32) error {
	w, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|syscall.O_NOFOLLOW, os.FileMode(mode))
	if err != nil {
		return err
	}
	if s.Kept != nil {
		_, err = s.Kept.WriteTo(w)
	}
	return errors.Join(err, w.Close())
}

// accept takes what the Final of a flight brings, and returns the end that it amounts
// to: an attempt that its worker gave back, or that it ended without being asked to, is
// lost.
func (x *submitter) accept(ctx context.Context, f *flight, e end) end {
	fin := e.final
	if fin == nil {
		return e
	}
	switch {
	case fin.Outcome == task.Lost || fin.Outcome == task.NotRun:
		return end{err: errors.New("its worker gave it back"), unbegun: true}
	case fin.Outcome == task.Cancelled && fin.Error == "" && ctx.Err() == nil:
		return end{err: errors.New("its worker ended")}
	}
	if err := x.intake.rest(&f.out, f.attempt, fin); err != nil {
		return end{err: err}
	}
	return e
}

package engine

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"strings"
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
	n int64 // how much has come
	spool.Stream
}

// writeAt takes the bytes at an offset, as far as they are the next ones.
func (s *stream) writeAt(off int64, p []byte) error {
	if off > s.n || off+int64(len(p)) <= s.n {
		return nil
	}
	p = p[s.n-off:]
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

// rest takes what no chunk has brought of an output, from get, which writes that from an offset on. It
// fails if something is missing. The caller is as for open.
func (in *intake) rest(o *outputs, a task.Attempt, i int, size int64, get func(from int64, to io.Writer) error) error {
	s := &o.both[i]
	if s.n < size {
		in.open(o, a, false)
		err := get(s.n, shown(func(p []byte) (int, error) {
			o.fault = cmp.Or(o.fault, s.writeAt(s.n, p))
			return len(p), nil
		}))
		if err != nil {
			return err
		}
	}
	if s.n != size {
		return errCut
	}
	return nil
}

// shown is a function that writes.
type shown func([]byte) (int, error)

func (s shown) Write(p []byte) (int, error) { return s(p) }

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
	if f.out.over { // its result is made, without the lock
		return nil, nil, 0
	}
	out, err := f.out.both[0].Kept, f.out.both[1].Kept
	if out == nil || err == nil {
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
	ctx, cancel := x.with(ctx, f)
	defer cancel()
	err := x.keepMade(ctx, r, f, fin)
	if err == nil && x.files != nil {
		err = x.files.Fetch(ctx, f.user(), r.Task, &fin.Facts, fin.Returned)
	}
	if err != nil && (errors.Is(err, travel.ErrNone) || ctx.Err() != nil) {
		f.out.close(true)
		return outcome(a, task.Lost, err, false)
	}
	f.out.handOver(r)
	if r.Outcome != task.NoOutput {
		r.Fault = cmp.Or(r.Fault, err)
	}
	return r
}

// with returns a context that is done with another one, and when the worker of a flight is lost.
func (x *submitter) with(ctx context.Context, f *flight) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	w := f.worker
	if w == nil {
		w = x.roster.find(f.from)
	}
	if w == nil {
		cancel()
		return ctx, cancel
	}
	stop := context.AfterFunc(w.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}

// user returns as which user the worker of a flight connects.
func (f *flight) user() string {
	user, _, _ := strings.Cut(f.from, ".")
	return user
}

// keepMade has what a task has made be here under its temporary names. An attempt whose files
// cannot be kept has failed.
func (x *submitter) keepMade(ctx context.Context, r *task.Result, f *flight, fin *Final) error {
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
	err := x.files.FetchMade(ctx, f.user(), r.Task, &fin.Facts, fin.Returned)
	if err == nil && m.Stdout {
		err = stdout.save(m.TempName(m.Targets[len(m.Targets)-1].Path), cmp.Or(m.Mode, 0o666))
	}
	if err != nil {
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
	both, cancel := x.with(ctx, f)
	defer cancel()
	for i, o := range fin.outputs() {
		err := x.intake.rest(&f.out, f.attempt, i, max(o.Size, int64(len(o.Text))), func(from int64, to io.Writer) error {
			if o.Name != "" {
				return x.s.blobs.Pull(both, f.user(), o.Blob, from, to)
			}
			_, err := to.Write(o.Text[min(from, int64(len(o.Text))):])
			return err
		})
		if err != nil {
			return end{err: err}
		}
	}
	return e
}

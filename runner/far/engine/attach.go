package engine

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"sync/atomic"
	"time"

	"crew/runner/decide/task"
	"crew/runner/exec/spool"
	"crew/runner/front/wiring"
	"crew/runner/keep/journal"
)

// attachLook is how often to look for more results.
const attachLook = 200 * time.Millisecond

// attached fetches the results of a detached run from the hub. It is a runner.Source of the tasks that
// have ended.
type attached struct {
	s       *session
	run     *RunInfo
	store   *spool.Store
	tasks   *bufio.Reader
	journal *bufio.Reader
	outputs remoteFile
	passes  int                    // how often all of the journal was read
	last    uint64                 // number of the latest task
	known   map[uint64]*endedTask  // results of later tasks
	end     atomic.Pointer[runEnd] // nil until the run is over
	ctx     context.Context        // done once closed
	cancel  context.CancelFunc
}

// Attach connects to a detached run, to show its results.
func Attach(c *wiring.Call) (wiring.Attached, error) {
	s, err := connect(c.Engine.URL, c.Notice)
	if err != nil {
		return nil, err
	}
	a := &attached{s: s, store: c.Store, known: map[uint64]*endedTask{}}
	a.ctx, a.cancel = context.WithCancel(context.Background())
	if err := a.open(c.Ctl.Run); err != nil {
		err = s.explain(err)
		_ = a.Close()
		return nil, err
	}
	return a, nil
}

// open finds the run and opens its files.
func (a *attached) open(name string) (err error) {
	if a.run, err = a.s.findRun(a.ctx, name); err != nil {
		return err
	}
	if a.run.Progress == nil || a.run.For != "" {
		return fmt.Errorf("run %s is not detached", a.run.Run)
	}
	a.tasks, a.journal, a.outputs = a.lines(tasksFile), a.lines(journalFile), a.file(outputFile)
	return nil
}

// file returns a file that the hub has of the run.
func (a *attached) file(name string) remoteFile {
	return remoteFile{a: a, order: Order{Op: opRead, Run: a.run.Run, File: name}}
}

// lines returns a reader of such a file.
func (a *attached) lines(name string) *bufio.Reader {
	f := a.file(name)
	return bufio.NewReader(io.NewSectionReader(&f, 0, math.MaxInt64))
}

// remoteFile reads a file of the run from the hub.
type remoteFile struct {
	a     *attached
	order Order
	data  []byte // what was fetched last, which is at order.At
}

// ReadAt waits until there is something to read, and may read only a part of that. It returns io.EOF
// once the run is over.
func (r *remoteFile) ReadAt(p []byte, off int64) (int, error) {
	a := r.a
	for off < r.order.At || off >= r.order.At+int64(len(r.data)) {
		r.order.At, r.data = off, nil
		got, err := a.s.askUntilDone(a.ctx, dispatchSubject(a.s.user), r.order)
		switch {
		case errors.Is(err, errNoRun):
			return 0, fmt.Errorf("run %s was cancelled, or its results were fetched by another crew engine attach", a.run.Run)
		case err != nil:
			return 0, a.s.explain(err)
		case len(got.Data) == 0 && got.End != nil:
			a.end.Store(got.End)
			return 0, io.EOF
		case len(got.Data) == 0:
			if got.Notice != "" {
				a.s.notices.notify("the hub says: " + task.Printable(got.Notice))
			}
			if !sleep(a.ctx, attachLook) {
				return 0, io.EOF
			}
		}
		r.data = got.Data
	}
	return copy(p, r.data[off-r.order.At:]), nil
}

// Next returns the next task once it has ended, and io.EOF once the run is over. See runner.Source.
func (a *attached) Next(number func() uint64) (*task.Task, error) {
	id := a.last + 1
	e, passes := a.known[id], 2
	if id > a.run.Tasks {
		passes = 1
	}
	for ; a.passes < passes && (e == nil || e.Unfinished); e = a.known[id] {
		if err := a.readEnded(); err != nil {
			return nil, err
		}
	}
	if e == nil && len(a.known) == 0 {
		return nil, io.EOF
	} else if e == nil { // the run gave it up
		e = &endedTask{Facts: task.Facts{Outcome: task.Cancelled}}
	}
	delete(a.known, id)
	t, err := readTask(a.tasks, id, &StoredTask{})
	if err != nil {
		return nil, err
	}
	a.last, t.Asked, t.ID = id, nil, number()
	of := *t
	r := e.Facts.Result(&of) // a task without Done: no earlier run has shown the result
	r.Attempt, r.Argv = max(1, r.Attempt), t.ArgvOn(r.Worker, r.Host, r.Units)
	r.Stdout, r.Stderr = e.outputs[0], e.outputs[1]
	r.Final = r.Outcome == task.Cancelled || r.Outcome == task.NotRun && r.Err != nil // it will not run again
	t.Done = r
	return t, nil
}

// readEnded reads a line of the journal about a task that has ended, and its outputs. At the end, it
// begins anew: after a power failure, the journal may have lost lines that were read, and got others.
func (a *attached) readEnded() error {
	e := &endedTask{}
	err := readEnded(a.journal, e)
	switch {
	case err == io.EOF:
		a.passes++
		a.journal = a.lines(journalFile)
		return nil
	case err != nil || e.Task <= a.last: // a result may be there twice
		return err
	}
	if e.outputs[0], err = a.output(e.Stdout); err == nil {
		e.outputs[1], err = a.output(e.Stderr)
	}
	if err == journal.ErrDamaged { // after a power failure: the task runs again
		return nil
	}
	a.known[e.Task] = e
	return err
}

// output returns a copy of an output, or nil if it is empty.
func (a *attached) output(p journal.Extent) (task.Output, error) {
	if p == (journal.Extent{}) {
		return nil, nil
	}
	b := a.store.Buffer()
	if err := p.Copy(b, &a.outputs); err != nil {
		return nil, cmp.Or(b.Close(), err)
	}
	return b, nil
}

// Tasks returns the number of tasks of the run.
func (a *attached) Tasks() uint64 { return a.run.Tasks }

// Finish removes the run from the hub. See wiring.Attached.
func (a *attached) Finish() (status int, early string, err error) {
	end := a.end.Load()
	return end.Status, string(end.Early), a.s.forget(a.run.Run)
}

// Close closes the connection.
func (a *attached) Close() error {
	a.cancel()
	a.s.close()
	return nil
}

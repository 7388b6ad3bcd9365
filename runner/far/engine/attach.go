package engine

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"crew/runner/decide/task"
	"crew/runner/exec/spool"
	"crew/runner/front/wiring"
)

// attachLook is how often to look for more results.
const attachLook = 200 * time.Millisecond

// attached fetches the results of a detached run from the hub. It is a runner.Source of the tasks that
// have ended, and an executor that returns their results.
type attached struct {
	s       *session
	run     *RunInfo
	store   *spool.Store
	tasks   *bufio.Reader
	results *bufio.Reader
	last    uint64                 // number of the latest task
	ready   sync.Map               // results of tasks that are about to be shown, by task ID
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
	a := &attached{s: s, store: c.Store}
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
	switch r := a.run; {
	case r.Version != Version:
		return fmt.Errorf("run %s was detached by another version of crew: %w", r.Run, &versionError{r.Version})
	case r.State == runLeft:
		return fmt.Errorf("%s is not a run: it is a request to add tasks that waits for a crew serve", r.Run)
	case r.Progress == nil:
		return fmt.Errorf("run %s is not detached: its submitter, process %d on %s, shows the results", r.Run, r.PID, task.Printable(r.Host))
	case r.State == runHanding:
		return fmt.Errorf("run %s is still being detached by process %d on %s: try again once that has ended", r.Run, r.PID, task.Printable(r.Host))
	}
	a.tasks, a.results = a.file(tasksFile), a.file(resultsFile)
	return nil
}

// file returns a reader of a file that the hub has of the run. It waits for more data until the run is
// over.
func (a *attached) file(name string) *bufio.Reader {
	return bufio.NewReader(&remoteFile{a: a, order: Order{Op: opRead, ID: ID{Run: a.run.Run}, File: name}})
}

// remoteFile reads a file of the run from the hub. It ends once the run is over.
type remoteFile struct {
	a     *attached
	order Order
	rest  []byte // fetched but not read yet
}

// Read waits until there is something to read.
func (r *remoteFile) Read(p []byte) (int, error) {
	a := r.a
	for len(r.rest) == 0 {
		got, err := a.s.askUntilDone(a.ctx, r.order)
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
		r.rest = got.Data
		r.order.At += int64(len(r.rest))
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// Next returns the next task once it has ended, and io.EOF once the run is over. See runner.Source.
func (a *attached) Next(number func() uint64) (*task.Task, error) {
	var e Ended
	for e.Task <= a.last {
		_, err := io.CopyN(io.Discard, a.results, e.Stdout+e.Stderr) // a result may be there twice
		if err == nil {
			_, err = readEnded(a.results, &e)
		}
		if err != nil {
			return nil, err
		}
	}
	if a.last++; e.Task != a.last {
		return nil, errGarbage
	}
	t, err := readTask(a.tasks, a.last, &StoredTask{})
	if err != nil {
		return nil, err
	}
	r := e.Facts.Result(t)
	r.Argv = t.ArgvOn(r.Worker, r.Host, r.Units)
	if r.Stdout, err = a.output(e.Stdout); err == nil {
		r.Stderr, err = a.output(e.Stderr)
	}
	if err != nil {
		return nil, err
	}
	r.Final = r.Outcome == task.Cancelled || r.Outcome == task.NotRun && r.Err != nil // it will not run again
	t.Asked, t.ID = nil, number()
	a.ready.Store(t.ID, r)
	return t, nil
}

// Run returns the result of a task. See runner.Executor.
func (a *attached) Run(_ context.Context, at task.Attempt) *task.Result {
	r, _ := a.ready.Load(at.Task.ID)
	result := *r.(*task.Result)
	result.Attempt = max(1, result.Attempt)
	if !result.Outcome.Replaced() { // otherwise the run calls again
		a.ready.Delete(at.Task.ID)
	}
	return &result
}

// Kill does nothing. See runner.Executor.
func (a *attached) Kill(uint64, int) {}

// Suspend does nothing. See runner.Executor.
func (a *attached) Suspend() {}

// Resume does nothing. See runner.Executor.
func (a *attached) Resume() {}

// output copies the next n bytes of the results, which are an output. It returns nil if n is 0.
func (a *attached) output(n int64) (task.Output, error) {
	if n == 0 {
		return nil, nil
	}
	b := a.store.Buffer()
	if _, err := io.CopyN(b, a.results, n); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// Tasks returns the number of tasks of the run.
func (a *attached) Tasks() uint64 { return a.run.Tasks }

// Ended returns the exit status of the run, and why it ended early; "" if it did not. It
// returns 0 and "" until the run is over.
func (a *attached) Ended() (status int, early string) {
	if o := a.end.Load(); o != nil {
		return o.Status, string(o.Early)
	}
	return 0, ""
}

// Forget removes the run from the hub, since all its results were shown.
func (a *attached) Forget() error { return a.s.forgetRun(a.run.Run) }

// Close closes the connection.
func (a *attached) Close() error {
	a.cancel()
	a.s.close()
	return nil
}

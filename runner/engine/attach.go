package engine

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"crew/runner"
	"crew/runner/journal"
	"crew/runner/task"
	"crew/runner/wiring"
)

const (
	attachLook = 200 * time.Millisecond // how often to look for more rulings
	mostRuled  = 1000                   // rulings that wait to be shown, unless the next one is not among them
)

// attached brings the results of a run that was handed over, in input order. As a
// source it waits for each; its attempts only read what there is.
type attached struct {
	s      *session
	run    *Enrolment
	told   *once
	intake intake
	tasks  *bufio.Reader
	ctx    context.Context // until it is closed
	cancel context.CancelFunc

	mu    sync.Mutex
	news  sync.Cond          // any of the following has changed
	ruled map[uint64]*Ruling // by task, of those that have finished
	ready map[uint64]*Ruling // of tasks that are about to be shown
	over  *over              // nil while more may be ruled
	next  uint64             // number of the task that was read last
	err   error
}

// Attach returns what brings the results of a run that was handed over.
func Attach(c wiring.Attachment) (wiring.Attached, error) {
	s, err := connect(c.URL, c.Notice)
	if err != nil {
		return nil, err
	}
	return attach(c, s)
}

// attach is Attach with a connection, which it takes over.
func attach(c wiring.Attachment, s *session) (*attached, error) {
	a := &attached{s: s, told: &once{notice: c.Notice}, intake: intake{Outputs: c.Outputs}}
	a.news.L = &a.mu
	a.ctx, a.cancel = context.WithCancel(context.Background())
	if err := a.open(c.Run); err != nil {
		a.cancel()
		err = s.explain(err)
		s.close()
		return nil, err
	}
	go a.follow()
	return a, nil
}

// open finds the run, and what is stored of it.
func (a *attached) open(name string) (err error) {
	if a.run, err = a.s.find(a.ctx, name); err != nil {
		return err
	}
	switch r := a.run; {
	case r.Version != Version:
		return fmt.Errorf("run %s was handed over by another crew: %w", r.Run, &versionError{r.Version})
	case r.Stocked == nil:
		return fmt.Errorf("run %s was not handed over: its submitter, process %d on %s, shows the results", r.Run, r.PID, task.Printable(r.Host))
	case r.State == runHanding:
		return fmt.Errorf("run %s is still being handed over by process %d on %s: try again when that has ended", r.Run, r.PID, task.Printable(r.Host))
	}
	a.tasks, a.ruled, a.ready = bufio.NewReader(a.file(tasksFile, 0)), map[uint64]*Ruling{}, map[uint64]*Ruling{}
	return nil
}

// file returns what the hub has in a file of the run, from an offset on.
func (a *attached) file(name string, at int64) *remote {
	return &remote{a: a, order: Order{Op: opRead, ID: ID{Run: a.run.Run}, File: name, At: at}}
}

// remote is a file of the hub's.
type remote struct {
	a     *attached
	order Order
	rest  []byte // that has come and was not read
	last  Answer
}

// Read reads what there is now.
func (r *remote) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		var err error
		if r.last, err = r.a.s.askAbout(r.a.ctx, r.a.told, r.order); errors.Is(err, errNoRun) {
			err = r.a.gone()
		}
		if err != nil {
			return 0, err
		}
		if r.rest = r.last.Data; len(r.rest) == 0 {
			return 0, io.EOF
		}
		r.order.At += int64(len(r.rest))
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// follow reads the rulings until the run is over, as far as there is use for them.
func (a *attached) follow() {
	from := a.file(rulingsFile, 0)
	for lines := bufio.NewReader(from); ; {
		r := &Ruling{}
		_, err := readLine(lines, r)
		if err == io.EOF && !from.last.Done && pause(a.ctx, attachLook) {
			if n := from.last.Notice; n != "" {
				a.told.say("the hub says: " + task.Printable(n))
			}
			continue
		}
		if err == io.EOF && from.last.Done && from.last.Over == nil {
			why := task.Printable(cmp.Or(from.last.Notice, "it is damaged"))
			err = fmt.Errorf("run %s cannot be shown: %s: remove it with crew engine cancel %[1]s", a.run.Run, why)
		}
		if err == nil && badFacts(&r.Facts) {
			err = errGarbage
		}
		if err != nil && err != io.EOF {
			a.fail(a.s.explain(err))
			return
		}
		a.mu.Lock()
		if err == io.EOF {
			a.over = from.last.Over
		} else if r.Ends && r.Task > a.next { // or else it was run again
			a.ruled[r.Task] = r
		}
		a.news.Broadcast()
		for len(a.ruled) >= mostRuled && a.ruled[a.next+1] != nil && a.err == nil {
			a.news.Wait()
		}
		done := a.over != nil || a.err != nil
		a.mu.Unlock()
		if done {
			return
		}
	}
}

// gone notes that the run was removed.
func (a *attached) gone() error {
	err := fmt.Errorf("run %s was cancelled, or its results were fetched by another crew engine attach", a.run.Run)
	a.fail(err)
	return err
}

func (a *attached) fail(err error) {
	a.mu.Lock()
	if a.err == nil {
		a.err = err
	}
	a.mu.Unlock()
	a.news.Broadcast()
}

// Next returns the next task once it has ended, and io.EOF once the run is over.
func (a *attached) Next(number func() uint64) (*task.Task, error) {
	a.mu.Lock()
	id := a.next + 1
	for a.err == nil && a.over == nil && a.ruled[id] == nil {
		a.news.Wait()
	}
	r, err := a.ruled[id], a.err
	if err == nil && r == nil { // the run has ended before
		err = io.EOF
	}
	if err == nil {
		delete(a.ruled, id)
		a.next, a.ready[id] = id, r
	}
	a.mu.Unlock()
	a.news.Broadcast()
	if err != nil {
		return nil, err
	}
	var st Stored
	t := &task.Task{ID: id}
	_, err = readLine(a.tasks, &st)
	if err == nil {
		err = journal.DecodeTask(st.Spec, t)
	}
	if err != nil {
		return nil, fmt.Errorf("fetch task %d: %w", id, err)
	}
	if len(t.Argv) == 0 {
		for _, w := range r.Argv {
			t.Argv = append(t.Argv, string(w))
		}
	}
	t.ID, t.Asked, t.Identity = number(), nil, [16]byte{}
	return t, nil
}

// Run fetches a result. See runner.Executor.
func (a *attached) Run(ctx context.Context, at task.Attempt) *task.Result {
	a.mu.Lock()
	ruling := a.ready[at.Task.ID]
	if !ruling.Outcome.Replaced() { // which comes again
		delete(a.ready, at.Task.ID)
	}
	a.mu.Unlock()
	r := ruling.Facts.Result(at.Task)
	r.Argv, r.Attempt = at.Task.ArgvOn(r.Worker, r.Host, r.Units), max(1, r.Attempt)
	r.Final = r.Outcome == task.Cancelled || r.Outcome == task.NotRun && r.Err != nil // it does not run again
	out := &outputs{}
	if ruling.Fault != "" {
		out.fault = errors.New(ruling.Fault)
	}
	if err := a.collect(at, out, ruling); err != nil {
		out.close(true)
		return outcome(at, task.Cancelled, cmp.Or(context.Cause(ctx), err), false)
	}
	out.handOver(r)
	return r
}

// collect takes the outputs of a task that has finished.
func (a *attached) collect(at task.Attempt, out *outputs, r *Ruling) error {
	from := a.file(outputsFile, r.At)
	for i, n := range [...]int64{r.Stdout, r.Stderr} {
		err := a.intake.rest(out, at, i, n, func(_ int64, to io.Writer) error {
			_, err := io.Copy(to, io.LimitReader(from, n))
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Tasks returns how many tasks the run has.
func (a *attached) Tasks() uint64 { return a.run.Tasks }

// Ended returns how the run has ended: with which exit status, and why early, if it did.
func (a *attached) Ended() (status int, early string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over == nil {
		return 0, ""
	}
	return a.over.Status, string(a.over.Early)
}

// Forget removes the run from the engine: all its results were shown.
func (a *attached) Forget() error { return a.s.forget(a.run) }

// Kill does nothing. See runner.Executor.
func (a *attached) Kill(uint64, int) {}

// Suspend does nothing. See runner.Executor.
func (a *attached) Suspend() {}

// Resume does nothing. See runner.Executor.
func (a *attached) Resume() {}

// Close closes the connection.
func (a *attached) Close() error {
	a.cancel()
	a.fail(io.EOF)
	a.s.close()
	return nil
}

var _ runner.Executor = &attached{}

package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"crew/runner"
	"crew/runner/task"
	"crew/runner/wiring"
)

const (
	attachLook = 200 * time.Millisecond // how often to look for more rulings
	mostCached = 8                      // bundles that are kept so as not to read them again
)

// attached brings the results of a run that was handed over, in input order. As a
// source it waits for each; its attempts only read what there is.
type attached struct {
	s       *session
	run     *runStatus
	told    *once
	intake  intake
	tasks   *log
	rulings *log
	results jetstream.Stream
	ctx     context.Context // until it is closed
	cancel  context.CancelFunc

	reading sync.Mutex
	cache   map[uint64][][]byte // bundles that were read last

	mu    sync.Mutex
	news  sync.Cond        // something was ruled, or err is set
	ruled map[uint64]Place // by task: where the ruling is that has finished it
	over  *Ruling          // nil while the run is not over
	next  uint64
	ready map[uint64]*Ruling // of tasks that are about to be shown
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
	a := &attached{s: s, told: &once{notice: c.Notice}, intake: intake{Outputs: c.Outputs}, cache: map[uint64][][]byte{}, ready: map[uint64]*Ruling{}}
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
	a.ruled = map[uint64]Place{}
	if a.tasks, err = a.s.log(a.ctx, a.run.Queue, a.run.Run, "tasks"); err != nil {
		return err
	}
	if a.rulings, err = a.s.log(a.ctx, a.run.Queue, a.run.Run, "rulings"); err != nil {
		return err
	}
	a.results, err = a.s.lookup(a.ctx, resultsStream)
	return err
}

// follow reads the rulings until the run is over.
func (a *attached) follow() {
	latest := a.run
	done := latest.State == runDone // before the rulings were read to their end
	for looked := time.Now(); a.ctx.Err() == nil; {
		part, at, err := a.rulings.next(a.ctx, a.told)
		if err == nil {
			if a.learn(part, at) {
				return
			}
			continue
		}
		if err != io.EOF {
			a.fail(a.s.explain(err))
			return
		}
		if done {
			why := task.Printable(cmp.Or(latest.Notice, "what was stored of it has expired"))
			a.fail(fmt.Errorf("run %s cannot be shown: %s: remove it with crew engine cancel %[1]s", a.run.Run, why))
			return
		}
		pause(a.ctx, attachLook)
		if time.Since(looked) > 5*attachLook {
			looked = time.Now()
			r, err := a.s.find(a.ctx, a.run.Run)
			if errors.Is(err, errNoRun) {
				_ = a.gone()
				return
			}
			if err == nil && r.Stocked != nil {
				if latest, done = r, r.State == runDone; r.Notice != "" {
					a.told.say("the hub says: " + task.Printable(r.Notice))
				}
			}
		}
	}
}

// learn notes a ruling. It returns true if none follows.
func (a *attached) learn(part []byte, at Place) bool {
	r, err := a.s.ruling(a.ctx, a.told, part)
	if err != nil {
		a.fail(fmt.Errorf("read what became of run %s: %w", a.run.Run, err))
		return true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case r.What == ruledOver:
		a.over = r
	case r.What == ruledFinished && r.Task >= 1 && r.Task <= a.run.Tasks:
		a.ruled[r.Task] = at
	}
	a.news.Broadcast()
	return r.What == ruledOver
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
	for a.err == nil && a.over == nil && a.ruled[id].Seq == 0 {
		a.news.Wait()
	}
	err := a.err
	if err == nil && a.ruled[id].Seq == 0 { // the run has ended before
		err = io.EOF
	}
	if a.next = id; err != nil {
		a.mu.Unlock()
		return nil, err
	}
	at := a.ruled[id]
	a.mu.Unlock()
	t, _, err := a.s.task(a.ctx, a.told, a.tasks, id)
	if errors.Is(err, errUnstored) {
		err = a.gone()
	}
	var r *Ruling
	if err == nil {
		r, err = a.ruling(at)
	}
	if err == nil && len(r.Parts) > 0 && len(t.Argv) == 0 {
		err = a.echo(t, r)
	}
	if err != nil {
		return nil, fmt.Errorf("fetch the result of task %d: %w", id, err)
	}
	t.ID, t.Asked, t.Identity = number(), nil, [16]byte{}
	a.mu.Lock()
	a.ready[id] = r
	a.mu.Unlock()
	return t, nil
}

// ruling reads a ruling.
func (a *attached) ruling(at Place) (*Ruling, error) {
	part, err := a.get(a.rulings.stream, at)
	if err != nil {
		return nil, err
	}
	return a.s.ruling(a.ctx, a.told, part)
}

// echo has a task that came without a command have that which its worker has run.
func (a *attached) echo(t *task.Task, r *Ruling) error {
	part, err := a.get(a.results, r.Parts[len(r.Parts)-1])
	if err == nil {
		var fin *Final
		if fin, err = DecodeFinal(part); err == nil {
			t.Argv = fin.Argv
		}
	}
	return err
}

// get returns a message. Those of a stream's bundle are kept for a while.
func (a *attached) get(from jetstream.Stream, p Place) ([]byte, error) {
	if p.Seq < 1 || p.At < 0 { // the server would answer none of these, again and again
		return nil, errGarbage
	}
	a.reading.Lock()
	defer a.reading.Unlock()
	key := p.Seq << 1
	if from == a.results {
		key++
	}
	if a.cache[key] == nil {
		var m *jetstream.RawStreamMsg
		err := patiently(a.ctx, a.told, func(ctx context.Context) (err error) {
			m, err = from.GetMsg(ctx, p.Seq)
			return err
		})
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return nil, a.gone()
		}
		if err != nil {
			return nil, err
		}
		if len(a.cache) == mostCached {
			clear(a.cache)
		}
		a.cache[key] = slices.Collect(parts(m.Data))
	}
	if p.At >= len(a.cache[key]) {
		return nil, errGarbage
	}
	return a.cache[key][p.At], nil
}

// Run fetches a result. See runner.Executor.
func (a *attached) Run(ctx context.Context, at task.Attempt) *task.Result {
	a.mu.Lock()
	ruling := a.ready[at.Task.ID]
	if !ruling.Facts.Outcome.Replaced() { // which comes again
		delete(a.ready, at.Task.ID)
	}
	a.mu.Unlock()
	r := ruling.Facts.Result(at.Task)
	r.Argv, r.Attempt = at.Task.ArgvOn(r.Worker, r.Host, r.Units), max(1, r.Attempt)
	r.Final = r.Outcome == task.Cancelled || r.Outcome == task.NotRun && r.Err != nil // it does not run again
	out := &outputs{}
	if err := a.collect(ctx, at, out, ruling.Parts); err != nil {
		out.close(true)
		return outcome(at, task.Cancelled, err, false)
	}
	out.handOver(r)
	return r
}

// collect takes the output of an attempt whose messages are in parts.
func (a *attached) collect(ctx context.Context, at task.Attempt, out *outputs, places []Place) error {
	for _, p := range places {
		part, err := a.get(a.results, p)
		if err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		if c, err := DecodeChunk(part); err == nil {
			a.intake.chunk(out, at, c, false)
			continue
		}
		fin, err := DecodeFinal(part)
		if err != nil {
			return err
		}
		return a.intake.rest(out, at, fin)
	}
	return nil
}

// Tasks returns how many tasks the run has.
func (a *attached) Tasks() uint64 { return a.run.Tasks }

// Ended returns how the run has ended: with which exit status, and why early, if it did.
func (a *attached) Ended() (status int, early string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over == nil || a.over.Facts.Exit == nil {
		return 0, ""
	}
	return *a.over.Facts.Exit, string(a.over.Facts.Error)
}

// Forget removes the run from the engine: all its results were shown.
func (a *attached) Forget() error { return a.s.forget(context.Background(), a.run) }

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

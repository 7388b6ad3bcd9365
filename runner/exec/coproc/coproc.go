// Package coproc runs attempts in persistent workers: long-lived processes that take
// records on stdin and answer on stdout.
//
// Each slot has an event loop: one goroutine that blocks in poll(2), writes all records
// that it holds in one system call, reads the answers that are there in another, and
// reports them in one task.Swap. Package proc starts and reaps the processes.
package coproc

import (
	"context"
	"io"
	"maps"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"crew/runner/decide/task"
	"crew/runner/exec/kernel"
	"crew/runner/exec/proc"
)

// Config says how workers run.
type Config struct {
	*proc.Local                                // starts the workers, and runs tasks without a protocol; its Config holds for both, and captures
	Stray       func(task.Slot) io.WriteCloser // takes stderr that belongs to no record; may be nil
	Life        Life
	LifeOf      func(*task.Task) Life // that of the worker that Run starts for a task; nil for Life
}

// Life says when workers start and end.
type Life struct {
	Eager   *task.Task     // its command starts at once; if nil, that of the first record starts with that
	Ready   *regexp.Regexp // of the line on stdout that says that the worker is ready; nil for none
	Start   time.Duration  // time in which that must come; 0 for no limit
	Records int            // records after which a worker is replaced; 0 is never
	Age     time.Duration  // time after which it is; 0 is never

	// Unless the task says otherwise:

	Timeout   time.Duration // of a record; 0 is none
	Idle      time.Duration // of a record while the worker writes nothing; 0 is none, whatever the task says
	KillAfter time.Duration // from asking a worker to end to killing it
}

// Workers is a runner.Streamer. It is safe for concurrent use.
type Workers struct {
	Config // as it was given to New
	pins   kernel.Pins

	failures atomic.Int32 // workers in a row that ended before they read a record, while no other worked
	notices  atomic.Int32
	short    atomic.Int32 // loops that need something to start that other workers hold
	hinted   atomic.Bool  // the user knows of workers that do not flush
	slow     atomic.Bool  // the user knows of workers that are not ready

	mu    sync.Mutex
	loops map[int]*loop // by slot

	saying sync.WaitGroup // messages that are being shown
}

// New returns Workers. Close it when no more attempts run.
func New(cfg Config) *Workers {
	return &Workers{Config: cfg, loops: map[int]*loop{}}
}

// lastWords is how long the user's terminal, or what reads stderr, may take for the last
// messages.
const lastWords = time.Second

// Close ends the workers that Run has left, waits for them to exit, and sees the last
// messages shown if that does not take long.
func (w *Workers) Close() error {
	w.mu.Lock()
	slots := slices.Collect(maps.Keys(w.loops))
	w.mu.Unlock()
	var ended []<-chan struct{}
	for _, slot := range slots {
		ended = append(ended, w.Dismiss(slot))
	}
	for _, e := range ended {
		<-e
	}
	said := make(chan struct{})
	go func() {
		w.saying.Wait()
		close(said)
	}()
	select {
	case <-said:
	case <-time.After(lastWords):
	}
	return nil
}

// patience is how long a worker that is dismissed may take to exit before it is asked
// to.
const patience = 30 * time.Second

// Dismiss ends the worker of a slot for Run, if there is one, once it has run what it has. It
// does not wait. ended is closed once the worker has exited.
func (w *Workers) Dismiss(slot int) (ended <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := w.loops[slot]
	if l == nil {
		gone := make(chan struct{})
		close(gone)
		return gone
	}
	delete(w.loops, slot)
	l.closing = true
	l.bell.ring()
	time.AfterFunc(patience, func() { l.order(order{why: task.Cancelled}) })
	return l.gone
}

// Serve runs the attempts of a slot. See runner.Streamer.
func (w *Workers) Serve(slot task.Slot, swap task.Swap) {
	w.mu.Lock()
	l := w.open(slot)
	w.mu.Unlock()
	l.serve(swap)
	l.close()
}

// open makes the loop of a slot. The caller must hold mu, and close it once it has been served.
func (w *Workers) open(slot task.Slot) *loop {
	l := newLoop(w, slot)
	w.loops[slot.ID] = l
	return l
}

// close ends what open began.
func (l *loop) close() {
	l.Workers.mu.Lock()
	if l.loops[l.slot.ID] == l {
		delete(l.loops, l.slot.ID)
	}
	l.Workers.mu.Unlock()
	l.bell.close()
	close(l.gone)
}

// call is an attempt that Run has given to the loop of its slot.
type call struct {
	task.Attempt
	ctx  context.Context
	done chan *task.Result
}

// Run runs one attempt, in the worker that an earlier Run of the slot has left there,
// whatever its command is, beside the other attempts that are there. A task without a
// protocol gets a process of its own. See runner.Executor.
func (w *Workers) Run(ctx context.Context, a task.Attempt) *task.Result {
	if a.Task.Protocol == task.NoProtocol {
		return w.Local.Run(ctx, a)
	}
	c := &call{a, ctx, make(chan *task.Result, 1)}
	w.mu.Lock()
	l := w.loops[a.Slot.ID]
	if l == nil {
		if l = w.open(a.Slot); w.LifeOf != nil {
			l.Life = w.LifeOf(a.Task)
		}
		go func() {
			l.serve(l.swap)
			l.close()
		}()
	}
	l.calls[a.Task.ID] = c
	l.come = append(l.come, a)
	l.bell.ring()
	w.mu.Unlock()
	stop := context.AfterFunc(ctx, func() { l.order(order{a.Task.ID, a.Number, task.OutcomeOf(context.Cause(ctx)), false}) })
	defer stop()
	return <-c.done
}

// swap is the task.Swap of a loop that serves calls, until it is dismissed.
func (l *loop) swap(ended []*task.Result) (next []task.Attempt, left task.Expectation) {
	l.Workers.mu.Lock()
	defer l.Workers.mu.Unlock()
	for _, r := range ended {
		c := l.calls[r.Task.ID]
		if r.Outcome == task.Lost && c.ctx.Err() == nil { // the next worker gets it
			l.come = append(l.come, c.Attempt)
			continue
		}
		delete(l.calls, r.Task.ID)
		c.done <- r
	}
	next, l.come = l.come, nil
	if l.closing {
		return next, task.ExpectNone
	}
	return next, task.ExpectMore
}

// Wake says that the next swap of a slot has something new. See runner.Streamer.
func (w *Workers) Wake(slot int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if l := w.loops[slot]; l != nil {
		l.bell.ring()
	}
}

// End asks an attempt to end. See runner.Streamer.
func (w *Workers) End(slot int, id uint64, attempt int, cause error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if l := w.loops[slot]; l != nil {
		l.order(order{id, attempt, task.OutcomeOf(cause), false})
	}
}

// Kill kills the worker that runs an attempt. See runner.Executor.
func (w *Workers) Kill(id uint64, attempt int) {
	w.Local.Kill(id, attempt)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range w.loops {
		l.order(order{id, attempt, task.Cancelled, true})
	}
}

// Package coproc runs attempts in persistent workers: long-lived processes that read
// records from stdin and write answers to stdout.
//
// Each slot has an event loop, a goroutine that blocks in poll(2). It writes all records that it
// holds in one system call, reads all available answers in another, and reports them in one
// task.Swap. Package proc starts and reaps the processes.
package coproc

import (
	"cmp"
	"context"
	"io"
	"maps"
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
	*proc.Local                                // starts the workers, and runs tasks without a protocol; its Config applies to both and must capture output
	Stray       func(task.Slot) io.WriteCloser // returns a writer for stderr that belongs to no record
	Eager       *task.Task                     // if not nil, its command is started at once, and otherwise when the first record arrives
	Life        task.Life
}

// Workers is a runner.Streamer. It is safe for concurrent use.
type Workers struct {
	Config // as given to New
	pins   kernel.Pins

	notices atomic.Int32
	short   atomic.Int32 // number of loops that cannot start a worker because others hold the resources
	hinted  atomic.Bool  // the user has been told about workers that may not flush
	slow    atomic.Bool  // the user has been told about workers that are not ready

	mu    sync.Mutex
	loops map[int]*loop // by slot

	notifying sync.WaitGroup // messages that are being shown
}

// New returns Workers. The caller must close it when no more attempts run.
func New(cfg Config) *Workers {
	return &Workers{Config: cfg, loops: map[int]*loop{}}
}

// noticeTimeout limits the time for showing the last messages, since the user's terminal or the
// reader of stderr may block.
const noticeTimeout = time.Second

// Close ends the workers that Run has started, waits for them to exit, and waits until the last
// messages have been shown or noticeTimeout has passed.
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
		w.notifying.Wait()
		close(said)
	}()
	select {
	case <-said:
	case <-time.After(noticeTimeout):
	}
	return nil
}

// dismissTimeout is how long a dismissed worker may take to exit before it gets a signal.
const dismissTimeout = 30 * time.Second

// Dismiss ends the worker of a slot that Run has started, if there is one, once it has answered the
// records that it has. Dismiss does not wait; it closes ended once the worker has exited.
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
	time.AfterFunc(dismissTimeout, func() { l.requestEnd(endRequest{why: task.Cancelled}) })
	return l.gone
}

// Serve runs the attempts of a slot. See runner.Streamer.
func (w *Workers) Serve(slot task.Slot, swap task.Swap) {
	w.mu.Lock()
	l := newLoop(w, slot, &w.Life)
	w.loops[slot.ID] = l
	w.mu.Unlock()
	l.serve(swap)
}

// close removes and closes a loop that has been served.
func (l *loop) close() {
	l.Workers.mu.Lock()
	if l.loops[l.slot.ID] == l {
		delete(l.loops, l.slot.ID)
	}
	l.Workers.mu.Unlock()
	l.bell.close()
	close(l.gone)
}

// call is an attempt that Run has handed to the loop of its slot.
type call struct {
	task.Attempt
	ctx  context.Context
	done chan *task.Result
}

// Run runs one attempt in the slot's worker, which an earlier Run may have started, even for a
// different command. Several attempts may run in a worker at once. A task without a
// protocol gets a process of its own. See runner.Executor.
func (w *Workers) Run(ctx context.Context, a task.Attempt) *task.Result {
	if a.Task.Protocol == task.NoProtocol {
		return w.Local.Run(ctx, a)
	}
	c := &call{a, ctx, make(chan *task.Result, 1)}
	w.mu.Lock()
	l := w.loops[a.Slot.ID]
	if l == nil {
		life := &w.Life
		if o := a.Task.Origin; o != nil {
			life = cmp.Or(o.Life, life)
		}
		l = newLoop(w, a.Slot, life)
		w.loops[a.Slot.ID] = l
		go l.serve(l.swap)
	}
	l.calls[a.Task.ID] = c
	l.incoming = append(l.incoming, a)
	l.bell.ring()
	w.mu.Unlock()
	stop := context.AfterFunc(ctx, func() { l.requestEnd(endRequest{a.Task.ID, a.Number, task.OutcomeOf(context.Cause(ctx)), false}) })
	defer stop()
	return <-c.done
}

// swap is the task.Swap of a loop that serves calls of Run until it is dismissed.
func (l *loop) swap(ended []*task.Result) (next []task.Attempt, left task.Expectation) {
	l.Workers.mu.Lock()
	defer l.Workers.mu.Unlock()
	for _, r := range ended {
		c := l.calls[r.Task.ID]
		if r.Outcome == task.Lost && c.ctx.Err() == nil { // give it to the next worker
			l.incoming = append(l.incoming, c.Attempt)
			continue
		}
		delete(l.calls, r.Task.ID)
		c.done <- r
	}
	next, l.incoming = l.incoming, nil
	if l.closing {
		return next, task.ExpectNone
	}
	return next, task.ExpectMore
}

// Wake tells the loop of a slot that swap has news. See runner.Streamer.
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
		l.requestEnd(endRequest{id, attempt, task.OutcomeOf(cause), false})
	}
}

// Kill kills the worker that runs an attempt. See runner.Executor.
func (w *Workers) Kill(id uint64, attempt int) {
	w.Local.Kill(id, attempt)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range w.loops {
		l.requestEnd(endRequest{id, attempt, task.Cancelled, true})
	}
}

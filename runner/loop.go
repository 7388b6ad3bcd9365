package runner

import (
	"context"
	"io"
	"time"

	"crew/runner/task"
)

const (
	// outboxFull is how many events may wait for the sinks before nothing more
	// starts: a reader that has stopped slows the run down.
	outboxFull = 4096
	// burst is how many facts are taken in between two looks at everything else.
	burst = 256
	// settle is what a run that is to end allows beyond the grace of its tasks:
	// for the kernel to end them, and for a reader to take what is left.
	settle = time.Second
)

// loop is the one goroutine that owns the core. It never writes and never
// blocks on anything but its select.
type loop struct {
	cfg     Config
	core    *core
	exec    Executor
	pump    *pump
	tasks   chan read
	results chan *task.Result
	inbox   <-chan task.Command

	ctx    context.Context // of all attempts
	stop   context.CancelFunc
	kill   chan struct{} // closed when attempts must die at once
	killed bool
	giveUp <-chan time.Time              // when a run that is to end waits for nothing more; nil until it is to end
	cancel map[uint64]context.CancelFunc // of each running attempt
	timer  *time.Timer
	armed  time.Time // when timer fires; zero when it does not
	outbox []task.Event
}

// read is what the reader has: a task or how the input ended.
type read struct {
	task *task.Task
	err  error
}

// Run runs the tasks of src on exec and shows what happens to sinks, until all
// is done or a command in inbox ends it. It closes the sinks. An error of src
// or of a sink is in the Ending; only a wrong Config is an error of Run.
//
// All goroutines that Run starts have ended when it returns, but those that a
// system call may hold: the reader in a read of an input that never comes, the
// pump in a write that nobody takes (Ending.Unshown), and attempts that do not
// end (Ending.Abandoned).
func Run(cfg Config, src Source, exec Executor, sinks []Sink, inbox <-chan task.Command) (Ending, error) {
	if err := cfg.Validate(); err != nil {
		return Ending{}, err
	}
	// Part of the read-ahead stands in the channel, so that reader and loop
	// need not wait for each other task by task.
	ahead := min(cfg.Pool.Buffer/2, burst)
	cfg.Pool.Buffer -= ahead
	l := &loop{
		cfg: cfg, core: newCore(cfg), exec: exec, inbox: inbox,
		pump:  startPump(sinks, cfg.Tick, cfg.Retry.Keep),
		tasks: make(chan read, ahead), results: make(chan *task.Result, burst),
		kill: make(chan struct{}), cancel: map[uint64]context.CancelFunc{}, timer: time.NewTimer(time.Hour),
	}
	l.ctx, l.stop = context.WithCancel(context.Background())
	defer l.stop()
	defer l.timer.Stop()
	quit := make(chan struct{})
	defer close(quit)
	go readTasks(src, l.tasks, quit)

	l.core.emit(task.Event{Kind: task.Resized, At: time.Now(), Worker: cfg.Pool.Workers})
	l.run()
	l.core.balance()
	l.flush()
	return l.core.ending, nil
}

// readTasks is the reader: it sends what src gives until that ends.
func readTasks(src Source, to chan<- read, quit <-chan struct{}) {
	for {
		t, err := src.Next()
		select {
		case to <- read{t, err}:
		case <-quit:
			return
		}
		if err != nil {
			return
		}
	}
}

func (l *loop) run() {
	for {
		now := time.Now()
		l.start(now)
		l.cancelSome()
		if l.core.done() {
			return
		}
		l.core.explainBlocked(now)
		l.arm(now)

		var tasks chan read
		if l.core.canAdmit() && len(l.outbox) < outboxFull {
			tasks = l.tasks
		}
		var out chan []task.Event
		if l.outbox = l.takeEvents(); len(l.outbox) > 0 {
			out = l.pump.in
		}
		select {
		case r := <-tasks:
			l.admit(r)
		case r := <-l.results:
			l.ended(r)
		case cmd := <-l.inbox:
			l.apply(cmd)
		case out <- l.outbox:
			l.outbox = nil
		case err := <-l.pump.errs:
			l.core.abort(err, time.Now())
		case <-l.timer.C:
			l.armed = time.Time{}
		case <-l.giveUp:
			l.core.abandon(time.Now())
			l.giveUp = time.After(settle)
		}
	}
}

// takeEvents moves the core's news behind what already waits for the pump.
func (l *loop) takeEvents() []task.Event {
	fresh := l.core.events
	if len(fresh) == 0 {
		return l.outbox
	}
	if len(l.outbox) == 0 {
		select {
		case l.core.events = <-l.pump.spare:
		default:
			l.core.events = nil
		}
		return fresh
	}
	l.core.events = fresh[:0]
	return append(l.outbox, fresh...)
}

// start starts all that may start now.
func (l *loop) start(now time.Time) {
	for len(l.outbox)+len(l.core.events) < outboxFull {
		a, ok := l.core.next(now)
		if !ok {
			return
		}
		a.Kill = l.kill
		ctx, cancel := context.WithCancel(l.ctx)
		l.cancel[a.Task.ID] = cancel
		go func() { l.results <- l.exec.Run(ctx, a) }()
	}
}

// cancelSome ends the attempts that the core wants ended.
func (l *loop) cancelSome() {
	for _, id := range l.core.cancels {
		if cancel := l.cancel[id]; cancel != nil {
			cancel()
		}
	}
	l.core.cancels = l.core.cancels[:0]
	if l.core.stopping {
		l.stop()
		l.limit()
	}
}

// limit begins the time that a run which is to end may still take.
func (l *loop) limit() {
	if l.giveUp == nil {
		l.giveUp = time.After(l.cfg.KillAfter + settle)
	}
}

// admit takes in a task and, without waiting, those behind it.
func (l *loop) admit(r read) {
	now := time.Now()
	for range burst {
		switch {
		case r.err == io.EOF:
			l.core.endInput(now)
			return
		case r.err != nil:
			l.core.inputFailed(r.err, now)
			return
		}
		l.core.admit(r.task, now)
		if !l.core.canAdmit() {
			return
		}
		select {
		case r = <-l.tasks:
		default:
			return
		}
	}
}

// ended takes in a result and, without waiting, those behind it.
func (l *loop) ended(r *task.Result) {
	now := time.Now()
	for range burst {
		id := r.Task.ID
		l.cancel[id]()
		delete(l.cancel, id)
		l.core.ended(r, now)
		select {
		case r = <-l.results:
		default:
			return
		}
	}
}

func (l *loop) apply(cmd task.Command) {
	l.core.apply(cmd, time.Now())
	if cmd.Op == task.Kill && !l.killed {
		l.killed = true
		close(l.kill)
		l.giveUp = time.After(settle)
	}
}

// arm sets the timer for the core's next moment. What is due already waits for
// something else, the outbox, which wakes the loop by itself.
func (l *loop) arm(now time.Time) {
	at := l.core.wake()
	if !at.After(now) {
		at = time.Time{}
	}
	if at.Equal(l.armed) {
		return
	}
	l.armed = at
	if at.IsZero() {
		l.timer.Stop()
		return
	}
	l.timer.Reset(max(at.Sub(now), 0))
}

// flush hands the last events over and waits for the sinks to close. Where the
// run was told to end and nobody takes its output, it gives up after the grace,
// or at once when told to kill.
func (l *loop) flush() {
	out := l.pump.in
	batch := l.takeEvents()
	if len(batch) == 0 {
		close(l.pump.in)
		out = nil
	}
	defer func() {
		if out != nil { // given up: the pump ends when its write does
			close(out)
		}
	}()
	for {
		select {
		case out <- batch:
			close(out)
			out = nil
		case err := <-l.pump.errs:
			l.core.abort(err, time.Now())
		case <-l.pump.done:
			l.close()
			return
		case cmd := <-l.inbox:
			l.apply(cmd)
			if l.killed {
				l.core.ending.Unshown = true
				return
			}
			if l.core.stopping {
				l.limit()
			}
		case <-l.giveUp:
			l.core.ending.Unshown = true
			return
		}
	}
}

// close takes what the pump has left behind.
func (l *loop) close() {
	l.core.ending.Stats = l.pump.stats
	for {
		select {
		case err := <-l.pump.errs:
			l.core.abort(err, time.Now())
		default:
			return
		}
	}
}

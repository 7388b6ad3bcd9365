package runner

import (
	"context"
	"errors"
	"io"
	"sync"
	"syscall"
	"time"

	"crew/runner/task"
)

const (
	// outboxFull is how many events may wait for the sinks before nothing more
	// starts: a reader that has stopped slows the run down.
	outboxFull = 4096
	// burst is how many tasks are taken in between two looks at everything else,
	// and how many the reader may have ready.
	burst = 256
	// lag is how long events may wait for others to be handed over with them,
	// and batch how many need not.
	lag   = 10 * time.Millisecond
	batch = 256
	// settle is what a run that is to end allows beyond the grace of its tasks:
	// for the kernel to end them, and for a reader to take what is left.
	settle = time.Second
)

// loop owns the core. One goroutine runs it, which never writes and never blocks
// on anything but its select. Yet where an attempt has ended and the next may
// start, the goroutine of the attempt does that step of the loop by itself,
// under the lock that the loop holds while it is awake: to wake the loop for
// each, and have it wake another goroutine, takes as long as a small task.
type loop struct {
	cfg   Config
	core  *core
	exec  Executor
	pump  *pump
	tasks chan read
	allow chan int // to the reader: it may read so many tasks more
	inbox <-chan task.Command
	bell  chan struct{} // rung by an attempt's goroutine that has left something to do

	ctx    context.Context // of all attempts
	stop   context.CancelFunc
	kill   chan struct{} // closed when attempts must die at once
	killed bool
	giveUp <-chan time.Time // when a run that is to end waits for nothing more; nil until it is to end
	timer  *time.Timer
	armed  time.Time // when timer fires; zero when it does not
	handed time.Time // when the pump last got something

	mu      sync.Mutex // held by whoever touches what follows, or the core
	slots   []*slot    // by worker
	outbox  []task.Event
	allowed int  // tasks that the reader may read, or has read, and that are not taken in
	reading bool // the loop, asleep, waits for tasks
	looks   bool // the loop, asleep, looks at the events in a moment
	over    bool // nothing more is taken in
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
	l := &loop{
		cfg: cfg, core: newCore(cfg), exec: exec, inbox: inbox,
		pump:  startPump(sinks, cfg.Tick, cfg.Retry.Keep),
		tasks: make(chan read, min(cfg.Pool.Buffer, burst)), allow: make(chan int, 1), bell: make(chan struct{}, 1),
		kill: make(chan struct{}), timer: time.NewTimer(time.Hour),
	}
	l.ctx, l.stop = context.WithCancel(context.Background())
	defer l.stop()
	defer l.timer.Stop()
	quit := make(chan struct{})
	defer close(quit)
	go readTasks(src, l.allow, l.tasks, quit)

	l.core.emit(task.Event{Kind: task.Resized, At: time.Now(), Worker: cfg.Pool.Workers})
	l.run()
	l.core.balance()
	l.flush()
	return l.core.ending, nil
}

// readTasks is the reader: it sends what src gives until that ends, as many as
// it is allowed.
func readTasks(src Source, allow <-chan int, to chan<- read, quit <-chan struct{}) {
	for {
		n := 0
		select {
		case n = <-allow:
		case <-quit:
			return
		}
		for ; n > 0; n-- {
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
}

// run is the loop. It returns when nothing more will happen.
func (l *loop) run() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		now := time.Now()
		l.start(now)
		l.cancelSome()
		if l.core.done() {
			l.over = true
			return
		}
		l.core.explainBlocked(now)

		var tasks chan read
		if l.reading = l.core.low() && len(l.outbox) < outboxFull; l.reading {
			tasks = l.tasks
			l.permit()
		}
		var out chan []task.Event
		l.outbox = l.takeEvents()
		l.looks = len(l.outbox) < batch && now.Sub(l.handed) < lag
		if len(l.outbox) > 0 && !l.looks {
			out = l.pump.in
		}
		l.arm(now)

		outbox := l.outbox
		l.mu.Unlock()
		act := l.wait(tasks, out, outbox)
		l.mu.Lock()
		act()
	}
}

// wait waits for something to happen and is what to do about it.
func (l *loop) wait(tasks <-chan read, out chan<- []task.Event, outbox []task.Event) func() {
	select {
	case r := <-tasks:
		return func() { l.admit(r) }
	case <-l.bell:
		return func() {}
	case cmd := <-l.inbox:
		return func() { l.apply(cmd) }
	case out <- outbox:
		return func() { l.outbox, l.handed = nil, time.Now() }
	case err := <-l.pump.errs:
		return func() { l.core.abort(err, time.Now()) }
	case <-l.timer.C:
		return func() { l.armed = time.Time{} }
	case <-l.giveUp:
		return func() {
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

// limit begins the time that a run which was told to end may still take. One
// that ends its tasks by itself waits for them, and for who reads its output, as
// long as they take.
func (l *loop) limit() {
	if l.giveUp == nil && l.core.told {
		l.giveUp = time.After(l.cfg.KillAfter + settle)
	}
}

// permit lets the reader go on, for many tasks at a time.
func (l *loop) permit() {
	n := l.core.room() - l.allowed
	if n < 1 || l.allowed > 0 && n < l.cfg.Pool.Buffer/2 {
		return
	}
	select {
	case l.allow <- n:
		l.allowed += n
	default: // it has not seen the last one yet
	}
}

// admit takes in a task and, without waiting, those behind it.
func (l *loop) admit(r read) {
	now := time.Now()
	for n := 1; ; n++ {
		l.allowed--
		switch {
		case r.err == io.EOF:
			l.core.endInput(now)
			return
		case r.err != nil:
			l.core.inputFailed(r.err, now)
			return
		}
		l.core.admit(r.task, now)
		if n == burst || l.core.room() == 0 {
			return
		}
		select {
		case r = <-l.tasks:
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

// arm sets the timer for the core's next moment, or for the next look at the
// events. What is due already waits for something else, the outbox, which wakes
// the loop by itself.
func (l *loop) arm(now time.Time) {
	at := l.core.wake()
	if !at.After(now) {
		at = time.Time{}
	}
	if look := l.handed.Add(lag); l.looks && (at.IsZero() || look.Before(at)) {
		at = look
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
			l.late(err)
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
			l.late(err)
		default:
			return
		}
	}
}

// late takes an error that came when no event reaches the sinks any more.
func (l *loop) late(err error) {
	if l.core.ending.Err == nil || errors.Is(err, syscall.EPIPE) {
		l.core.abort(err, time.Now())
		return
	}
	l.core.ending.More = append(l.core.ending.More, err)
}

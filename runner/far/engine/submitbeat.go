package engine

import (
	"context"
	"sync"
	"time"

	"crew/runner/decide/task"
)

const (
	tickEvery      = 100 * time.Millisecond
	heartbeatEvery = time.Second
	partWait       = 2 * time.Second // for the server, at the end
)

// each calls do at once and then again and again, with a pause, until the run is over.
func (x *submitter) each(pause time.Duration, do func()) {
	x.end.Go(func() {
		for do(); x.wait(pause); do() {
		}
	})
}

// wait waits for some time. It returns false at once when the run is over.
func (x *submitter) wait(d time.Duration) bool { return pause(x.ctx, d) }

// tick looks after workers, and sends orders again that may not have arrived.
func (x *submitter) tick() {
	now := time.Now()
	x.watch(now, x.s.nc.IsConnected())
	if x.hosts != nil {
		if err := x.hosts.Deserted(now, x.roster.grace); err != nil {
			x.sub.Do(task.Command{Op: task.Fail, Err: err})
		}
	}
	select {
	case <-x.s.refused:
		x.sub.Do(task.Command{Op: task.Fail, Err: x.s.why})
		x.cancel(x.s.why)
	default:
	}
	x.flights.repeat(now)
}

// heartbeat tells the workers that the run goes on, or that it is over.
func (x *submitter) heartbeat(over bool) {
	_ = x.s.heartbeat(heartbeatSubject(x.sub.Queue, x.s.user), Heartbeat{Run: x.id.Run, Epoch: x.id.Epoch, Suspended: x.suspended.Load(), Over: over}) // the next one follows
}

func (s *session) heartbeat(subject string, b Heartbeat) error {
	b.Version = Version
	return s.tell(subject, b)
}

// Suspend tells the workers that this process is about to stand still. Their tasks go
// on. See runner.Executor.
func (x *submitter) Suspend() {
	x.suspended.Store(true)
	x.heartbeat(false)
	_ = x.s.nc.FlushTimeout(time.Second)
}

// Resume undoes Suspend. See runner.Executor.
func (x *submitter) Resume() {
	x.suspended.Store(false)
	x.heartbeat(false)
}

// enrol tells of the run. There is no core before an attempt has begun.
func (x *submitter) enrol() {
	e := x.record
	if x.ran.Load() {
		now := x.sub.Do(task.Command{Op: task.Look}).Snapshot
		e.Paused = now != nil && now.State == task.Paused
	}
	_ = x.s.tell(enrolSubject(e.User, e.Run), e) // whoever asks asks again
}

// receive takes what a worker tells of attempts. It ignores what no attempt of the run waits for, and
// garbage: the token tells.
func (x *submitter) receive(subject string, data []byte) {
	from := senderOf(subject)
	for part := range parts(data) {
		if c, err := DecodeChunk(part); err == nil {
			if f := x.flights.awaited(from, c.ID, c.Token); f != nil {
				x.chunk(f, c)
			}
		} else if fin, err := DecodeFinal(part); err == nil {
			if f := x.flights.awaited(from, fin.ID, fin.Token); f != nil {
				select {
				case f.done <- fin:
				default: // it came before
				}
			} else {
				x.earlier(from, fin)
			}
		}
	}
}

// command carries out an order of crew engine, or of a client of crew ctl.
func (x *submitter) command(o *Order, a *Answer) error {
	switch o.Op {
	case opCancel:
		return x.sub.Do(task.Command{Op: task.Stop, Err: o.done("cancelled")}).Err
	case opTalk:
		return talk(&x.visitors, o, a)
	}
	return o.unknown()
}

// part ends the run on the engine: workers drop what they still hold of it.
func (x *submitter) part() {
	if !x.s.nc.IsConnected() {
		return
	}
	x.dismiss()
	ctx, cancel := context.WithTimeout(context.Background(), partWait)
	defer cancel()
	x.heartbeat(true)
	_ = x.s.nc.FlushWithContext(ctx)
}

const (
	dismissWait = 45 * time.Second // for persistent workers to end
	sayDismiss  = time.Second      // after which the user is told
)

// everyEpoch is above all epochs.
const everyEpoch = 1 << 62

// dismiss has the workers on hosts of the run's own know that nobody follows them, and waits for
// the end of persistent workers, which would be killed with the connection.
func (x *submitter) dismiss() {
	if x.hosts == nil {
		return
	}
	patience := partWait
	if x.sub.Command.Protocol != task.NoProtocol {
		patience = dismissWait
		late := time.AfterFunc(sayDismiss, func() { x.sub.Notice("waiting for workers to end") })
		defer late.Stop()
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var asked sync.WaitGroup
	for _, w := range x.roster.all() {
		asked.Go(func() { _, _ = x.s.ask(ctx, w.orders, Order{Op: opLeave, ID: ID{Run: x.id.Run, Epoch: everyEpoch}}) })
	}
	asked.Wait()
}

// mostLate is how long after its end a result may come and still say something of the
// worker's clock.
const mostLate = time.Second

// clock turns the times of a worker's clock into those of this machine's. It takes the least
// delay between the end of an attempt there and the arrival of its result here for the
// difference of the clocks, so attempts keep their distances. It is safe for concurrent use.
type clock struct {
	mu    sync.Mutex
	known bool
	ahead time.Duration // of this machine's clock
}

// end returns when an attempt ended by this machine's clock, of which the worker's says when,
// and whose result came now. Where the worker's clock seems to have been set, it begins anew.
func (c *clock) end(there, now time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	now = now.Round(0) // clocks that are set count
	if d := now.Sub(there); !c.known || d < c.ahead || d > c.ahead+mostLate {
		c.known, c.ahead = true, d
	}
	return there.Add(c.ahead)
}

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
	leaveWait      = 2 * time.Second // for the server, at the end
)

// each calls do at once and then again and again, with a pause, until the run is over.
func (x *submitter) every(pause time.Duration, do func()) {
	x.wg.Go(func() {
		for do(); x.sleep(pause); do() {
		}
	})
}

// wait waits for some time. It returns false at once when the run is over.
func (x *submitter) sleep(d time.Duration) bool { return sleep(x.ctx, d) }

// tick looks after workers, and sends orders again that may not have arrived.
func (x *submitter) tick() {
	now := time.Now()
	x.checkWorkers(now, x.s.nc.IsConnected())
	if x.hosts != nil {
		if err := x.hosts.Deserted(now, x.roster.lastDeaf); err != nil {
			x.sub.Do(task.Command{Op: task.Fail, Err: err})
		}
	}
	select {
	case <-x.s.refused:
		x.sub.Do(task.Command{Op: task.Fail, Err: x.s.refusedErr})
		x.cancel(x.s.refusedErr)
	default:
	}
	x.attempts.repeatOrders(now)
}

// heartbeat tells the workers that the run goes on, or that it is over.
func (x *submitter) heartbeat(over bool) {
	_ = x.s.heartbeat(heartbeatSubject(x.sub.Queue, x.s.user), Heartbeat{Run: x.id.Run, Epoch: x.id.Epoch, Suspended: x.suspended.Load(), Over: over}) // the next one follows
}

func (s *session) heartbeat(subject string, b Heartbeat) error {
	b.Version = Version
	return s.publishJSON(subject, b)
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
func (x *submitter) announce() {
	e := x.record
	if x.started.Load() {
		now := x.sub.Do(task.Command{Op: task.Look}).Snapshot
		e.Paused = now != nil && now.State == task.Paused
	}
	_ = x.s.publishJSON(runInfoSubject(e.User, e.Run), e) // whoever asks asks again
}

// receive takes what a worker tells of attempts. It ignores what no attempt of the run waits for, and
// garbage: the token tells.
func (x *submitter) receiveResults(subject string, data []byte) {
	from := senderOf(subject)
	for part := range splitMessages(data) {
		if c, err := DecodeChunk(part); err == nil {
			if p := x.attempts.match(from, c.ID, c.Token); p != nil {
				x.receiveChunk(p, c)
			}
		} else if fin, err := DecodeFinal(part); err == nil {
			if p := x.attempts.match(from, fin.ID, fin.Token); p != nil {
				select {
				case p.done <- fin:
				default: // it came before
				}
			} else {
				x.receiveEarlier(from, fin)
			}
		}
	}
}

// command carries out an order of crew engine, or of a client of crew ctl.
func (x *submitter) carryOut(o *Order, a *Answer) error {
	switch o.Op {
	case opCancel:
		return x.sub.Do(task.Command{Op: task.Stop, Err: o.cause("cancelled")}).Err
	case opTalk:
		return talk(&x.visitors, o, a)
	}
	return o.unknown()
}

// part ends the run on the engine: workers drop what they still hold of it.
func (x *submitter) leaveHub() {
	if !x.s.nc.IsConnected() {
		return
	}
	x.dismissWorkers()
	ctx, cancel := context.WithTimeout(context.Background(), leaveWait)
	defer cancel()
	x.heartbeat(true)
	_ = x.s.nc.FlushWithContext(ctx)
}

const (
	dismissWait   = 45 * time.Second // for persistent workers to end
	dismissNotice = time.Second      // after which the user is told
)

// everyEpoch is above all epochs.
const maxEpoch = 1 << 62

// dismiss has the workers on hosts of the run's own know that nobody follows them, and waits for
// the end of persistent workers, which would be killed with the connection.
func (x *submitter) dismissWorkers() {
	if x.hosts == nil {
		return
	}
	patience := leaveWait
	if x.sub.Command.Protocol != task.NoProtocol {
		patience = dismissWait
		late := time.AfterFunc(dismissNotice, func() { x.sub.Notice("waiting for workers to end") })
		defer late.Stop()
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var asked sync.WaitGroup
	for _, w := range x.roster.all() {
		asked.Go(func() { _, _ = x.s.ask(ctx, w.orders, Order{Op: opLeave, ID: ID{Run: x.id.Run, Epoch: maxEpoch}}) })
	}
	asked.Wait()
}

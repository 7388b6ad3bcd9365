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
	leaveWait      = 2 * time.Second // limit for the server's reply at the end
)

// every starts a goroutine that calls do at once, and then again after each pause until the run is
// over.
func (x *submitter) every(pause time.Duration, do func()) {
	x.wg.Go(func() {
		for do(); x.sleep(pause); do() {
		}
	})
}

// sleep waits for d. It returns false, at once, when the run is over.
func (x *submitter) sleep(d time.Duration) bool { return sleep(x.ctx, d) }

// tick checks the workers and the connection.
func (x *submitter) tick() {
	if x.checkWorkers(x.s.nc.IsConnected(), false) { // or the hub is
		x.checkWorkers(x.s.nc.FlushTimeout(answerWait) == nil && x.sleep(tickEvery), true) // earlier announcements are handled by then
	}
	if x.hosts != nil {
		if err := x.hosts.CheckReachable(x.roster.awake); err != nil {
			x.Do(task.Command{Op: task.Fail, Err: err})
		}
	}
	select {
	case <-x.s.refused:
		x.Do(task.Command{Op: task.Fail, Err: x.s.refusedErr})
		x.cancel(x.s.refusedErr)
	default:
	}
}

// heartbeats starts to tell the workers that the run continues, often enough for each lease, also of a
// worker that has just come, until it is over.
func (x *submitter) heartbeats() {
	since := heartbeatEvery
	x.every(tickEvery, func() {
		pause := heartbeatEvery
		for _, w := range x.roster.all() {
			pause = min(pause, w.ttl/4)
		}
		if since >= pause {
			x.heartbeat(false)
			since = 0
		}
		since += tickEvery
	})
}

// heartbeat tells the workers that the run continues, or that it is over.
func (x *submitter) heartbeat(over bool) {
	_ = x.s.heartbeat(heartbeatSubject(x.Engine.Queue, x.s.user), Heartbeat{Run: x.id.Run, Epoch: x.id.Epoch, Suspended: x.suspended.Load(), Over: over}) // repeated if lost
}

func (s *session) heartbeat(subject string, b Heartbeat) error {
	b.Version = Version
	return s.publishJSON(subject, b)
}

// Suspend tells the workers that this process is about to be suspended. Their attempts continue. See
// runner.Executor.
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

// announce publishes the RunInfo.
func (x *submitter) announce() {
	info := x.info
	now := x.Do(task.Command{Op: task.Look}).Snapshot
	info.Paused = now != nil && now.State == task.StatePaused
	_ = x.s.publishJSON(runInfoSubject(info.User, info.Run), info) // a client asks again
}

// receiveResults handles results and output from a worker. It ignores garbage, and whatever does not
// have the token of an attempt of this run.
func (x *submitter) receiveResults(subject string, data []byte) {
	from := senderOf(subject)
	for part := range splitMessages(data) {
		fin, err := decode[Final](part, kindFinal)
		if err != nil {
			continue
		}
		switch p := x.attempts.match(from, fin.ID, fin.Token); {
		case p == nil:
			x.receiveEarlier(from, fin)
		case fin.Outcome == 0:
			x.receiveParts(p, fin)
		default:
			select {
			case p.done <- fin:
			default: // a duplicate
			}
		}
	}
}

// carryOut carries out an order of crew engine or of a client of crew ctl.
func (x *submitter) carryOut(o *Order, a *Answer) error {
	switch o.Op {
	case opCancel:
		return x.Do(task.Command{Op: task.Stop, Err: o.cause("cancelled")}).Err
	case opTalk:
		return talk(&x.remoteClients, o, a)
	}
	return o.unknown()
}

// leaveHub tells the workers that the run is over.
func (x *submitter) leaveHub() {
	if !x.s.nc.IsConnected() {
		return
	}
	x.dismissWorkers()
	ctx, cancel := context.WithTimeout(context.Background(), leaveWait)
	defer cancel()
	x.heartbeat(true)
	_ = x.s.nc.FlushWithContext(ctx)
	x.remoteClients.Wait()
}

const (
	dismissWait   = 45 * time.Second // limit for persistent workers to end
	dismissNotice = time.Second      // tell the user after this long
)

// maxEpoch is greater than every epoch.
const maxEpoch = 1 << 62

// dismissWorkers tells the workers of --ssh that no other worker follows them on their hosts, and
// waits until their persistent workers have ended: they would be killed with the connection.
func (x *submitter) dismissWorkers() {
	if x.hosts == nil {
		return
	}
	patience := leaveWait
	if x.Protocol() != task.NoProtocol {
		patience = dismissWait
		late := time.AfterFunc(dismissNotice, func() { x.Notice("waiting for workers to end") })
		defer late.Stop()
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var asked sync.WaitGroup
	for _, w := range x.roster.all() {
		asked.Go(func() { _, _ = x.s.ask(ctx, w.orders, Order{Op: opLeave, Run: x.id.Run, Epoch: maxEpoch}) })
	}
	asked.Wait()
}

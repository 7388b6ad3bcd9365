package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"crew/runner"
	"crew/runner/decide/task"
	"crew/runner/exec/spool"
	"crew/runner/far/credentials"
	"crew/runner/far/outbox"
	"crew/runner/far/travel"
	"crew/runner/front/wiring"
	"crew/runner/steer/control"
)

// submitter is the executor of a run on workers. Results, announcements and orders arrive in
// goroutines of the connection's subscriptions. The method every starts the periodic jobs.
//
// Locks: roster.mu may be held when attempts.mu is taken, never the other way round. A command that is
// given with roster.mu held can call Kill, which therefore takes only attempts.mu.
type submitter struct {
	// configuration

	*wiring.Call
	s         *session
	id        identity // roster.mu guards its Workers
	info      RunInfo
	builder   messageBuilder
	resumable bool              // workers keep results until they are recorded, for a later epoch of the run
	hosts     *sshHosts         // nil without --ssh
	files     *travel.Submitter // nil if no files travel
	detached  *detachedRun      // nil unless the run is detached; then the hub announces it

	// state

	attempts      attemptTable
	roster        roster
	remoteClients control.RemoteClients
	joined        chan struct{} // closed once admitWorkers has returned
	door          struct {
		sync.Mutex        // held while a request to add tasks is taken
		run        string // ID of a request that is to be repeated
		line       []byte
	}

	suspended atomic.Bool

	ctx    context.Context // done once no result can arrive any more
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup
}

// Submit returns the executor of a run. With hosts, the run has a server and workers of its own, which end with
// it. Submit returns an error if the hub cannot be reached, or if there are workers but none is usable for the
// run.
func Submit(c *wiring.Call) (wiring.Executor, error) {
	var s *session
	x, err := &submitter{builder: newMessageBuilder(c)}, error(nil)
	if len(c.Hosts) > 0 {
		if x.hosts, err = startHosts(c); err == nil {
			s, err = x.hosts.connect(c.Notice)
		}
	} else if x.builder.sign, err = signer(c, sign); err == nil {
		s, err = connect(c.Engine.URL, c.Notice)
	}
	if err == nil {
		err = x.start(c, s)
	}
	if err != nil {
		x.hosts.close()
		return nil, err
	}
	return x, nil
}

// signer returns a function that signs attempts with by, or nil without --sign.
func signer(c *wiring.Call, by func(*credentials.Key, *Attempt, string)) (func(*Attempt, string), error) {
	if c.Engine.Sign == "" {
		return nil, nil
	}
	key, err := credentials.LoadKey(c.Engine.Sign)
	return func(a *Attempt, subject string) { by(key, a, subject) }, err
}

// start begins to submit a run over s, which it takes over and closes on error. builder and hosts must
// be set.
func (x *submitter) start(sub *wiring.Call, s *session) error {
	x.Call, x.s, x.resumable = sub, s, sub.State.Dir != "" && x.hosts == nil
	x.builder.base.Live = x.builder.base.Live || sub.Plan.Streams()
	x.remoteClients.ServeClient, x.joined = sub.ServeClient, make(chan struct{})
	x.attempts = attemptTable{byKey: map[attemptKey]*pendingAttempt{}, sent: map[int]chan struct{}{}, earlier: map[[16]byte][]earlierFinal{}}
	x.ctx, x.cancel = context.WithCancelCause(context.Background())
	if err := x.open(); err != nil {
		x.cancel(nil)
		err = x.s.explain(err)
		x.s.close()
		return err
	}
	return nil
}

// open opens what the run needs, subscribes, and starts the goroutines.
func (x *submitter) open() error {
	err := x.identify()
	if err != nil {
		return err
	}
	x.info, x.builder.secret = newRunInfo(x.Engine.Queue, x.Control.Name, x.s.user, x.id), x.id.Secret
	x.info.Job = x.builder.Job
	x.attempts.out, x.attempts.orders = outbox.New(x.s.requester), outbox.New(x.s.requester)
	if c := x.Call; c.Copies() {
		files := travel.Files{Base: c.Engine.BaseFiles, Transfer: c.Transfer, Return: c.Return}
		if x.files, err = travel.NewSubmitter(x.s.blobs, files, x.Notice); err != nil {
			return err
		}
	}
	if _, err = x.s.serveMessages(resultSubject(x.s.user, x.id.Run, allWorkers), x.receiveResults); err != nil { // results must be able to arrive before a worker can be lost
		return err
	}
	if err = x.openRoster(); err != nil {
		return err
	}
	if _, err = x.s.serveOrders(runSubject(x.s.user, x.id.Run), x.carryOut); err != nil {
		return err
	}
	if err = x.s.checkAllowed(); err != nil {
		return err
	}
	x.wg.Go(x.admitWorkers)
	x.every(tickEvery, x.tick)
	x.heartbeats()
	if x.Arrive != nil {
		if _, err = x.s.serveOrders(doorSubject(x.s.user, x.Control.Name), x.takeRequest); err != nil {
			return err
		}
	}
	if x.detached == nil {
		_, err = x.s.nc.Subscribe(askSubject, func(*nats.Msg) { go x.announce() })
	}
	return err
}

// Close ends the run; workers drop its remaining attempts and results.
func (x *submitter) Close() error {
	x.cancel(errors.New("the run is over"))
	x.leaveHub()
	x.s.close()
	select {
	case <-x.joined:
		x.wg.Wait()
	default: // the run was never created: a goroutine that needs it waits for ever
	}
	x.hosts.close()
	return nil
}

// Run runs an attempt on the worker of its slot. See runner.Executor.
func (x *submitter) Run(ctx context.Context, a task.Attempt) *task.Result {
	p := x.attempts.add(a)
	if p.turn != nil {
		<-p.turn
	}
	var fin *Final
	var r *task.Result
	if !x.attempts.takeEarlier(p) {
		r = x.send(ctx, p)
	}
	close(p.sent)
	if r == nil {
		fin = x.await(ctx, p)
		r = x.result(ctx, p, fin)
	}
	x.s.blobs.Drop(p.body)
	if x.files != nil {
		x.files.Release(p.inputs)
	}
	kept := fin != nil && (x.resumable || len(fin.blobs()) > 0)
	x.attempts.finish(p, kept, x.resumable && !r.Unbegun)
	return r
}

// send sends an attempt to the worker of its slot. It returns a result if that is not possible.
func (x *submitter) send(ctx context.Context, p *pendingAttempt) *task.Result {
	if !x.assign(p) {
		return outcome(p.attempt, task.Lost, nil, true) // it was recalled, or the slot has just left
	}
	if err := x.sendAttempt(ctx, p); err != nil {
		return notStarted(ctx, p.attempt, err)
	}
	return nil
}

// await returns how an attempt ended, or nil if its worker is lost.
func (x *submitter) await(ctx context.Context, p *pendingAttempt) *Final {
	defer context.AfterFunc(ctx, func() { x.attempts.order(p, opCancel) })()
	select {
	case fin := <-p.done:
		return fin
	case <-p.worker.ctx.Done():
	}
	select {
	case fin := <-p.done: // it arrived before the worker was lost
		return fin
	default:
		return nil
	}
}

// Kill orders the worker to kill an attempt. See runner.Executor.
func (x *submitter) Kill(id uint64, attempt int) {
	if p := x.attempts.find(attemptKey{id, attempt}); p != nil {
		x.attempts.order(p, opKill)
	}
}

// Expect queues an attempt in its slot. See runner.Sender.
func (x *submitter) Expect(a task.Attempt) { x.attempts.add(a) }

// Recall orders the worker to return an attempt unless it has begun. See runner.Sender.
func (x *submitter) Recall(a task.Attempt) {
	if p := x.attempts.find(keyOfAttempt(a)); p != nil {
		x.attempts.order(p, opReturn)
	}
}

// Live returns the output of a running task that has arrived so far. See proc.Local.
func (x *submitter) Live(id uint64) (stdout, stderr task.Live, attempt int) {
	if p := x.attempts.running(id); p != nil {
		return p.live()
	}
	return nil, nil, 0
}

// Sink returns the sink that must consume events after the journal.
func (x *submitter) Sink() runner.Sink {
	if x.detached != nil {
		return x.detached
	}
	return &x.attempts
}

// Missing returns lines that name the hosts of --ssh that were never reached, and those that were lost.
// See ssh.Hosts.Missing.
func (x *submitter) Missing() []string {
	if x.hosts == nil {
		return nil
	}
	return x.hosts.Missing()
}

// outcome returns the result of an attempt that has no Final.
func outcome(a task.Attempt, o task.Outcome, err error, unbegun bool) *task.Result {
	r := a.End(o, err, time.Now())
	r.Unbegun = unbegun
	return r
}

// notStarted returns the result of an attempt that err kept from starting, or that was cancelled
// before it started.
func notStarted(ctx context.Context, a task.Attempt, err error) *task.Result {
	if ctx.Err() != nil {
		return outcome(a, task.OutcomeOf(context.Cause(ctx)), nil, false)
	}
	return outcome(a, task.StartFailed, err, false)
}

// sendAttempt encodes an attempt and sends it to its worker.
func (x *submitter) sendAttempt(ctx context.Context, p *pendingAttempt) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	m, err := x.builder.message(p.id, p.attempt)
	if err != nil {
		return err
	}
	m.Token, m.User, m.Keep = p.token, x.s.user, x.resumable
	if x.files != nil {
		if m.Take, m.Return, err = x.files.Send(p.attempt.Task); err != nil {
			return err
		}
		m.Cleanup, p.inputs = x.Engine.Cleanup, m.Take
	}
	if x.builder.sign != nil {
		x.builder.sign(m, p.worker.tasks)
	}
	msg := encode(kindAttempt, m)
	if len(msg) > maxTaskSize {
		return fmt.Errorf("send the task to its worker: it is %d bytes, more than the limit of %d", len(msg), maxTaskSize)
	}
	if len(msg) > maxMessage {
		p.body = x.s.blobs.Add(spool.Text(msg), int64(len(msg)))
		msg = encode(kindAttempt, &Attempt{ID: m.ID, Token: m.Token, Whole: p.body, Trip: travel.Trip{User: m.User}})
	}
	x.attempts.send(p.worker, msg, func() { x.attempts.markDelivered(p) })
	return nil
}

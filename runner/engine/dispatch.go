package engine

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"crew/runner"
	"crew/runner/proc"
	"crew/runner/task"
	"crew/runner/wiring"
)

const (
	dispatchTTL  = 10 * time.Second // of a run's record, but in a cluster
	dispatchLook = 2 * time.Second  // how often a dispatcher looks for runs that nobody has told it of
	renewEvery   = dispatchTTL / 4
)

// dispatcher submits the runs that were handed over, each over a connection of its own.
type dispatcher struct {
	connect func(notice func(string)) (*session, error)
	notice  func(string)
	told    *once
	s       *session // to look for runs
	look    chan struct{}
	hub     bool // it is part of the server, so that there is no other such dispatcher

	mu   sync.Mutex
	mine map[string]bool // runs, by ID
	wg   sync.WaitGroup
}

// dispatch submits runs until a signal comes.
func dispatch(c *wiring.EngineCall) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	d, err := newDispatcher(func(notice func(string)) (*session, error) { return connect(c.URL, notice) }, c.Notice)
	if err != nil {
		return err
	}
	c.Notice("dispatching the runs that are handed over")
	c.Ready()
	return d.serve(ctx)
}

// newDispatcher returns a dispatcher, which is connected.
func newDispatcher(connect func(func(string)) (*session, error), notice func(string)) (*dispatcher, error) {
	d := &dispatcher{connect: connect, notice: notice, told: &once{notice: notice}, look: make(chan struct{}, 1), mine: map[string]bool{}}
	var err error
	if d.s, err = connect(notice); err != nil {
		return nil, err
	}
	if _, err = d.s.lookup(context.Background(), storedStream); err == nil {
		_, err = d.s.subscribe(dispatchSubject, func(m *nats.Msg) {
			nudge(d.look)
			_ = m.Respond(nil)
		})
	}
	if err != nil {
		err = d.s.explain(err)
		d.s.close()
		return nil, err
	}
	return d, nil
}

// serve submits runs until ctx is done, or the server refuses it. Then others may go on with them.
func (d *dispatcher) serve(ctx context.Context) error {
	defer d.s.close()
	defer d.wg.Wait()
	ctx, giveUp := context.WithCancel(ctx)
	defer giveUp()
	for ctx.Err() == nil {
		if err := d.s.records(ctx, runsBucket, "*.*", func(key string, value []byte, age time.Duration) { d.see(ctx, key, value, age) }); err != nil && ctx.Err() == nil && !d.s.nc.IsClosed() {
			d.told.say("cannot look for runs: " + notReady(err).Error())
		}
		select {
		case <-ctx.Done():
		case <-d.s.refused:
			return d.s.why
		case <-d.look:
		case <-time.After(dispatchLook):
		}
	}
	return nil
}

// see takes a run if it was handed over and nobody submits it.
func (d *dispatcher) see(ctx context.Context, key string, value []byte, age time.Duration) {
	found, ok := enrolment(key, value)
	r := &found
	if !ok || r.Stocked == nil {
		return
	}
	switch {
	case r.State == runHanding && age > 3*enrolEvery: // who stored its tasks was killed
		_ = d.s.forget(ctx, r)
		return
	case r.State == runWaiting, r.State == runRunning && (age > r.TTL || r.Hub && d.hub): // which has been restarted
	default:
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mine[r.Run] {
		return
	}
	d.mine[r.Run] = true
	if r.Version != Version { // which is said once
		d.notice("run " + r.Run + " was handed over by another crew: " + (&versionError{r.Version}).Error())
		return
	}
	d.wg.Go(func() {
		if d.submit(ctx, r, value) != nil {
			pause(ctx, dispatchTTL) // not again at once
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.mine, r.Run)
	})
}

// submission is a run in a dispatcher's hands.
type submission struct {
	s      *session
	hub    bool
	queue  string
	nonce  string // tells its messages from those of others
	ledger *ledger
	exec   *submitter
	run    *runner.Run
	begun  chan struct{} // closed once there is a run

	mu       sync.Mutex
	record   Enrolment
	revision uint64 // of the record
}

// submit submits a run, whose record was seen, until it ends or, if ctx is done, another
// dispatcher can go on with it.
func (d *dispatcher) submit(ctx context.Context, r *runStatus, seen []byte) (err error) {
	m := &submission{s: d.s, hub: d.hub, queue: r.Queue, nonce: rand.Text(), begun: make(chan struct{})}
	told := &once{notice: func(text string) {
		d.told.say("run " + task.Printable(cmp.Or(r.Name, r.Run)) + ": " + text)
		m.note(text)
	}}
	if err = m.claim(ctx, r, seen); err == nil {
		m.ledger = newLedger(m.s, r.Queue, &m.record, told)
		over, kept := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(kept)
			m.keep(ctx, over)
		}()
		err = m.carryOut(d, told.say)
		close(over)
		<-kept
		m.ledger.giveUp()
	}
	if isWrongLast(err) || errors.Is(err, errTaken) || errors.Is(err, context.Canceled) || ctx.Err() != nil {
		err = nil // the run is another dispatcher's, or may be
	}
	if err != nil {
		told.say(err.Error())
	}
	switch {
	case m.ledger == nil:
	case m.ledger.over, errors.Is(err, errGarbage): // which stays so
		m.leave(runDone)
	default:
		m.leave(runWaiting)
	}
	return err
}

// carryOut submits the run that is claimed.
func (m *submission) carryOut(d *dispatcher, notice func(string)) error {
	if err := m.ledger.open(); err != nil || m.ledger.over {
		return err
	}
	m.mu.Lock()
	m.record.Epoch = m.ledger.identity.Epoch // which workers hear of if the run is dropped
	m.mu.Unlock()
	nudge(m.ledger.kick)
	if err := m.start(d, notice); err != nil {
		return err
	}
	e := m.run.Wait()
	m.mu.Lock()
	m.record.Done, m.record.Failed = e.Stats.Finished(), e.Stats.Failed()
	m.mu.Unlock()
	var err error
	select {
	case <-m.exec.s.refused:
		err = m.exec.s.why
	default:
		if m.ledger.holds() {
			err = m.ledger.end(e, m.record.Orders.Status(e))
		}
	}
	return errors.Join(err, m.exec.Close())
}

// claim has the run be this dispatcher's, unless its record is another one by now.
func (m *submission) claim(ctx context.Context, r *runStatus, seen []byte) error {
	kv, err := m.s.js.KeyValue(ctx, runsBucket)
	if err != nil {
		return err
	}
	e, err := kv.Get(ctx, m.queue+"."+r.Run)
	switch {
	case errors.Is(err, jetstream.ErrKeyNotFound), err == nil && !bytes.Equal(e.Value(), seen):
		return errTaken
	case err == nil:
		m.record = r.Enrolment
	}
	if err != nil {
		return err
	}
	m.revision = e.Revision()
	here := newEnrolment("", identity{})
	m.record.Hub, m.record.TTL = m.hub, dispatchTTL
	if st, err := m.s.lookup(ctx, runsStream); err != nil {
		return err
	} else if st.CachedInfo().Config.Replicas > 1 {
		m.record.TTL = clusterTTL
	}
	m.record.State, m.record.Host, m.record.PID, m.record.Notice = runRunning, here.Host, here.PID, ""
	return m.renew()
}

// renew writes the record. It fails if somebody else has. It is called by one at a time.
func (m *submission) renew() error {
	m.mu.Lock()
	record, stocked := m.record, *m.record.Stocked // nobody waits for the network
	m.mu.Unlock()
	record.Stocked = &stocked
	sent := m.s.now()
	ctx, cancel := context.WithTimeout(context.Background(), renewEvery)
	defer cancel()
	err := m.s.replace(ctx, m.queue, &record, 0, m.nonce, &m.revision)
	if err == nil && m.ledger != nil {
		m.ledger.renewed.Store(int64(sent))
	}
	return err
}

// leave says what becomes of the run once this dispatcher does nothing for it any more.
func (m *submission) leave(state string) {
	m.mu.Lock()
	if m.record.State = state; m.ledger.over {
		m.record.Notice = ""
	}
	m.mu.Unlock()
	_ = m.renew() // if that fails, the lease runs out
}

// note has the record say what is wrong.
func (m *submission) note(text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.record.Stocked != nil {
		m.record.Notice = text
	}
}

// count has the record say how many tasks have ended, and whether the run is paused.
func (m *submission) count() {
	select {
	case <-m.begun:
	default:
		return
	}
	now := m.run.Do(task.Command{Op: task.Look}).Snapshot
	if now == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.record.Done, m.record.Failed, m.record.Paused = now.Stats.Finished(), now.Stats.Failed(), now.State == task.Paused
}

// start makes the run.
func (m *submission) start(d *dispatcher, notice func(string)) error {
	t := m.record.Terms
	cfg, err := t.Orders.Config(m.record.Tasks)
	if err != nil {
		return fmt.Errorf("%w: %w", err, errGarbage)
	}
	s, err := d.connect(notice)
	if err != nil {
		return err
	}
	m.exec = &submitter{ledger: m.ledger, maker: maker{load: &t.Load, commands: t.Commands, template: t.Template, text: t.Text}}
	if t.Commands {
		m.exec.maker.sign = m.ledger.sign
	}
	m.exec.maker.echo = !t.Commands && len(t.Load.Command.Words) == 0
	err = m.exec.start(wiring.Submission{
		Place: wiring.Place{Queue: m.queue, Name: m.record.Name}, Load: t.Load, Notice: notice, Do: m.do,
		Outputs: proc.Outputs{Plan: task.Plan{Show: task.ShowNothing}},
	}, s)
	if err != nil {
		return err
	}
	m.run, err = runner.New(cfg, m.ledger, m.exec, nil, []runner.Sink{m.ledger})
	if err != nil {
		return errors.Join(err, m.exec.Close())
	}
	if m.record.Paused {
		m.run.Do(task.Command{Op: task.Pause})
	}
	close(m.begun)
	return nil
}

func (m *submission) do(cmd task.Command) task.Reply {
	<-m.begun
	return m.run.Do(cmd)
}

// keep renews the record until the run is over, and gives the run up if it must.
func (m *submission) keep(ctx context.Context, over <-chan struct{}) {
	for {
		select {
		case <-over:
			return
		case <-ctx.Done():
			m.stop(errors.New("this dispatcher ends"), over)
			return
		case <-m.ledger.kick:
		case <-time.After(renewEvery):
		}
		m.count()
		if err := m.renew(); isWrongLast(err) || !m.ledger.holds() {
			m.stop(cmp.Or(err, errTaken), over)
			return
		}
	}
}

// stop ends what this process does for the run.
func (m *submission) stop(why error, over <-chan struct{}) {
	m.ledger.giveUp()
	select {
	case <-m.begun:
		m.exec.abandon(why)
		m.run.Do(task.Command{Op: task.Fail, Err: why})
	case <-over:
	}
}

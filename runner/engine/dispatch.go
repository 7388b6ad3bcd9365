package engine

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"crew/runner"
	"crew/runner/proc"
	"crew/runner/task"
	"crew/runner/wiring"
)

const (
	dispatchLook  = 30 * time.Second // how often a dispatcher looks for runs that nobody has told it of
	dispatchAgain = 10 * time.Second // the pause before it tries again to submit a run
	renewEvery    = 2500 * time.Millisecond
)

// dispatcher submits the runs that were handed over, each over a connection of its own. There is
// one, in the hub's process.
type dispatcher struct {
	connect func(notice func(string)) (*session, error)
	told    *once
	s       *session // to look for runs
	look    chan struct{}

	mu   sync.Mutex
	mine map[string]bool // runs, by ID
	wg   sync.WaitGroup
}

// newDispatcher returns a dispatcher, which is connected.
func newDispatcher(connect func(func(string)) (*session, error), notice func(string)) (*dispatcher, error) {
	d := &dispatcher{connect: connect, told: &once{notice: notice}, look: make(chan struct{}, 1), mine: map[string]bool{}}
	var err error
	if d.s, err = connect(notice); err == nil {
		_, err = d.s.obey(dispatchSubject, func(*Order, *Answer) error {
			nudge(d.look)
			return nil
		})
	}
	return d, err
}

// serve submits runs until ctx is done. The next dispatcher goes on with them.
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

// see takes a run if it was handed over.
func (d *dispatcher) see(ctx context.Context, key string, value []byte, age time.Duration) {
	r, ok := enrolment(key, value)
	if !ok || r.Stocked == nil || r.State == runDone {
		return
	}
	if r.State == runHanding {
		if age > 3*enrolEvery { // who stored its tasks was killed
			_ = d.s.forget(ctx, &r)
		}
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mine[r.Run] {
		return
	}
	d.mine[r.Run] = true
	if r.Version != Version { // which is said once
		d.told.say("run " + r.Run + " was handed over by another crew: " + (&versionError{r.Version}).Error())
		return
	}
	d.wg.Go(func() {
		again := d.submit(ctx, &r) != nil && pause(ctx, dispatchAgain)
		d.mu.Lock()
		delete(d.mine, r.Run)
		d.mu.Unlock()
		if again {
			nudge(d.look)
		}
	})
}

// submission is a run in a dispatcher's hands.
type submission struct {
	s      *session
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

// submit submits a run until it ends or ctx is done.
func (d *dispatcher) submit(ctx context.Context, r *runStatus) (err error) {
	m := &submission{s: d.s, queue: r.Queue, nonce: rand.Text(), begun: make(chan struct{}), record: r.Enrolment}
	told := &once{notice: func(text string) {
		d.told.say("run " + task.Printable(cmp.Or(r.Name, r.Run)) + ": " + text)
		m.note(text)
	}}
	if err = m.claim(ctx); err == nil {
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
	if isWrongLast(err) || errors.Is(err, jetstream.ErrKeyNotFound) || errors.Is(err, context.Canceled) || ctx.Err() != nil {
		return nil // it was cancelled, or goes on with the next dispatcher
	}
	if err != nil {
		told.say(err.Error())
	}
	m.mu.Lock()
	if over := m.ledger != nil && m.ledger.over; over || errors.Is(err, errGarbage) { // which stays so
		if m.record.State = runDone; over {
			m.record.Notice = ""
		}
	}
	m.mu.Unlock()
	_ = m.renew()
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

// claim writes the record as that of a run of this process, unless it is gone.
func (m *submission) claim(ctx context.Context) error {
	kv, err := m.s.js.KeyValue(ctx, runsBucket)
	if err != nil {
		return err
	}
	e, err := kv.Get(ctx, m.queue+"."+m.record.Run)
	if err != nil {
		return err
	}
	m.revision = e.Revision()
	here := newEnrolment("", identity{})
	m.record.State, m.record.Host, m.record.PID, m.record.Notice = runRunning, here.Host, here.PID, ""
	return m.renew()
}

// renew writes the record. It fails if that is gone. It is called by one at a time.
func (m *submission) renew() error {
	m.mu.Lock()
	record, stocked := m.record, *m.record.Stocked // nobody waits for the network
	m.mu.Unlock()
	record.Stocked = &stocked
	ctx, cancel := context.WithTimeout(context.Background(), renewEvery)
	defer cancel()
	return m.s.replace(ctx, m.queue, &record, 0, m.nonce, &m.revision)
}

// note has the record say what is wrong.
func (m *submission) note(text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.record.Notice = text
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

// keep renews the record until the run is over, and gives the run up once that is gone.
func (m *submission) keep(ctx context.Context, over <-chan struct{}) {
	for {
		select {
		case <-over:
			return
		case <-ctx.Done():
			m.stop(errors.New("the hub ends"), over)
			return
		case <-m.ledger.kick:
		case <-time.After(renewEvery):
		}
		m.count()
		if err := m.renew(); isWrongLast(err) {
			m.stop(err, over)
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

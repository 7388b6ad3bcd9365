package engine

import (
	"cmp"
	"context"
	"crypto/aes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"crew/runner"
	"crew/runner/control"
	"crew/runner/proc"
	"crew/runner/spool"
	"crew/runner/task"
	"crew/runner/wiring"
)

const (
	dispatchAgain = 10 * time.Second    // the pause before it is tried again to submit a run
	handingEvery  = 10 * time.Second    // how often whoever hands a run over says that this goes on
	keptFor       = 30 * 24 * time.Hour // how long results wait for somebody to fetch them, and commands that are signed are good
	renewEvery    = 2500 * time.Millisecond
	spoolMemory   = 32 << 20 // outputs of attempts that run, before they are in files
	mostResults   = 1 << 30  // bytes of outputs, unless the user says else
	mostStored    = 1 << 30  // and of tasks
)

// dispatcher has the runs that were handed over: it stores their tasks, submits them, each over a
// connection of its own, and shows their results. There is one, in the hub's process.
type dispatcher struct {
	connect func(notice func(string)) (*session, error)
	dir     string // of the runs, each in a directory of its name
	most    int64  // bytes of outputs
	told    *once
	s       *session
	store   *spool.Store

	mu   sync.Mutex
	runs map[string]*ledger
	wg   sync.WaitGroup
	ctx  context.Context // until the hub ends
	end  context.CancelFunc
}

// newDispatcher returns a dispatcher, which is connected.
func newDispatcher(connect func(func(string)) (*session, error), dir string, most int64, notice func(string)) (*dispatcher, error) {
	d := &dispatcher{
		connect: connect, dir: dir, most: cmp.Or(most, mostResults), told: &once{notice: notice}, store: spool.New(spoolMemory, dir), runs: map[string]*ledger{},
	}
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		d.s, err = connect(notice)
	}
	if err != nil {
		return nil, err
	}
	d.ctx, d.end = context.WithCancel(context.Background())
	d.load()
	_, err = d.s.obey(dispatchSubject, d.obey)
	if err == nil {
		_, err = d.s.nc.Subscribe(askSubject, func(*nats.Msg) { go d.enrol() })
	}
	return d, err
}

// load finds the runs that were handed over to earlier hubs.
func (d *dispatcher) load() {
	list, _ := filepath.Glob(filepath.Join(d.dir, "*", recordFile))
	for _, path := range list {
		var record handed
		text, err := os.ReadFile(path)
		if err == nil {
			err = readJSON(text, &record)
		}
		if err == nil && record.Version != Version {
			err = &versionError{record.Version}
		}
		if err == nil && (record.Run != filepath.Base(filepath.Dir(path)) || !record.valid()) {
			err = errGarbage
		}
		if err != nil {
			d.told.say(fmt.Sprintf("a run that was handed over is left alone in %s: %v", filepath.Dir(path), err))
			continue
		}
		l := d.ledger(record)
		for _, name := range []string{tasksFile, rulingsFile, outputsFile} {
			st, err := os.Stat(filepath.Join(l.dir, name))
			if err == nil && (name != rulingsFile || record.State == runDone) { // or else open tells
				l.sizes[name] = st.Size()
			}
		}
		d.runs[record.Run] = l
	}
}

// valid reports whether a run can be like that.
func (r *handed) valid() bool {
	s := r.Stocked
	return validName(r.Run) && validName(r.Queue) && s != nil && len(r.Terms.Secret) == aes.BlockSize && s.Tasks <= math.MaxInt64/100
}

// serve submits runs until ctx is done. The next hub goes on with them.
func (d *dispatcher) serve(ctx context.Context) error {
	defer d.s.close()
	defer d.store.Close()
	defer d.wg.Wait()
	defer d.end()
	for _, l := range d.all() {
		d.submits(l)
	}
	for tick := time.NewTicker(handingEvery); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-d.s.refused:
			return d.s.why
		case <-tick.C:
			for _, l := range d.all() {
				l.mu.Lock()
				since := time.Since(l.heard)
				old := l.record.State == runHanding && since > 3*handingEvery || l.record.State == runDone && since > keptFor
				l.mu.Unlock()
				if old { // who stored its tasks was killed, or nobody wants the results
					_ = d.forget(l)
				}
			}
		}
	}
}

func (d *dispatcher) all() (list []*ledger) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, l := range d.runs {
		list = append(list, l)
	}
	return list
}

// room returns an error if there is none for more outputs, or for more tasks.
func (d *dispatcher) room(outputs bool) error {
	name, most := tasksFile, int64(mostStored)
	if outputs {
		name, most = outputsFile, d.most
	}
	for _, l := range d.all() {
		l.mu.Lock()
		most -= l.sizes[name]
		l.mu.Unlock()
	}
	if most < 0 {
		return errors.New("the hub keeps as much as it may: crew engine attach and cancel make room")
	}
	return nil
}

// obey takes what submitters have to do with runs that are handed over.
func (d *dispatcher) obey(o *Order, a *Answer) error {
	if o.Op == "" { // they ask whether a hub is there
		return nil
	}
	if o.Op == opStore {
		return d.take(o)
	}
	d.mu.Lock()
	l := d.runs[o.Run]
	d.mu.Unlock()
	if l == nil {
		a.None = true
		return fmt.Errorf("%w %s", errNoRun, task.Printable(o.Run))
	}
	switch o.Op {
	case opAdd:
		return l.take(o)
	case opCommit:
		return l.commit(o.Total)
	case opRead:
		var err error
		l.mu.Lock()
		a.Done, a.Over, a.Notice = l.record.State == runDone, l.record.Over, l.record.Notice // before the file is read to its end
		l.mu.Unlock()
		a.Data, err = l.read(o.File, o.At)
		return err
	case opTalk:
		if l.running() {
			return errors.New("it runs")
		}
		return talk(&l.visitors, o, a)
	case opForget:
		return d.forget(l)
	}
	return o.unknown()
}

// take takes a run whose tasks follow.
func (d *dispatcher) take(o *Order) error {
	if o.Handed == nil || !o.Handed.valid() || o.Handed.Version != Version {
		return errGarbage
	}
	l := d.ledger(*o.Handed)
	l.record.State, l.record.User, l.record.Epoch, l.record.Over = runHanding, d.s.user, 0, nil
	d.mu.Lock()
	if known := d.runs[l.record.Run]; known != nil { // it asks again
		d.mu.Unlock()
		return nil
	}
	err := cmp.Or(os.Mkdir(l.dir, 0o700), l.save())
	if err == nil {
		d.runs[l.record.Run] = l
	}
	d.mu.Unlock()
	return err
}

// take takes tasks, maybe again.
func (l *ledger) take(o *Order) error {
	if err := l.d.room(false); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.heard = time.Now(); len(o.Data) == 0 {
		return nil
	}
	if l.record.State != runHanding || o.At < 0 || o.At > l.sizes[tasksFile] {
		return errGarbage
	}
	return l.write(tasksFile, o.At, func(w io.Writer) error {
		_, err := w.Write(o.Data)
		return err
	})
}

// commit has the run begin, so that whoever looks for it sees that. It may be asked for again.
func (l *ledger) commit(tasks uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.record.State != runHanding {
		return nil
	}
	l.record.State, l.record.Tasks = runRunning, tasks
	err := l.save()
	if err != nil || !l.record.valid() {
		l.record.State = runHanding
		return cmp.Or(err, errGarbage)
	}
	l.d.submits(l)
	return nil
}

// forget ends a run, and removes what there is of it.
func (d *dispatcher) forget(l *ledger) error {
	l.mu.Lock()
	l.giveUp()
	l.record.State = runDone
	l.mu.Unlock()
	l.active.Wait()
	l.mu.Lock()
	run := l.record.Enrolment
	err := os.RemoveAll(l.dir)
	l.mu.Unlock()
	if err != nil {
		return err
	}
	d.mu.Lock()
	delete(d.runs, run.Run)
	d.mu.Unlock()
	return d.s.over(&run)
}

// submits submits a run in a goroutine of its own, again and again until it is over.
func (d *dispatcher) submits(l *ledger) {
	l.active.Add(1)
	d.wg.Go(func() {
		defer l.active.Done()
		for l.running() && d.ctx.Err() == nil {
			err := (&submission{ledger: l, begun: make(chan struct{})}).submit()
			if err != nil && l.holds() {
				l.told.say(err.Error())
			}
			l.giveUp()
			if errors.Is(err, errGarbage) { // which stays so
				l.mu.Lock()
				l.record.State = runDone
				_ = l.save()
				l.mu.Unlock()
			}
			if l.running() {
				pause(d.ctx, dispatchAgain)
			}
		}
	})
}

func (l *ledger) running() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.record.State == runRunning
}

// enrol tells of all runs.
func (d *dispatcher) enrol() {
	for _, l := range d.all() {
		l.mu.Lock()
		record := l.record.Enrolment
		stocked := *record.Stocked // which changes
		l.mu.Unlock()
		record.Stocked = &stocked
		_ = d.s.tell(enrolSubject(record.User, record.Run), record) // whoever asks asks again
	}
}

// submission is an epoch of a run in the hands of the hub.
type submission struct {
	*ledger
	exec    *submitter
	control *control.Server
	run     *runner.Run
	begun   chan struct{} // closed once there is a run
}

// submit submits a run until it ends, or the hub gives it up.
func (m *submission) submit() error {
	if err := m.open(); err != nil {
		return err
	}
	over, kept := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(kept)
		m.keep(over)
	}()
	err := m.carryOut()
	close(over)
	<-kept
	return err
}

func (m *submission) carryOut() error {
	if err := m.start(); err != nil {
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
		if m.holds() {
			err = m.end(e, m.record.Terms.Orders.Status(e))
		}
	}
	m.control.Close()
	return errors.Join(err, m.exec.Close())
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
	was := m.record.Paused
	m.record.Done, m.record.Failed, m.record.Paused = now.Stats.Finished(), now.Stats.Failed(), now.State == task.Paused
	if was != m.record.Paused {
		_ = m.save() // the hub may end
	}
}

// start makes the run.
func (m *submission) start() error {
	t := &m.record.Terms
	cfg, err := t.Orders.Config(m.record.Tasks)
	if err != nil {
		return fmt.Errorf("%w: %w", err, errGarbage)
	}
	s, err := m.d.connect(m.told.say)
	if err != nil {
		return err
	}
	m.exec = &submitter{ledger: m.ledger, maker: maker{load: &t.Load, commands: t.Commands, template: t.Template, text: t.Text}}
	if t.Commands {
		m.exec.maker.sign = m.sign
	}
	m.exec.maker.echo = !t.Commands && len(t.Load.Command.Words) == 0
	m.control = control.Serve(control.Config{
		About: m.hello(), Do: m.do, Soon: control.Never,
		See: control.Sight{Live: m.exec.Live, Ended: m.ended, Total: func() (int64, bool) { return int64(m.record.Tasks), true }},
	})
	err = m.exec.start(wiring.Submission{
		Place: wiring.Place{Queue: m.record.Queue, Name: m.record.Name}, Load: t.Load, Notice: m.told.say, Do: m.do,
		Outputs: proc.Outputs{Plan: task.Plan{Show: task.ShowNothing, Copy: true}, Store: m.d.store},
		Welcome: func(l control.Link) { m.control.Welcome(l) },
	}, s)
	if err != nil {
		return err
	}
	m.run, err = runner.New(cfg, m.ledger, m.exec, nil, []runner.Sink{m.ledger, m.control.Sink(), m.exec.Sink()})
	if err != nil {
		return errors.Join(err, m.exec.Close())
	}
	if m.record.Paused {
		m.run.Do(task.Command{Op: task.Pause})
	}
	close(m.begun)
	return nil
}

// do carries out a command. Tasks can be cancelled before they are read. What is answered as
// cancelled, paused or resumed is on record: a hub that is started again goes on like that.
func (m *submission) do(cmd task.Command) task.Reply {
	<-m.begun
	if cmd.Op != task.Cancel {
		reply := m.run.Do(cmd)
		if cmd.Op == task.Pause || cmd.Op == task.Resume {
			m.count()
		}
		return reply
	}
	unread, rest, err := m.cancel(cmd.IDs, cmd.Err)
	if len(cmd.IDs) > 0 && len(rest) == 0 {
		return task.Reply{IDs: unread, Err: err}
	}
	cmd.IDs = rest
	reply := m.run.Do(cmd)
	ended := slices.DeleteFunc(slices.Clone(reply.IDs), func(id uint64) bool { return m.exec.flights.find(id) != nil })
	reply.IDs, reply.Err = append(unread, reply.IDs...), cmp.Or(err, reply.Err, m.cancelled(ended, cmd.Err))
	return reply
}

// keep has the record say how far the run is until that is over, and ends what this process does for a run that the hub
// gives up, as it does with all when it ends.
func (m *submission) keep(over <-chan struct{}) {
	for {
		select {
		case <-over:
			return
		case <-m.ctx.Done():
			select {
			case <-m.begun:
				why := errors.New("the hub ends")
				m.exec.abandon(why)
				m.run.Do(task.Command{Op: task.Fail, Err: why})
			case <-over:
			}
			return
		case <-time.After(renewEvery):
		}
		m.count()
	}
}

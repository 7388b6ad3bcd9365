package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"crew/runner/task"
)

const (
	// fetchWait is how long a request for tasks that any worker may run stays open.
	fetchWait = 5 * time.Second
	// mostDeliveries is how often such a task is given to a worker.
	mostDeliveries = 5
	sharedPrefix   = "any-" // and the queue: the name of their consumer
)

// job is an attempt in this worker's hands, until the engine has its result.
type job struct {
	worker *crewWorker
	tenure *tenure
	*Attempt
	task   *task.Task // here
	shared bool       // any worker could have run it

	out, err outlet
	returned []File

	// under worker.mu

	msg     *delivery // the latest one
	begun   bool
	back    bool // handed back
	ended   bool // its result is made
	ordered bool // the submitter had it ended
	mute    bool // nobody wants its result
}

// delivery is a message with one attempt or more.
type delivery struct {
	jetstream.Msg
	left atomic.Int32 // attempts that are not done with
}

// done acknowledges the message once all its attempts are done with.
func (d *delivery) done() {
	if d.left.Add(-1) == 0 {
		_ = d.Ack()
	}
}

// runLease is what a worker knows of a run that has attempts here.
type runLease struct {
	epoch     uint64
	heard     time.Duration // since boot, when the run was last heard of
	suspended bool
	attempts  int
	detached  bool // nobody keeps the run alive, and nobody has to
}

// take takes a message with attempts.
func (w *crewWorker) take(t *tenure, m jetstream.Msg, shared bool) {
	d := &delivery{Msg: m}
	d.left.Store(1)
	for part := range parts(m.Data()) {
		d.left.Add(1)
		w.takeOne(t, d, part, shared)
	}
	d.done()
}

func (w *crewWorker) takeOne(t *tenure, m *delivery, data []byte, shared bool) {
	a, err := DecodeAttempt(data)
	if err == nil && m.Subject()[strings.LastIndexByte(m.Subject(), '.')+1:] != a.Run {
		err = errGarbage
	}
	if err != nil {
		w.tell("a task was dropped: %v", err)
		m.done()
		return
	}
	h := w.newJob(t, a, m)
	h.shared = shared
	if !w.hold(h) {
		return
	}
	if h.task.Err = w.equip(h, data); h.task.Err != nil {
		h.task.Argv, h.task.Shell = nil, false
	}
	if err := w.admit(h); err != nil {
		w.finish(h, &task.Result{Outcome: task.Lost, Err: err})
	}
}

// newJob makes the task of an attempt.
func (w *crewWorker) newJob(t *tenure, a *Attempt, m *delivery) *job {
	s := new(struct { // allocate all together
		job
		task.Task
		task.Origin
	})
	s.Origin = task.Origin{Task: a.Task, Number: a.Number, Slot: a.Slot, Host: w.host}
	s.Task = task.Task{
		Key: a.Key, Dir: a.Dir, Env: a.Env, Cost: 1, Timeout: a.Timeout, KillAfter: a.KillAfter, Origin: &s.Origin,
		Records: a.Records, Object: a.Object, Argv: a.Argv, Shell: a.Shell,
	}
	if a.HasStdin {
		s.Task.Stdin = append([]byte{}, a.Stdin...)
	}
	h := &s.job
	h.worker, h.tenure, h.Attempt, h.task, h.msg = w, t, a, &s.Task, m
	h.out.init(h, false)
	h.err.init(h, true)
	return h
}

// hold takes an attempt into the worker's hands. It returns false if there is nothing
// more to do about its message.
func (w *crewWorker) hold(h *job) bool {
	w.mu.Lock()
	if h.tenure.lost {
		w.mu.Unlock()
		return false
	}
	if old := w.held[h.ID]; old != nil {
		if old.Token == h.Token {
			old.msg = h.msg // to acknowledge this delivery, and not that before
		}
		w.mu.Unlock()
		return false
	}
	run := w.runs[h.Run]
	if run != nil && h.Epoch < run.epoch || !w.seen.add(h.Token, time.Now()) {
		w.mu.Unlock()
		h.msg.done()
		return false
	}
	if run == nil {
		run = &runLease{epoch: h.Epoch, heard: sinceBoot(), detached: h.shared}
		w.runs[h.Run] = run
	}
	run.attempts++
	w.held[h.ID] = h
	early := w.wasEarly(h.ID)
	h.ordered = early
	idle := w.state != ready
	w.mu.Unlock()
	if early || idle || h.shared && deliveries(h.msg) > mostDeliveries {
		r := &task.Result{Outcome: task.Lost}
		if early {
			r.Outcome = task.Cancelled
		}
		w.finish(h, r)
		return false
	}
	return true
}

func deliveries(m jetstream.Msg) uint64 {
	meta, err := m.Metadata()
	if err != nil {
		return 1
	}
	return meta.NumDelivered
}

// equip gives an attempt's task its command, or returns why it must not run.
func (w *crewWorker) equip(h *job, msg []byte) error {
	a := h.Attempt
	if len(a.Argv) > 0 || a.Shell {
		if !w.work.Commands {
			return errNoCommands
		}
		return w.trust.check(a, h.msg.Subject(), msg)
	}
	switch {
	case !w.values:
		return errors.New("this worker has no command of its own, and the task brings none")
	case a.Template != w.digest:
		return fmt.Errorf("the command is not that of the worker, which runs %s", w.text)
	case a.Dir != "":
		return errors.New("this worker runs its own command in its own directory: drop --workdir")
	case len(a.Take)+len(a.Return) > 0:
		return errors.New("this worker runs its own command with its own files: drop --transfer-file, --return and --basefile")
	case len(a.Env) > 0:
		return errors.New("this worker runs its own command in its own environment: drop --env")
	}
	return w.work.Make(h.task, a.Names)
}

// admit gives an attempt's task to the run.
func (w *crewWorker) admit(h *job) error {
	w.turn.Lock()
	defer w.turn.Unlock()
	w.last++
	w.mu.Lock()
	h.task.ID = w.last
	w.tasks[w.last] = h
	w.mu.Unlock()
	err := w.work.Do(task.Command{Op: task.Add, N: 1, Tasks: []*task.Task{h.task}}).Err
	w.mu.Lock()
	if err != nil {
		delete(w.tasks, h.task.ID)
	}
	late := h.number() // if it is to end already
	if !h.ordered && !h.mute && !h.tenure.lost {
		late = nil
	}
	w.mu.Unlock()
	w.end(late)
	return err
}

// takeShared takes tasks that any worker of the queue may run, as slots are free.
func (w *crewWorker) takeShared() {
	var c jetstream.Consumer
	for {
		w.mu.Lock()
		t := w.tenure
		room := w.room()
		w.mu.Unlock()
		if t == nil || room < 1 || !w.s.nc.IsConnected() {
			if !w.pause(fetchWait) {
				return
			}
			continue
		}
		var err error
		if c == nil {
			c, err = w.sharedConsumer()
		}
		if err == nil {
			err = w.fetch(c, t, room)
		}
		if err != nil {
			c = nil
			if !w.pause(fetchWait) {
				return
			}
		}
	}
}

// pause waits for a slot to become free, or for d. It returns false if the run is over.
func (w *crewWorker) pause(d time.Duration) bool {
	late := time.NewTimer(d)
	defer late.Stop()
	select {
	case <-w.over:
		return false
	case <-w.freed:
	case <-late.C:
	}
	return true
}

// room is how many more attempts can begin at once. Its caller holds mu.
func (w *crewWorker) room() int {
	if w.state != ready {
		return 0
	}
	n := w.slots
	for _, h := range w.held {
		if !h.ended {
			n--
		}
	}
	return n
}

// sharedConsumer returns the consumer that all workers of the queue share. It waits for
// as long as the longest of their leases before it gives a task to another one.
func (w *crewWorker) sharedConsumer() (jetstream.Consumer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), answerWait)
	defer cancel()
	name := sharedPrefix + w.work.Queue
	c, err := w.s.js.Consumer(ctx, tasksStream, name)
	if err == nil && c.CachedInfo().Config.AckWait >= w.work.TTL || err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return c, err
	}
	return w.s.js.CreateOrUpdateConsumer(ctx, tasksStream, jetstream.ConsumerConfig{
		Durable: name, FilterSubject: taskSubject(w.work.Queue, anyone, ">"),
		AckPolicy: jetstream.AckExplicitPolicy, AckWait: w.work.TTL, MaxDeliver: -1, MaxAckPending: -1,
	})
}

// fetch takes up to n tasks from the consumer that all workers share.
func (w *crewWorker) fetch(c jetstream.Consumer, t *tenure, n int) error {
	batch, err := c.Fetch(n, jetstream.FetchMaxWait(fetchWait))
	if err != nil {
		return err
	}
	for m := range batch.Messages() {
		w.take(t, m, true)
	}
	return batch.Error()
}

// progress tells the engine that shared tasks are still run, so that it gives them to
// nobody else.
func (w *crewWorker) progress() {
	w.mu.Lock()
	var list []*delivery
	for _, h := range w.held {
		if h.shared && !h.mute {
			list = append(list, h.msg)
		}
	}
	w.mu.Unlock()
	for _, m := range list {
		_ = m.InProgress()
	}
}

// seen remembers which attempts were taken, by their tokens: for at least seenFor, or
// only the latest ones.
type seen struct {
	most        int // in now; 0 for no limit
	now, before map[Token]struct{}
	since       time.Time // of now; zero at first
}

const (
	seenFor  = 6 * time.Minute // longer than a signature is valid
	mostSeen = 100_000         // where nobody gains from a message that comes twice
)

// add returns false if it has been called with the token before.
func (s *seen) add(t Token, at time.Time) bool {
	if at.Sub(s.since) > seenFor || s.most > 0 && len(s.now) >= s.most {
		s.now, s.before, s.since = map[Token]struct{}{}, s.now, at
	}
	_, now := s.now[t]
	_, before := s.before[t]
	if now || before {
		return false
	}
	s.now[t] = struct{}{}
	return true
}

// isGone reports whether err says that a consumer is no more.
func isGone(err error) bool {
	return errors.Is(err, jetstream.ErrConsumerDeleted) || errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, jetstream.ErrConsumerDoesNotExist)
}

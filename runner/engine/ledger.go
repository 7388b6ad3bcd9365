package engine

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats.go/jetstream"

	"crew/runner/core"
	"crew/runner/task"
)

// ledger is the source of a run that was handed over, and the sink that keeps what its
// submitter decides.
type ledger struct {
	s        *session
	queue    string
	identity identity
	all      uint64 // tasks
	tasks    *log
	told     *once
	over     bool            // it is on record that the run is
	nonce    string          // tells what this ledger adds from what others do
	ctx      context.Context // until the dispatcher gives the run up
	giveUp   context.CancelFunc
	kick     chan struct{} // the run's record is to be renewed now
	added    atomic.Int64  // messages

	mu      sync.Mutex
	past    map[uint64]decided      // by task: what has been ruled
	next    uint64                  // number of the next task
	signed  map[uint64]*Stored      // tasks that have not ended
	brought map[attemptKey]*brought // what attempts have brought that have no ruling yet
	wanted  map[uint64]bool         // while somebody waits in recorded: tasks whose end is on record; nil otherwise
	waiting int                     // in recorded
	news    sync.Cond               // wanted has got more
}

// decided is what was decided about a task before it was read.
type decided struct {
	attempts, failures, code int32
	outcome                  task.Outcome // zero if it has not finished
}

// brought locates the messages of an attempt.
type brought struct {
	epoch uint64
	parts []Place
}

func newLedger(s *session, queue string, r *Enrolment, told *once) *ledger {
	l := &ledger{
		s: s, queue: queue, all: r.Tasks, told: told, past: map[uint64]decided{}, signed: map[uint64]*Stored{},
		brought: map[attemptKey]*brought{}, identity: identity{Run: r.Run, Secret: r.Secret}, nonce: rand.Text(), kick: make(chan struct{}, 1),
	}
	l.ctx, l.giveUp = context.WithCancel(context.Background())
	l.news.L = &l.mu
	return l
}

// open reads what earlier epochs of the run have decided and, unless it is over, begins the next one.
func (l *ledger) open() error {
	rulings, err := l.s.log(l.ctx, l.queue, l.identity.Run, "rulings")
	if err != nil {
		return err
	}
	if l.tasks, err = l.s.log(l.ctx, l.queue, l.identity.Run, "tasks"); err != nil {
		return err
	}
	for {
		part, _, err := rulings.next(l.ctx, l.told)
		if err == io.EOF && l.over {
			return nil
		}
		if err == io.EOF {
			l.identity.Epoch++
			_, err = l.add(&Ruling{What: ruledEpoch, Epoch: l.identity.Epoch})
			return err
		}
		if err != nil {
			return err
		}
		ruling, err := l.s.ruling(l.ctx, l.told, part)
		if err != nil {
			return err
		}
		l.learn(ruling)
	}
}

// learn takes a ruling on a task that was not read yet.
func (l *ledger) learn(r *Ruling) {
	if r.What == ruledEpoch || r.What == ruledOver {
		l.identity.Epoch, l.over = min(l.identity.Epoch+1, max(l.identity.Epoch, r.Epoch)), r.What == ruledOver
		return
	}
	if r.Task < 1 || r.Task > l.all || r.Number < 0 || r.Number > math.MaxInt32 {
		return
	}
	e := l.past[r.Task]
	defer func() { l.past[r.Task] = e }()
	e.attempts = int32(r.Number)
	if r.What == ruledFinished {
		e.outcome = r.Facts.Outcome
		if r.Facts.Exit != nil {
			e.code = int32(*r.Facts.Exit)
		}
	} else if !r.Facts.Outcome.Replaced() {
		e.failures++
	}
}

// wants reports whether nothing was ruled yet on an attempt of an earlier epoch.
func (l *ledger) wants(id ID) bool {
	if id.Task < 1 || id.Task > l.all {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.past[id.Task]
	return e.outcome == 0 && int(e.attempts) < id.Number
}

// add adds rulings, at least one, and as many as a message takes. It returns how many.
func (l *ledger) add(rulings ...*Ruling) (n int, err error) {
	var batch [][]byte
	for size := 0; n < len(rulings) && size < chunkSize; n++ {
		r := rulings[n]
		msg, _, err := l.s.pack(l.ctx, stocked+l.identity.Run, encode(kindRuling, r)) // of what has many parts
		if err != nil {
			return 0, err
		}
		batch, size = append(batch, msg), size+len(msg)
	}
	id := l.nonce + strconv.FormatInt(l.added.Add(1), 10)
	return n, l.s.keep(l.ctx, l.told, storedSubject(l.queue, l.identity.Run, "rulings"), bundle(batch), id)
}

// holds reports whether the dispatcher has not given the run up.
func (l *ledger) holds() bool { return l.ctx.Err() == nil }

// isWrongLast reports whether err says that a stream has got more than its writer knows of.
func isWrongLast(err error) bool { return codeOf(err) == jetstream.JSErrCodeStreamWrongLastSequence }

// Next returns the next task. See runner.Source.
func (l *ledger) Next(number func() uint64) (*task.Task, error) {
	l.mu.Lock()
	id := l.next + 1
	l.mu.Unlock()
	if id > l.all {
		return nil, io.EOF
	}
	t, st, err := l.s.task(l.ctx, l.told, l.tasks, id)
	if err != nil {
		return nil, fmt.Errorf("read task %d: %w", id, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next = id
	e := l.past[id]
	if t.Attempts, t.Failures = int(e.attempts), e.failures; e.outcome != 0 {
		t.Done = &task.Result{Task: t, Outcome: e.outcome, Attempt: t.Attempts, Code: int(e.code)}
	}
	t.ID = number()
	st.Spec = nil
	if st.Signer != [32]byte{} && t.Done == nil {
		l.signed[id] = st
	}
	return t, nil
}

// cancel rules that tasks which were not read yet are cancelled. It returns how many, and
// which are up to the run.
func (l *ledger) cancel(ids []uint64, why error) (n int, rest []uint64, err error) {
	var list []*Ruling
	l.mu.Lock()
	for _, id := range ids {
		if id <= l.next || id > l.all {
			rest = append(rest, id)
			continue
		}
		e := l.past[id]
		if e.outcome != 0 {
			err = cmp.Or(err, fmt.Errorf("task %d has ended", id))
			continue
		}
		r := &Ruling{
			What: ruledFinished, Epoch: l.identity.Epoch, Task: id, Number: int(e.attempts),
			Facts: task.Facts{Outcome: task.Cancelled, Error: task.Bytes(why.Error())},
		}
		l.learn(r) // before the task is read
		list = append(list, r)
	}
	l.mu.Unlock()
	return len(list), rest, cmp.Or(l.adds(list), err)
}

// Buffered reports whether the next task is here. See runner.Source.
func (l *ledger) Buffered() bool { return len(l.tasks.parts) > 0 }

// sign has an attempt bring the signature that its submitter has made.
func (l *ledger) sign(a *Attempt, _ string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if st := l.signed[a.Task]; st != nil {
		a.Lasting, a.Expires, a.Signer, a.Sig = true, st.Expires, st.Signer, st.Sig
	}
}

// bring notes where the messages of a flight are that has ended as an attempt.
func (l *ledger) bring(a *task.Attempt, f *flight) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.brought[attemptKey{a.Task.ID, a.Number}] = &brought{f.id.Epoch, f.out.parts}
}

// Consume keeps what was decided. See runner.Sink.
func (l *ledger) Consume(events []task.Event) error {
	var list []*Ruling
	for i := range events {
		if r := l.rule(&events[i]); r != nil {
			list = append(list, r)
		}
	}
	err := l.adds(list)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.wanted != nil && err == nil {
		for _, r := range list {
			l.wanted[r.Task] = l.wanted[r.Task] || r.What == ruledFinished
		}
		l.news.Broadcast()
	}
	return err
}

// recorded calls do, which ends tasks, and returns once the ends of those are on record that it
// returns: the next dispatcher would run them.
func (l *ledger) recorded(do func() []uint64) {
	ctx, cancel := context.WithTimeout(l.ctx, answerWait)
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		l.mu.Lock()
		l.news.Broadcast()
		l.mu.Unlock()
	})()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting++; l.wanted == nil {
		l.wanted = map[uint64]bool{}
	}
	l.mu.Unlock()
	ids := do()
	l.mu.Lock()
	for ctx.Err() == nil && slices.ContainsFunc(ids, func(id uint64) bool { return !l.wanted[id] }) {
		l.news.Wait()
	}
	if l.waiting--; l.waiting == 0 {
		l.wanted = nil
	}
}

// adds adds rulings.
func (l *ledger) adds(list []*Ruling) error {
	for len(list) > 0 {
		n, err := l.add(list...)
		if err != nil {
			return err
		}
		list = list[n:]
	}
	return nil
}

// rule returns the ruling of an event, or nil if there is none to keep.
func (l *ledger) rule(e *task.Event) *Ruling {
	what := byte(ruledFinished)
	switch {
	case e.Kind == task.Retried && !e.Result.Unbegun:
		what = ruledAgain
	case e.Kind != task.Finished || e.Task != nil && e.Task.Done != nil:
		return nil
	}
	r := &Ruling{What: what, Epoch: l.identity.Epoch, Task: e.ID, Number: e.Attempt, Facts: e.Result.Facts()}
	r.Facts.Task, r.Facts.Key = 0, "" // which the task tells
	l.mu.Lock()
	defer l.mu.Unlock()
	key := attemptKey{e.ID, e.Attempt}
	if b := l.brought[key]; b != nil {
		r.Epoch, r.Parts = b.epoch, b.parts
		delete(l.brought, key)
	}
	if what == ruledFinished {
		delete(l.signed, e.ID)
	}
	return r
}

// end says that the run is over, with the exit status that it would have had here.
func (l *ledger) end(e core.Ending, status int) error {
	why := map[core.Reason]string{
		core.Halted: "--halt has ended it", core.Late: "its --deadline has passed", core.BadCommand: "its command cannot be run", core.Told: "it was cancelled",
	}[e.Reason]
	if e.Err != nil {
		why = e.Err.Error()
	}
	if e.Err != nil && e.Reason == core.Told {
		why = "it was " + why
	}
	_, err := l.add(&Ruling{What: ruledOver, Epoch: l.identity.Epoch, Facts: task.Facts{Exit: &status, Error: task.Bytes(why)}})
	l.over = err == nil
	return err
}

// Close does nothing. See runner.Sink.
func (l *ledger) Close(task.Stats) error { return nil }

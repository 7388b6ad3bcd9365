package engine

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"crew/runner/credentials"
	"crew/runner/journal"
	"crew/runner/outbox"
	"crew/runner/task"
	"crew/runner/travel"
	"crew/runner/wiring"
)

// storeAgain is the pause after the stream of stored runs did not take something.
const storeAgain = 200 * time.Millisecond

// store stores the tasks of a run that is handed over. See wiring.Store.
type store struct {
	s      *session
	queue  string
	maker  maker
	told   *once
	record Enrolment
	ctx    context.Context // until it is over
	cancel context.CancelCauseFunc

	mu       sync.Mutex
	revision uint64 // of the record
	batch    [][]byte
	size     int
	batches  int
}

// errRemoved says that a run that is handed over is not there any more.
var errRemoved = errors.New("what was stored is removed: it was cancelled, or this process stood still for too long")

// HandOver returns what stores the tasks of a run, for which it fails at once if workers are
// there and none takes them.
func HandOver(h wiring.HandOver) (wiring.Store, error) {
	var key *credentials.Key // nil if tasks bring values
	if h.Sign != "" {
		var err error
		if key, err = credentials.LoadKey(h.Sign); err != nil {
			return nil, err
		}
	}
	s, err := connect(h.URL, h.Notice)
	if err != nil {
		return nil, err
	}
	var st *store
	if _, err = s.askHub(dispatchSubject, Order{}); err == nil {
		st, err = handOver(h, s, key)
	}
	if err != nil {
		err = s.explain(err)
		s.close()
		return nil, err
	}
	return st, nil
}

// handOver is HandOver with a connection, which it takes over unless it fails.
func handOver(h wiring.HandOver, s *session, key *credentials.Key) (*store, error) {
	st := &store{s: s, queue: h.Queue, told: &once{notice: h.Notice}, maker: makerOf(&h.Load, key != nil)}
	live, err := s.present(context.Background(), h.Queue, func(Presence, time.Duration) {})
	if err != nil {
		return nil, err
	}
	if len(h.Command.Words) > 0 || key != nil {
		if why := st.maker.refusesAll(live); why != "" {
			return nil, errors.New(why)
		}
	} else if st.maker.template, st.maker.text, err = commandOf(live, h.Queue); err != nil {
		return nil, err
	}
	if key != nil {
		st.maker.sign = func(a *Attempt, subject string) { signLasting(key, a, subject) }
	}
	id := newIdentity()
	st.maker.live = true
	st.record = newEnrolment(h.Name, id)
	st.record.State, st.record.Stocked = runHanding, &Stocked{Terms: &Terms{
		Orders: h.Orders, Load: h.Load, Commands: st.maker.commands, Template: st.maker.template, Text: st.maker.text, Secret: id.Secret,
	}}
	st.ctx, st.cancel = context.WithCancelCause(context.Background())
	if err := st.enrol(enrolFor); err != nil { // from now on crew engine cancel finds it
		return nil, err
	}
	go func() {
		for tick := time.NewTicker(enrolEvery); ; {
			select {
			case <-st.ctx.Done():
				return
			case <-tick.C:
				_ = st.enrol(enrolFor) // the next one follows
			}
		}
	}()
	return st, nil
}

// enrol writes the run's record unless the store is closed, as it is once the record is gone.
func (st *store) enrol(ttl time.Duration) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.ctx.Err() == nil {
		err := st.s.replace(st.ctx, st.queue, &st.record, ttl, st.record.Run, &st.revision)
		if !isWrongLast(err) {
			return st.s.explain(err)
		}
		st.cancel(errRemoved)
	}
	return context.Cause(st.ctx)
}

// Add stores a task. See wiring.Store.
func (st *store) Add(t *task.Task) error {
	msg := &Stored{Task: t.ID}
	if err := st.signs(msg, t); err != nil {
		return err
	}
	var err error
	if msg.Spec, err = journal.EncodeTask(t); err != nil {
		return err
	}
	data, _, err := st.s.pack(st.ctx, stocked+st.record.Run, encode(kindStored, msg))
	if err != nil {
		return st.s.explain(err)
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	st.record.Tasks = t.ID
	st.batch, st.size = append(st.batch, data), st.size+len(data)
	if st.size >= chunkSize {
		return st.flush()
	}
	return nil
}

// signs has a task bring the signature for its command.
func (st *store) signs(msg *Stored, t *task.Task) error {
	if st.maker.sign == nil || t.Err != nil {
		return nil
	}
	if t.Varies() {
		return errors.New("what it runs depends on where that is ({%}, {host} or {NAME} of a --cap), and cannot be signed before: drop --sign or --detach")
	}
	task := *t
	task.Identity = identityOf(t.ID)
	a, err := st.maker.message(ID{Run: st.record.Run, Task: t.ID}, attemptOf(&task))
	if err != nil {
		return err
	}
	st.maker.sign(a, taskSubject(st.queue, anyWorker, st.record.Run))
	msg.Expires, msg.Signer, msg.Sig = a.Expires, a.Signer, a.Sig
	return nil
}

func attemptOf(t *task.Task) task.Attempt { return task.Attempt{Task: t} }

// identityOf returns the identity of a task of a run that was handed over.
func identityOf(id uint64) (sum [16]byte) {
	copy(sum[:], strconv.AppendUint(nil, id, 36))
	return sum
}

// flush stores the batch. Its caller holds mu.
func (st *store) flush() error {
	if st.ctx.Err() != nil || len(st.batch) == 0 {
		return context.Cause(st.ctx)
	}
	st.batches++
	run := st.record.Run
	err := st.s.keep(st.ctx, st.told, storedSubject(st.queue, run, "tasks"), bundle(st.batch), run+".tasks."+strconv.Itoa(st.batches))
	st.batch, st.size = st.batch[:0], 0
	return cmp.Or(context.Cause(st.ctx), err)
}

// Commit hands the run over. See wiring.Store.
func (st *store) Commit() (string, error) {
	st.mu.Lock()
	err := st.flush()
	st.record.State = runRunning
	st.mu.Unlock()
	if err == nil {
		err = st.enrol(0)
	}
	if err != nil {
		return "", fmt.Errorf("hand run %s over: %w", st.record.Run, err)
	}
	st.cancel(nil)
	_, _ = st.s.askHub(dispatchSubject, Order{}) // or else the hub finds it by itself
	st.s.close()
	return st.record.Run, nil
}

// Withdraw removes what was stored. See wiring.Store.
func (st *store) Withdraw() (tasks uint64, err error) {
	st.cancel(nil)
	st.mu.Lock()
	defer st.mu.Unlock()
	err = st.s.drop(context.Background(), &runStatus{Queue: st.queue, Enrolment: st.record})
	st.s.close()
	return st.record.Tasks, err
}

// keep has a stream take a message once, which has an ID, and tries until ctx is done.
func (s *session) keep(ctx context.Context, told *once, subject string, msg []byte, id string) error {
	for {
		trying, cancel := context.WithTimeout(ctx, answerWait)
		_, err := s.js.Publish(trying, subject, msg, jetstream.WithMsgID(id))
		cancel()
		switch {
		case err == nil:
			return nil
		case errors.Is(err, nats.ErrConnectionClosed):
			return s.explain(err)
		case codeOf(err) == outbox.CodeFull:
			told.say("the engine's store of runs is full: waiting until crew engine attach or cancel makes room")
		case s.nc.IsConnected() && ctx.Err() == nil:
			told.say("the engine does not store a run: " + err.Error() + ": trying again")
		}
		if !pause(ctx, storeAgain) {
			return ctx.Err()
		}
	}
}

// log reads the messages of a subject of stored runs, one after the other.
type log struct {
	stream  jetstream.Stream
	subject string
	parts   [][]byte // of the message at at.Seq, that were not read yet
	at      Place    // of the next of them
}

// log returns the tasks of a run, or the rulings about them.
func (s *session) log(ctx context.Context, queue, run, what string) (*log, error) {
	stream, err := s.lookup(ctx, storedStream)
	return &log{stream: stream, subject: storedSubject(queue, run, what)}, err
}

// next returns the next message and where it is, or io.EOF if there is none now. It waits for
// an engine that does not answer.
func (l *log) next(ctx context.Context, told *once) (part []byte, at Place, err error) {
	for len(l.parts) == 0 {
		var m *jetstream.RawStreamMsg
		err := patiently(ctx, told, func(ctx context.Context) (err error) {
			m, err = l.stream.GetMsg(ctx, l.at.Seq+1, jetstream.WithGetMsgSubject(l.subject))
			return err
		})
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return nil, at, io.EOF
		}
		if err != nil {
			return nil, at, err
		}
		l.parts, l.at = slices.Collect(parts(m.Data)), Place{Seq: m.Sequence}
	}
	part, at = l.parts[0], l.at
	l.parts = l.parts[1:]
	l.at.At++
	return part, at, nil
}

// patiently has the engine be asked until it answers, or ctx is done.
func patiently(ctx context.Context, told *once, ask func(context.Context) error) error {
	for {
		asking, cancel := context.WithTimeout(ctx, answerWait)
		err := ask(asking)
		cancel()
		for _, final := range []error{nil, jetstream.ErrMsgNotFound, travel.ErrNone, errGarbage, nats.ErrConnectionClosed} {
			if ctx.Err() != nil || errors.Is(err, final) {
				return err
			}
		}
		if !errors.Is(err, nats.ErrReconnectBufExceeded) { // which means that it is away
			told.say("the engine does not show a stored run: " + plain(err) + ": trying again")
		}
		pause(ctx, storeAgain)
	}
}

// whole reads a message of a kind, which may be an object.
func whole[T any](ctx context.Context, s *session, told *once, part []byte, kind byte) (*T, error) {
	if _, err := open(part, kindBig); err == nil {
		err := patiently(ctx, told, func(ctx context.Context) error {
			whole, err := s.unpack(ctx, part)
			if err == nil {
				part = whole
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return decode[T](part, kind)
}

// ruling reads a ruling.
func (s *session) ruling(ctx context.Context, told *once, part []byte) (*Ruling, error) {
	r, err := whole[Ruling](ctx, s, told, part, kindRuling)
	if err == nil && r.What != ruledEpoch && r.What != ruledOver && badFacts(&r.Facts) {
		err = errGarbage
	}
	return r, err
}

var errUnstored = errors.New("it is not stored any more")

// task returns the next task of a log, which is to have a number.
func (s *session) task(ctx context.Context, told *once, tasks *log, id uint64) (*task.Task, *Stored, error) {
	part, _, err := tasks.next(ctx, told)
	var st *Stored
	if err == nil {
		st, err = whole[Stored](ctx, s, told, part, kindStored)
	}
	if err == io.EOF || err == nil && st.Task != id {
		err = errUnstored
	}
	if err != nil {
		return nil, nil, err
	}
	t := &task.Task{ID: id, Identity: identityOf(id)}
	return t, st, journal.DecodeTask(st.Spec, t)
}

// commandOf returns the digest of the command that the workers of a queue run, and the
// command for people.
func commandOf(live []Presence, queue string) (sum [32]byte, text string, err error) {
	found := ""
	for _, w := range live {
		switch {
		case w.Template == "":
		case found != "" && w.Template != found:
			return sum, "", fmt.Errorf("the workers of queue %s run different commands: start them with the same one, or in queues of their own", queue)
		default:
			found, text = w.Template, w.Command
		}
	}
	if found == "" {
		return sum, "", fmt.Errorf("no worker of queue %s is there, whose command the values would be for: start crew worker first", queue)
	}
	b, err := hex.DecodeString(found)
	if err != nil || len(b) != len(sum) {
		return sum, "", errors.New("a worker of queue " + queue + " tells garbage of its command")
	}
	return [32]byte(b), text, nil
}

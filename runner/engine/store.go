package engine

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"crew/runner/credentials"
	"crew/runner/journal"
	"crew/runner/spool"
	"crew/runner/task"
	"crew/runner/wiring"
)

// storeAgain is the pause after the hub did not take or show something, or could not write it.
const storeAgain = 200 * time.Millisecond

// storeMemory is how many bytes of tasks are in no file until the hub has them.
const storeMemory = 16 << 20

// store hands the tasks of a run over: it has them until the hub has.
type store struct {
	s      *session
	maker  maker
	told   *once
	record handed
	space  *spool.Store
	lines  *spool.Buffer
}

// HandOver hands the tasks of a run over, which fill adds, numbered from 1, and returns the run. It fails at
// once if workers are there and none takes them. If ctx is done first, it returns no run, and nothing is left
// of it.
func HandOver(ctx context.Context, h wiring.HandOver, fill func(add func(*task.Task) error) error) (run string, err error) {
	var key *credentials.Key // nil if tasks bring values
	if h.Sign != "" {
		if key, err = credentials.LoadKey(h.Sign); err != nil {
			return "", err
		}
	}
	s, err := connect(h.URL, h.Notice)
	if err != nil {
		return "", err
	}
	defer s.close()
	var st *store
	if _, err = s.askHub(dispatchSubject(s.user), Order{}); err == nil {
		st, err = newStore(h, s, key)
	}
	if err != nil {
		return "", s.explain(err)
	}
	filled := make(chan error, 1)
	go func() { filled <- fill(st.add) }()
	select {
	case err = <-filled:
	case <-ctx.Done(): // the input may wait for ever
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return st.handOver(ctx)
}

// newStore returns a store with no task.
func newStore(h wiring.HandOver, s *session, key *credentials.Key) (*store, error) {
	st := &store{s: s, told: &once{notice: h.Notice}, maker: makerOf(&h.Load, key != nil), space: spool.New(storeMemory, "")}
	live, err := st.maker.present(context.Background(), s, h.Queue)
	if len(h.Command.Words) == 0 && key == nil {
		st.maker.template, st.maker.text, err = commandOf(live, h.Queue)
	}
	if err != nil {
		return nil, err
	}
	if key != nil {
		st.maker.sign = func(a *Attempt, subject string) { signLasting(key, a, subject) }
	}
	id := newIdentity()
	st.record = handed{Enrolment: newEnrolment(h.Queue, h.Name, s.user, id), Terms: Terms{
		Orders: h.Orders, Load: h.Load, Commands: st.maker.commands, Template: st.maker.template, Text: st.maker.text, Secret: id.Secret,
	}}
	st.record.Stocked = &Stocked{}
	st.lines = st.space.Buffer()
	return st, nil
}

// add stores a task.
func (st *store) add(t *task.Task) error {
	var msg Stored
	err := st.signs(&msg, t)
	if err == nil {
		msg.Spec, err = journal.EncodeTask(t)
	}
	var text []byte
	if err == nil {
		text, err = json.Marshal(&msg)
	}
	if err == nil && len(text) >= mostBody {
		err = fmt.Errorf("it is %d bytes, and the most is %d", len(text), mostBody)
	}
	if err == nil {
		st.record.Tasks = t.ID
		_, err = st.lines.Write(append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("hand task %d over: %w", t.ID, err)
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
	st.maker.sign(a, taskSubject(st.record.Queue, anyWorker, st.s.user, st.record.Run))
	msg.Expires, msg.Signer, msg.Sig = a.Expires, a.Signer[:], a.Sig[:]
	return nil
}

func attemptOf(t *task.Task) task.Attempt { return task.Attempt{Task: t} }

// identityOf returns the identity of a task of a run that was handed over.
func identityOf(id uint64) (sum [16]byte) {
	copy(sum[:], strconv.AppendUint(nil, id, 36))
	return sum
}

// handOver has the hub take the run. See HandOver.
func (st *store) handOver(ctx context.Context) (run string, err error) {
	defer func() { _ = errors.Join(st.lines.Close(), st.space.Close()) }()
	lines, err := st.s.blobs.Keep(st.lines, st.lines.Len())
	o := Order{Op: opStore, ID: ID{Run: st.record.Run}, Handed: &st.record, Tasks: &lines}
	for a := (Answer{Wait: true}); err == nil && a.Wait; {
		if a, err = st.s.askAbout(ctx, st.told, o); a.None {
			err = errors.New(a.Err)
		}
	}
	switch {
	case ctx.Err() != nil:
		err = nil // the caller knows
	case err == nil:
		return st.record.Run, nil
	default:
		err = fmt.Errorf("hand run %s over: %w", st.record.Run, st.s.explain(err))
	}
	return "", cmp.Or(err, st.s.forget(st.record.Run))
}

// askAbout sends an order about a run that is handed over to the hub, again and again until that has
// carried it out, or ctx is done. errNoRun says that it never will.
func (s *session) askAbout(ctx context.Context, told *once, o Order) (Answer, error) {
	for {
		a, err := s.askHub(dispatchSubject(s.user), o)
		switch {
		case a.None:
			return a, errNoRun
		case err == nil || errors.Is(err, nats.ErrConnectionClosed) || ctx.Err() != nil:
			return a, cmp.Or(err, ctx.Err())
		case !errors.Is(err, nats.ErrReconnectBufExceeded): // which means that it is away
			told.say("the hub does not answer about run " + o.Run + ": " + plain(err) + ": trying again")
		}
		pause(ctx, storeAgain)
	}
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

package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"crew/runner/decide/task"
	"crew/runner/exec/spool"
	"crew/runner/far/credentials"
	"crew/runner/front/wiring"
	"crew/runner/keep/journal"
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

// Detach hands the tasks of a run over, which fill adds, numbered from 1, and returns the run. It fails at
// once if workers are there and none takes them. If ctx is done first, it returns no run, and nothing is left
// of it.
func Detach(ctx context.Context, h wiring.Detachment, fill func(add func(*task.Task) error) error) (run string, err error) {
	key, err := signingKey(&h.Load)
	if err != nil {
		return "", err
	}
	s, err := connectHub(h.URL, h.Notice)
	if err != nil {
		return "", err
	}
	defer s.close()
	st, err := newStore(h, s, key)
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
func newStore(h wiring.Detachment, s *session, key *credentials.Key) (*store, error) {
	st := &store{s: s, told: &once{notice: h.Notice}, maker: makerOf(&h.Load), space: spool.New(storeMemory, "")}
	if _, err := st.maker.present(context.Background(), s, h.Queue); err != nil {
		return nil, err
	}
	if key != nil {
		st.maker.sign = func(a *Attempt, subject string) { signLasting(key, a, subject) }
	}
	id := newIdentity()
	st.record = handed{Enrolment: newEnrolment(h.Queue, h.Name, s.user, id), Terms: Terms{
		Orders: h.Orders, Load: h.Load, Template: st.maker.template, Secret: id.Secret,
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
	defer st.space.Close()
	switch err = st.s.handOver(ctx, st.told, &st.record, st.lines, st.lines.Len()); err {
	case nil:
		return st.record.Run, nil
	case ctx.Err(): // the caller knows
		return "", nil
	}
	return "", fmt.Errorf("hand run %s over: %w", st.record.Run, err)
}

// handOver has the hub take a run with its tasks, which it closes. If it returns the error of ctx, nothing is
// left of the run there.
func (s *session) handOver(ctx context.Context, told *once, record *handed, tasks task.Live, size int64) error {
	lines, err := s.blobs.Keep(tasks, size)
	defer s.blobs.Drop(lines)
	o := Order{Op: opStore, ID: ID{Run: record.Run}, Handed: record, Tasks: &lines}
	for a := (Answer{Wait: true}); err == nil && a.Wait; {
		if a, err = s.askAbout(ctx, told, o); a.None {
			err = errors.New(a.Err)
		}
	}
	if err == nil {
		return nil
	}
	if left := s.forget(record.Run); left != nil && left.Error() == errTaken.Error() {
		return nil
	} else if left != nil && ctx.Err() != nil {
		return fmt.Errorf("%w, which may have it all the same", left)
	}
	return cmp.Or(ctx.Err(), s.explain(err))
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
			if passes(err) {
				err = errors.New("the hub does not answer")
			}
			told.say(err.Error() + ": trying again")
		}
		pause(ctx, storeAgain)
	}
}

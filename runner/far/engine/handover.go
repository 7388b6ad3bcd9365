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
const retryWait = 200 * time.Millisecond

// storeMemory is how many bytes of tasks are in no file until the hub has them.
const storeMemory = 16 << 20

// store hands the tasks of a run over: it has them until the hub has.
type uploader struct {
	s       *session
	builder messageBuilder
	notices *notifier
	record  runRecord
	space   *spool.Store
	lines   *spool.Buffer
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
	u, err := newUploader(h, s, key)
	if err != nil {
		return "", s.explain(err)
	}
	filled := make(chan error, 1)
	go func() { filled <- fill(u.add) }()
	select {
	case err = <-filled:
	case <-ctx.Done(): // the input may wait for ever
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return u.upload(ctx)
}

// newStore returns a store with no task.
func newUploader(h wiring.Detachment, s *session, key *credentials.Key) (*uploader, error) {
	u := &uploader{s: s, notices: &notifier{notice: h.Notice}, builder: newMessageBuilder(&h.Load), space: spool.New(storeMemory, "")}
	if _, err := u.builder.probeWorkers(context.Background(), s, h.Queue); err != nil {
		return nil, err
	}
	if key != nil {
		u.builder.sign = func(a *Attempt, subject string) { signLasting(key, a, subject) }
	}
	id := newIdentity()
	u.record = runRecord{RunInfo: newRunInfo(h.Queue, h.Name, s.user, id), Options: RunOptions{
		Orders: h.Orders, Load: h.Load, Template: u.builder.template, Secret: id.Secret,
	}}
	u.record.Progress = &Progress{}
	u.lines = u.space.Buffer()
	return u, nil
}

// add stores a task.
func (u *uploader) add(t *task.Task) error {
	var msg StoredTask
	err := u.signTask(&msg, t)
	if err == nil {
		msg.Spec, err = journal.EncodeTask(t)
	}
	var text []byte
	if err == nil {
		text, err = json.Marshal(&msg)
	}
	if err == nil && len(text) >= maxTaskSize {
		err = fmt.Errorf("it is %d bytes, and the most is %d", len(text), maxTaskSize)
	}
	if err == nil {
		u.record.Tasks = t.ID
		_, err = u.lines.Write(append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("hand task %d over: %w", t.ID, err)
	}
	return nil
}

// signs has a task bring the signature for its command.
func (u *uploader) signTask(msg *StoredTask, t *task.Task) error {
	if u.builder.sign == nil || t.Err != nil {
		return nil
	}
	if t.Varies() {
		return errors.New("what it runs depends on where that is ({%}, {host} or {NAME} of a --cap), and cannot be signed before: drop --sign or --detach")
	}
	task := *t
	task.Identity = identityOf(t.ID)
	a, err := u.builder.message(ID{Run: u.record.Run, Task: t.ID}, attemptOf(&task))
	if err != nil {
		return err
	}
	u.builder.sign(a, taskSubject(u.record.Queue, signedForAll, u.s.user, u.record.Run))
	msg.Expires, msg.Signer, msg.Sig = a.Expires, a.Signer[:], a.Sig[:]
	return nil
}

func attemptOf(t *task.Task) task.Attempt { return task.Attempt{Task: t} }

// identityOf returns the identity of a task of a run that was handed over.
func identityOf(id uint64) (sum [16]byte) {
	copy(sum[:], strconv.AppendUint(nil, id, 36))
	return sum
}

// handOver has the hub take the run. See Detach.
func (u *uploader) upload(ctx context.Context) (run string, err error) {
	defer u.space.Close()
	switch err = u.s.handOver(ctx, u.notices, &u.record, u.lines, u.lines.Len()); err {
	case nil:
		return u.record.Run, nil
	case ctx.Err(): // the caller knows
		return "", nil
	}
	return "", fmt.Errorf("hand run %s over: %w", u.record.Run, err)
}

// handOver has the hub take a run with its tasks, which it closes. If it returns the error of ctx, nothing is
// left of the run there.
func (s *session) handOver(ctx context.Context, notices *notifier, record *runRecord, tasks task.Live, size int64) error {
	lines, err := s.blobs.Keep(tasks, size)
	defer s.blobs.Drop(lines)
	o := Order{Op: opStore, ID: ID{Run: record.Run}, Record: record, Tasks: &lines}
	for a := (Answer{Wait: true}); err == nil && a.Wait; {
		if a, err = s.askUntilDone(ctx, notices, o); a.None {
			err = errors.New(a.Err)
		}
	}
	if err == nil {
		return nil
	}
	if left := s.forgetRun(record.Run); left != nil && left.Error() == errTaken.Error() {
		return nil
	} else if left != nil && ctx.Err() != nil {
		return fmt.Errorf("%w, which may have it all the same", left)
	}
	return cmp.Or(ctx.Err(), s.explain(err))
}

// askAbout sends an order about a run that is handed over to the hub, again and again until that has
// carried it out, or ctx is done. errNoRun says that it never will.
func (s *session) askUntilDone(ctx context.Context, notices *notifier, o Order) (Answer, error) {
	for {
		a, err := s.askHub(dispatchSubject(s.user), o)
		switch {
		case a.None:
			return a, errNoRun
		case err == nil || errors.Is(err, nats.ErrConnectionClosed) || ctx.Err() != nil:
			return a, cmp.Or(err, ctx.Err())
		case !errors.Is(err, nats.ErrReconnectBufExceeded): // which means that it is away
			if isTransient(err) {
				err = errors.New("the hub does not answer")
			}
			notices.notify(err.Error() + ": trying again")
		}
		sleep(ctx, retryWait)
	}
}

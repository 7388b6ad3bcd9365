package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"crew/runner"
	"crew/runner/decide/task"
	"crew/runner/exec/spool"
	"crew/runner/front/wiring"
	"crew/runner/keep/journal"
)

// repeatWait is how long to wait for an answer about a detached run before the order is sent again.
const repeatWait = 3 * time.Second

// retryWait is the pause before something is tried again that failed, or that could not be stored yet.
const retryWait = 200 * time.Millisecond

// storeMemory is how many bytes of tasks are kept in memory rather than in a file, until the hub has
// them.
const storeMemory = 16 << 20

// uploader hands the tasks of a run over to the hub. It holds them until the hub has them.
type uploader struct {
	s       *session
	builder messageBuilder
	record  runRecord
	space   *spool.Store
	lines   *spool.Buffer
}

// Detach hands a run over to a hub and returns its ID. It returns an error if there are workers but
// none is usable for the run. If ctx is done first, it returns "", and the hub keeps nothing of the run.
func Detach(ctx context.Context, c *wiring.Call, orders wiring.Orders, tasks runner.Source) (run string, err error) {
	sign, err := signer(c, signLasting)
	if err != nil {
		return "", err
	}
	s, err := connect(c.Engine.URL, c.Notice)
	if err != nil {
		return "", err
	}
	defer s.close()
	if !s.hub {
		return "", errNoHub
	}
	u, err := newUploader(c, orders, s, sign)
	if err != nil {
		return "", s.explain(err)
	}
	filled := make(chan error, 1)
	go func() { filled <- u.addAll(tasks) }()
	select {
	case err = <-filled:
	case <-ctx.Done(): // addAll may block for ever on the input
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return u.upload(ctx)
}

// newUploader returns an uploader without tasks.
func newUploader(c *wiring.Call, orders wiring.Orders, s *session, sign func(*Attempt, string)) (*uploader, error) {
	u := &uploader{s: s, builder: newMessageBuilder(c), space: spool.New(storeMemory, "")}
	if err := u.builder.probeWorkers(context.Background(), s, c.Engine.Queue); err != nil {
		return nil, err
	}
	u.builder.sign = sign
	u.record = runRecord{RunInfo: newRunInfo(c.Engine.Queue, c.Control.Name, s.user, newIdentity()), Options: RunOptions{
		Orders: orders, Attempts: encode(kindAttempt, &u.builder.base), Window: c.Coproc.Window,
	}}
	u.record.Progress, u.record.Job = &Progress{}, u.builder.Job
	u.lines = u.space.Buffer()
	return u, nil
}

// addAll adds all tasks of a source, numbered from 1.
func (u *uploader) addAll(tasks runner.Source) error {
	for {
		t, err := tasks.Next(func() uint64 { return u.record.Tasks + 1 })
		if err == nil {
			err = u.add(t)
		}
		if err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// add adds a task.
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
		err = fmt.Errorf("it is %d bytes, more than the limit of %d", len(text), maxTaskSize)
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

// signTask adds the signature for the attempts of a task to msg.
func (u *uploader) signTask(msg *StoredTask, t *task.Task) error {
	if u.builder.sign == nil || t.Err != nil {
		return nil
	}
	if t.Varies() {
		return errors.New("its command depends on where it runs ({%}, {host} or {NAME} of a --cap), so it cannot be signed in advance: drop --sign or --detach")
	}
	identified := *t
	identified.Identity = identityOf(t.ID)
	a, err := u.builder.message(ID{Run: u.record.Run, Task: t.ID}, task.Attempt{Task: &identified})
	if err != nil {
		return err
	}
	u.builder.sign(a, taskSubject(u.record.Queue, signedForAll, u.s.user, u.record.Run))
	msg.Expires, msg.Signer, msg.Sig = a.Expires, a.Signer[:], a.Sig[:]
	return nil
}

// identityOf returns the identity of a task of a detached run.
func identityOf(id uint64) (sum [16]byte) {
	copy(sum[:], strconv.AppendUint(nil, id, 36))
	return sum
}

// upload hands the run over to the hub. See Detach.
func (u *uploader) upload(ctx context.Context) (run string, err error) {
	defer u.space.Close()
	switch err = u.s.handOver(ctx, &u.record, u.lines, u.lines.Len()); err {
	case nil:
		return u.record.Run, nil
	case ctx.Err(): // the caller has cancelled it
		return "", nil
	}
	return "", fmt.Errorf("hand run %s over: %w", u.record.Run, err)
}

// handOver hands a run with its tasks over to the hub, and closes tasks. A request to add tasks goes to
// the crew serve itself if the server is not a hub. If handOver returns the error of ctx, nothing is
// kept there.
func (s *session) handOver(ctx context.Context, record *runRecord, tasks task.Live, size int64) error {
	to := dispatchSubject(s.user)
	if record.For != "" && !s.hub {
		to = doorSubject(s.user, record.For)
	}
	lines, err := s.blobs.Add(tasks, size), error(nil)
	o := Order{Op: opStore, Run: record.Run, Record: record, Owner: s.user, Tasks: &lines}
	unsure := false
	for a := (Answer{Wait: true}); err == nil && a.Wait; {
		if a, err = s.askUntilDone(ctx, to, o); a.None {
			err = errors.New(a.Err)
		}
		unsure = unsure || a.Wait || a.unsure
	}
	s.blobs.Drop(lines) // from now on nobody can accept the run
	if err == nil {
		return nil
	}
	if unsure {
		left := context.DeadlineExceeded
		if record.For == "" {
			left = s.forget(record.Run)
		}
		if left != nil && ctx.Err() != nil {
			if isTransient(left) {
				left = errors.New("no answer has come")
			}
			return fmt.Errorf("this may have arrived nevertheless: %w", left)
		}
	}
	return cmp.Or(ctx.Err(), s.explain(err))
}

// askUntilDone repeats an order about a detached run until the hub has carried it out, or ctx is done.
// It returns errNoRun if the hub will never carry it out. Answer.unsure says whether an earlier order may
// have been carried out.
func (s *session) askUntilDone(ctx context.Context, subject string, o Order) (Answer, error) {
	unsure := false
	for {
		once, cancel := context.WithTimeout(ctx, repeatWait)
		a, err := s.askHub(once, subject, o)
		cancel()
		unsure = unsure || err != nil && a.Err == "" && !errors.Is(err, nats.ErrNoResponders) && !errors.Is(err, nats.ErrReconnectBufExceeded)
		a.unsure = unsure
		switch {
		case a.None:
			return a, errNoRun
		case err == nil || a.Foreign || errors.Is(err, nats.ErrConnectionClosed) || ctx.Err() != nil:
			return a, cmp.Or(err, ctx.Err())
		case !errors.Is(err, nats.ErrReconnectBufExceeded): // this one means that the hub is away, as the session reports
			if isTransient(err) {
				err = errors.New("the hub does not answer")
			}
			s.notices.notify(err.Error() + ": trying again")
		}
		if sleep(ctx, retryWait); ctx.Err() != nil {
			return a, ctx.Err()
		}
	}
}

package runner

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/task"
)

// exact is an Executor whose attempts end at about the time at which they are told to.
// It counts those that are told so for a reason that is another task's.
type exact struct {
	instant
	told, wrong atomic.Int64
	cancel      func(id uint64)
}

// errOther stands for every cause but a timeout.
var errOther = errors.New("other")

// cause returns why a task may be told to end.
func (x *exact) cause(id uint64) error {
	return []error{nil, task.ErrTimeout, nil, errOther}[id%4]
}

func (x *exact) Run(ctx context.Context, a task.Attempt) *task.Result {
	want := x.cause(a.Task.ID)
	if want == errOther {
		go x.cancel(a.Task.ID)
	}
	wait := 2 * time.Millisecond
	if want == nil {
		wait /= 2
	}
	select {
	case <-ctx.Done():
		x.told.Add(1)
		if got := context.Cause(ctx); got != want && (want != errOther || got == task.ErrTimeout) {
			x.wrong.Add(1)
		}
	case <-time.After(wait):
	}
	return answer(a)
}

// An attempt that ends at the same moment as it times out or is cancelled does not pass
// that on to the next attempt.
func TestEndsOnlyTheAttemptMeant(t *testing.T) {
	t.Parallel()
	exec := &exact{}
	cfg := config(64)
	cfg.Limit.Timeout = -1
	src := &tasks{n: 20_000, change: func(u *task.Task) {
		if exec.cause(u.ID) == task.ErrTimeout {
			u.Timeout = 2 * time.Millisecond
		}
	}}
	r, err := New(cfg, src, exec, nil, nil)
	require.NoError(t, err)
	exec.cancel = func(id uint64) { r.Do(task.Command{Op: task.Cancel, IDs: []uint64{id}}) }
	r.Wait()
	require.Positive(t, exec.told.Load())
	require.Zero(t, exec.wrong.Load(), "of %d attempts that were told to end", exec.told.Load())
}

package engine

import (
	"fmt"
	"os"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/task"
	"crew/runner/wiring"
)

// Tasks of a run that was handed over can be cancelled before a dispatcher reads them, and
// stay so when another one goes on.
func TestCancelStoredTasks(t *testing.T) {
	inTime(t, func(t *testing.T, b *broker) {
		const n = 300
		run := b.handsOver(n, fifoOrders, nil)
		first, going := make(chan struct{}, n), make(chan struct{})
		b.worker("w", 2, func(f *fake, a *Attempt, m jetstream.Msg) {
			select {
			case <-going:
				answer(f, a, m)
			default:
				first <- struct{}{}
			}
		})
		stop := b.dispatches()
		crewtest.Receive(t, first, "a task to begin")
		s := b.connect(nil)
		steer := func(want string, ids ...uint64) {
			t.Helper()
			out, err := os.CreateTemp(t.TempDir(), "")
			require.NoError(t, err)
			defer out.Close()
			err = s.steer(&wiring.EngineCall{Verb: opCancel, Operand: run, Tasks: ids, Out: out})
			text, _ := os.ReadFile(out.Name())
			require.Equal(t, want, fmt.Sprint(string(text), err))
		}
		steer("3 tasks cancelled\n<nil>", 250, 40, 251)
		steer("1 task cancelled\nrun "+run+": task 250 has ended", 250, 252)
		steer("run "+run+": there is no task 301", 301)
		stop()
		close(going)
		b.dispatches()
		_, got, r := b.attach(run)
		e := r.Wait()
		require.NoError(t, e.Err)
		require.Equal(t, int64(n-4), e.Stats.Of(task.OK))
		for _, id := range []uint64{40, 250, 251, 252} {
			require.Equal(t, task.Cancelled, got.results[id].Outcome)
			require.EqualError(t, got.results[id].Err, "cancelled by "+me())
		}
	})
}

package engine

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/task"
)

// The task that waits behind another one at its worker goes to a worker that comes.
func TestRecalled(t *testing.T) {
	inTime(t, func(t *testing.T, b *broker) {
		b.ahead = 1
		given := make(chan *Attempt, 10)
		a := b.worker("a", 1, func(f *fake, a *Attempt, m jetstream.Msg) {
			_ = m.Ack()
			given <- a
		})
		r := b.run(2, nil)
		first, second := crewtest.Receive(t, given, "a task"), crewtest.Receive(t, given, "the one behind it")
		require.Equal(t, first.Slot, second.Slot)
		b.worker("b", 1, answer)
		o := crewtest.Receive(t, a.orders, "an order")
		require.Equal(t, Order{Version: Version, Op: opReturn, ID: second.ID}, o)
		a.end(second, func(f *Final) { f.Outcome, f.Exit = task.Lost, nil })
		crewtest.Until(t, func() bool {
			r.mu.Lock()
			defer r.mu.Unlock()
			return r.results[second.Task] != nil
		}, "it to run elsewhere")
		a.end(first, shows(""))
		e := r.wait()
		require.Equal(t, "b", r.results[second.Task].Host)
		require.EqualValues(t, 2, e.Stats.Of(task.OK))
		require.Zero(t, r.lost)
	})
}

package outbox

import (
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
)

// A window grows while answers come quickly and it is full, shrinks when they are late, and lets
// one of any size through.
func TestWindow(t *testing.T) {
	w := NewWindow()
	require.True(t, w.try(10*leastWindow))
	require.False(t, w.try(1))
	w.Give(10*leastWindow, 0)
	turn := func(took time.Duration) {
		n := 0
		for w.try(Piece) {
			n += Piece
		}
		require.LessOrEqual(t, n, w.size)
		w.Give(n, took)
	}
	for range 100 {
		turn(quickAnswer)
	}
	require.Equal(t, mostWindow, w.size)
	turn(slowAnswer)
	require.Equal(t, mostWindow/2, w.size)
	for range 100 {
		turn(slowAnswer)
	}
	require.Equal(t, leastWindow, w.size)
	require.True(t, w.try(1))
	w.Give(1, quickAnswer)
	require.Equal(t, leastWindow, w.size, "little says nothing of much")
}

func (w *Window) most() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.size
}

// However many subjects there are, no more bytes are on their way than the window lets, and each
// gets its turn.
func TestOutboxWaitsForAnswers(t *testing.T) {
	nc, out := testOutbox(t)
	came := make(chan *nats.Msg, 100)
	_, err := nc.Subscribe("to.*", func(m *nats.Msg) { came <- m })
	require.NoError(t, err)
	require.NoError(t, nc.Flush())
	const n, size = 50, 20 << 10
	for i := range n {
		out.Send("to."+strconv.Itoa(i), make([]byte, size), func() {})
	}
	for range n {
		m := crewtest.Receive(t, came, "a message")
		require.NoError(t, nc.Flush())
		require.LessOrEqual(t, (len(came)+1)*size, out.window.most())
		require.NoError(t, m.Respond([]byte("{}")))
	}
	out.Flush()
	require.Empty(t, out.queues)
	require.Zero(t, out.window.used)
}

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
	require.True(t, w.Try(10*leastWindow))
	require.False(t, w.Try(1))
	w.Give(10*leastWindow, 0)
	turn := func(took time.Duration) {
		n := 0
		for w.Try(Piece) {
			n += Piece
		}
		require.LessOrEqual(t, n, w.Size())
		w.Give(n, took)
	}
	for range 100 {
		turn(quickAnswer)
	}
	require.Equal(t, mostWindow, w.Size())
	turn(slowAnswer)
	require.Equal(t, mostWindow/2, w.Size())
	for range 100 {
		turn(slowAnswer)
	}
	require.Equal(t, leastWindow, w.Size())
	require.True(t, w.Try(1))
	w.Give(1, quickAnswer)
	require.Equal(t, leastWindow, w.Size(), "little says nothing of much")
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
		require.LessOrEqual(t, (len(came)+1)*size, out.window.Size())
		require.NoError(t, m.Respond([]byte("{}")))
	}
	out.Flush()
	require.Empty(t, out.queues)
	require.Zero(t, out.window.used)
}

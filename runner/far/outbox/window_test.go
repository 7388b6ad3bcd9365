package outbox

import (
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
)

// A window grows while it is full and answers are hardly delayed, shrinks when they are, and lets a
// single message of any size through.
func TestWindow(t *testing.T) {
	w := NewWindow()
	require.True(t, w.try(10*minWindow))
	require.False(t, w.try(1))
	w.Release(10*minWindow, 0)
	turn := func(delay time.Duration) {
		n := 0
		for w.try(Piece) {
			n += Piece
		}
		require.LessOrEqual(t, n, w.size)
		w.Release(n, delay)
	}
	for range 100 {
		turn(shortDelay)
	}
	require.Equal(t, maxWindow, w.size)
	turn(longDelay)
	require.Equal(t, maxWindow/2, w.size)
	for range 100 {
		turn(longDelay)
	}
	require.Equal(t, minWindow, w.size)
	require.True(t, w.try(1))
	w.Release(1, shortDelay)
	require.Equal(t, minWindow, w.size, "little says nothing of much")
}

func (w *Window) maxSize() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.size
}

// With any number of subjects, no more bytes are in transit than the window allows, and each subject
// gets its turn.
func TestOutboxWaitsForAnswers(t *testing.T) {
	nc, out := testOutbox(t)
	received := make(chan *nats.Msg, 100)
	_, err := nc.Subscribe("to.*", func(m *nats.Msg) { received <- m })
	require.NoError(t, err)
	require.NoError(t, nc.Flush())
	const n, size = 50, 20 << 10
	for i := range n {
		out.Send(t.Context(), "to."+strconv.Itoa(i), make([]byte, size), func() {})
	}
	for range n {
		m := crewtest.Receive(t, received, "a message")
		require.NoError(t, nc.Flush())
		require.LessOrEqual(t, (len(received)+1)*size, out.window.maxSize())
		require.NoError(t, m.Respond([]byte("{}")))
	}
	out.Flush()
	require.Empty(t, out.queues)
	require.Zero(t, out.window.used)
}

package outbox

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
)

// testOutbox returns an outbox with a server of its own.
func testOutbox(t *testing.T) (nc *nats.Conn, out *Outbox) {
	s, err := server.NewServer(&server.Options{DontListen: true, NoSigs: true, NoLog: true})
	require.NoError(t, err)
	s.Start()
	t.Cleanup(s.Shutdown)
	require.True(t, s.ReadyForConnections(time.Minute))
	nc, err = nats.Connect("", nats.InProcessServer(s))
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	waits := NewWaits(nil, func() bool { return false })
	t.Cleanup(waits.Close)
	asker, err := NewAsker(nc)
	require.NoError(t, err)
	return nc, New(asker, waits)
}

// What waits for a message of its subject goes in one, in order, and again until it is answered. A
// flush ends when the senders know that all is, and not earlier.
func TestOutboxBundles(t *testing.T) {
	nc, out := testOutbox(t)
	const n = 1000
	var done atomic.Int32
	for i := range n {
		out.Send("to", []byte(strconv.Itoa(i)+" "), func() {
			if done.Add(1) == n {
				time.Sleep(20 * time.Millisecond) // long enough for a flush that does not wait for it
				done.Add(1)
			}
		})
	}
	var mu sync.Mutex
	var got []string
	tries := 0
	_, err := nc.Subscribe("to", func(m *nats.Msg) {
		mu.Lock()
		defer mu.Unlock()
		if tries++; tries == 1 {
			out.asker.again()
			return // it is lost
		}
		for part := range strings.FieldsSeq(string(m.Data)) {
			if !slices.Contains(got, part) {
				got = append(got, part)
			}
		}
		_ = m.Respond([]byte{'+'})
	})
	require.NoError(t, err)
	crewtest.Until(t, func() bool { return done.Load() > n }, "all answers")
	out.Flush()
	require.Empty(t, out.queues)
	require.Zero(t, out.bytes)
	mu.Lock()
	defer mu.Unlock()
	require.Len(t, got, n)
	require.Less(t, tries, n/2)
}

// Who takes messages and answers none is told of.
func TestOutboxUnanswered(t *testing.T) {
	nc, out := testOutbox(t)
	_, err := nc.Subscribe("elsewhere", func(*nats.Msg) {})
	require.NoError(t, err)
	require.NoError(t, nc.Flush())
	for range 3 {
		out.Send("elsewhere", []byte("a"), func() { t.Error("it is answered") })
	}
	told := make(chan string, 1)
	waits := NewWaits(func(text string) { told <- text }, func() bool { return true })
	defer waits.Close()
	waits.On(out.unanswered)
	for range mostStill {
		waits.look()
	}
	require.Regexp(t, `^waiting for an answer to 3 messages for \d+s: `, crewtest.Receive(t, told, "the notice"))
}

// What one party does not answer keeps nothing from others for long.
func TestOutboxLetsOthersPass(t *testing.T) {
	nc, out := testOutbox(t)
	_, err := nc.Subscribe("silent", func(*nats.Msg) { out.asker.again() })
	require.NoError(t, err)
	_, err = nc.Subscribe("other", func(m *nats.Msg) { Answer(m, []byte{'+'}) })
	require.NoError(t, err)
	require.NoError(t, nc.Flush())
	for range 2 {
		out.Send("silent", make([]byte, Piece), func() { t.Error("it is answered") })
	}
	answered := make(chan bool, 1)
	out.Send("other", []byte("a"), func() { answered <- true })
	crewtest.Receive(t, answered, "the answer of the other one")
}

// Nobody has an answer go to where only who answers may send.
func TestAnswerGoesNowhereElse(t *testing.T) {
	nc, _ := testOutbox(t)
	all, err := nc.SubscribeSync("crew.>")
	require.NoError(t, err)
	_, err = nc.Subscribe("to", func(m *nats.Msg) { Answer(m, []byte{'+'}) })
	require.NoError(t, err)
	require.NoError(t, nc.PublishRequest("to", "crew.h", nil))
	_, err = nc.Request("to", nil, crewtest.Patience)
	require.NoError(t, err)
	_, err = all.NextMsg(time.Millisecond)
	require.ErrorIs(t, err, nats.ErrTimeout)
}

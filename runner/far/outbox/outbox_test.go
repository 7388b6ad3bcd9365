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
	requester, err := NewRequester(nc)
	require.NoError(t, err)
	return nc, New(requester)
}

// Messages that wait are sent together, in order, and again until they are answered. Flush returns only
// when every done has returned.
func TestOutboxCombines(t *testing.T) {
	nc, out := testOutbox(t)
	const n = 1000
	var done atomic.Int32
	for i := range n {
		out.Send(t.Context(), "to", []byte(strconv.Itoa(i)+" "), func() {
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
			out.requester.repeatAll()
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
	mu.Lock()
	defer mu.Unlock()
	require.Len(t, got, n)
	require.Less(t, tries, n/2)
}

// While a message is unanswered, later ones are sent after a moment, in few batches.
func TestOutboxDoesNotAwaitAnswers(t *testing.T) {
	nc, out := testOutbox(t)
	got := make(chan *nats.Msg, 100)
	_, err := nc.Subscribe("to", func(m *nats.Msg) { got <- m })
	require.NoError(t, err)
	require.NoError(t, nc.Flush())
	for range maxBatches {
		out.Send(t.Context(), "to", []byte("a"), func() {})
		crewtest.Receive(t, got, "a message")
		time.Sleep(batchEvery)
	}
	out.Send(t.Context(), "to", []byte("a"), func() {})
	time.Sleep(batchEvery)
	require.Empty(t, got)
}

// A subject without answers does not delay others for long.
func TestUnansweredDoesNotBlockOthers(t *testing.T) {
	nc, out := testOutbox(t)
	_, err := nc.Subscribe("silent", func(*nats.Msg) { out.requester.repeatAll() })
	require.NoError(t, err)
	_, err = nc.Subscribe("other", func(m *nats.Msg) { Answer(m, []byte{'+'}) })
	require.NoError(t, err)
	require.NoError(t, nc.Flush())
	for range 2 {
		out.Send(t.Context(), "silent", make([]byte, Piece), func() { t.Error("it is answered") })
	}
	answered := make(chan bool, 1)
	out.Send(t.Context(), "other", []byte("a"), func() { answered <- true })
	crewtest.Receive(t, answered, "the answer of the other one")
}

// A sender cannot direct an answer to a subject that only the answering process may publish to.
func TestAnswerToForbiddenSubject(t *testing.T) {
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

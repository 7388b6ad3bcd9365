package engine

import (
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
)

func testOutbox(t *testing.T) (s *session, out *outbox, told chan string) {
	s, told = newBroker(t).connect(nil), make(chan string, 1)
	out, err := newOutbox(s.nc, func(text string) { told <- text })
	require.NoError(t, err)
	return s, out, told
}

// What waits for a message of its subject goes in one, in order, and nothing comes twice.
// A flush ends when the senders know that all is stored, and not earlier.
func TestOutboxBundles(t *testing.T) {
	b, out, _ := testOutbox(t)
	const n = 1000
	var done atomic.Int32
	for i := range n {
		text := strconv.Itoa(i)
		out.send("crew.r.q.run", text, []byte(text), func() {
			if done.Add(1) == n {
				time.Sleep(20 * time.Millisecond) // long enough for a flush that does not wait for it
				done.Add(1)
			}
		})
	}
	out.again(true) // what is under way is not stored twice
	out.flush()
	require.EqualValues(t, n+1, done.Load())
	require.Empty(t, out.queues)
	require.Zero(t, out.bytes)
	stream, err := b.js.Stream(t.Context(), resultsStream)
	require.NoError(t, err)
	count := stream.CachedInfo().State.Msgs
	require.Less(t, count, uint64(n/2))
	i := 0
	for seq := range count {
		m, err := stream.GetMsg(t.Context(), seq+1)
		require.NoError(t, err)
		for part := range parts(m.Data) {
			require.Equal(t, strconv.Itoa(i), string(part))
			i++
		}
	}
	require.Equal(t, n, i)
}

// What a full stream has refused, and what waits behind it, can be taken back.
func TestOutboxWithdraws(t *testing.T) {
	_, out, told := testOutbox(t)
	const subject = "elsewhere" // no stream has it
	out.send(subject, "a", []byte("a"), func() { t.Error("a is stored") })
	require.Contains(t, <-told, "cannot store messages now")
	out.send(subject, "b", []byte("b"), func() { t.Error("b is stored") })
	require.True(t, out.withdraw(subject, "b"), "not sent yet")
	require.True(t, out.withdraw(subject, "a"), "refused")
	require.False(t, out.withdraw(subject, "a"))
	out.flush()

	out.send(subject, "c", []byte("c"), func() { t.Error("c is stored") })
	out.send(subject, "d", []byte("d"), func() { t.Error("d is stored") })
	crewtest.Until(t, func() bool { return out.withdraw(subject, "c") }, "a message to withdraw")
	require.Len(t, out.pending, 1, "d goes when c, for which it waited, is gone")
	crewtest.Until(t, func() bool { return out.withdraw(subject, "d") }, "a message to withdraw")
	require.Empty(t, out.queues)
	require.Zero(t, out.bytes)
}

// What was sent twice and refused once cannot be taken back: the other try may be stored.
func TestOutboxWithdrawsWhatIsRefusedAlone(t *testing.T) {
	b, out, told := testOutbox(t)
	tries := make(chan *nats.Msg, 2)
	_, err := b.nc.Subscribe("elsewhere", func(m *nats.Msg) { tries <- m })
	require.NoError(t, err)
	require.NoError(t, b.nc.Flush())
	out.send("elsewhere", "a", []byte("a"), func() { t.Error("a is stored") })
	out.sends(t)
	out.again(true)
	for _, taken := range []bool{false, true} {
		require.NoError(t, crewtest.Receive(t, tries, "a try").Respond([]byte(`{"error":{"err_code":10077}}`)))
		if taken {
			crewtest.Until(t, func() bool { return out.withdraw("elsewhere", "a") }, "a message to withdraw")
			return
		}
		require.Contains(t, crewtest.Receive(t, told, "the refusal"), "full")
		require.False(t, out.withdraw("elsewhere", "a"), "nobody has answered one try")
	}
}

// sends waits until a message has been sent.
func (o *outbox) sends(t *testing.T) {
	crewtest.Until(t, func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		return len(o.pending) == 1
	}, "the message to be sent")
}

// An engine that takes messages and confirms none, as with a full disk, is told of.
func TestOutboxUnconfirmed(t *testing.T) {
	b, out, told := testOutbox(t)
	_, err := b.nc.Subscribe("elsewhere", func(*nats.Msg) {})
	require.NoError(t, err)
	require.NoError(t, b.nc.Flush())
	out.send("elsewhere", "a", []byte("a"), func() { t.Error("a is stored") })
	out.sends(t)
	for range mostTries {
		require.Empty(t, told)
		out.again(true)
	}
	require.Contains(t, <-told, "does not confirm what it is sent: if its disk is full")
}

func FuzzParts(f *testing.F) {
	f.Add([]byte("a"), []byte("bc"))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		for range parts(a) { // whatever it is
		}
		if len(a) == 0 || len(b) == 0 {
			return
		}
		var got []string
		for p := range parts(bundle([]message{{data: a}, {data: b}})) {
			got = append(got, string(p))
		}
		require.Equal(t, []string{string(a), string(b)}, got)
	})
}

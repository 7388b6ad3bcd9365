package outbox

import (
	"bytes"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
)

// testOutbox returns an outbox with a server of its own. told gets what it says, each text
// once.
func testOutbox(t *testing.T) (nc *nats.Conn, out *Outbox, told chan string) {
	s, err := server.NewServer(&server.Options{StoreDir: t.TempDir(), DontListen: true, JetStream: true, NoSigs: true, NoLog: true})
	require.NoError(t, err)
	s.Start()
	t.Cleanup(s.Shutdown)
	require.True(t, s.ReadyForConnections(time.Minute))
	nc, err = nats.Connect("", nats.InProcessServer(s))
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	told = make(chan string, 1)
	var mu sync.Mutex
	last := ""
	say := func(text string) {
		mu.Lock()
		defer mu.Unlock()
		if text != last {
			told <- text
		}
		last = text
	}
	waits := NewWaits(say, func() (uint64, bool) { return nc.Stats().InMsgs, true })
	t.Cleanup(waits.Close)
	out, err = New(nc, Config{Bundle: func(list [][]byte) []byte { return bytes.Join(list, []byte(",")) }, Say: say, Waits: waits})
	require.NoError(t, err)
	return nc, out, told
}

// What waits for a message of its subject goes in one, in order, and nothing comes twice.
// A flush ends when the senders know that all is stored, and not earlier.
func TestOutboxBundles(t *testing.T) {
	nc, out, _ := testOutbox(t)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "s", Subjects: []string{"to"}})
	require.NoError(t, err)
	const n = 1000
	var done atomic.Int32
	for i := range n {
		text := strconv.Itoa(i)
		out.Send("to", text, []byte(text), func() {
			if done.Add(1) == n {
				time.Sleep(20 * time.Millisecond) // long enough for a flush that does not wait for it
				done.Add(1)
			}
		})
	}
	out.Again(true) // what is under way is not stored twice
	out.Flush()
	require.EqualValues(t, n+1, done.Load())
	require.Empty(t, out.queues)
	require.Zero(t, out.bytes)
	info, err := stream.Info(t.Context())
	require.NoError(t, err)
	count := info.State.Msgs
	require.Less(t, count, uint64(n/2))
	i := 0
	for seq := range count {
		m, err := stream.GetMsg(t.Context(), seq+1)
		require.NoError(t, err)
		for part := range strings.SplitSeq(string(m.Data), ",") {
			require.Equal(t, strconv.Itoa(i), part)
			i++
		}
	}
	require.Equal(t, n, i)
}

// What a full stream has refused, and what waits behind it, can be taken back.
func TestOutboxWithdraws(t *testing.T) {
	_, out, told := testOutbox(t)
	const subject = "elsewhere" // no stream has it
	out.Send(subject, "a", []byte("a"), func() { t.Error("a is stored") })
	require.Contains(t, <-told, "cannot store messages now")
	out.Send(subject, "b", []byte("b"), func() { t.Error("b is stored") })
	require.True(t, out.Withdraw(subject, "b"), "not sent yet")
	require.True(t, out.Withdraw(subject, "a"), "refused")
	require.False(t, out.Withdraw(subject, "a"))
	out.Flush()

	out.Send(subject, "c", []byte("c"), func() { t.Error("c is stored") })
	out.Send(subject, "d", []byte("d"), func() { t.Error("d is stored") })
	crewtest.Until(t, func() bool { return out.Withdraw(subject, "c") }, "a message to withdraw")
	require.Len(t, out.pending, 1, "d goes when c, for which it waited, is gone")
	crewtest.Until(t, func() bool { return out.Withdraw(subject, "d") }, "a message to withdraw")
	require.Empty(t, out.queues)
	require.Zero(t, out.bytes)
}

// What was sent twice and refused once cannot be taken back: the other try may be stored.
func TestOutboxWithdrawsWhatIsRefusedAlone(t *testing.T) {
	nc, out, told := testOutbox(t)
	tries := make(chan *nats.Msg, 2)
	_, err := nc.Subscribe("elsewhere", func(m *nats.Msg) { tries <- m })
	require.NoError(t, err)
	require.NoError(t, nc.Flush())
	out.Send("elsewhere", "a", []byte("a"), func() { t.Error("a is stored") })
	out.sends(t)
	out.Again(true)
	for _, taken := range []bool{false, true} {
		require.NoError(t, crewtest.Receive(t, tries, "a try").Respond([]byte(`{"error":{"err_code":10077}}`)))
		if taken {
			crewtest.Until(t, func() bool { return out.Withdraw("elsewhere", "a") }, "a message to withdraw")
			return
		}
		require.Contains(t, crewtest.Receive(t, told, "the refusal"), "full")
		require.False(t, out.Withdraw("elsewhere", "a"), "nobody has answered one try")
	}
}

// sends waits until a message has been sent.
func (o *Outbox) sends(t *testing.T) {
	crewtest.Until(t, func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		return len(o.pending) == 1
	}, "the message to be sent")
}

// An engine that takes messages and confirms none, as with a full disk, is told of.
func TestOutboxUnconfirmed(t *testing.T) {
	nc, out, told := testOutbox(t)
	_, err := nc.Subscribe("elsewhere", func(*nats.Msg) {})
	require.NoError(t, err)
	require.NoError(t, nc.Flush())
	out.Send("elsewhere", "a", []byte("a"), func() { t.Error("a is stored") })
	out.sends(t)
	out.Send("elsewhere", "b", []byte("b"), func() { t.Error("b is stored") })
	out.Send("elsewhere", "c", []byte("c"), func() { t.Error("c is stored") })
	for range mostStill {
		out.cfg.Waits.look()
	}
	require.Regexp(t, `^waiting for the hub to confirm 3 messages for \d+s: `, crewtest.Receive(t, told, "the notice"))
}

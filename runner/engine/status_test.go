package engine

import (
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/wiring"
)

// prints returns what a call of crew engine prints.
func (s *session) prints(t *testing.T, call func(*wiring.EngineCall) error, c wiring.EngineCall) string {
	t.Helper()
	file, err := os.CreateTemp(t.TempDir(), "out")
	require.NoError(t, err)
	defer file.Close()
	c.Out = file
	require.NoError(t, call(&c))
	_, err = file.Seek(0, io.SeekStart)
	require.NoError(t, err)
	text, err := io.ReadAll(file)
	require.NoError(t, err)
	return string(text)
}

func TestStatus(t *testing.T) {
	inTime(t, func(t *testing.T, b *broker) {
		s := b.connect(nil)
		require.Equal(t, `{"workers":[],"queues":[],"runs":[]}`+"\n", s.prints(t, s.status, wiring.EngineCall{JSON: true}))

		f := b.worker("web1", 8, answer)
		f.mu.Lock()
		f.presence.Labels, f.presence.Busy, f.presence.Command = []string{"gpu"}, 3, "evil\x1b[2J\tx"
		f.presence.Offers = "gpu:2,mem:16"
		f.mu.Unlock()
		f.put(ready)
		b.worker("web2", 2, answer).put(gone)
		now := time.Now()
		require.NoError(t, s.enrol(t.Context(), "q", Enrolment{Version: Version, Run: "r1", Name: "nightly", Host: "ada", PID: 7, Since: now, State: runRunning}, 0))
		require.NoError(t, s.enrol(t.Context(), "other", Enrolment{Version: Version, Run: "r2", Since: now.Add(time.Second), State: runWaiting, Stocked: &Stocked{Tasks: 2, Terms: &Terms{Secret: []byte("sixteen bytes xx")}}}, 0))
		for _, subject := range []string{taskSubject("other", "=.w", "r1"), storedSubject("other", "r2", "tasks"), resultSubject("other", "=.w", "r2")} {
			_, err := s.js.Publish(t.Context(), subject, []byte("x"))
			require.NoError(t, err)
		}
		_, err := s.js.Publish(t.Context(), kvPrefix+"q.bad", []byte("no JSON"))
		require.NoError(t, err)
		text := s.prints(t, s.status, wiring.EngineCall{})
		lines := strings.Split(text, "\n")
		require.Regexp(t, `^=\.web1-\w+ +q +8 +3 +0 +0 +\d+s +ready +gpu +gpu:2,mem:16 +evil\\x1b\[2J x$`, lines[1])
		require.Regexp(t, `^\z`, lines[2])
		require.Regexp(t, `^other +0 +0 +0 +3$`, lines[4])
		require.Regexp(t, `^q +1 +8 +3 +0$`, lines[5])
		require.Regexp(t, `^r1 +nightly +q +running +\d{4}-.* +ada, process 7$`, lines[8])
		require.Regexp(t, `^r2 +- +other +waiting \(0 of 2 tasks\) `, lines[9])

		// An empty name is that of no run, though one has none.
		require.ErrorContains(t, s.steer(&wiring.EngineCall{Verb: opCancel}), "the name of the run is empty")

		// A worker that is silent for longer than its TTL counts as lost.
		f.silent.Store(true)
		f.mu.Lock()
		f.presence.TTL = time.Millisecond
		require.NoError(t, f.store())
		f.mu.Unlock()
		crewtest.Until(t, func() bool {
			var st engineStatus
			require.NoError(t, json.Unmarshal([]byte(s.prints(t, s.status, wiring.EngineCall{JSON: true})), &st))
			return st.Workers[0].State == lostState && st.Queues[1].Workers == 0
		}, "the worker to count as lost")

		// Those that submit are asked; what was handed over is removed.
		orders := make(chan Order, 1)
		reply := `{}`
		_, err = s.nc.Subscribe(runSubject("q", "r1"), func(m *nats.Msg) {
			var o Order
			require.NoError(t, json.Unmarshal(m.Data, &o))
			orders <- o
			_ = m.Respond([]byte(reply))
		})
		require.NoError(t, err)
		steer := func(verb, run string) error { return s.steer(&wiring.EngineCall{Verb: verb, Operand: run}) }
		for _, verb := range []string{opPause, opResume, opCancel} {
			require.NoError(t, steer(verb, "nightly"))
			require.Equal(t, Order{Version: Version, Op: verb, ID: ID{Run: "r1"}, By: me()}, <-orders)
		}
		reply = `{"err": "is over"}`
		require.EqualError(t, steer(opPause, "r1"), "run r1: is over")
		require.ErrorContains(t, steer(opPause, "r2"), "is waiting")
		require.ErrorContains(t, steer(opPause, "r3"), "there is no run r3: crew engine status lists them")
		require.NoError(t, s.enrol(t.Context(), "q", Enrolment{Run: "r4", Name: "nightly", PID: 9, Host: "bob", State: runRunning}, 0))
		require.ErrorContains(t, steer(opPause, "nightly"), "write one of r4, r1")
		require.ErrorContains(t, steer(opPause, "r4"), "does not answer: see process 9 on bob")
		lost := Enrolment{Run: "r5", State: lostState}
		require.NoError(t, s.enrol(t.Context(), "q", lost, 0))
		for _, subject := range []string{taskSubject("q", "=.web1-gone", lost.Run), resultSubject("q", "=.w", lost.Run)} {
			_, err = s.js.Publish(t.Context(), subject, []byte("left"))
			require.NoError(t, err)
		}
		require.NoError(t, steer(opCancel, lost.Run), "its submitter was killed")
		require.NoError(t, steer(opCancel, "r2"))
		require.ErrorContains(t, steer(opCancel, "r2"), "there is no run")
		require.NoError(t, s.purge(t.Context(), tasksStream, taskSubject("other", "=.w", "r1")))
		for _, stream := range []string{tasksStream, resultsStream, storedStream} {
			require.Zero(t, s.messages(t, stream))
		}
	})
}

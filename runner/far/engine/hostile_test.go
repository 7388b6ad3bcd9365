package engine

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/decide/task"
	"crew/runner/exec/spool"
	"crew/runner/far/travel"
	"crew/runner/front/cli"
	"crew/runner/front/wiring"
	"crew/runner/keep/journal"
)

// hostile generates malicious values.
type hostile struct{ *rand.Rand }

var (
	extremes = []int64{0, 1, -1, 2, 65, 1 << 16, math.MaxInt32, math.MinInt32, 1 << 40, 1 << 62, math.MaxInt64, math.MinInt64}
	oddities = []string{"", "a", "default", "*", ">", "a.b", "../../etc", "{}", "{1}", "${", "\x00\xff", "gpu:9223372036854775807", "2026-01-01", string(make([]byte, 5000))}
)

// spoil changes a part of v, perhaps all of it.
func (h hostile) spoil(v reflect.Value, often float64) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() && h.Float64() < often {
			v.Set(reflect.New(v.Type().Elem()))
		}
		if !v.IsNil() {
			h.spoil(v.Elem(), often)
		}
		return
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				h.spoil(v.Field(i), often)
			}
		}
	case reflect.Slice:
		if v.Type() != reflect.TypeFor[json.RawMessage]() && h.Float64() < often {
			v.Set(reflect.MakeSlice(v.Type(), h.IntN(4), 4))
		}
		for i := range v.Len() {
			h.spoil(v.Index(i), often)
		}
		return
	}
	if h.Float64() >= often {
		return
	}
	n := extremes[h.IntN(len(extremes))]
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Int, reflect.Int32, reflect.Int64:
		if !v.OverflowInt(n) {
			v.SetInt(n)
		}
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		if !v.OverflowUint(uint64(n)) {
			v.SetUint(uint64(n))
		}
	case reflect.String:
		v.SetString(oddities[h.IntN(len(oddities))])
	case reflect.Struct:
		if at, ok := v.Addr().Interface().(*time.Time); ok {
			*at = time.Unix(n%(1<<36), 0)
		}
	}
}

// spoilt returns a copy of a value, mostly unchanged.
func spoilt[T any](h hostile, like T) *T {
	h.spoil(reflect.ValueOf(&like).Elem(), []float64{0, 0.03, 0.1, 0.5}[h.IntN(4)])
	return &like
}

// garbage returns bytes that are a message, or nearly one.
func (h hostile) garbage(msg []byte) []byte {
	for n := h.IntN(8) - 4; n > 0 && len(msg) > 0; n-- {
		if at := h.IntN(len(msg)); h.IntN(4) == 0 {
			msg = msg[:at]
		} else {
			msg[at] ^= byte(1 << h.IntN(8))
		}
	}
	return msg
}

// siege is a hub and a worker with malicious clients.
type siege struct {
	t                 *testing.T
	hostile           hostile
	dir, port         string
	hub               *crewtest.Process
	honest, submitter string // files
	worker            string
}

func (g *siege) open() {
	g.hub = crew(g.t, "engine", "serve", "--dir", g.dir+"/hub", "--listen", "127.0.0.1:"+g.port)
	g.hub.Says(g.hub.Stderr, "connect with")
}

func (g *siege) invite(name string, how ...string) (file string) {
	p := crew(g.t, append([]string{"engine", "invite", name, "--dir", g.dir + "/hub"}, how...)...)
	p.Exits(0)
	file = filepath.Join(g.dir, name+".json")
	crewtest.WriteFile(g.t, file, p.Stdout(), 0o600)
	return file
}

// TestHostile runs malicious submitters and workers, and restarts the hub while it holds their runs.
func TestHostile(t *testing.T) {
	crewtest.SoakOnly(t)
	t.Parallel()
	g := &siege{t: t, dir: t.TempDir(), port: steadyPort()}
	g.open()
	g.honest, g.submitter, g.worker = g.invite("honest", "--submitter"), g.invite("eve", "--submitter"), g.invite("mallory")
	w := crew(t, "worker", "--engine", g.invite("web1"), "-j2", "echo", "{}")
	for i := range crewtest.Rounds(0) {
		g.hostile = hostile{crewtest.Rand(t, i)}
		g.storm()
		p := crew(t, "--engine", g.honest, "-k", "echo", "{}", ":::", "a", "b")
		p.Exits(0)
		require.Equal(t, "a\nb\n", p.Stdout())
		require.False(t, w.Ended(), w.Stderr())
		require.False(t, g.hub.Ended(), g.hub.Stderr())
		g.hub.Send([]syscall.Signal{syscall.SIGTERM, syscall.SIGKILL}[i%2])
		g.hub.Wait()
		g.open()
	}
}

// storm sends all kinds of messages with random changes.
func (g *siege) storm() {
	t, h := g.t, g.hostile
	s, err := connect(g.submitter, nil)
	require.NoError(t, err)
	defer s.close()
	rogue, err := connect(g.worker, nil)
	require.NoError(t, err)
	defer rogue.close()
	sum, text := digest(&cli.Options{Command: cli.Command{Words: []string{"echo", "{}"}}})
	var at *engineStatus
	crewtest.Until(t, func() bool {
		at, err = s.queryStatus(t.Context(), "")
		return err == nil && len(at.Workers) > 0
	}, "the worker")
	like := Presence{Queue: "evil", Version: Version, Host: "m", Slots: 1, TTL: time.Second, State: ready, Job: Job{fmt.Sprintf("%x", sum), text, true}}
	rogues := make([]Presence, 5)
	for i := range rogues {
		rogues[i] = like
		rogues[i].ID = rogue.newID("m")
		p := spoilt(h, rogues[i])
		_ = rogue.publishJSON(presenceSubject("evil", rogues[i].ID), p)
	}
	for range 8 {
		g.store(s)
	}
	var runs []RunInfo
	if st, err := s.queryStatus(t.Context(), ""); err == nil {
		runs = st.Runs
	}
	for range 50 {
		id := ID{"r", 1, uint64(1 + h.IntN(3)), 1, 1}
		if len(runs) > 0 {
			id.Run = runs[h.IntN(len(runs))].Run
		}
		o := Order{Version: Version, Op: []string{opCancel, opLeave, opTalk}[h.IntN(3)], Run: id.Run, Epoch: id.Epoch}
		order := func() []byte { b, _ := json.Marshal(spoilt(h, o)); return h.garbage(b) }
		b, _ := json.Marshal(spoilt(h, Heartbeat{Version: Version, Run: id.Run, Epoch: 1}))
		_ = s.nc.Publish(heartbeatSubject("default", "eve"), h.garbage(b))
		_ = s.nc.Publish(runSubject("eve", id.Run), order())
		for _, w := range at.Workers {
			a := Attempt{ID: id, Template: sum, Records: [][]string{{"x"}}, Object: "{}", Slot: 1, Timeout: time.Second, Trip: travel.Trip{User: "eve"}}
			copy(a.Token[:], strconv.FormatUint(h.Uint64(), 36))
			_ = s.nc.Publish(taskSubject("default", w.ID, "eve", id.Run), h.garbage(encode(kindAttempt, spoilt(h, a))))
			about := AttemptOrder{ID: id, Op: []string{opCancel, opKill, opReturn, opRecorded}[h.IntN(4)]}
			_ = s.nc.Publish(taskSubject("default", w.ID, "eve", id.Run), h.garbage(encode(kindOrder, spoilt(h, about))))
			_ = s.nc.Publish(orderSubject("default", w.ID, "eve"), order())
		}
		fin := Final{ID: id, Facts: task.Facts{Outcome: task.OK, Exit: new(int), Start: time.Unix(1, 0), Duration: 5}, Stdout: FinalOutput{Text: []byte("x")}}
		_ = rogue.nc.Publish(resultSubject("honest", id.Run, rogue.newID("m")), h.garbage(encode(kindFinal, spoilt(h, fin))))
	}
	require.NoError(t, s.nc.Flush())
	require.NoError(t, rogue.nc.Flush())
	for _, r := range runs[:len(runs)/2] {
		if r.State == runDone {
			p := crew(t, "engine", "attach", r.Run, "--engine", g.submitter)
			require.True(t, p.Wait().Exited(), p.Stderr())
			require.NotContains(t, p.Stderr(), "goroutine")
		}
		_ = s.forget(r.Run)
	}
	crew(t, "engine", "status", "--engine", g.submitter).Exits(0)
}

// store hands over a run with random changes.
func (g *siege) store(s *session) {
	h, queue := g.hostile, []string{"evil", "default"}[g.hostile.IntN(2)]
	c := testCall()
	c.Command.Words, c.Engine.Queue = []string{"echo", "{}"}, queue
	u, err := newUploader(c, *spoilt(h, wiring.Orders{Words: []string{"--retries=1", "--halt=now,fail=2"}}), s, nil)
	if err != nil {
		return // no worker can be
	}
	other := *spoilt(h, u.record)
	other.Run += "x"
	var tasks []byte
	for i := range uint64(3) {
		spec, err := journal.EncodeTask(&task.Task{ID: i + 1, Records: [][]string{{"x"}}, Cost: 1})
		require.NoError(g.t, err)
		text, err := json.Marshal(spoilt(h, StoredTask{Spec: g.spoilJSON(spec)}))
		if err != nil { // the spec is no longer valid
			text = spec
		}
		tasks = append(append(tasks, text...), '\n')
	}
	lines := s.blobs.Add(spool.Text(h.garbage(tasks)), int64(len(tasks)))
	u.record.Tasks = []uint64{3, 3, 1 << 62}[h.IntN(3)]
	for _, o := range []Order{
		{Op: opStore, Record: &other, Tasks: &lines}, {Op: opStore, Record: &u.record, Tasks: spoilt(h, lines)},
		{Op: opStore, Record: &u.record, Tasks: &lines},
		{Op: opRead, File: []string{tasksFile, "../../admin.json", recordFile}[h.IntN(3)], At: extremes[h.IntN(len(extremes))]},
	} {
		o.Run = u.record.Run
		a, _ := s.ask(g.t.Context(), dispatchSubject(s.user), o)
		require.NotContains(g.t, string(a.Data), "secret")
	}
}

// spoilJSON changes the numbers and texts of an object.
func (g *siege) spoilJSON(text []byte) []byte {
	all := map[string]any{}
	require.NoError(g.t, json.Unmarshal(text, &all))
	for _, name := range []string{"cost", "timeout", "killafter", "rank", "priority", "weight", "protocol", "after", "needs", "marks", "key", "held", "at", "makes", "argv", "error"} {
		n := extremes[g.hostile.IntN(len(extremes))]
		switch g.hostile.IntN(60) {
		case 0, 1:
			all[name] = n
		case 2:
			all[name] = []any{n}
		case 3:
			all[name] = oddities[g.hostile.IntN(len(oddities))]
		case 4:
			all[name] = []any{map[string]any{"name": "gpu", "n": n, "Name": "gpu", "N": n, "Off": n, "Word": n}}
		}
	}
	text, err := json.Marshal(all)
	require.NoError(g.t, err)
	return text
}

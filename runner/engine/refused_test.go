package engine

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/task"
	"crew/runner/trust"
)

// keyFile makes a key in a file.
func keyFile(t *testing.T) (file string, key *trust.Key) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "key")
	key = trust.NewKey()
	require.NoError(t, key.Save(file))
	return file, key
}

// A hub whose users have the least rights has workers that run signed commands, and
// nothing else.
func TestWorkerRefuses(t *testing.T) {
	t.Parallel()
	h := testHub(t, t.TempDir())
	file, key := keyFile(t)
	_, other := keyFile(t)
	b := newBench(t, h.as(t, "submitter"))
	w := crew(t, "worker", "--engine", h.as(t, "worker"), "-j2", "--allow-commands", "--trust", key.Line())
	p := b.worker(isReady)
	require.True(t, p.Signed)
	subject := taskSubject("default", p.ID, "run")
	signed := func(k *trust.Key) *Attempt {
		a := b.attempt("x")
		a.Argv = []string{"echo", "ran"}
		sign(k, a, subject)
		return a
	}
	good := signed(key)
	b.give(p.ID, good)
	f, _ := b.final()
	require.Equal(t, "ran\n", string(f.Stdout), f.Error)

	late := b.attempt("x")
	late.Argv, late.Expires = []string{"echo"}, time.Now().Add(-time.Minute)
	sign(key, late, subject)
	changed := signed(key)
	changed.Argv = []string{"echo", "changed"}
	unsigned := b.attempt("x")
	unsigned.Argv = []string{"echo"}
	moved := b.attempt("x")
	moved.Argv = []string{"echo"}
	sign(key, moved, taskSubject("default", "another", "run"))
	for why, a := range map[string]*Attempt{
		"clocks": late, "was changed on its way": changed, "is not signed": unsigned, "not trusted": signed(other),
		"signature is wrong": moved, "no command of its own": b.attempt("x"),
	} {
		b.give(p.ID, a)
		f, _ := b.final()
		require.Equal(t, task.StartFailed, f.Outcome)
		require.Contains(t, f.Error, why)
	}

	// What is taken is not taken again, for this run or another.
	b.give(p.ID, good)
	again := *good
	b.give(p.ID, &again)
	_, err := b.s.js.Publish(t.Context(), taskSubject("default", p.ID, "other"), good.Encode())
	require.NoError(t, err)
	b.give(p.ID, signed(key))
	f, _ = b.final()
	require.Equal(t, b.last, f.ID.Task)
	b.allAcknowledged()
	require.Empty(t, b.results)

	// Runs with the key come through, others say why not.
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(dir+"/base", []byte("base"), 0o600))
	run := crew(t, "--engine", h.as(t, "submitter"), "--sign", file, "-k", "--basefile", dir+"/base", "--return", dir+"/{}",
		"cat "+dir+"/base > "+dir+"/{}; echo {}", ":::", "a", "b", "c")
	run.Exits(0)
	require.Equal(t, "a\nb\nc\n", run.Stdout())
	require.Equal(t, "base", read(t, dir+"/c"))
	run = crew(t, "--engine", h.as(t, "submitter"), "true", ":::", "a")
	run.Exits(1)
	require.Contains(t, run.Stderr(), "has no command of its own")
	require.NotContains(t, w.Stderr(), "iolation")
}

// What was handed over goes through a hub whose users have the least rights.
func TestHandedOver(t *testing.T) {
	t.Parallel()
	h := testHub(t, t.TempDir())
	obey := obeys(t)
	run := crew(t, "--engine", h.as(t, "submitter"), "--detach", "--name", "nightly", obey, "{}", ":::", "echo a", "exit 3", "echo c; head -c 300000 /dev/zero | tr '\\0' x")
	run.Exits(0)
	require.Regexp(t, `^\w+\n$`, run.Stdout())
	w := crew(t, "worker", "--engine", h.as(t, "worker"), "-j2", "--worker-ttl", "10m", obey, "{}")
	crew(t, "engine", "dispatch", "--engine", h.as(t, "submitter"))
	attached := crew(t, "engine", "attach", "nightly", "--engine", h.as(t, "submitter"))
	attached.Exits(123)
	require.Equal(t, "a\nc\n"+strings.Repeat("x", 300000), attached.Stdout())
	require.Contains(t, attached.Stderr(), "1 of 3 tasks failed")
	attached = crew(t, "engine", "attach", "nightly", "--engine", h.as(t, "submitter"))
	attached.Exits(1)
	require.Contains(t, attached.Stderr(), "there is no run nightly")
	require.NotContains(t, w.Stderr(), "iolation")

	// Values can be added without the command.
	add := crew(t, "ctl", "add", "--to", "engine:"+h.as(t, "submitter"), "echo one", "echo two")
	add.Exits(0)
	attached = crew(t, "engine", "attach", strings.TrimSpace(add.Stdout()), "--engine", h.as(t, "submitter"), "--tag")
	attached.Exits(0)
	require.Equal(t, "echo one\tone\necho two\ttwo\n", attached.Stdout())
	add = crew(t, "ctl", "add", "--to", "engine:"+h.as(t, "submitter")+"/other", "echo one")
	add.Exits(1)
	require.Contains(t, add.Stderr(), "no worker of queue other is there")
}

// garbage returns bytes that may be nearly a message.
func garbage(like [][]byte) []byte {
	p := slices.Clone(like[rand.IntN(len(like))])
	for range rand.IntN(8) {
		switch n := len(p); {
		case n == 0 || rand.IntN(4) == 0:
			p = append(p, byte(rand.Uint32()))
		case rand.IntN(4) == 0:
			p = p[:rand.IntN(n)]
		default:
			p[rand.IntN(n)] ^= byte(1 << rand.IntN(8))
		}
	}
	return p
}

func TestGarbage(t *testing.T) {
	t.Parallel()
	h := testHub(t, t.TempDir())
	obey := obeys(t)
	b := newBench(t, h.as(t, "submitter"), obey, "{}")
	w := crew(t, "worker", "--engine", h.as(t, "worker"), "-j2", "--worker-ttl", "10m", obey, "{}")
	p := b.worker(isReady)
	dir := t.TempDir()
	run := crew(t, "--engine", h.as(t, "submitter"), "-k", obey, "{}", ":::",
		"touch "+dir+"/begun; until [ -e "+dir+"/go ]; do sleep 0.05; done; echo 1", "echo 2", "echo 3")
	crewtest.Exists(t, dir+"/begun")
	st, err := b.s.look(t.Context())
	require.NoError(t, err)
	id := "none"
	if len(st.Runs) > 0 {
		id = st.Runs[0].Run
	}
	encode := func(v any) []byte { text, _ := json.Marshal(v); return text }
	a := b.attempt("true")
	like := [][]byte{
		nil, []byte("crew"), a.Encode(), (&Final{ID: ID{id, 1, 1, 1}, Facts: task.Facts{Outcome: task.OK}}).Encode(), (&Chunk{ID: ID{id, 1, 1, 1}, Data: []byte("x")}).Encode(),
		encode(Heartbeat{Version: Version, Run: "none"}), encode(Order{Version: Version, Op: opHolds, ID: ID{Run: id}}), encode(p), encode(Enrolment{Run: "x"}),
		head(kindBundle), []byte(`{"version": 1e99}`), []byte(`[[[[[[[[`),
	}
	worker, err := connect(h.as(t, "worker"), nil)
	require.NoError(t, err)
	defer worker.close()
	for range 50 {
		for _, subject := range []string{
			taskSubject("default", p.ID, id), taskSubject("default", p.ID, "none"),
			orderSubject("default", p.ID), heartbeatSubject("default"), runSubject("default", id), "$KV.crew_runs.default.none", "$O.crew_files.M.x",
		} {
			require.NoError(t, b.s.nc.PublishRequest(subject, "_INBOX.nobody", garbage(like)))
		}
		for _, subject := range []string{resultSubject("default", "worker.w", id), kvPrefix + "default.worker.none", kvPrefix + "default.worker.x"} {
			require.NoError(t, worker.nc.Publish(subject, garbage(like)))
		}
		// A hub writes each message to the disk at once: leases must not wait for many.
		_, _ = b.s.js.Publish(t.Context(), taskSubject("default", "=.nobody", "none"), nil)
	}
	require.NoError(t, b.s.nc.Flush())
	require.NoError(t, worker.nc.Flush())
	_, err = b.s.look(t.Context())
	require.NoError(t, err)
	touch(t, dir+"/go")
	run.Exits(0)
	require.Equal(t, "1\n2\n3\n", run.Stdout())
	b.give(p.ID, b.attempt("echo last"))
	for f, _ := b.final(); string(f.Stdout) != "last\n"; f, _ = b.final() {
	}
	for _, lines := range []string{w.Stderr(), run.Stderr()} {
		said := map[string]int{}
		for line := range strings.Lines(lines) {
			said[line]++
		}
		for line, n := range said {
			require.Equal(t, 1, n, line+lines)
		}
		require.LessOrEqual(t, len(said), 10, lines)
	}
}

package engine

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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

package proc

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/task"
)

func onPTYs(c *Config) { c.PTY = true }

// TestTerminalsPassAllBytes: no byte is changed, echoed, or acts as a key would.
func TestTerminalsPassAllBytes(t *testing.T) {
	want := make([]byte, 1<<20)
	random := rand.NewChaCha8([32]byte{1})
	_, _ = random.Read(want)
	for c := range 256 {
		want = append(want, byte(c), '\n')
	}
	file := filepath.Join(t.TempDir(), "bytes")
	require.NoError(t, os.WriteFile(file, want, 0o666))
	r := run(local(t, onPTYs), &task.Task{Argv: []string{"/bin/sh", "-c", `cat "$1" & cat "$1" >&2; wait`, "sh", file}})
	require.Equal(t, task.OK, r.Outcome)
	require.False(t, r.Leaked)
	require.True(t, bytes.Equal(want, []byte(text(t, r.Stdout))))
	require.True(t, bytes.Equal(want, []byte(text(t, r.Stderr))))
	r.Close()
}

// TestTerminalsAreForOutputAlone: a task that reads them fails instead of waiting, and
// they send it no signals.
func TestTerminalsAreForOutputAlone(t *testing.T) {
	l := local(t, onPTYs)
	for script, want := range map[string]string{
		`! test -t 0 && test -t 1 && test -t 2 && echo terminals`: "terminals\n",
		`read line <&1 || read line <&2 || echo unread`:           "unread\n",
		`printf '\003\034\032\004' >&2; echo alive`:               "alive\n",
		`exec >&- 2>&-; sleep .1`:                                 "",
	} {
		r := run(l, sh(script))
		require.Equal(t, task.OK, r.Outcome, script)
		require.Equal(t, want, text(t, r.Stdout), script)
		r.Close()
	}
}

func TestTerminalsWithoutOutputToShow(t *testing.T) {
	l := local(t, func(c *Config) { c.PTY, c.Plan = true, task.Plan{Show: task.ShowNothing} })
	r := run(l, sh("test -t 1 && test -t 2"))
	require.Equal(t, task.OK, r.Outcome)
	require.Nil(t, r.Stdout)
}

// TestEnvironmentOnTerminals: a task can show colours, and its pager does not wait.
func TestEnvironmentOnTerminals(t *testing.T) {
	for _, c := range []struct{ inherited, own, want []string }{
		{nil, nil, []string{"PAGER=cat", "TERM=xterm"}},
		{[]string{"TERM=dumb", "PAGER=less"}, nil, []string{"TERM=dumb", "PAGER=cat"}},
		{[]string{"TERM=dumb"}, []string{"TERM=vt100", "PAGER=less"}, []string{"TERM=vt100", "PAGER=less"}},
	} {
		env := newEnviron(c.inherited, true).of(task.Attempt{Task: &task.Task{Env: c.own}})
		env = slices.DeleteFunc(env, func(kv string) bool { return nameOf(kv) != "TERM" && nameOf(kv) != "PAGER" })
		require.ElementsMatch(t, c.want, env)
	}
	bare := newEnviron(nil, true).of(task.Attempt{Task: &task.Task{Bare: true, Env: []string{"PAGER=less"}}})
	require.Subset(t, bare, []string{"TERM=xterm", "PAGER=cat"})
	require.NotContains(t, bare, "PAGER=less")
	require.Empty(t, slices.DeleteFunc(newEnviron(nil, false).from(nil), func(string) bool { return false }))
}

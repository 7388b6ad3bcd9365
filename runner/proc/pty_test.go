package proc

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
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
		`printf '\003\034\032\004' >&2; echo alive`: "alive\n",
		`exec >&- 2>&-; sleep .1`:                   "",
	} {
		r := run(l, sh(script))
		require.Equal(t, task.OK, r.Outcome, script)
		require.Equal(t, want, text(t, r.Stdout), script)
		r.Close()
	}
}

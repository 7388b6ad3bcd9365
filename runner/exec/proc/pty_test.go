package proc

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/decide/task"
)

func onPTYs(c *Config) { c.PTY = true }

// The two outputs stay separate and unchanged. The terminal echoes no byte and treats none as a key.
func TestStreamsPassAllBytes(t *testing.T) {
	want := make([]byte, 1<<20)
	random := rand.NewChaCha8([32]byte{1})
	_, _ = random.Read(want)
	for c := range 256 {
		want = append(want, byte(c), '\n')
	}
	file := filepath.Join(t.TempDir(), "bytes")
	require.NoError(t, os.WriteFile(file, want, 0o666))
	pipesAndPTYs(t, func(t *testing.T, pty bool) {
		script := `echo err >&2; cat "$1" & cat "$1" >&2; wait`
		r := run(local(t, func(c *Config) { c.PTY = pty }), &task.Task{Argv: []string{"/bin/sh", "-c", script, "sh", file}})
		require.Equal(t, task.OK, r.Outcome)
		require.False(t, r.Leaked)
		require.True(t, string(want) == text(t, r.Stdout))
		require.True(t, "err\n"+string(want) == text(t, r.Stderr))
		r.Close()
	})
}

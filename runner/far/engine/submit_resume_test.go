package engine

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/decide/task"
	"crew/runner/front/wiring"
)

// die makes the submitter vanish, as if by kill -9.
func (r *testRun) die() {
	r.x.s.nc.Close()
	r.run.Do(task.Command{Op: task.Kill})
	r.x.cancel(nil)
	r.wait()
}

func inDir(dir string) func(*wiring.Call) {
	return func(s *wiring.Call) { s.State.Dir = dir }
}

func TestIdentity(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), engineFile)
	id := newIdentity()
	require.NoError(t, id.save(path))
	again, err := readIdentity(path)
	require.NoError(t, err)
	require.Equal(t, id, again)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), "the tokens come from it")
	text := crewtest.ReadFile(t, path)
	for _, bad := range []string{
		"", "\n", "x", strings.Replace(text, engineVersion, "crew-engine-1", 1), strings.Replace(text, ":1,", `:"1",`, 1),
		string(text[:len(text)-3]), strings.Replace(text, id.Run, "a.b", 1),
	} {
		crewtest.WriteFile(t, path, bad, 0o600)
		_, err := readIdentity(path)
		require.ErrorContains(t, err, path, "%q", bad)
	}
}

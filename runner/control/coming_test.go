package control

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A crew serve that is about to make its socket is known by its name until it has, or is killed.
func TestComing(t *testing.T) {
	home := t.TempDir()
	require.NoError(t, os.Chmod(home, 0o700))
	t.Setenv("XDG_RUNTIME_DIR", home)
	t.Setenv("TMPDIR", home)
	require.False(t, IsComing("a.b"))
	gone := Comes("a.b")
	require.True(t, IsComing("a.b"))
	require.True(t, IsComing(""))
	require.False(t, IsComing("a"))
	gone()
	require.False(t, IsComing("a.b"))
	dead := filepath.Join(home, "crew", coming+".4194305.q") // above the largest process ID
	require.NoError(t, os.WriteFile(dead, nil, 0o600))
	require.False(t, IsComing("q"))
	require.NoFileExists(t, dead)
	for _, name := range []string{coming + ".my.notes", coming + ".4194305.notes"} {
		require.NoError(t, os.WriteFile(filepath.Join(home, "crew", name), []byte("mine"), 0o600))
		require.False(t, IsComing("notes"))
		require.FileExists(t, filepath.Join(home, "crew", name))
	}
	require.Empty(t, sockets(filepath.Join(home, "crew")))
}

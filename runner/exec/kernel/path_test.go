package kernel

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A short path leads to a deeply nested file until done is called.
func TestShortPath(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("long/", 50))
	require.NoError(t, os.MkdirAll(dir, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "deep"), []byte("x"), 0o600))
	short, done, err := ShortPath(filepath.Join(dir, "deep"))
	require.NoError(t, err)
	require.Less(t, len(short), 100)
	text, err := os.ReadFile(short)
	require.NoError(t, err)
	require.Equal(t, "x", string(text))
	done()
	require.NoFileExists(t, short)
	if !strings.HasPrefix(short, "/proc/") {
		require.NoDirExists(t, filepath.Dir(filepath.Dir(short)), "nothing is left")
	}
}

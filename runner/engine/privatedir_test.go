package engine

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPrivateDir(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	require.NoError(t, os.MkdirAll(filepath.Join(tmp, dirPrefix+"killed", "jetstream"), 0o700))
	first, removeFirst, err := privateDir()
	require.NoError(t, err)
	_, removeSecond, err := privateDir()
	require.NoError(t, err)
	entries, err := os.ReadDir(tmp)
	require.NoError(t, err)
	require.Len(t, entries, 2, "that of the killed run has gone")
	require.DirExists(t, first)
	removeFirst()
	removeSecond()
	entries, err = os.ReadDir(tmp)
	require.NoError(t, err)
	require.Empty(t, entries)
}

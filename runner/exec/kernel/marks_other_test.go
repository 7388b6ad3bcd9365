//go:build !linux || crew_portable

package kernel

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Other processes can open a mark.
func TestMarksCanBeOpened(t *testing.T) {
	dir := t.TempDir()
	_, err := Mark(dir, "mark", 0, 0)
	require.NoError(t, err)
	st, err := os.Stat(filepath.Join(dir, "mark"))
	require.NoError(t, err)
	require.NotZero(t, st.Mode()&0o400)
}

// Marked removes the file of a process that was killed, but never that of a mark which is just being
// set.
func TestOldMarks(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "mark")
	for range 30 {
		require.NoError(t, os.WriteFile(file, nil, 0o666))
		var unmark func()
		var all sync.WaitGroup
		all.Go(func() { Marked(dir, "mark", 0, 0) })
		all.Go(func() { unmark, _ = Mark(dir, "mark", 0, 0) })
		all.Wait()
		require.True(t, Marked(dir, "mark", 0, 0))
		unmark()
		require.NoError(t, os.WriteFile(file, nil, 0o666))
		require.False(t, Marked(dir, "mark", 0, 0))
		require.NoFileExists(t, file)
	}
}

//go:build !linux || crew_portable

package kernel

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Whoever makes a mark lets others open it.
func TestMarksCanBeOpened(t *testing.T) {
	dir := t.TempDir()
	openMarks(t, dir).Set(1)
	st, err := os.Stat(filepath.Join(dir, markName(1)))
	require.NoError(t, err)
	require.NotZero(t, st.Mode()&0o400)
}

// The file of a process that was killed is removed, but never that of a mark which is just
// being set.
func TestOldMarks(t *testing.T) {
	dir := t.TempDir()
	b := openMarks(t, dir)
	for n := range uint64(1000) {
		file := filepath.Join(dir, markName(n))
		require.NoError(t, os.WriteFile(file, nil, 0o666))
		a := openMarks(t, dir)
		var both sync.WaitGroup
		both.Go(func() { b.Others(n) })
		both.Go(func() { a.Set(n) })
		both.Wait()
		require.True(t, b.Others(n))
		require.FileExists(t, file)
		a.Close()
		require.NoError(t, os.WriteFile(file, nil, 0o666))
		require.False(t, b.Others(n))
		require.NoFileExists(t, file)
	}
}

package kernel

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func markName(n uint64) string { return fmt.Sprint("mark", n) }

func openMarks(t *testing.T, dir string) *Marks {
	t.Helper()
	m, err := OpenMarks(dir, markName)
	require.NoError(t, err)
	return m
}

// Others see marks, their owner does not take them for those of others, and no file is left.
func TestMarks(t *testing.T) {
	dir := t.TempDir()
	a, b := openMarks(t, dir), openMarks(t, dir)
	a.Set(1)
	a.Set(1)
	a.Set(1 << 40)
	require.True(t, b.Others(1))
	require.True(t, b.Others(1<<40))
	require.False(t, b.Others(2))
	a.Unset(1)
	a.Unset(2)
	require.False(t, b.Others(1))
	require.True(t, b.Others(1<<40))
	a.Close()
	openMarks(t, dir)
	require.False(t, b.Others(1<<40))
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

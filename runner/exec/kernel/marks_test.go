package kernel

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// Marks can be seen until they end, and leave no files.
func TestMarks(t *testing.T) {
	dir := t.TempDir()
	marked := func(name string, from int64) bool { return Marked(dir, name, from, 100) }
	unmark, err := Mark(dir, "a", 100, 100)
	require.NoError(t, err)
	unmarkFar, err := Mark(dir, "far", 1<<40, 100)
	require.NoError(t, err)
	require.True(t, marked("a", 100))
	require.True(t, marked("far", 1<<40))
	require.False(t, marked("b", 0))
	require.False(t, marked("c", 200))
	unmark()
	require.False(t, marked("a", 100))
	require.True(t, marked("far", 1<<40))
	unmarkFar()
	require.False(t, marked("far", 1<<40))
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)

	_, err = Mark(dir+"/none", "a", 100, 100)
	require.Error(t, err)
}

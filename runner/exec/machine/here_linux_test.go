//go:build !crew_portable

package machine

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
)

// The real files can be read, however long they are.
func TestHere(t *testing.T) {
	m := New("")
	require.GreaterOrEqual(t, m.Processors(), 1)
	load, err := m.Load()
	require.NoError(t, err)
	require.GreaterOrEqual(t, load, 0.0)
	free, total, err := m.Memory()
	require.NoError(t, err)
	require.Positive(t, total)
	require.LessOrEqual(t, free, total)
	root := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(root, "proc"), 0o700))
	long := "procs_running 2\nprocs_blocked 0\n" + string(make([]byte, 100_000))
	crewtest.WriteFile(t, filepath.Join(root, "proc/stat"), long, 0o600)
	load, err = New(root).Load()
	require.NoError(t, err)
	require.Equal(t, 1.0, load)
}

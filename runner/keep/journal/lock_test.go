package journal

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNoChildInheritsTheLock also covers a child that had not called exec when crew was killed.
func TestNoChildInheritsTheLock(t *testing.T) {
	dir := t.TempDir()
	j, err := Open(configured(dir))
	require.NoError(t, err)
	child := exec.Command("sleep", "1000")
	child.ExtraFiles = []*os.File{j.lock}
	require.NoError(t, child.Start())
	defer func() { _ = child.Wait() }()
	defer func() { _ = child.Process.Kill() }()
	require.NoError(t, j.Close())
	again, err := Open(configured(dir))
	require.NoError(t, err)
	require.NoError(t, again.Close())
}

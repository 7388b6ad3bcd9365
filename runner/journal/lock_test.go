package journal

import (
	"bufio"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// hold has another process open dir, and returns once it has.
func hold(t *testing.T, dir string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), holdDir+"="+dir)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "open\n", line)
	return cmd
}

// TestTheLockOfAKilledProcess: it can be had at once, however long the kernel
// takes to clear the process away, and although nobody has reaped it.
func TestTheLockOfAKilledProcess(t *testing.T) {
	dir := t.TempDir()
	for range 5 {
		cmd := hold(t, dir)
		require.NoError(t, cmd.Process.Kill())
		j, err := Open(configured(dir))
		require.NoError(t, err)
		require.NoError(t, j.Close())
	}
}

// TestNoChildInheritsTheLock: not one that crew was killed over before it had
// another program, either.
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

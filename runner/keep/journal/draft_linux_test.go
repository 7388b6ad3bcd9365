package journal

import (
	"io/fs"
	"os"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestCompactionWithoutDirectorySync checks that the run does not begin if the directory cannot be
// synced after the new journal was put in place, because its name might be lost.
func TestCompactionWithoutDirectorySync(t *testing.T) {
	asNobodyUser(t)
	dir, err := os.MkdirTemp("", "crew")
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	w := newWorld(t, false)
	w.cfg.Dir = dir
	for _, step := range []string{"open a b", "ok a b", "show a b", "close"} {
		require.NoError(t, w.do(step))
	}
	j := &Journal{cfg: w.cfg, dir: directory{path: dir}, out: &outputs{}}
	j.cfg.Slack = -1 << 40
	j.file, err = j.dir.openFile(journalName, 0)
	require.NoError(t, err)
	require.NoError(t, j.load())
	require.NoError(t, os.Chmod(dir, 0o300)) // names can be changed, but the directory cannot be opened
	err = j.resume()
	require.NoError(t, os.Chmod(dir, 0o700))
	require.ErrorIs(t, err, fs.ErrPermission)

	require.NoError(t, w.do("open a b"))
	require.Equal(t, "ok shown logged took 1", w.view("b"), "the new journal is whole")
}

// asNobody makes this goroutine run as a user to whom permissions apply.
func asNobodyUser(t *testing.T) {
	if os.Getuid() != 0 {
		return
	}
	setEUID := func(uid uintptr) { // for this thread only
		_, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), uid, ^uintptr(0))
		require.Zero(t, errno)
	}
	runtime.LockOSThread()
	setEUID(65534)
	t.Cleanup(func() {
		setEUID(0)
		runtime.UnlockOSThread()
	})
}

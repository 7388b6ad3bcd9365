package journal

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A directory that takes the new journal and does not say that it keeps it: the
// run does not begin, rather than go on in a file that has no name any more.
func TestCompactionThatMayNotLast(t *testing.T) {
	w := newWorld(t, false)
	w.cfg.Dir = filepath.Join(w.cfg.Dir, "state")
	for _, step := range []string{"open a b", "ok a b", "show a b", "close"} {
		require.NoError(t, w.do(step))
	}
	cfg := w.cfg
	cfg.Slack = -1 << 40
	j := &Journal{cfg: cfg, out: outputs{dir: cfg.Dir}}
	var err error
	j.file, err = openFile(filepath.Join(cfg.Dir, journalName), 0, false)
	require.NoError(t, err)
	require.NoError(t, j.load())

	notRoot(t, cfg.Dir)
	require.NoError(t, os.Chmod(cfg.Dir, 0o300)) // names can be changed, but it cannot be opened
	err = j.resume()
	require.NoError(t, os.Chmod(cfg.Dir, 0o700))
	require.ErrorIs(t, err, fs.ErrPermission)

	require.NoError(t, w.do("open a b"))
	require.Equal(t, "ok shown logged took 1", w.view("b"), "the new journal is whole")
}

// notRoot makes this goroutine somebody to whom permissions apply, who owns dir.
func notRoot(t *testing.T, dir string) {
	if os.Getuid() != 0 {
		return
	}
	const nobody = 65534
	for path := dir; path != os.TempDir(); path = filepath.Dir(path) {
		require.NoError(t, os.Chmod(path, 0o755))
		require.NoError(t, os.Chown(path, nobody, -1))
	}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		require.NoError(t, os.Chown(filepath.Join(dir, e.Name()), nobody, -1))
	}
	runtime.LockOSThread()
	setEUID(t, nobody)
	t.Cleanup(func() {
		setEUID(t, 0)
		runtime.UnlockOSThread()
	})
}

// setEUID sets the effective user of this thread alone.
func setEUID(t *testing.T, uid uintptr) {
	_, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), uid, ^uintptr(0))
	require.Zero(t, errno)
}

package target

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"crew/runner/crewtest"
	"crew/runner/decide/task"
)

func TestUnusableDirectory(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	t.Chdir(t.TempDir())
	for name, mode := range map[string]os.FileMode{"readonly": 0o555, "unreadable": 0o333, "free": 0o777} {
		require.NoError(t, os.Mkdir(name, 0o777))
		require.NoError(t, os.Chmod(name, mode))
	}
	put(t, "unreadable/.crew-12345678.a", "")
	t.Run("nobody", func(t *testing.T) {
		runtime.LockOSThread() // and the thread ends with this
		require.NoError(t, unix.Setfsuid(65534))
		require.Equal(t, "write to readonly: permission denied", refused(t, New(plain), making("readonly/a")))
		require.Equal(t, "mkdir readonly/sub: permission denied", refused(t, New(plain), making("readonly/sub/a")))
		for name, mode := range map[string]os.FileMode{"unreadable/a": 0o600, "free/a": 0o200} {
			a := begin(t, New(journal), making(name))
			crewtest.WriteFile(t, a.temp(name), "", mode)
			r := &task.Result{Task: a.Task, Attempt: 1, Outcome: task.OK}
			a.f.End(r)
			require.NoError(t, r.Err)
		}
		a := begin(t, New(journal), making("free/dir")).tree("free/dir", "")
		require.NoError(t, os.Chmod(a.temp("free/dir")+"/sub", 0o500))
		a.f.End(&task.Result{Task: a.Task, Attempt: 1, Outcome: task.Exit})
		require.NoDirExists(t, a.temp("free/dir"))
	})
	require.FileExists(t, "unreadable/a")
	require.FileExists(t, "free/a")
}

func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	t.Run("tiny", func(t *testing.T) {
		runtime.LockOSThread() // and the thread ends with this
		err := errors.Join(
			unix.Unshare(unix.CLONE_NEWNS), unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
			unix.Mount("tiny", dir, "tmpfs", 0, "nr_inodes=1"),
		)
		if err != nil {
			t.Skip(err)
		}
		require.Equal(t, "mkdir "+dir+"/deep: no space left on device", refused(t, New(plain), making(dir+"/deep/a")))
	})
}

// A made file is on disk before it gets its final name: none of its pages is dirty.
func TestSynced(t *testing.T) {
	t.Chdir(t.TempDir())
	dirty := func(name string) uint64 {
		file, err := os.Open(name)
		require.NoError(t, err)
		defer file.Close()
		var pages unix.Cachestat_t
		if err := unix.Cachestat(uint(file.Fd()), &unix.CachestatRange{}, &pages, 0); err != nil {
			t.Skip(err)
		}
		return pages.Dirty + pages.Writeback
	}
	a := begin(t, New(journal), making("file")).write("file", "x")
	if dirty(a.temp("file")) == 0 {
		t.Skip("this file system writes at once, or never")
	}
	a.ok()
	require.Zero(t, dirty("file"))
	begin(t, New(journal), making("dir")).tree("dir", "x").ok()
	require.Zero(t, dirty("dir/sub/file"))
}

// A file system mounted in a directory that a task was making is not removed with it.
func TestMounts(t *testing.T) {
	t.Chdir(t.TempDir())
	put(t, "precious/file", "")
	f := New(journal)
	a := begin(t, f, making("root"))
	mounted := filepath.Join(a.temp("root"), "dev")
	require.NoError(t, os.MkdirAll(mounted, 0o777))
	if err := unix.Mount("precious", mounted, "", unix.MS_BIND, ""); err != nil {
		t.Skip("it takes a right to mount: ", err)
	}
	defer func() { _ = unix.Unmount(mounted, unix.MNT_DETACH) }()
	f.End(&task.Result{Task: a.Task, Attempt: a.Number, Outcome: task.Exit})
	require.FileExists(t, "precious/file")
}

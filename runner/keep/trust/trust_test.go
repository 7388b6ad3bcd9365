package trust

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"crew/runner/crewtest"
)

const other = 12345

// chownToOther changes the owner of a file or a link to another user.
func chownToOther(t *testing.T, path string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	require.NoError(t, os.Lchown(path, other, other))
}

// sharedDir returns a directory like /tmp.
func sharedDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o777|os.ModeSticky))
	return dir
}

func untrusted(t *testing.T, err error, text string) {
	t.Helper()
	var e *Error
	require.ErrorAs(t, err, &e)
	require.ErrorContains(t, err, text)
}

func write(path string) error {
	f, err := OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		return err
	}
	_, err = f.WriteString("new")
	return errors.Join(err, f.Close())
}

// Another user's link in a directory where others may write is not followed, whether it is
// the last element of a path or an earlier one.
func TestLinkOfAnotherUser(t *testing.T) {
	dir, mine := sharedDir(t), t.TempDir()
	victim := filepath.Join(mine, "victim")
	crewtest.WriteFile(t, victim, "old", 0o600)
	file, whole := filepath.Join(dir, "file"), filepath.Join(dir, "whole")
	require.NoError(t, os.Symlink(victim, file))
	require.NoError(t, os.Symlink(mine, whole))
	require.NoError(t, os.Symlink(file, filepath.Join(mine, "by way of mine")))
	chownToOther(t, file)
	chownToOther(t, whole)
	for _, path := range []string{file, whole + "/victim", whole + "/new", mine + "/by way of mine"} {
		_, err := Open(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o666)
		untrusted(t, err, " is a symbolic link of another user (12345), in a directory where others may write: give another path")
	}
	require.Equal(t, "old", crewtest.ReadFile(t, victim))
	require.NoFileExists(t, filepath.Join(mine, "new"))
}

// The user's own links are followed everywhere, and others' links in directories where only the
// user can have put them.
func TestLinksThatAreFollowed(t *testing.T) {
	dir, mine := sharedDir(t), t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(mine, "real"), 0o777))
	for name, target := range map[string]string{
		filepath.Join(dir, "absolute"):  filepath.Join(mine, "real/a"),
		filepath.Join(mine, "relative"): "real/../real/b",
		filepath.Join(mine, "first"):    "./second",
		filepath.Join(mine, "second"):   "real//",
	} {
		require.NoError(t, os.Symlink(target, name))
	}
	if os.Geteuid() == 0 {
		chownToOther(t, filepath.Join(mine, "first"))
	}
	t.Chdir(filepath.Join(mine, "real"))
	for path, name := range map[string]string{
		dir + "/absolute": "a", mine + "/relative": "b", mine + "/first/c": "c",
		"../first/d": "d", "./e": "e", "../real/../second/./f": "f", "g": "g",
	} {
		require.NoError(t, write(path), path)
		require.Equal(t, "new", crewtest.ReadFile(t, filepath.Join(mine, "real", name)), path)
		real, err := Resolve(path)
		require.NoError(t, err)
		got, err := os.Stat(real)
		require.NoError(t, err)
		want, err := os.Stat(name)
		require.NoError(t, err)
		require.True(t, os.SameFile(got, want), "%s is %s", path, real)
	}
	_, err := open("../relative", os.O_RDWR, 0)
	require.ErrorIs(t, err, unix.ELOOP)
	fd, err := open("./b", os.O_RDWR, 0)
	require.NoError(t, err)
	require.NoError(t, unix.Close(fd))
	require.NoError(t, os.Symlink("loop", "loop"))
	require.ErrorIs(t, write("loop"), unix.ELOOP)
	require.ErrorIs(t, write("none/x"), os.ErrNotExist)
}

// A path that only the kernel can follow can be opened, too.
func TestOpenDescriptor(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	for _, dir := range []string{"/dev/fd", "/proc/self/fd"} {
		f, err := OpenFile(fmt.Sprintf("%s/%d", dir, w.Fd()), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o666)
		require.NoError(t, err)
		_, err = f.WriteString("x")
		require.NoError(t, err)
		require.NoError(t, f.Close())
	}
	require.NoError(t, w.Close())
	text, err := io.ReadAll(r)
	require.NoError(t, err)
	require.Equal(t, "xx", string(text))
	f, err := OpenFile(os.DevNull, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o666)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

func TestMakeDir(t *testing.T) {
	base := t.TempDir()
	dir := filepath.Join(base, "deep", "own")
	require.NoError(t, MakeDir(dir))
	require.NoError(t, MakeDir(dir))
	st, err := os.Stat(dir)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), st.Mode().Perm())

	for _, mode := range []os.FileMode{0o770, 0o702} {
		require.NoError(t, os.Chmod(dir, mode))
		untrusted(t, MakeDir(dir), "others may write to "+dir+": run chmod -R go-w on it, or give another directory")
	}
	require.NoError(t, os.Chmod(dir, 0o755))
	require.NoError(t, MakeDir(dir), "others may read it")
	link := filepath.Join(base, "link")
	require.NoError(t, os.Symlink("deep/own", link))
	require.NoError(t, MakeDir(link))

	file := filepath.Join(base, "file")
	crewtest.WriteFile(t, file, "", 0o600)
	require.ErrorIs(t, MakeDir(file), unix.ENOTDIR)
	chownToOther(t, dir)
	untrusted(t, MakeDir(dir), dir+" belongs to another user (12345): give a directory of your own")
}

func TestOpenOwn(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	open := func() error {
		f, err := OpenOwn(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
		if err == nil {
			require.NoError(t, f.Close())
		}
		return err
	}
	size := func() int64 {
		st, err := os.Stat(path)
		require.NoError(t, err)
		return st.Size()
	}
	require.NoError(t, open())
	crewtest.WriteFile(t, path, "text", 0)
	require.NoError(t, open())
	require.Zero(t, size())

	crewtest.WriteFile(t, path, "text", 0)
	require.NoError(t, os.Chmod(path, 0o620))
	untrusted(t, open(), "others may write to "+path)
	require.NotZero(t, size(), "it is as it was")

	require.NoError(t, os.Rename(path, path+"2"))
	require.NoError(t, os.Symlink("file2", path))
	untrusted(t, open(), path+" is a symbolic link: remove it, or give another directory")
	require.NoError(t, os.Remove(path))
	require.NoError(t, unix.Mkfifo(path, 0o600))
	untrusted(t, open(), path+" is not a regular file")
	require.NoError(t, os.Remove(path))

	crewtest.WriteFile(t, path, "text", 0o600)
	chownToOther(t, path)
	untrusted(t, open(), path+" belongs to another user (12345)")
	require.NotZero(t, size())
}

// A directory that is replaced by a link while a file in it is opened does not lead elsewhere.
func TestOpenRace(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, dir := range []string{"victim", "dir"} {
		require.NoError(t, os.Mkdir(dir, 0o777))
	}
	require.NoError(t, os.Symlink("victim", "link"))
	over := make(chan struct{})
	var swaps sync.WaitGroup
	swaps.Go(func() {
		for {
			select {
			case <-over:
				return
			default:
				_ = os.Rename("dir", "aside")
				_ = os.Rename("link", "dir")
				_ = os.Rename("dir", "link")
				_ = os.Rename("aside", "dir")
			}
		}
	})
	opened := false
	for n := 0; n < 2000 || !opened; n++ {
		if fd, err := open("dir/new", os.O_WRONLY|os.O_CREATE, 0o666); err == nil {
			_ = unix.Close(fd)
			opened = true
		}
	}
	close(over)
	swaps.Wait()
	require.NoFileExists(t, "victim/new")
	require.FileExists(t, "dir/new")
}

// A file that cannot be closed, and so may be incomplete, does not replace the existing one.
func TestCommitUnwritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, []byte("old"), 0o666))
	w, err := CreateAtomic(path)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.ErrorIs(t, w.Commit(), os.ErrClosed)
	w.Drop()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "old", string(text))
	list, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, list, 1)
}

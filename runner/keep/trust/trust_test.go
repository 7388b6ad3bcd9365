package trust

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"crew/runner/crewtest"
)

// TestStories carries out the steps of testdata/stories.txt, each in an empty directory, DIR. A step that fails
// names its error, behind "untrusted " if that is an *Error. See step.
func TestStories(t *testing.T) {
	crewtest.Stories(t, "testdata/stories.txt", func(t *testing.T, story []string) {
		dir := t.TempDir()
		t.Chdir(dir)
		for _, line := range story {
			do, want, _ := strings.Cut(line, ": ")
			words := append(strings.Fields(strings.ReplaceAll(do, "DIR", dir)), "", "")
			got := ""
			if err := step(t, words[0], words[1], words[2]); err != nil {
				got = strings.ReplaceAll(err.Error(), dir, "DIR")
				if _, is := errors.AsType[*Error](err); is {
					got = "untrusted " + got
				}
			}
			require.Equal(t, want, got, do)
		}
	})
}

func step(t *testing.T, op, path, arg string) (err error) {
	const flags = os.O_RDWR | os.O_CREATE | os.O_TRUNC
	var f *os.File
	switch op {
	case "mkdir":
		return os.Mkdir(path, 0o777)
	case "symlink": // to arg
		return os.Symlink(arg, path)
	case "fifo":
		return unix.Mkfifo(path, 0o600)
	case "rename":
		return os.Rename(path, arg)
	case "remove":
		return os.Remove(path)
	case "chmod":
		mode, err := strconv.ParseUint(arg, 8, 32)
		return errors.Join(err, unix.Chmod(path, uint32(mode)))
	case "give": // to another user
		if os.Geteuid() != 0 {
			t.Skip("needs root")
		}
		return os.Lchown(path, 12345, 12345)
	case "mode":
		info, err := os.Stat(path)
		require.Equal(t, arg, fmt.Sprintf("%o", info.Mode().Perm()))
		return err
	case "has": // no text if the file is missing
		text, _ := os.ReadFile(path)
		require.Equal(t, arg, string(text), path)
		return nil
	case "is": // another name of a file
		real, err := Resolve(path)
		require.NoError(t, err)
		a, _ := os.Stat(real)
		b, _ := os.Stat(arg)
		require.True(t, os.SameFile(a, b), real)
		return nil
	case "make":
		return MakeDir(path)
	case "follow": // no link
		fd, err := open(path, os.O_RDWR, 0)
		_ = unix.Close(fd)
		return err
	case "own":
		f, err = OpenOwn(path, flags, 0o600)
	case "write":
		f, err = OpenFile(path, flags, 0o666)
	default:
		t.Fatal("no step: ", op)
	}
	if err == nil {
		_, err = f.WriteString(arg)
		f.Close()
	}
	return err
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

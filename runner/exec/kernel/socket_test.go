package kernel

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Programs do not inherit sockets, and stream sockets do not block.
func TestSocket(t *testing.T) {
	inherited := func(fd uintptr) bool {
		flags, err := unix.FcntlInt(fd, unix.F_GETFD, 0)
		require.NoError(t, err)
		return flags&unix.FD_CLOEXEC == 0
	}
	var fds [3]int
	for i, kind := range []int{syscall.SOCK_STREAM, syscall.SOCK_STREAM, syscall.SOCK_DGRAM} {
		fd, err := Socket(kind)
		require.NoError(t, err)
		defer syscall.Close(fd)
		require.False(t, inherited(uintptr(fd)))
		fds[i] = fd
	}
	address := &syscall.SockaddrUnix{Name: filepath.Join(t.TempDir(), "s")}
	require.NoError(t, syscall.Bind(fds[0], address))
	require.NoError(t, syscall.Listen(fds[0], 1))
	_, err := Accept(fds[0])
	require.Equal(t, syscall.EAGAIN, err)
	require.NoError(t, syscall.Connect(fds[1], address))
	client, err := Accept(fds[0])
	require.NoError(t, err)
	defer client.Close()
	require.False(t, inherited(client.Fd()))
	_, err = syscall.Read(int(client.Fd()), make([]byte, 1))
	require.Equal(t, syscall.EAGAIN, err)
}

// A short path leads to a deeply nested file until done is called.
func TestShortPath(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("long/", 50))
	require.NoError(t, os.MkdirAll(dir, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "deep"), []byte("x"), 0o600))
	short, done, err := ShortPath(filepath.Join(dir, "deep"))
	require.NoError(t, err)
	require.Less(t, len(short), 100)
	text, err := os.ReadFile(short)
	require.NoError(t, err)
	require.Equal(t, "x", string(text))
	done()
	require.NoFileExists(t, short)
	if !strings.HasPrefix(short, "/proc/") {
		require.NoDirExists(t, filepath.Dir(filepath.Dir(short)), "nothing is left")
	}
}

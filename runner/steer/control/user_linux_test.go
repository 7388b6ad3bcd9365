package control

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestAnotherUserIsRefused connects as another user who can reach the socket.
func TestAnotherUserIsRefused(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can become another user")
	}
	// Not below the directory of the test, which other users cannot enter.
	base, err := os.MkdirTemp("/tmp", "crew-test-")
	require.NoError(t, err)
	defer os.RemoveAll(base)
	require.NoError(t, os.Chmod(base, 0o711))
	t.Setenv("XDG_RUNTIME_DIR", base)
	s := Serve(Config{Do: (&run{t: t}).do})
	defer s.Close()
	path := filepath.Join(base, "crew", strconv.Itoa(os.Getpid())+suffix)

	as := func(uid uintptr) (c *net.UnixConn, err error) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
			keep := ^uintptr(0)
			if _, _, e := unix.RawSyscall(unix.SYS_SETRESUID, uid, uid, keep); e != 0 {
				err = e
				return
			}
			c, err = connect(path, time.Second)
		}()
		<-done
		return c, err
	}
	_, err = as(65534)
	require.ErrorIs(t, err, unix.EACCES, "the directory is closed to others")

	require.NoError(t, os.Chmod(filepath.Dir(path), 0o711))
	require.NoError(t, os.Chmod(path, 0o666))
	f, err := as(65534)
	require.NoError(t, err)
	defer f.Close()
	_, _ = io.WriteString(f, `{"v":2,"op":"stop"}`+"\n") // the connection may be closed already
	said, _ := io.ReadAll(f)
	require.JSONEq(t, `{"v":2,"end":true,"error":"this run belongs to another user","status":1}`, string(said))

	f, err = as(0)
	require.NoError(t, err)
	defer f.Close()
}

package control

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/decide/task"
)

func nothing(task.Command) task.Reply { return task.Reply{Snapshot: &task.Snapshot{}} }

// TestDirectories checks that the socket is made in the first directory that belongs to the user and is
// private. If there is no such directory, there is no socket and no message.
func TestDirectories(t *testing.T) {
	for prepare, used := range map[string]bool{ // in a shell, where $1 is the first directory
		`:`:                                    true,
		`true`:                                 false, // the path is longer than an address
		`mkdir -m 700 "$1"`:                    true,
		`mkdir -m 777 "$1"`:                    false,
		`mkdir -m 750 "$1"`:                    false,
		`mkdir -m 700 "$1"2; ln -s "$1"2 "$1"`: false,
		`touch "$1"; chmod 700 "$1"`:           false,
		`ln -s /none "$1"`:                     false,
		`rmdir "${1%/*}"`:                      false,
		`mv "${1%/*}" "${1%/*}"2; ln -s "${1%/*}"2 "${1%/*}"`:   false,
		`mkdir -m 700 "$1"; chown 12345 "$1" || chmod 777 "$1"`: false,
		`chown 12345 "${1%/*}" || rmdir "${1%/*}"`:              false,
	} {
		t.Run(prepare, func(t *testing.T) {
			base := filepath.Join(crewtest.ShortDir(t), "run")
			if prepare == "true" {
				base += strings.Repeat("long", 30)
			}
			t.Setenv("XDG_RUNTIME_DIR", base)
			t.Setenv("TMPDIR", t.TempDir())
			first := filepath.Join(base, "crew")
			out, err := exec.Command("sh", "-c", `umask 0; mkdir -m 700 "${1%/*}"; `+prepare, "sh", first).CombinedOutput()
			require.NoError(t, err, "%s", out)
			s := Serve(Config{Do: nothing})
			defer s.Close()
			require.NotEmpty(t, s.path, "the next one is used")
			require.Equal(t, used, first == filepath.Dir(s.path))
			h, err := Find(strings.TrimSuffix(filepath.Base(s.path), suffix))
			require.NoError(t, err)
			require.Equal(t, s.path, h.path)
		})
	}
}

func uid() string { return strings.TrimPrefix(filepath.Base(dirs()[len(dirs())-1]), "crew-") }

func TestOrderOfDirectories(t *testing.T) {
	text := strings.NewReplacer("RUN", t.TempDir(), "TEMP", t.TempDir(), "UID", uid())
	crewtest.Examples(t, "testdata/dirs.jsonl", func(t *testing.T, row struct{ Run, Tmp, Want string }) {
		t.Setenv("XDG_RUNTIME_DIR", text.Replace(row.Run))
		t.Setenv("TMPDIR", text.Replace(row.Tmp))
		got := strings.ReplaceAll(strings.Join(dirs(), " "), text.Replace("/run/user/UID/crew "), "")
		require.Equal(t, text.Replace(row.Want), got)
	})
}

// TestRefusal checks that a socket that refuses a client is removed only if no process has it. A socket that
// does not listen yet refuses clients, as a BSD does when the backlog is full.
func TestRefusal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "1"+suffix)
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	require.NoError(t, err)
	require.NoError(t, syscall.Bind(fd, &syscall.SockaddrUnix{Name: path}))
	full := func() {
		t.Helper()
		_, err := connect(path, 0)
		require.ErrorIs(t, err, syscall.EAGAIN)
		require.FileExists(t, path)
	}
	full()

	const backlog = 2
	require.NoError(t, syscall.Listen(fd, backlog))
	for range 10 * backlog {
		c, err := connect(path, 0)
		if err != nil {
			break
		}
		defer c.Close()
	}
	full()
	patient := make(chan error)
	go func() {
		c, err := connect(path, time.Minute)
		if err == nil {
			err = c.Close()
		}
		patient <- err
	}()
	got, _, err := syscall.Accept(fd)
	require.NoError(t, err)
	require.NoError(t, <-patient)

	require.NoError(t, errors.Join(syscall.Close(got), syscall.Close(fd)))
	_, err = connect(path, time.Minute)
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	require.NoFileExists(t, path)
}

// stale makes a socket without a listener.
func stale(t *testing.T, path string) {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	require.NoError(t, err)
	l.SetUnlinkOnClose(false)
	require.NoError(t, l.Close())
}

// TestStaleSockets checks that List and the next run remove the sockets of dead runs, and nothing else.
func TestStaleSockets(t *testing.T) {
	base := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", base)
	t.Setenv("TMPDIR", t.TempDir())
	dir := filepath.Join(base, "crew")
	require.NoError(t, os.Mkdir(dir, 0o700))
	dead, reused := filepath.Join(dir, "4194305"+suffix), filepath.Join(dir, "1"+suffix)
	mine := []string{filepath.Join(dir, "notes.txt"), filepath.Join(dir, "x"+suffix)}
	for _, path := range mine {
		crewtest.WriteFile(t, path, "", 0o600)
		require.NoError(t, os.Chtimes(path, time.Time{}, time.Now().Add(-time.Hour)))
	}
	left := func(more ...string) {
		t.Helper()
		names, err := filepath.Glob(dir + "/*")
		require.NoError(t, err)
		require.ElementsMatch(t, append(more, mine...), names)
	}
	stale(t, dead)   // of no process
	stale(t, reused) // another process has this ID now
	List()
	left()

	stale(t, dead)
	stale(t, ownPath(dir))
	s := Serve(Config{Do: nothing})
	require.Equal(t, ownPath(dir), s.path, "it was left by a dead run with the same process ID")
	left(s.path)
	// A run elsewhere may have the same process ID, in a container.
	_, err := listenAt(s.path)
	require.ErrorIs(t, err, syscall.EADDRINUSE)
	s.Close()
	left()
}

func ownPath(dir string) string { return filepath.Join(dir, itoa(os.Getpid())+suffix) }

func TestFindErrors(t *testing.T) {
	name := "find-errors-" + itoa(os.Getpid()) // no other test's
	r := newRun(t, func(c *Config) { c.About.Name = name })
	_, err := Find("nobody")
	require.ErrorContains(t, err, `no run has the process ID or name "nobody": these are running: `)
	require.ErrorContains(t, err, itoa(os.Getpid())+" ("+name+")")
	if h, err := Find(""); err == nil {
		require.Equal(t, r.s.path, h.path)
	} else {
		require.ErrorContains(t, err, "; choose one with --run: ") // other runs may be active on this machine
	}

	// A second run, in another directory.
	t.Setenv("XDG_RUNTIME_DIR", "")
	two := Serve(Config{Do: nothing, About: Hello{Name: name}})
	defer two.Close()
	t.Setenv("XDG_RUNTIME_DIR", filepath.Dir(filepath.Dir(r.s.path)))
	_, err = Find(name)
	require.ErrorContains(t, err, `2 runs are called "`+name+`"; choose one by its process ID: `)
	_, err = Find("")
	require.ErrorContains(t, err, "runs are active; choose one with --run: ")
	if h, err := FindFeed(""); err == nil {
		require.Equal(t, r.s.path, h.path, "only the first takes tasks")
	} else {
		require.ErrorContains(t, err, "; choose one with --run: ") // other runs on this machine may take tasks, too
	}
	r.s.Close()
	_, err = FindFeed(name)
	require.NoError(t, err, "which then refuses them")
	if h, err := FindFeed(""); err == nil {
		require.NotEqual(t, two.path, h.path, "which takes no tasks")
	} else {
		require.NotContains(t, err.Error(), name)
	}
}

// TestSilentRuns checks that a stopped run is listed and does not delay the others, and that a run that is too
// busy to answer is asked again.
func TestSilentRuns(t *testing.T) {
	r := newRun(t, nil)
	at := func(name string) (l *net.UnixListener, path string) {
		path = filepath.Join(filepath.Dir(r.s.path), name+suffix)
		l, err := listenAt(path)
		require.NoError(t, err)
		return l, path
	}
	silent, path := at("1")
	defer silent.Close()
	busy, _ := at("2-busy")
	defer busy.Close()
	full := filepath.Join(filepath.Dir(path), "3"+suffix) // refuses clients as a BSD does with a full backlog
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	require.NoError(t, err)
	defer syscall.Close(fd)
	require.NoError(t, syscall.Bind(fd, &syscall.SockaddrUnix{Name: full}))
	go func() {
		for asked := 0; ; asked++ {
			c, err := busy.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			if _, err := bufio.NewReader(c).ReadBytes('\n'); asked > 0 && err == nil {
				_, _ = io.WriteString(c, `{"end":true,"hello":{"name":"busy"}}`+"\n")
			}
		}
	}()
	seen := map[string]string{}
	for _, h := range List() {
		seen[h.path] = h.Name + h.State
	}
	require.Equal(t, Silent, seen[path])
	require.Equal(t, Silent, seen[full])
	require.Contains(t, seen[r.s.path], "fake")
	h, err := Find("busy")
	require.NoError(t, err)
	require.Equal(t, "busy", h.Name)
}

func TestOnlyTheUserAndRoot(t *testing.T) {
	require.True(t, allowed(1000, 1000))
	require.True(t, allowed(0, 1000))
	require.False(t, allowed(1001, 1000))
	require.False(t, allowed(1000, 0))
	r := newRun(t, nil)
	require.NoError(t, checkPeer(r.connect()))
}

// TestUntrustedDirectory checks that if no run is found, the error names a directory of another user in the
// place of the user's own.
func TestUntrustedDirectory(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	dir := filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), "crew")
	require.NoError(t, os.Mkdir(dir, 0o700))
	require.NoError(t, os.Chmod(dir, 0o777))
	require.EqualError(t, errUntrusted(), "others may write to "+dir+
		": run chmod -R go-w on it, or give another directory, with XDG_RUNTIME_DIR or TMPDIR")
	require.NoError(t, os.Chmod(dir, 0o700))
	require.NoError(t, errUntrusted())
}

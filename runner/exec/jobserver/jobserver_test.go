package jobserver

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"crew/runner/crewtest"
	"crew/runner/exec/kernel"
)

func TestParse(t *testing.T) {
	r, w := pipe(t)
	_, another := pipe(t)
	file, err := os.Open("jobserver_test.go")
	require.NoError(t, err)
	defer file.Close()
	fill := strings.NewReplacer("$R", fmt.Sprint(r), "$W", fmt.Sprint(w), "$FILE", fmt.Sprint(file.Fd())).Replace
	crewtest.Examples(t, "testdata/flags.txt", func(t *testing.T, row [2]string) {
		a, found := Parse(fill(row[0]))
		where := fmt.Sprintf("%d,%d", a.r, a.w)
		switch {
		case a.fifo != "":
			where = "fifo:" + a.fifo
		case !found && a == Auth{Jobs: a.Jobs}, a.r == -1 && a.w == -1:
			where = "closed"
		}
		require.Equal(t, fill(row[1]), fmt.Sprint(found, a.Jobs, " ", where))
	})
	a, _ := Parse(fmt.Sprintf(" --jobserver-auth=%d,%d", r, another))
	require.Equal(t, kernel.PipeEndsShareInode, a.r == -1 && a.w == -1)
}

// With any MAKEFLAGS, tasks find the jobserver, and make finds its variables.
func FuzzMakeflags(f *testing.F) {
	for i, flags := range []string{"", "ks", " -j8 --jobserver-auth=3,4", "k -j8 --jobserver-fds=3,4 -j -- A=", " -- A=1 B=2", " --no-print-directory"} {
		f.Add(flags, i+1)
	}
	f.Fuzz(func(t *testing.T, inherited string, n int) {
		if n < 1 {
			return
		}
		a, found := Parse(makeflags(inherited, "fifo:/x", n))
		require.True(t, found)
		require.Equal(t, Auth{Jobs: n, fifo: "/x", r: -1, w: -1}, a)
		_, before := split(inherited)
		_, after := split(makeflags(inherited, "fifo:/x", n))
		require.Equal(t, before, after)
	})
}

// pipe returns the ends of a pipe.
func pipe(t *testing.T) (r, w int) {
	var ends [2]int
	require.NoError(t, kernel.Pipe(&ends))
	t.Cleanup(func() { _, _ = unix.Close(ends[0]), unix.Close(ends[1]) })
	return ends[0], ends[1]
}

// server is a jobserver of the test. Each of its tokens is a different byte.
type server struct {
	t    *testing.T
	r, w int
	auth string
}

func newServer(t *testing.T, fifo bool, tokens string) *server {
	s := &server{t: t}
	if fifo {
		name := filepath.Join(t.TempDir(), "fifo")
		require.NoError(t, unix.Mkfifo(name, 0o600))
		fd, err := unix.Open(name, unix.O_RDWR|unix.O_CLOEXEC, 0)
		require.NoError(t, err)
		t.Cleanup(func() { _ = unix.Close(fd) })
		s.r, s.w, s.auth = fd, fd, "fifo:"+name
	} else {
		s.r, s.w = pipe(t)
		s.auth = fmt.Sprintf("%d,%d", s.r, s.w)
	}
	s.put(tokens)
	return s
}

func (s *server) put(tokens string) {
	_, err := unix.Write(s.w, []byte(tokens))
	require.NoError(s.t, err)
}

// there returns how many tokens are available.
func (s *server) there() int {
	n, err := kernel.Unread(s.r)
	require.NoError(s.t, err)
	return n
}

// take takes all tokens, waiting for those that are missing, and returns them sorted.
func (s *server) take(n int) string {
	crewtest.Until(s.t, func() bool { return s.there() >= n }, "%d tokens", n)
	all := make([]byte, n+1)
	got, err := unix.Read(s.r, all)
	require.NoError(s.t, err)
	slices.Sort(all[:got])
	return string(all[:got])
}

// client is a client of a jobserver, with the answers to its Asks.
type client struct {
	*Tokens
	t       *testing.T
	answers chan bool
}

// gets asks for n tokens and gets them.
func (c *client) gets(n int) {
	for range n {
		c.Ask()
		require.True(c.t, <-c.answers)
	}
}

func (s *server) join() *client { return join(s.t, " -j4 --jobserver-auth="+s.auth) }

func join(t *testing.T, flags string) *client {
	a, found := Parse(flags)
	require.True(t, found)
	tokens, err := Join(a)
	require.NoError(t, err)
	return watch(t, tokens)
}

// watch watches tokens. This process is also the guardian.
func watch(t *testing.T, tokens *Tokens) *client {
	tokens.Guard(func() (int, error) {
		var asks [2]int // stays open
		require.NoError(t, kernel.Pipe(&asks))
		go func() {
			for k := NewKeeper(tokens.KeeperArgs()); read(asks[0], make([]byte, 1)); {
				k.ReturnOne()
			}
		}()
		return asks[1], nil
	})
	answers := make(chan bool, 100)
	tokens.Watch(func(err error) { answers <- err == nil })
	return &client{tokens, t, answers}
}

// share creates a jobserver with 3 tokens, holds all of them, and joins it.
func share(t *testing.T, pipe bool) (own, other *client) {
	tokens, err := Share("k", 3, pipe)
	require.NoError(t, err)
	own, other = watch(t, tokens), join(t, tokens.Makeflags())
	own.Create(3)
	return own, other
}

func forms(t *testing.T, f func(t *testing.T, fifo bool)) {
	t.Run("pipe", func(t *testing.T) { t.Parallel(); f(t, false) })
	t.Run("fifo", func(t *testing.T) { t.Parallel(); f(t, true) })
}

func TestEachTokenIsReturned(t *testing.T) {
	forms(t, func(t *testing.T, fifo bool) {
		s := newServer(t, fifo, "+a\x00")
		tokens := s.join()
		require.False(t, tokens.Own())
		defer tokens.Close()
		tokens.gets(3)
		require.Zero(t, s.there())
		tokens.Ask()
		s.put("x") // becomes available later
		require.True(t, <-tokens.answers)
		tokens.Return(1)
		crewtest.Until(t, func() bool { return s.there() == 1 }, "the token")
		tokens.gets(1)
		tokens.Ask() // never answered
		tokens.Settle(true)
		require.Equal(t, "\x00+ax", s.take(4))
	})
}

// No guardian is started or awaited unless a token is needed. Without a guardian no token is
// taken.
func TestNoTokenNeeded(t *testing.T) {
	s := newServer(t, true, "+")
	tokens := s.join()
	started := false
	tokens.Guard(func() (int, error) { started = true; return 0, errors.New("none") })
	tokens.Settle(true)
	require.NoError(t, tokens.Close())
	require.False(t, started)
	require.Equal(t, "+", s.take(1))

	tokens = s.join()
	s.put("+")
	tokens.Guard(func() (int, error) { return 0, errors.New("none") })
	tokens.Ask()
	require.False(t, <-tokens.answers)
	require.NoError(t, tokens.Close())
	require.Equal(t, "+", s.take(1))
}

// If this process is killed at any moment, the guardian returns each token once.
func TestGuardianReturnsTokens(t *testing.T) {
	forms(t, func(t *testing.T, fifo bool) {
		s := newServer(t, fifo, "abcd")
		tokens := s.join()
		tokens.gets(3)
		tokens.Return(1)
		crewtest.Until(t, func() bool { return tokens.keeper.returned.Load() == 1 }, "the token")
		require.True(t, read(s.r, tokens.keeper.at(3)), "a token was read but not counted")
		guardian := NewKeeper(tokens.KeeperArgs())
		guardian.ReturnAll()
		require.Equal(t, "abcd", s.take(4))
		tokens.Return(1) // has no effect any more
		guardian.ReturnAll()
		require.Zero(t, s.there())
	})
}

// Close returns the tokens if the guardian is stopped.
func TestStoppedGuardian(t *testing.T) {
	s := newServer(t, true, "abc")
	tokens := s.join()
	tokens.Guard(func() (int, error) {
		_, asks := pipe(t)
		return asks, nil
	})
	tokens.gets(3)
	tokens.Return(1)
	tokens.Settle(true)
	require.Zero(t, s.there())
	require.NoError(t, tokens.Close())
	require.Equal(t, "abc", s.take(3))
}

func TestNoJobserver(t *testing.T) {
	for name, flags := range map[string]string{
		"closed":  " --jobserver-auth=-2,-2",
		"missing": " --jobserver-auth=fifo:" + filepath.Join(t.TempDir(), "none"),
		"file":    " --jobserver-auth=fifo:jobserver_test.go",
	} {
		a, found := Parse(flags)
		require.True(t, found, name)
		_, err := Join(a)
		require.Error(t, err, name)
		require.Equal(t, name == "closed", errors.Is(err, ErrClosed), name)
	}
}

// In any directory, the path of the FIFO is one that clients can read unquoted.
func TestShareMakesAFIFO(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	require.NoError(t, os.Mkdir("rel", 0o700))
	t.Setenv("TMPDIR", "rel")
	own, err := Share("", 1, false)
	require.NoError(t, err)
	require.Contains(t, own.Makeflags(), "fifo:"+dir+"/rel/crew-jobserver-")
	require.NoError(t, own.Close())
	for _, name := range []string{"a b", "a$b", `a\b`, "missing"} {
		t.Setenv("TMPDIR", filepath.Join(dir, name))
		if name != "missing" {
			require.NoError(t, os.Mkdir(name, 0o700))
		}
		_, err = Share("", 1, false)
		require.ErrorContains(t, err, ": set TMPDIR to another directory", name)
	}
}

// The tokens of a killed holder are replaced, and not doubled if they are returned later.
func TestRecount(t *testing.T) {
	forms(t, func(t *testing.T, fifo bool) {
		own, other := share(t, !fifo)
		own.Return(3)
		other.gets(1)
		take := func(n int) {
			own.gets(n)
			left, _ := kernel.Unread(own.in)
			require.Zero(t, left)
			own.Return(n)
		}
		take(2)
		own.Recount()
		take(3)
		require.NoError(t, other.Close())
		crewtest.Until(t, func() bool { n, _ := kernel.Unread(own.in); return n == 4 }, "the token")
		own.Recount()
		take(3)
		require.NoError(t, own.Close())
	})
}

func TestShare(t *testing.T) {
	forms(t, func(t *testing.T, fifo bool) {
		own, other := share(t, !fifo)
		require.True(t, own.Own())
		a, _ := Parse(own.Makeflags())
		require.Equal(t, 3, a.Jobs)
		other.Ask()
		own.Return(1)
		require.True(t, <-other.answers)
		own.Create(-2)
		require.NoError(t, other.Close())
		own.gets(1)
		require.NoError(t, own.Close())
		if fifo {
			require.NoFileExists(t, a.fifo)
			require.NoDirExists(t, filepath.Dir(a.fifo))
		}
	})
}

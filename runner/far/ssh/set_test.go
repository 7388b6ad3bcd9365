package ssh

import (
	"bufio"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
)

// A host leaves and comes back, both while its worker lives and after it has ended.
func TestSet(t *testing.T) {
	t.Parallel()
	a, b := Host{Args: []string{"a"}, Mark: "m"}, Host{Args: []string{"b"}, Mark: "m"}
	p, notices, conns := startAll(t, "", a)
	defer p.Close()
	worker := func() (conn net.Conn, args string) {
		conn = crewtest.Receive(t, conns, "a connection")
		line, err := bufio.NewReader(conn).ReadString('\n')
		require.NoError(t, err)
		return conn, strings.Fields(line)[1]
	}
	waitNotice := func(text string) {
		t.Helper()
		crewtest.Until(t, func() bool { return strings.HasSuffix(notices.String(), "this machine: "+text+"\n") }, "%s: %s", text, notices)
	}
	first, args := worker()
	require.Equal(t, "a", args)
	p.Set([]Host{a})
	require.False(t, p.Leaving("m"), "nothing has changed")
	p.Set([]Host{b})
	waitNotice("leaves")
	require.True(t, p.Leaving("m"))
	p.Set([]Host{a}) // it is leaving already
	require.NoError(t, first.Close())
	waitNotice("joins")
	require.False(t, p.Leaving("m"))
	second, args := worker()
	require.Equal(t, "a", args)
	require.NoError(t, second.Close())
	waitNotice("its worker has ended and is not restarted")
	p.Set(nil)
	waitNotice("leaves")
	p.Set([]Host{b})
	waitNotice("joins")
	third, args := worker()
	require.Equal(t, "b", args)
	require.Empty(t, p.Missing())
	p.Set(nil)
	waitNotice("leaves")
	require.NoError(t, third.Close())
	crewtest.Until(t, func() bool { return !p.Leaving("m") }, "the end of the worker")
	require.Empty(t, p.Missing())
}

// Set may be called while workers start, and from several goroutines. The race detector sees it.
func TestSetConcurrently(t *testing.T) {
	p, err := Start(Config{Notice: func(string) {}, SSH: "false"})
	require.NoError(t, err)
	var sets sync.WaitGroup
	for range 2 {
		sets.Go(func() {
			for range 10 {
				p.Set([]Host{{Target: "a"}})
				p.Set([]Host{{Target: "a"}, {Target: "b"}})
			}
		})
	}
	sets.Wait()
	p.Close()
}

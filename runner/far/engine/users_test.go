package engine

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/far/credentials"
)

// A session reports why its connection was closed for good.
func TestClosedForGood(t *testing.T) {
	t.Parallel()
	for text, why := range map[string]string{
		"User Authentication Expired": "have expired", "Account Authentication Expired": "have expired", "Out Of Luck": "has closed the connection: Out Of Luck",
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer l.Close()
		go func() {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			_, _ = fmt.Fprintf(conn, "INFO {\"version\": \"2.11.0\", \"max_payload\": 1000}\r\n")
			for in := bufio.NewScanner(conn); in.Scan(); {
				if in.Text() == "PING" {
					_, _ = fmt.Fprintf(conn, "PONG\r\n-ERR '%s'\r\n", text)
				}
			}
		}()
		s, err := dial("nats://"+l.Addr().String(), nil)
		if err == nil { // it had time to subscribe
			crewtest.Until(t, s.nc.IsClosed, "the end")
			err = s.explain(nats.ErrConnectionClosed)
		}
		require.ErrorContains(t, err, why)
	}
}

// A call that ends because its connection was cut reports why it was cut.
func TestCutAndRefused(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	go func() {
		for answer := "PONG\r\n"; ; answer = "-ERR 'Authorization Violation'\r\n" {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = fmt.Fprintf(conn, "INFO {\"version\": \"2.11.0\", \"max_payload\": 1000}\r\n")
			in := bufio.NewScanner(conn)
			for in.Scan() && in.Text() != "PING" {
			}
			_, _ = io.WriteString(conn, answer)
			conn.Close()
		}
	}()
	s, err := dial("nats://"+l.Addr().String(), quiet)
	require.NoError(t, err)
	crewtest.Until(t, s.nc.IsReconnecting, "the connection to be lost")
	require.Equal(t, errRefused, s.explain(nats.ErrTimeout))
}

// Revocation also reaches clients that connect with a name of the server's own.
func TestRevokedByAnyName(t *testing.T) {
	t.Parallel()
	h := testHub(t, t.TempDir())
	c, err := h.invite(credentials.User{Name: "eve"})
	require.NoError(t, err)
	conn, err := net.Dial("tcp", h.server.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	_, err = fmt.Fprintf(conn, "CONNECT {\"user\": \"eve\", \"pass\": %q, \"nkey\": \"ada\"}\r\nPING\r\n", c.Password)
	require.NoError(t, err)
	lines := bufio.NewScanner(conn)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "-ERR") {
		require.NotEqual(t, "PONG", lines.Text(), "it is let in")
	}
}

// Submitters cannot see the answers to invite, or give the hub orders.
func TestOrdersOfTheOwnerAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	serving := crew(t, "engine", "serve", "--dir", dir, "--listen", "127.0.0.1:0")
	p := crew(t, "engine", "invite", "eve", "--submitter", "--dir", dir)
	p.Exits(0)
	file := filepath.Join(t.TempDir(), "eve.json")
	crewtest.WriteFile(t, file, p.Stdout(), 0o600)
	s, err := connect(file, nil)
	require.NoError(t, err)
	defer s.close()
	seen, err := s.nc.SubscribeSync("_INBOX.eve.>")
	require.NoError(t, err)
	require.NoError(t, s.nc.Flush())
	order := Order{Op: opRevoke, User: &credentials.User{Name: "eve"}}
	_ = s.nc.Publish(hubSubject, order.encode())
	crew(t, "engine", "invite", "ada", "--dir", dir).Exits(0)
	crew(t, "engine", "revoke", "eve", "--dir", dir).Exits(0)
	for err == nil {
		var m *nats.Msg
		if m, err = seen.NextMsg(time.Millisecond); err == nil {
			require.NotContains(t, string(m.Data), `"password"`)
		}
	}
	serving.Send(syscall.SIGTERM)
	serving.Wait()
}

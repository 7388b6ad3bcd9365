package engine

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"crew/runner/address"
	"crew/runner/cli"
	"crew/runner/credentials"
	"crew/runner/crewtest"
	"crew/runner/task"
	"crew/runner/wiring"
)

// One message says why a file of the hub does not do, and nothing waits.
func TestRefusedFiles(t *testing.T) {
	t.Parallel()
	h, other := testHub(t, t.TempDir()), testHub(t, t.TempDir())
	worker, submitter := h.as(t, "worker"), h.as(t, "submitter")
	file := func(name string, c *address.Context, err error) string {
		require.NoError(t, err)
		text, err := contextText(c)
		require.NoError(t, err)
		name = filepath.Join(t.TempDir(), name)
		require.NoError(t, os.WriteFile(name, text, 0o600))
		return name
	}
	c, err := h.invite(credentials.User{Name: "left"})
	revoked := file("left.json", c, err)
	require.NoError(t, h.users.Revoke("left"))
	c, err = h.invite(credentials.User{Name: "late", Expires: time.Now().Add(-time.Minute)})
	expired := file("late.json", c, err)
	c.Expires = time.Time{}
	changed := file("late.json", c, nil)
	c, err = other.invite(credentials.User{Name: "worker"})
	c.URL = h.url
	foreign := file("worker.json", c, err)

	const unknown, rights, old = "does not know this user", "do not allow that", "have expired on"
	key, _ := keyFile(t)
	for _, u := range []struct {
		file, why string
		worker    bool // of whom the file is
	}{
		{worker, rights, true}, {submitter, rights, false}, {revoked, unknown, true}, {expired, old, true}, {changed, unknown, true}, {foreign, unknown, true},
	} {
		for _, line := range [][]string{
			{"engine", "invite", "x", "--engine", u.file}, {"engine", "dispatch", "--engine", u.file}, {"--engine", u.file, "true", "{}", ":::", "a"},
			{"--engine", u.file, "--sign", key, "--detach", "true", ":::", "a"}, {"worker", "--engine", u.file, "true", "{}"},
		} {
			if u.file == submitter && line[0] != "worker" && line[1] != "invite" || u.file == worker && line[0] == "worker" {
				continue
			}
			p := crew(t, line...)
			p.Exits(1)
			require.Contains(t, p.Stderr(), u.why, line)
			require.Equal(t, 1, strings.Count(p.Stderr(), "\n"), "%v: %s", line, p.Stderr())
			require.Empty(t, p.Stdout())
		}
	}
}

// Whoever is revoked is gone at once, and the tasks start elsewhere.
func TestRevoked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	serving := crew(t, "engine", "serve", "--dir", dir+"/hub", "--listen", "127.0.0.1:0")
	invite := func(args ...string) string {
		p := crew(t, append([]string{"engine", "invite", "--dir", dir + "/hub"}, args...)...)
		p.Exits(0)
		file := dir + "/" + args[0] + ".json"
		require.NoError(t, os.WriteFile(file, []byte(p.Stdout()), 0o600))
		return file
	}
	obey := obeys(t)
	one, submitter := invite("one"), invite("me", "--submitter")
	w := crew(t, "worker", "--engine", one, "-j2", "--worker-ttl", "6s", obey, "{}")
	run := crew(t, "--engine", submitter, obey, "{}", ":::", "touch "+dir+"/$CREW_ATTEMPT; [ $CREW_ATTEMPT = 2 ] || exec sleep 1000; echo done")
	crewtest.Exists(t, dir+"/1")
	w2 := crew(t, "worker", "--engine", invite("two"), "-j2", "--worker-ttl", "6s", obey, "{}")
	p := crew(t, "engine", "revoke", "one", "--dir", dir+"/hub")
	p.Exits(0)
	require.Equal(t, "one revoked, 1 connection closed\n", p.Stdout())
	w.Exits(1)
	require.Contains(t, w.Stderr(), "does not know this user")
	run.Exits(0)
	require.Equal(t, "done\n", run.Stdout())
	p = crew(t, "engine", "revoke", "me", "--dir", dir+"/hub")
	p.Exits(0)
	require.Equal(t, "me revoked, 0 connections closed\n", p.Stdout())
	p = crew(t, "engine", "revoke", "me", "--dir", dir+"/hub")
	p.Exits(1)
	require.Contains(t, p.Stderr(), "nobody is called me: invited are two")
	for _, p := range []*crewtest.Process{w2, serving} {
		p.Send(syscall.SIGTERM)
		p.Wait()
	}
}

// Whatever ends a connection for good, a session says why.
func TestClosedForGood(t *testing.T) {
	t.Parallel()
	for text, why := range map[string]string{
		"User Authentication Expired": "have expired", "Account Authentication Expired": "have expired", "Out Of Luck": "has ended the connection: Out Of Luck",
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
			_, _ = fmt.Fprintf(conn, "INFO {\"version\": %q, \"max_payload\": 1000}\r\n", leastServer)
			for in := bufio.NewScanner(conn); in.Scan(); {
				if in.Text() == "PING" {
					_, _ = fmt.Fprintf(conn, "PONG\r\n-ERR '%s'\r\n", text)
				}
			}
		}()
		s, err := dial("nats://"+l.Addr().String(), nil)
		require.NoError(t, err)
		crewtest.Receive(t, s.refused, "the end")
		require.ErrorContains(t, s.explain(nats.ErrConnectionClosed), why)
	}
}

// A call that the loss of the connection has ended says why it was cut.
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
			_, _ = fmt.Fprintf(conn, "INFO {\"version\": %q, \"max_payload\": 1000}\r\n", leastServer)
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
	require.Equal(t, errRefused, s.explain(nats.ErrDisconnected))
}

// Whoever connects with a name of the server's own is missed by no revocation.
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

// Submitters neither see what invite answers, nor have the server give the hub orders.
func TestOrdersOfTheOwnerAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	serving := crew(t, "engine", "serve", "--dir", dir, "--listen", "127.0.0.1:0")
	p := crew(t, "engine", "invite", "eve", "--submitter", "--dir", dir)
	p.Exits(0)
	file := filepath.Join(t.TempDir(), "eve.json")
	require.NoError(t, os.WriteFile(file, []byte(p.Stdout()), 0o600))
	s, err := connect(file, nil)
	require.NoError(t, err)
	defer s.close()
	seen, err := s.nc.SubscribeSync("_INBOX.eve.>")
	require.NoError(t, err)
	require.NoError(t, s.nc.Flush())
	order := Order{Op: opRevoke, User: &credentials.User{Name: "eve"}}
	require.NoError(t, s.put(t.Context(), enrolSubject("q", "r"), json.RawMessage(order.encode()), 0))
	m, err := s.nc.Request("$JS.API.CONSUMER.CREATE."+runsStream+".x."+enrolSubject("q", "r"), []byte(`{"stream_name": "`+runsStream+
		`", "config": {"name": "x", "deliver_subject": "`+hubSubject+`", "filter_subject": "`+enrolSubject("q", "r")+`", "ack_policy": "none"}}`), answerWait)
	require.NoError(t, err)
	require.NotContains(t, string(m.Data), `"error"`)
	crew(t, "engine", "invite", "ada", "--dir", dir).Exits(0)
	crew(t, "engine", "revoke", "eve", "--dir", dir).Exits(0)
	for err == nil {
		if m, err = seen.NextMsg(time.Millisecond); err == nil {
			require.NotContains(t, string(m.Data), `"password"`)
		}
	}
	serving.Send(syscall.SIGTERM)
	serving.Wait()
}

// forged is a message of another stream that somebody has the server deliver to a worker's inbox.
type forged struct {
	jetstream.Msg
	read bool
}

func (f *forged) Subject() string { return "$O." + filesBucket + ".C.x" }
func (f *forged) Ack() error      { return nil }
func (f *forged) Data() []byte    { f.read = true; return nil }

func TestTasksOfSubmittersAlone(t *testing.T) {
	t.Parallel()
	h := testHub(t, t.TempDir())
	nothing := func(task.Command) task.Reply { return task.Reply{} }
	started, err := Work(wiring.Work{URL: h.as(t, "worker"), Queue: "q", TTL: time.Minute, Notice: quiet, Do: nothing})
	require.NoError(t, err)
	w := started.(*crewWorker)
	defer w.s.close()
	require.NoError(t, w.join())
	m := &forged{}
	w.take(w.lease, m)
	require.False(t, m.read)
}

// Credentials that nobody has do not take the name.
func TestInviteWithoutPaper(t *testing.T) {
	t.Parallel()
	h, err := openHub(&wiring.EngineCall{Hub: cli.Hub{Dir: t.TempDir(), Listen: "127.0.0.1:0", Hosts: []string{"localhost"}}, Notice: quiet})
	require.NoError(t, err)
	defer h.close()
	s, err := dial("", quiet, nats.InProcessServer(h.server), h.asOwner())
	require.NoError(t, err)
	defer s.close()
	_, err = s.obey(hubSubject, h.obey)
	require.NoError(t, err)
	c := &wiring.EngineCall{Hub: cli.Hub{Invite: cli.Invite{Submitter: true}}, Verb: opInvite, Operand: "bob"}
	for range 2 {
		c.Out, err = os.OpenFile("/dev/full", os.O_WRONLY, 0)
		require.NoError(t, err)
		require.ErrorContains(t, s.invite(c), "no space left on device: bob is not invited")
		require.NoError(t, c.Out.Close())
	}
}

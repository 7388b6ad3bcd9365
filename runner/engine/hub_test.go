package engine

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"crew/runner/address"
	"crew/runner/cli"
	"crew/runner/crewtest"
	"crew/runner/wiring"
)

func quiet(string) {}

// testHub returns a hub at a free port of loopback.
func testHub(t *testing.T, dir string) *hub {
	t.Helper()
	h, err := openHub(&wiring.EngineCall{Hub: cli.Hub{Dir: dir, Listen: "127.0.0.1:0"}, Notice: quiet})
	require.NoError(t, err)
	t.Cleanup(h.close)
	return h
}

// as returns the file with the context of a user of the hub, who is invited the first time.
func (h *hub) as(t *testing.T, name string) string {
	t.Helper()
	file := h.file(name + ".json")
	c, err := address.Read(file)
	if err == nil {
		c.URL = h.url // it may have started anew
	} else {
		c, err = h.invite(User{Name: name, Submitter: name == "submitter"})
		require.NoError(t, err)
	}
	text, err := contextText(c)
	require.NoError(t, err)
	require.NoError(t, writePrivate(file, text))
	return file
}

func TestHub(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	h := testHub(t, dir)
	_, err := openHub(&wiring.EngineCall{Hub: cli.Hub{Dir: dir, Listen: "127.0.0.1:0"}, Notice: quiet})
	require.ErrorContains(t, err, "another crew engine serve uses "+dir)
	_, err = openHub(&wiring.EngineCall{Hub: cli.Hub{Dir: t.TempDir(), Listen: h.server.Addr().String()}, Notice: quiet})
	require.ErrorContains(t, err, "address already in use: end what listens there")
	_, err = openHub(&wiring.EngineCall{Hub: cli.Hub{Dir: t.TempDir(), Listen: "192.0.2.1:0"}, Notice: quiet})
	require.ErrorContains(t, err, "it is none of this machine: write --listen 0.0.0.0 --host 192.0.2.1")
	for _, listen := range []string{":x", "127.0.0.1:65536", "a:b:c"} {
		_, err = openHub(&wiring.EngineCall{Hub: cli.Hub{Dir: t.TempDir(), Listen: listen}, Notice: quiet})
		require.ErrorContains(t, err, "is no address to listen at", listen)
	}

	full := t.TempDir()
	for range 2 {
		_, err = openHub(&wiring.EngineCall{Hub: cli.Hub{Dir: full, Listen: "127.0.0.1:0", MaxOutput: 1 << 60}, Notice: quiet})
		require.ErrorContains(t, err, "MiB of free disk")
	}

	_, err = connect(h.url, nil)
	require.ErrorContains(t, err, "does not know this user")
	s, err := connect(h.as(t, "submitter"), nil)
	require.NoError(t, err)
	kv, err := s.js.KeyValue(t.Context(), runsBucket)
	require.NoError(t, err)
	_, err = kv.PutString(t.Context(), "q.r", "it stays")
	require.NoError(t, err)
	s.close()

	h.close()
	h, err = openHub(&wiring.EngineCall{Hub: cli.Hub{Dir: dir, Listen: "127.0.0.1:0", MaxTasks: 7, MaxOutput: 1 << 20}, Notice: quiet})
	require.NoError(t, err)
	defer h.close()
	s, err = connect(h.as(t, "submitter"), nil)
	require.NoError(t, err)
	defer s.close()
	kv, err = s.js.KeyValue(t.Context(), runsBucket)
	require.NoError(t, err)
	e, err := kv.Get(t.Context(), "q.r")
	require.NoError(t, err)
	require.Equal(t, "it stays", string(e.Value()))
	require.Greater(t, h.server.JetStreamConfig().MaxStore, int64(1)<<50, "it starts again however little is free")
	tasks, err := s.js.Stream(t.Context(), tasksStream)
	require.NoError(t, err)
	results, err := s.js.Stream(t.Context(), resultsStream)
	require.NoError(t, err)
	require.Equal(t, []int64{7, 1 << 20}, []int64{tasks.CachedInfo().Config.MaxMsgs, results.CachedInfo().Config.MaxBytes})
}

func TestWorkerWaitsForItsHub(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	h := testHub(t, dir)
	listen := h.server.Addr().String()
	h.close()
	said := make(chan string, 8)
	worker := make(chan wiring.Worker)
	go func() {
		w, err := Work(wiring.Work{URL: h.as(t, "worker"), Queue: "q", TTL: time.Minute, Notice: func(text string) { said <- text }})
		if err != nil {
			said <- err.Error()
		}
		worker <- w
	}()
	require.Regexp(t, "no server answers: .*; trying again$", <-said)
	h, err := openHub(&wiring.EngineCall{Hub: cli.Hub{Dir: dir, Listen: listen}, Notice: quiet})
	require.NoError(t, err)
	defer h.close()
	w, ok := (<-worker).(*crewWorker)
	require.True(t, ok)
	defer w.s.close()
	_, err = w.s.js.Stream(t.Context(), tasksStream)
	require.NoError(t, err)
	_, err = w.s.nc.SubscribeSync("forbidden")
	require.NoError(t, err)
	<-w.s.refused
	require.Regexp(t, `do not allow that: runs need those of a submitter, .*Subscription to "forbidden"`, w.s.why)
}

// certificate makes a certificate for a name, and returns its files.
func certificate(t *testing.T, name string) (cert, key string) {
	t.Helper()
	dir := t.TempDir()
	secret, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &secret.PublicKey, secret)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(secret)
	require.NoError(t, err)
	write := func(file, kind string, der []byte) string {
		file = filepath.Join(dir, file)
		require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
		return file
	}
	return write("cert", "CERTIFICATE", der), write("key", "PRIVATE KEY", private)
}

func TestHubTLS(t *testing.T) {
	t.Parallel()
	c := &wiring.EngineCall{Hub: cli.Hub{Dir: t.TempDir(), Listen: "0.0.0.0:0"}, Notice: quiet}
	h, err := openHub(c)
	require.NoError(t, err)
	require.Regexp(t, `^tls://.*:\d+$`, h.url)
	_, port, err := net.SplitHostPort(h.server.Addr().String())
	require.NoError(t, err)
	_, err = connect("nats://worker:x@127.0.0.1:"+port, nil)
	require.ErrorContains(t, err, "has no ca_text")
	s, err := connect(h.as(t, "worker"), nil)
	require.NoError(t, err)
	s.close()
	was := h.url
	before, err := h.writeOwner()
	require.NoError(t, err)
	require.Empty(t, before)
	h.close()

	// The authority stays, and with it the contexts.
	c.Hosts = []string{"localhost", "::1"}
	c.Listen = "127.0.0.1:" + port
	h, err = openHub(c)
	require.NoError(t, err)
	require.Equal(t, "tls://localhost:"+port+",tls://[::1]:"+port, h.url)
	before, err = h.writeOwner()
	require.NoError(t, err)
	require.Equal(t, was, before)
	s, err = connect(h.as(t, "worker"), nil)
	require.NoError(t, err)
	s.close()
	h.close()
	require.NoError(t, os.Remove(h.file("ca.pem")))
	h, err = openHub(c)
	require.NoError(t, err)
	defer h.close()
	_, err = connect(h.as(t, "worker"), nil)
	require.ErrorContains(t, err, "the context is for another hub")
}

func TestOwnCertificate(t *testing.T) {
	t.Parallel()
	c := &wiring.EngineCall{Hub: cli.Hub{Dir: t.TempDir(), Listen: "0.0.0.0:0"}, Notice: quiet}
	c.Cert, c.Key = certificate(t, "localhost")
	h, err := openHub(c)
	require.NoError(t, err)
	require.Regexp(t, `^tls://localhost:\d+$`, h.url)
	s, err := connect(h.as(t, "worker"), nil)
	require.NoError(t, err)
	s.close()
	h.close()
	fails := func(why string) {
		t.Helper()
		_, err := openHub(c)
		require.ErrorContains(t, err, why)
	}
	c.Hosts = []string{"hub.example.com"}
	fails("is not for --host hub.example.com")
	c.Hosts, c.Key = nil, c.Cert
	fails("read the certificate")
	c.Cert, c.Key = certificate(t, "*.example.com")
	fails("give --host NAME, by which clients find the hub")
	c.Hosts = []string{"hub.example.com"}
	h, err = openHub(c)
	require.NoError(t, err)
	h.close()
}

// TestRights has a server with the rights that crew engine init prints, and nothing
// more. That they are enough, the runs over a hub show.
func TestRights(t *testing.T) {
	t.Setenv("CREW_SUBMITTER", "s")
	t.Setenv("CREW_WORKER", "w")
	file := filepath.Join(t.TempDir(), "nats.conf")
	text := strings.Replace(leastRights(), "users = [", "users = [\n{ user: owner, password: o }", 1)
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	o, err := server.ProcessConfigFile(file)
	require.NoError(t, err)
	o.Host, o.Port, o.StoreDir, o.NoSystemAccount = "127.0.0.1", server.RANDOM_PORT, t.TempDir(), true
	server, err := startServer(o, diskLimits, nats.UserInfo("owner", "o"))
	require.NoError(t, err)
	defer server.Shutdown()
	url := server.ClientURL()
	mayOnly(t, url, "worker", map[string]bool{
		taskSubject("q", "w", "r"): false, storedSubject("q", "r", "rulings"): false, resultSubject("q", "r"): true,
		orderSubject("q", "w"): false, heartbeatSubject("q"): false, runSubject("q", "r"): false,
		"$KV.crew_workers.q.w": true, "$KV.crew_runs.q.r": false, "$O.crew_files.C.x": true, "_INBOX.x.y": false,
		"$JS.API.STREAM.CREATE.X": false, "$JS.API.STREAM.DELETE.CREW_TASKS": false, "$JS.API.STREAM.PURGE.CREW_RESULTS": false,
		"$JS.API.STREAM.UPDATE.CREW_TASKS": false, "$JS.API.STREAM.MSG.GET.CREW_RESULTS": false, "$JS.API.DIRECT.GET.CREW_RESULTS": false,
		"$JS.API.CONSUMER.CREATE.CREW_RESULTS.x.crew.r.>": false, "$JS.API.CONSUMER.CREATE.CREW_TASKS": false,
		"$JS.API.CONSUMER.CREATE.KV_crew_runs.x.$KV.crew_runs.>": false, "$JS.API.DIRECT.GET.KV_crew_runs.x": false,
		"$JS.API.CONSUMER.DURABLE.CREATE.CREW_TASKS.x": false, "$JS.API.STREAM.MSG.GET.CREW_STORED": false, "$JS.API.CONSUMER.CREATE.CREW_STORED.x.crew.d.>": false, "$JS.API.STREAM.MSG.DELETE.CREW_TASKS": false,
		"$SYS.REQ.SERVER.PING": false, "x": false,
	})
	mayOnly(t, url, "submitter", map[string]bool{
		resultSubject("q", "r"): false, "$KV.crew_workers.q.w": false, taskSubject("q", "w", "r"): true, heartbeatSubject("q"): true,
		"$JS.API.STREAM.CREATE.X": false, "$JS.API.STREAM.DELETE.CREW_TASKS": false, "$JS.API.STREAM.UPDATE.CREW_TASKS": false,
		"$JS.API.CONSUMER.CREATE.CREW_TASKS.x.crew.t.>": false, "$SYS.REQ.SERVER.PING": false, "x": false,
	})
	mayNotRead(t, url, "worker", "_INBOX.>", "_INBOX.*", ">", "crew.r.>", "crew.t.>", "crew.d.>", "crew.c.>", "$KV.>")
	mayNotRead(t, url, "submitter", ">", "crew.w.>", "crew.t.>")
}

// refuses reports whether the server refuses a user of it what do does.
func refuses(t *testing.T, url, user string, do func(*nats.Conn)) bool {
	t.Helper()
	nc, err := nats.Connect(url, nats.UserInfo(user, user[:1]))
	require.NoError(t, err)
	defer nc.Close()
	do(nc)
	require.NoError(t, nc.Flush()) // refusals come before the reply
	return errors.Is(nc.LastError(), nats.ErrPermissionViolation)
}

func mayOnly(t *testing.T, url, user string, subjects map[string]bool) {
	t.Helper()
	for subject, may := range subjects {
		require.Equal(t, !may, refuses(t, url, user, func(nc *nats.Conn) { _ = nc.Publish(subject, []byte("{}")) }), subject)
	}
}

func mayNotRead(t *testing.T, url, user string, subjects ...string) {
	t.Helper()
	for _, subject := range subjects {
		require.True(t, refuses(t, url, user, func(nc *nats.Conn) { _, _ = nc.SubscribeSync(subject) }), subject)
	}
}

// A hub keeps its passwords and tasks nowhere where others may write, nor among other files.
func TestHubRefusesDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "hub")
	require.NoError(t, os.Mkdir(dir, 0o700))
	require.NoError(t, os.Chmod(dir, 0o770))
	open := func() error {
		_, err := openHub(&wiring.EngineCall{Hub: cli.Hub{Dir: dir, Listen: "127.0.0.1:0"}, Notice: quiet})
		return err
	}
	require.EqualError(t, open(), "others may write to "+dir+": run chmod -R go-w on it, or give another directory")
	require.NoError(t, os.Chmod(dir, 0o700))
	require.NoError(t, os.Symlink("../victim", filepath.Join(dir, "lock")))
	require.EqualError(t, open(), dir+" has files that are not of a hub: give a new --dir, or an empty one")
	require.NoError(t, os.Remove(dir+"/lock"))
	require.NoError(t, os.WriteFile(dir+"/thesis.tex", nil, 0o600))
	require.EqualError(t, open(), dir+" has files that are not of a hub: give a new --dir, or an empty one")
	require.NoFileExists(t, dir+"/lock")
	require.NoFileExists(t, dir+"/../victim")
}

// Those who connected before there were invitations still can.
func TestOldUsers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"lock", "worker.json", "submitter.json"} {
		text := `{"user": "` + strings.TrimSuffix(name, ".json") + `", "password": "p-` + name + `"}`
		if name == "lock" {
			text = ""
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	h := testHub(t, dir)
	for _, name := range []string{"worker", "submitter"} {
		s, err := connect(strings.Replace(h.url, "://", "://"+name+":p-"+name+".json@", 1), nil)
		require.NoError(t, err)
		s.close()
	}
}

func TestNoServer(t *testing.T) {
	t.Parallel()
	_, err := connect("nats://ada:secret@127.0.0.1:1", nil)
	require.EqualError(t, err, "connect to nats://127.0.0.1:1: no server answers: start one there with crew engine serve, or correct the URL")
}

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
	c, err := h.invite(User{Name: "left"})
	revoked := file("left.json", c, err)
	require.NoError(t, h.users.revoke("left"))
	c, err = h.invite(User{Name: "late", Expires: time.Now().Add(-time.Minute)})
	expired := file("late.json", c, err)
	c.Expires = time.Time{}
	changed := file("late.json", c, nil)
	c, err = other.invite(User{Name: "worker"})
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
			{"engine", "invite", "x", "--engine", u.file}, {"engine", "revoke", "worker", "--engine", u.file}, {"engine", "init", "--engine", u.file},
			{"engine", "status", "--engine", u.file}, {"engine", "attach", "x", "--engine", u.file}, {"engine", "dispatch", "--engine", u.file},
			{"--engine", u.file, "true", "{}", ":::", "a"}, {"--engine", u.file, "--sign", key, "--detach", "true", ":::", "a"},
			{"worker", "--engine", u.file, "true", "{}"},
		} {
			may := u.file == submitter && line[0] != "worker" && line[1] != "invite" && line[1] != "revoke" && line[1] != "init"
			if may {
				continue
			}
			if u.file == worker && line[0] == "worker" {
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
	w := crew(t, "worker", "--engine", one, "-j2", "--worker-ttl", "2s", obey, "{}")
	run := crew(t, "--engine", submitter, obey, "{}", ":::", "touch "+dir+"/$CREW_ATTEMPT; [ $CREW_ATTEMPT = 2 ] || exec sleep 1000; echo done")
	crewtest.Exists(t, dir+"/1")
	w2 := crew(t, "worker", "--engine", invite("two"), "-j2", "--worker-ttl", "2s", obey, "{}")
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

// Nothing waits for an engine that has refused it meanwhile.
func TestRevokedMeanwhile(t *testing.T) {
	t.Parallel()
	h := testHub(t, t.TempDir())
	me := h.as(t, "submitter")
	file, key := keyFile(t)
	crew(t, "--engine", me, "--sign", file, "--detach", "--name", "waits", "true", ":::", "a").Exits(0)
	attach := crew(t, "engine", "attach", "waits", "--engine", me)
	attach.Says(attach.Stderr, "waits for a dispatcher")
	s, err := connect(me, nil)
	require.NoError(t, err)
	st, err := handOver(wiring.HandOver{Place: wiring.Place{Queue: "q", Name: "half"}, Notice: quiet}, s, key)
	require.NoError(t, err)
	all := []*crewtest.Process{
		attach, crew(t, "engine", "dispatch", "--engine", me), crew(t, "--engine", me, "--sign", file, "true", ":::", "a"),
		crew(t, "worker", "--engine", h.as(t, "worker"), "--queue", "q2", "true", "{}"),
	}
	crewtest.Until(t, func() bool { return h.server.NumClients() >= 6 }, "all to connect") // the dispatcher twice
	for _, name := range []string{"submitter", "worker"} {
		require.NoError(t, h.users.revoke(name))
		_, err = h.cut(name)
		require.NoError(t, err)
	}
	for _, p := range all {
		p.Exits(1)
		require.Contains(t, p.Stderr(), "does not know this user")
	}
	crewtest.Receive(t, s.refused, "a refusal")
	_, err = st.Commit()
	require.ErrorContains(t, err, "does not know this user")
	x := &submitter{s: s, ctx: t.Context()}
	require.ErrorIs(t, x.fetch(func() error { return nats.ErrConnectionClosed }), errRefused)

	s, err = h.connect(quiet)
	require.NoError(t, err)
	defer s.close()
	run, err := s.find(t.Context(), "waits")
	require.NoError(t, err)
	rulings, err := s.log(t.Context(), run.Queue, run.Run, "rulings")
	require.NoError(t, err)
	_, _, err = rulings.next(t.Context(), &once{notice: quiet})
	require.NoError(t, err)
	_, _, err = rulings.next(t.Context(), &once{notice: quiet})
	require.Equal(t, io.EOF, err, "another dispatcher goes on")
}

// Whoever connects with a name of the server's own is missed by no revocation.
func TestRevokedByAnyName(t *testing.T) {
	t.Parallel()
	h := testHub(t, t.TempDir())
	c, err := h.invite(User{Name: "eve"})
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
	seen, err := s.nc.SubscribeSync("_INBOX.>")
	require.NoError(t, err)
	require.NoError(t, s.nc.Flush())
	order := Order{Op: opRevoke, User: &User{Name: "eve"}}
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

// The nats command and crew find a context that was written for them.
func TestInviteForNATS(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	h, err := openHub(&wiring.EngineCall{Hub: cli.Hub{Dir: t.TempDir(), Listen: "127.0.0.1:0", Hosts: []string{"localhost"}}, Notice: quiet})
	require.NoError(t, err)
	defer h.close()
	s, err := dial("", quiet, nats.InProcessServer(h.server), h.asOwner(), nats.CustomInboxPrefix(hubInbox))
	require.NoError(t, err)
	defer s.close()
	_, err = s.obey(hubSubject, h.obey)
	require.NoError(t, err)
	c := &wiring.EngineCall{Hub: cli.Hub{Invite: cli.Invite{Submitter: true, NATS: true}}, Verb: opInvite, Operand: "ada"}
	require.NoError(t, s.invite(c))
	text, err := os.ReadFile(filepath.Join(address.Dir(), "ada.json"))
	require.NoError(t, err)
	require.NotContains(t, string(text), "ca_text")
	require.Contains(t, string(text), address.Dir()+"/ada.pem")
	ada, err := connect("ada", nil)
	require.NoError(t, err)
	ada.close()
	require.ErrorContains(t, s.invite(c), "there is a NATS context ada already")

	// Credentials that nobody has do not take the name.
	c = &wiring.EngineCall{Hub: cli.Hub{Invite: cli.Invite{Submitter: true}}, Verb: opInvite, Operand: "bob"}
	for range 2 {
		c.Out, err = os.OpenFile("/dev/full", os.O_WRONLY, 0)
		require.NoError(t, err)
		require.ErrorContains(t, s.invite(c), "no space left on device: bob is not invited")
		require.NoError(t, c.Out.Close())
	}
}

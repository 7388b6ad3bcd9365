package engine

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/far/address"
	"crew/runner/far/credentials"
	"crew/runner/front/cli"
	"crew/runner/front/wiring"
	"crew/runner/keep/trust"
)

func quiet(string) {}

// served returns the call of crew engine serve for a directory.
func served(dir, listen string) *wiring.Call {
	return &wiring.Call{Options: &cli.Options{Hub: cli.Hub{Dir: dir, Listen: listen}}, Notice: quiet}
}

// testHub returns a hub on a free port of the loopback interface.
func testHub(t *testing.T, dir string) *hub {
	t.Helper()
	h, err := openHub(served(dir, "127.0.0.1:0"))
	require.NoError(t, err)
	t.Cleanup(h.close)
	return h
}

// as returns the file with the context of a user, who is invited on the first call.
func (h *hub) as(t *testing.T, name string) string {
	t.Helper()
	file := h.file(name + ".json")
	c, err := address.Read(file)
	if err == nil {
		c.URL = h.url // the hub may have been restarted on another port
	} else {
		c, err = h.invite(credentials.User{Name: name, Submitter: name == "submitter"})
		require.NoError(t, err)
	}
	text, err := contextText(c)
	require.NoError(t, err)
	require.NoError(t, trust.WritePrivate(file, text))
	return file
}

// certificate makes a certificate for a name that is valid for the given time, and returns its files.
func certificate(t *testing.T, name string, valid time.Duration) (cert, key string) {
	t.Helper()
	dir := t.TempDir()
	secret, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(valid), IsCA: true, BasicConstraintsValid: true,
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

// reopenHub opens a hub on the port of one that was closed. A program that another test is starting
// may also have the port open for a moment.
func reopenHub(t *testing.T, c *wiring.Call) (h *hub) {
	t.Helper()
	var err error
	crewtest.Until(t, func() bool {
		syscall.ForkLock.RLock() // openHub closes the port for a moment
		defer syscall.ForkLock.RUnlock()
		h, err = openHub(c)
		return !errors.Is(err, syscall.EADDRINUSE)
	}, "the port of the hub")
	require.NoError(t, err)
	return h
}

func TestHubTLS(t *testing.T) {
	t.Parallel()
	port := steadyPort()
	c := served(t.TempDir(), "0.0.0.0:"+port)
	h, err := openHub(c)
	require.NoError(t, err)
	require.Regexp(t, `^tls://.*:`+port+`$`, h.url)
	_, err = connect("nats://worker:x@127.0.0.1:"+port, nil)
	require.ErrorContains(t, err, "has no ca_text")
	s, err := connect(h.as(t, "worker"), nil)
	require.NoError(t, err)
	s.close()
	require.NoError(t, h.writeOwner())
	h.close()

	// The certificate authority stays, so the contexts stay valid.
	c.Hub.Hosts = []string{"localhost", "::1"}
	c.Hub.Listen = "127.0.0.1:" + port
	h = reopenHub(t, c)
	require.Equal(t, "tls://localhost:"+port+",tls://[::1]:"+port, h.url)
	s, err = connect(h.as(t, "worker"), nil)
	require.NoError(t, err)
	s.close()
	h.close()
	require.NoError(t, os.Remove(h.file("ca.pem")))
	h = reopenHub(t, c)
	defer h.close()
	_, err = connect(h.as(t, "worker"), nil)
	require.ErrorContains(t, err, "the context is for another hub")
}

func TestOwnCertificate(t *testing.T) {
	t.Parallel()
	c := served(t.TempDir(), "0.0.0.0:0")
	c.Hub.Cert, c.Hub.Key = certificate(t, "localhost", time.Hour)
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
	c.Hub.Hosts = []string{"hub.example.com"}
	fails("is not valid for --host hub.example.com")
	c.Hub.Hosts, c.Hub.Key = nil, c.Hub.Cert
	fails("read the certificate")
	c.Hub.Cert, c.Hub.Key = certificate(t, "localhost", -time.Second)
	fails(": renew it")
	c.Hub.Cert, c.Hub.Key = certificate(t, "*.example.com", time.Hour)
	fails("give --host NAME, the name by which clients reach the hub")
	c.Hub.Hosts = []string{"hub.example.com"}
	h, err = openHub(c)
	require.NoError(t, err)
	h.close()
}

// TestRights runs a server with just the rights that crew engine init prints. The tests of runs over a
// hub show that these are enough.
func TestRights(t *testing.T) {
	t.Setenv("CREW_SUBMITTER", "s")
	t.Setenv("CREW_WORKER", "w")
	file := filepath.Join(t.TempDir(), "nats.conf")
	text := strings.Replace(leastRights(), "users = [", "users = [\n{ user: owner, password: o }", 1)
	crewtest.WriteFile(t, file, text, 0o600)
	o, err := server.ProcessConfigFile(file)
	require.NoError(t, err)
	o.Host, o.Port, o.StoreDir, o.NoSystemAccount = "127.0.0.1", server.RANDOM_PORT, t.TempDir(), true
	server, err := startServer(o)
	require.NoError(t, err)
	defer server.Shutdown()
	url := server.ClientURL()
	crewtest.Examples(t, "testdata/rights.jsonl", func(t *testing.T, row struct {
		User, Publish, Read string
		May                 bool
	}) {
		nc, err := nats.Connect(url, nats.UserInfo(row.User, row.User[:1]))
		require.NoError(t, err)
		defer nc.Close()
		if row.Publish != "" {
			_ = nc.Publish(row.Publish, []byte("{}"))
		} else {
			_, _ = nc.SubscribeSync(row.Read)
		}
		require.NoError(t, nc.Flush()) // a refusal comes before the reply
		require.Equal(t, !row.May, errors.Is(nc.LastError(), nats.ErrPermissionViolation))
	})
}

// On another NATS server, admin has no more rights than other submitters, and a user without the right
// to list workers and runs gets an error.
func TestStatusElsewhere(t *testing.T) {
	t.Parallel()
	server, err := startServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, Users: []*server.User{
		{Username: "admin", Password: "a", Permissions: submitterRights("admin")},
		{Username: "worker", Password: "w", Permissions: workerRights("worker")},
	}})
	require.NoError(t, err)
	defer server.Shutdown()
	look := func(user string) error {
		s, err := connect("nats://"+user+"@"+server.Addr().String(), quiet)
		require.NoError(t, err)
		defer s.close()
		_, err = s.queryStatus(t.Context(), "")
		return s.explain(err)
	}
	_, err = connect("tls://admin:a@"+server.Addr().String(), quiet)
	require.ErrorContains(t, err, "has no TLS")
	require.NoError(t, look("admin:a"))
	require.ErrorContains(t, look("worker:w"), "do not allow that")
}

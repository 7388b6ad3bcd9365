package web

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
)

const token = "0123456789abcdefghijkl"

// request is a request and the expected status.
type request struct {
	Shows, Method, Path, Host, Body string
	Headers                         map[string]string
	Status                          int
	Type                            string // expected content type, if not ""
}

// TestRequestsAreChecked checks that a request without the token learns nothing, and that neither a page
// of another site nor a GET can change anything.
func TestRequestsAreChecked(t *testing.T) {
	s := newServer(token, []byte{127, 0, 0, 5})
	h := s.guard(s.routes())
	text := strings.NewReplacer("TOKEN", token, "LONG", strings.Repeat("x", mostRequest))
	crewtest.Examples(t, "testdata/requests.jsonl", func(t *testing.T, c request) {
		r := httptest.NewRequestWithContext(context.Background(), c.Method, text.Replace(c.Path), strings.NewReader(text.Replace(c.Body)))
		r.Host = c.Host
		for name, value := range c.Headers {
			r.Header.Set(name, value)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		require.Equal(t, c.Status, w.Code, "%s: %s", c.Shows, w.Body)
		for header, want := range headers {
			require.True(t, header == "Content-Security-Policy" || w.Header().Get(header) == want, header)
		}
		require.Contains(t, w.Header().Get("Content-Type"), c.Type)
		require.Contains(t, w.Header().Get("Content-Security-Policy"), "frame-ancestors 'none'")
		if !strings.HasPrefix(c.Path, "/TOKEN/") {
			require.Empty(t, w.Body.String()+w.Header().Get("Content-Type"))
		}
	})
}

// TestRefusedHoldNothing checks that a request without the token cannot hold a connection by not sending
// its body.
func TestRefusedHoldNothing(t *testing.T) {
	t.Parallel()
	conn, err := net.Dial("tcp", strings.Split(startSite(t, Config{}).url, "/")[2])
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n")
	require.NoError(t, err)
	text := make(chan string, 1)
	go func() {
		b, _ := io.ReadAll(conn)
		text <- string(b)
	}()
	require.Contains(t, crewtest.Receive(t, text, "the end"), "404 Not Found")
}

func TestTokenFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "token")
	first := startSite(t, Config{TokenFile: file})
	tail := func(s *site) string { return s.url[strings.LastIndex(s.url[:len(s.url)-1], "/"):] }
	require.Greater(t, len(tail(first)), 22)
	require.NoError(t, first.stop())
	require.Equal(t, tail(first), tail(startSite(t, Config{TokenFile: file})), "it lasts")
	require.NotEqual(t, tail(startSite(t, Config{})), tail(startSite(t, Config{})))
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())

	refused := func(want, path string) {
		t.Helper()
		require.ErrorContains(t, Serve(context.Background(), Config{TokenFile: path}), want)
	}
	for want, modes := range map[string][]os.FileMode{"others can read": {0o640, 0o604}, "others may write": {0o622, 0o620}} {
		for _, mode := range modes {
			require.NoError(t, os.Chmod(file, mode))
			refused(want, file)
		}
	}
	require.NoError(t, os.Chmod(file, 0o600))
	for _, text := range []string{"", "abcd", "../../../../../etc/passwd"} {
		crewtest.WriteFile(t, file, text, 0o600)
		refused(file+" has no token", file)
	}
	link, fifo := file+"-link", file+"-fifo"
	require.NoError(t, errors.Join(os.Symlink(file, link), syscall.Mkfifo(fifo, 0o600)))
	refused("symbolic link", link)
	refused("not a regular file", fifo)
	refused("none", filepath.Join(file+"-none", "token"))
}

func TestListensOnLoopbackAlone(t *testing.T) {
	t.Parallel()
	for listen, want := range map[string]string{
		"0.0.0.0:0": "no loopback address", ":0": "no loopback address", "[::]:0": "no loopback address", "192.0.2.1:80": "ssh -L",
		"127.0.0.1": "--listen 127.0.0.1:8080", "127.0.0.1:x": "--listen 127.0.0.1:8080", "host.invalid:80": "host.invalid",
	} {
		require.ErrorContains(t, Serve(context.Background(), Config{Listen: listen}), want, listen)
	}
	require.Contains(t, startSite(t, Config{Listen: "127.0.0.3:0"}).url, "http://127.0.0.3:")
	require.Contains(t, startSite(t, Config{Listen: "localhost:0"}).url, "http://127.0.0.1:")
	taken := strings.Split(startSite(t, Config{}).url, "/")[2]
	require.ErrorContains(t, Serve(context.Background(), Config{Listen: taken}), "in use")
}

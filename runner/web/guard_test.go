package web

import (
	"context"
	"io"
	"net"
	"net/http"
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

// asked is a request and the status of the answer.
type asked struct {
	method, path, host string
	headers            map[string]string
	body               string
	status             int
}

// TestRequestsAreChecked: without the token a request learns nothing, a page of another site
// can change nothing, and neither can a GET.
func TestRequestsAreChecked(t *testing.T) {
	t.Parallel()
	s := newServer(token, []byte{127, 0, 0, 5})
	h := s.guard(s.routes())
	const own, do = "127.0.0.1:80", "/" + token + "/run/1/x-0/do"
	post := func(headers map[string]string, body string, status int) asked {
		all := map[string]string{"Content-Type": "application/json", "Origin": "http://" + own}
		for name, value := range headers {
			all[name] = value
		}
		return asked{"POST", do, own, all, body, status}
	}
	const passed = http.StatusGone // there is no run 1
	for name, c := range map[string]asked{
		"index":            {"GET", "/" + token + "/", own, nil, "", 200},
		"metrics":          {"GET", "/" + token + "/metrics", own, nil, "", 200},
		"no token":         {"GET", "/", own, nil, "", 404},
		"no slash":         {"GET", "/" + token, own, nil, "", 404},
		"part of a token":  {"GET", "/" + token[:21] + "/", own, nil, "", 404},
		"longer token":     {"GET", "/" + token + "m/", own, nil, "", 404},
		"other case":       {"GET", "/" + strings.ToUpper(token) + "/", own, nil, "", 404},
		"metrics, token":   {"GET", "/metrics", own, nil, "", 404},
		"token later":      {"GET", "/x/" + token + "/", own, nil, "", 404},
		"token in a query": {"GET", "/?token=" + token, own, nil, "", 404},
		"do, no token":     {"POST", "/run/1/x-0/do", own, nil, "{}", 404},

		"localhost":           {"GET", "/" + token + "/", "localhost:80", nil, "", 200},
		"v6":                  {"GET", "/" + token + "/", "[::1]:80", nil, "", 200},
		"listening address":   {"GET", "/" + token + "/", "127.0.0.5:80", nil, "", 200},
		"port of a tunnel":    {"GET", "/" + token + "/", "localhost:9000", nil, "", 200},
		"no port":             {"GET", "/" + token + "/", "localhost", nil, "", 200},
		"rebound name":        {"GET", "/" + token + "/", "evil.example:80", nil, "", 403},
		"name as a prefix":    {"GET", "/" + token + "/", "127.0.0.1.evil.example", nil, "", 403},
		"other address":       {"GET", "/" + token + "/", "127.0.0.9:80", nil, "", 403},
		"rebound, no token":   {"GET", "/", "evil.example:80", nil, "", 404},
		"GET cannot do":       {"GET", do, own, map[string]string{"Origin": "http://" + own}, "", 405},
		"HEAD":                {"HEAD", "/" + token + "/", own, nil, "", 405},
		"PUT":                 {"PUT", do, own, map[string]string{"Origin": "http://" + own}, "{}", 405},
		"POST to the index":   {"POST", "/" + token + "/", own, map[string]string{"Content-Type": "application/json", "Origin": "http://" + own}, "{}", 405},
		"unknown run":         {"GET", "/" + token + "/run/1/", own, nil, "", 404},
		"no run":              {"GET", "/" + token + "/run/x/", own, nil, "", 404},
		"log of nothing":      {"GET", "/" + token + "/run/1/x-0/log?task=1", own, nil, "", 404},
		"unknown path":        {"GET", "/" + token + "/favicon.ico", own, nil, "", 404},
		"dots":                {"GET", "/" + token + "/run/../metrics", own, nil, "", 307},
		"own origin":          post(nil, `{"op":"pause"}`, passed),
		"charset":             post(map[string]string{"Content-Type": "application/json; charset=utf-8"}, `{"op":"pause"}`, passed),
		"same origin":         post(map[string]string{"Origin": "", "Sec-Fetch-Site": "same-origin"}, `{"op":"pause"}`, passed),
		"no origin":           post(map[string]string{"Origin": ""}, `{"op":"pause"}`, 403),
		"null origin":         post(map[string]string{"Origin": "null"}, `{"op":"pause"}`, 403),
		"other origin":        post(map[string]string{"Origin": "http://evil.example"}, `{"op":"pause"}`, 403),
		"other port":          post(map[string]string{"Origin": "http://127.0.0.1:81"}, `{"op":"pause"}`, 403),
		"https":               post(map[string]string{"Origin": "https://" + own}, `{"op":"pause"}`, 403),
		"other, same site":    post(map[string]string{"Origin": "http://evil.example", "Sec-Fetch-Site": "same-origin"}, `{"op":"pause"}`, 403),
		"same site":           post(map[string]string{"Origin": "", "Sec-Fetch-Site": "same-site"}, `{"op":"pause"}`, 403),
		"typed":               post(map[string]string{"Origin": "", "Sec-Fetch-Site": "none"}, `{"op":"pause"}`, 403),
		"a form":              post(map[string]string{"Content-Type": "application/x-www-form-urlencoded"}, `{"op":"pause"}`, 415),
		"text":                post(map[string]string{"Content-Type": "text/plain"}, `{"op":"pause"}`, 415),
		"no type":             post(map[string]string{"Content-Type": ""}, `{"op":"pause"}`, 415),
		"two types":           post(map[string]string{"Content-Type": "text/plain, application/json"}, `{"op":"pause"}`, 415),
		"too long":            post(nil, `{"op":"`+strings.Repeat("x", mostRequest)+`"}`, 413),
		"no JSON":             post(nil, `{"op":"pause"`, 400),
		"null":                post(nil, `null`, 400),
		"two values":          post(nil, `{"op":"pause"}{"op":"stop"}`, 400),
		"no op of a page":     post(nil, `{"op":"add","add":{"command":["id"]}}`, 400),
		"edit":                post(nil, `{"op":"edit","tasks":[1],"add":{"command":["id"]}}`, 400),
		"watch is for events": post(nil, `{"op":"watch"}`, 400),
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequestWithContext(context.Background(), c.method, c.path, strings.NewReader(c.body))
			r.Host = c.host
			for name, value := range c.headers {
				if value != "" {
					r.Header.Set(name, value)
				}
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			require.Equal(t, c.status, w.Code, w.Body.String())
			for header, want := range headers {
				if header != "Content-Security-Policy" {
					require.Equal(t, want, w.Header().Get(header), header)
				}
			}
			require.Contains(t, w.Header().Get("Content-Security-Policy"), "frame-ancestors 'none'")
			if !strings.HasPrefix(c.path, "/"+token+"/") {
				require.Empty(t, w.Body.String())
				require.Empty(t, w.Header().Get("Content-Type"))
			}
		})
	}
}

// TestRefusedHoldNothing: one without the token holds no connection, and so no room, by a body
// that never comes.
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

	dir := t.TempDir()
	for name, c := range map[string]struct {
		text string
		mode os.FileMode
		want string
	}{
		"readable": {token, 0o640, "others can read"},
		"writable": {token, 0o622, "others may write"},
		"empty":    {"", 0o600, "holds no token"},
		"short":    {"abcd", 0o600, "holds no token"},
		"path":     {"../../../../../etc/passwd", 0o600, "holds no token"},
	} {
		file := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(file, []byte(c.text), 0o600))
		require.NoError(t, os.Chmod(file, c.mode))
		err := Serve(context.Background(), Config{TokenFile: file})
		require.ErrorContains(t, err, c.want, name)
		require.ErrorContains(t, err, file)
	}
	fifo := filepath.Join(dir, "fifo")
	require.NoError(t, syscall.Mkfifo(fifo, 0o600))
	require.ErrorContains(t, Serve(context.Background(), Config{TokenFile: fifo}), "not a regular file")
	link := filepath.Join(dir, "link")
	require.NoError(t, os.Symlink(file, link))
	require.ErrorContains(t, Serve(context.Background(), Config{TokenFile: link}), "symbolic link")
	require.ErrorContains(t, Serve(context.Background(), Config{TokenFile: filepath.Join(dir, "none", "token")}), "none")
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

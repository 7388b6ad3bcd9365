package web

import (
	"cmp"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	"crew/runner/keep/trust"
)

const (
	policy     = "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
	textPolicy = "default-src 'none'; sandbox; " + policy
)

// headers are sent with every answer. Pages replace the content security policy.
var headers = map[string]string{
	"Content-Security-Policy":      textPolicy,
	"X-Content-Type-Options":       "nosniff",
	"Referrer-Policy":              "no-referrer",
	"Cache-Control":                "no-store",
	"Cross-Origin-Opener-Policy":   "same-origin",
	"Cross-Origin-Resource-Policy": "same-origin",
}

// guard passes on requests whose path begins with the token, and strips it. Requests without it learn
// nothing.
func (s *server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range headers {
			w.Header().Set(name, value)
		}
		c := http.NewResponseController(w)
		rest, status, why := s.check(r)
		if status == 0 {
			r.URL.Path, r.URL.RawPath = "/"+rest, ""
			next.ServeHTTP(&pacer{w, c}, r)
			return
		}
		_ = c.SetReadDeadline(time.Now()) // otherwise a client holds the connection by not sending its body
		w.Header().Set("Connection", "close")
		if why == "" {
			w.WriteHeader(status)
			return
		}
		http.Error(w, why, status)
	})
}

// check returns the path of a request after the token. To refuse the request it returns a status and,
// unless the client must not learn it, the reason.
func (s *server) check(r *http.Request) (rest string, status int, why string) {
	first, rest, found := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch {
	case subtle.ConstantTimeCompare([]byte(first), []byte(s.token)) != 1 || !found:
		return "", http.StatusNotFound, ""
	case !s.isOwn(r.Host):
		return "", http.StatusForbidden, "crew web is reached as localhost or 127.0.0.1, not as another name"
	case http.NewCrossOriginProtection().Check(r) != nil:
		return "", http.StatusForbidden, "only pages of crew web can change anything"
	}
	return rest, 0, ""
}

// isOwn reports whether a Host header names an address of this server. Any other name may be a foreign
// domain that resolves to this machine (DNS rebinding). Any port is accepted, because that of ssh -L
// may differ.
func (s *server) isOwn(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.Trim(name, "[]")
	return strings.EqualFold(name, "localhost") || name == "127.0.0.1" || name == "::1" || name == s.ip.String()
}

// pacer lets each write take at most sendTime, so that a browser that reads nothing loses its connection.
type pacer struct {
	http.ResponseWriter
	conn *http.ResponseController
}

// Write writes b within sendTime.
func (p *pacer) Write(b []byte) (int, error) {
	_ = p.conn.SetWriteDeadline(time.Now().Add(sendTime))
	return p.ResponseWriter.Write(b)
}

// Unwrap returns the ResponseWriter, for http.ResponseController.
func (p *pacer) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// leastToken is the length of the shortest token that a file may hold.
const leastToken = 22

// readToken returns the token in a file. If there is no file, it makes a new token and writes it; if
// file is "", the new token is not stored.
func readToken(file string) (string, error) {
	if file == "" {
		return rand.Text(), nil
	}
	f, err := trust.OpenOwn(file, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a FIFO does not block
	if errors.Is(err, fs.ErrNotExist) {
		token := rand.Text()
		if err := trust.WritePrivate(file, []byte(token+"\n")); err != nil {
			return "", fmt.Errorf("write the token: %w", err)
		}
		return token, nil
	}
	if err != nil {
		return "", fmt.Errorf("read the token: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	text, failed := io.ReadAll(io.LimitReader(f, 1000))
	if err = cmp.Or(err, failed); err != nil {
		return "", fmt.Errorf("read the token: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("others can read the token in %s: remove the file to get a new token", file)
	}
	token := strings.TrimSpace(string(text))
	if len(token) < leastToken || url.PathEscape(token) != token {
		return "", fmt.Errorf("%s has no token: remove it to get a new token, or name another file", file)
	}
	return token, nil
}

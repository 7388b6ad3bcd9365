package crewtest

import (
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
)

// Link is a port that leads to an ssh server. It counts what goes there, and can hold it.
type Link struct {
	Port string

	mu   sync.Mutex
	more *sync.Cond // limit or held has changed
	sent int64
	held bool
	stop int64 // no more bytes than that go there; 0 for any
}

// Link returns a port that leads to the server until the end of the test.
func (s SSHD) Link(t testing.TB) *Link {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &Link{Port: fmt.Sprint(listener.Addr().(*net.TCPAddr).Port)}
	l.more = sync.NewCond(&l.mu)
	t.Cleanup(func() {
		listener.Close()
		l.Hold(0)
	})
	go func() {
		for {
			here, err := listener.Accept()
			if err != nil {
				return
			}
			there, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", s.port))
			if err != nil {
				here.Close()
				continue
			}
			go l.carry(there, here)
			go func() {
				_, _ = io.Copy(here, there)
				here.Close()
			}()
		}
	}()
	return l
}

// carry brings the server what comes.
func (l *Link) carry(there, here net.Conn) {
	defer there.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := here.Read(buf)
		l.mu.Lock()
		for l.stop != 0 && l.sent+int64(n) > l.stop {
			l.held = true
			l.more.Wait()
		}
		l.sent += int64(n)
		l.mu.Unlock()
		if _, wrong := there.Write(buf[:n]); err != nil || wrong != nil {
			return
		}
	}
}

// Hold lets no more bytes through than these, of all connections together; 0 is for any.
func (l *Link) Hold(bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stop, l.held = bytes, false
	l.more.Broadcast()
}

// Held reports whether bytes wait for another Hold.
func (l *Link) Held() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held
}

// Sent returns how many bytes have gone through.
func (l *Link) Sent() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sent
}

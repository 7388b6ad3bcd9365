package control

import (
	"errors"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	mostConns = 64
	// idleLeast is how long a connection is idle before another may take its place.
	idleLeast = time.Second
	// Once the server closes, a connection may still be written to while its client
	// takes something every partingGap, and for partingGaps of them at most.
	partingGap  = 250 * time.Millisecond
	partingGaps = 12
)

// Server answers the clients of a run.
type Server struct {
	// configuration

	cfg   Config
	since time.Time
	sink  Sink
	looks looks

	lineTime, writeTime, gap time.Duration // other than the constants in tests

	// state

	closing chan struct{} // closed when the run is over
	wg      sync.WaitGroup

	mu     sync.Mutex
	timer  *time.Timer // until the socket is made
	socket *os.File    // nil without one
	path   string
	err    error // why there is no socket
	conns  map[*conn]struct{}
	closed bool
}

// Serve makes the server of a run. Where no socket can be made, the run has none.
func Serve(cfg Config) *Server {
	s := &Server{cfg: cfg, since: time.Now(), lineTime: lineTime, writeTime: writeTime, gap: partingGap, closing: make(chan struct{})}
	s.looks.do, s.looks.closing = cfg.Do, s.closing
	if cfg.Soon > 0 {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.timer = time.AfterFunc(cfg.Soon, s.open)
	} else {
		s.open()
	}
	return s
}

// Err returns why no socket could be made, or nil.
func (s *Server) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Sink returns the runner.Sink that tells the server's clients what happens. It must
// come before sinks that can block.
func (s *Server) Sink() *Sink { return &s.sink }

// open makes the socket and waits for clients.
func (s *Server) open() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	f, path, err := listen()
	if s.err = err; err != nil {
		return
	}
	s.socket, s.path, s.conns = f, path, map[*conn]struct{}{}
	s.wg.Go(func() { s.accept(f) })
}

// accept gives each client a goroutine, until the socket is closed.
func (s *Server) accept(socket *os.File) {
	for {
		f, err := accept(socket)
		switch {
		case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE), errors.Is(err, unix.ENOMEM), errors.Is(err, unix.ENOBUFS):
			select {
			case <-time.After(100 * time.Millisecond):
			case <-s.closing:
			}
		case err != nil:
			return
		default:
			s.welcome(f)
		}
	}
}

// welcome serves a client, or tells it why not.
func (s *Server) welcome(f *os.File) {
	c := newConn(s, f)
	uid, err := peer(f)
	switch {
	case err != nil:
	case !allowed(uid, uint32(os.Geteuid())):
		err = &Refused{"this run belongs to another user", refused}
	default:
		if err = s.enter(c); err == nil {
			s.wg.Go(func() {
				defer s.leave(c)
				c.serve()
			})
			return
		}
	}
	c.fail(err)
	_ = f.SetWriteDeadline(time.Now().Add(partingGap)) // it fits in the socket's buffer
	_ = c.flush()
	_ = f.Close()
}

// enter adds a connection, if there are not too many.
func (s *Server) enter(c *conn) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errOver
	}
	if len(s.conns) >= mostConns && !s.makeRoom() {
		return &Refused{"too many clients are connected to this run: try again later", refused}
	}
	s.conns[c] = struct{}{}
	return nil
}

// makeRoom gives up the connections whose clients are gone or, without any, the one
// that has been idle for the longest time. The caller must hold mu.
func (s *Server) makeRoom() bool {
	var oldest *conn
	since := time.Now().Add(-idleLeast).UnixNano()
	for c := range s.conns {
		if gone(c.f) {
			delete(s.conns, c)
		} else if idle := c.idle.Load(); idle != 0 && idle < since {
			oldest, since = c, idle
		}
	}
	if len(s.conns) >= mostConns && oldest != nil {
		_ = oldest.f.SetReadDeadline(time.Unix(1, 0))
		delete(s.conns, oldest)
	}
	return len(s.conns) < mostConns
}

func (s *Server) leave(c *conn) {
	_ = c.f.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}

// Close removes the socket and ends the connections. Clients that go on reading get
// what is on its way to them: Close waits for 3 seconds at most, and less than a second
// for those that do not read. It may be called again.
func (s *Server) Close() {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.closed = true
	if s.timer != nil {
		s.timer.Stop()
	}
	close(s.closing)
	if s.socket == nil {
		s.mu.Unlock()
		return
	}
	_ = os.Remove(s.path)
	_ = s.socket.Close()
	for c := range s.conns {
		_ = c.f.SetReadDeadline(time.Unix(1, 0))
		_ = c.f.SetWriteDeadline(time.Now().Add(s.gap))
	}
	s.mu.Unlock()
	s.part()
}

// part waits for the connections to end, and cuts those that do not.
func (s *Server) part() {
	over := make(chan struct{})
	go func() {
		s.wg.Wait()
		close(over)
	}()
	select {
	case <-over:
		return
	case <-time.After(partingGaps * s.gap):
	}
	s.mu.Lock()
	for c := range s.conns {
		_ = c.f.Close()
	}
	s.mu.Unlock()
	select {
	case <-over:
	case <-time.After(100 * time.Millisecond): // a feed that is stuck
	}
}

// over reports whether the server closes.
func (s *Server) over() bool {
	select {
	case <-s.closing:
		return true
	default:
		return false
	}
}

var errOver = &Refused{"the run is over", refused}

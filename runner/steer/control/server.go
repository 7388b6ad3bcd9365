package control

import (
	"cmp"
	"errors"
	"os"
	"sync"
	"syscall"
	"time"

	"crew/runner/decide/task"
	"crew/runner/exec/kernel"
)

const (
	maxConns = 576
	// Once the server closes, a connection may still be written to while its client
	// takes something every partingGap, and for partingGaps of them at most.
	partingGap  = 250 * time.Millisecond
	partingGaps = 12
)

// Server answers the clients of a run.
type Server struct {
	// configuration

	cfg  Config
	sink Sink

	// state

	closing chan struct{} // closed when the run is over
	wg      sync.WaitGroup

	turn    sync.Mutex     // held from the wait for a question's turn to its answer
	nextAsk time.Time      // when the next one may be asked; under turn
	latest  *task.Snapshot // under turn

	mu     sync.Mutex
	socket *os.File // nil without one
	path   string
	err    error // why there is no socket
	conns  map[*conn]struct{}
}

// Serve makes the server of a run. Where no socket can be made, the run has none.
func Serve(cfg Config) *Server {
	about := &cfg.About
	about.PID, about.Feeds, about.Since = os.Getpid(), cfg.Feed != nil, time.Now()
	about.Command = task.Bytes(task.Shorten(string(about.Command), maxCommand))
	cfg.lineTimeout, cfg.partingGap = cmp.Or(cfg.lineTimeout, lineTimeout), cmp.Or(cfg.partingGap, partingGap)
	s := &Server{cfg: cfg, closing: make(chan struct{}), conns: map[*conn]struct{}{}}
	s.sink.listeners = map[*listener]struct{}{}
	switch {
	case cfg.Delay > 0:
		time.AfterFunc(cfg.Delay, s.openSocket)
	case cfg.Delay != NoSocket:
		s.openSocket()
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
func (s *Server) openSocket() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isOver() {
		return
	}
	f, path, err := listen(s.cfg.About.Name)
	if s.err = err; err != nil {
		return
	}
	s.socket, s.path = f, path
	s.wg.Go(func() { s.accept(f) })
}

// accept gives each client a goroutine, until the socket is closed.
func (s *Server) accept(socket *os.File) {
	for {
		f, err := accept(socket)
		if err != nil { // as when there is no file descriptor
			select {
			case <-time.After(100 * time.Millisecond):
				continue
			case <-s.closing:
				return
			}
		}
		if err := checkPeer(f); err != nil {
			(&conn{s: s, link: link{f}}).refuse(err)
		} else {
			s.ServeClient(link{f})
		}
	}
}

// ServeClient serves a client in a goroutine, or tells it why it is not served. It closes the connection.
func (s *Server) ServeClient(l Link) {
	c := &conn{s: s, link: l}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.isOver():
		c.refuse(errOver)
	case len(s.conns) >= maxConns:
		c.refuse(errTooMany)
	default:
		s.conns[c] = struct{}{}
		s.wg.Go(c.serveAndClose)
	}
}

// live serves the client of a connection.
func (c *conn) serveAndClose() {
	c.serve()
	_ = c.link.Close()
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	delete(c.s.conns, c)
}

// refuse tells a client why it is not served, and closes the connection.
func (c *conn) refuse(err error) {
	c.replyEnd(nil, err)
	_ = c.link.SetWriteDeadline(time.Now().Add(partingGap)) // it fits in the socket's buffer
	_, _ = c.link.Write(c.out.Bytes())
	_ = c.link.Close()
}

// Close removes the socket and ends the connections. Clients that go on reading get
// what is on its way to them: Close waits for 3 seconds at most, and less than a second
// for those that do not read. It may be called again.
func (s *Server) Close() {
	s.mu.Lock()
	again := s.isOver()
	if !again {
		close(s.closing)
	}
	if again || s.socket == nil && len(s.conns) == 0 {
		s.mu.Unlock()
		return
	}
	if s.socket != nil {
		_ = os.Remove(s.path)
		s.refuseBacklog()
		_ = s.socket.Close()
	}
	for c := range s.conns {
		_ = c.link.SetReadDeadline(time.Unix(1, 0))
		_ = c.link.SetWriteDeadline(time.Now().Add(s.cfg.partingGap))
	}
	s.mu.Unlock()
	s.waitConns()
}

// dismiss tells the clients that nobody has accepted yet that the run is over, so that they
// know that nothing of what they ask is done. No more can connect.
func (s *Server) refuseBacklog() {
	_ = withFD(s.socket, func(fd int) error {
		_ = syscall.Shutdown(fd, syscall.SHUT_RD)
		for {
			f, err := kernel.Accept(fd)
			if err != nil {
				return err
			}
			(&conn{s: s, link: link{f}}).refuse(errOver)
		}
	})
}

// part waits for the connections to end, and cuts those that do not.
func (s *Server) waitConns() {
	over := make(chan struct{})
	go func() {
		s.wg.Wait()
		close(over)
	}()
	for _, wait := range [...]time.Duration{partingGaps * s.cfg.partingGap, 100 * time.Millisecond} { // for a feed that is stuck
		select {
		case <-over:
			return
		case <-time.After(wait):
		}
		s.mu.Lock()
		for c := range s.conns {
			_ = c.link.Close()
		}
		s.mu.Unlock()
	}
}

// over reports whether the server closes.
func (s *Server) isOver() bool {
	select {
	case <-s.closing:
		return true
	default:
		return false
	}
}

var errTooMany = errors.New("too many clients are connected to this run: try again later")

var errOver = &Refused{Text: "the run is over", Status: statusRefused, Over: true}

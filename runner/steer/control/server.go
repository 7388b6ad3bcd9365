package control

import (
	"cmp"
	"errors"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"crew/runner/decide/task"
)

const (
	maxConns = 576
	// Once the server closes, replies are still sent to a client that reads something every
	// partingGap, for at most partingGaps of them.
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

	turn    sync.Mutex     // held while a request waits for its turn in ask, and until it is answered
	nextAsk time.Time      // when ask may call the run again; guarded by turn
	latest  *task.Snapshot // guarded by turn

	mu     sync.Mutex
	socket *net.UnixListener // nil if there is none
	path   string
	err    error // why there is no socket
	conns  map[*conn]struct{}
}

// Serve starts the server of a run. If it cannot make a socket, the run has none; see Err.
func Serve(cfg Config) *Server {
	about := &cfg.About
	about.PID, about.Feeds, about.Since = os.Getpid(), cfg.Feed != nil, time.Now()
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

// Err returns the error of making the socket, or nil.
func (s *Server) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Sink returns the runner.Sink that passes events to the clients. It must get events before sinks that can
// block.
func (s *Server) Sink() *Sink { return &s.sink }

// openSocket makes the socket and starts to accept clients.
func (s *Server) openSocket() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isOver() {
		return
	}
	if s.socket, s.path, s.err = listen(s.cfg.About.Name); s.err == nil {
		s.wg.Go(func() { s.accept(s.socket) })
	}
}

// accept serves each client in a goroutine. Once the run is over, it tells so the clients that have connected, so
// that they know that their requests were not carried out, and closes the socket.
func (s *Server) accept(l *net.UnixListener) {
	defer l.Close()
	for {
		c, err := l.AcceptUnix()
		if err != nil { // for example, no file descriptor is left
			select {
			case <-time.After(100 * time.Millisecond):
				continue
			case <-s.closing:
				_ = withFD(l, s.refuseBacklog)
				return
			}
		}
		if err := checkPeer(c); err != nil {
			(&conn{s: s, link: link{c}}).refuse(err)
		} else {
			s.ServeClient(link{c})
		}
	}
}

// refuseBacklog tells the clients that were not accepted yet that the run is over. It does not wait for any.
func (s *Server) refuseBacklog(fd int) error {
	for {
		client, _, err := syscall.Accept(fd)
		if err != nil {
			return err
		}
		(&conn{s: s, link: link{os.NewFile(uintptr(client), "client")}}).refuse(errOver)
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
		c.refuse(errors.New("too many clients are connected to this run: try again later"))
	default:
		s.conns[c] = struct{}{}
		s.wg.Go(c.serve)
	}
}

// refuse tells the client why it is not served, and closes the connection.
func (c *conn) refuse(err error) {
	c.replyEnd(nil, err)
	_ = c.link.SetWriteDeadline(time.Now().Add(partingGap)) // it fits into the buffer of the socket
	_, _ = c.link.Write(c.out.Bytes())
	_ = c.link.Close()
}

// Close removes the socket and ends the connections. Clients that keep reading still get their replies: Close
// waits for at most 3 seconds, and less than a second for clients that do not read. It may be called
// again.
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
		_ = withFD(s.socket, func(fd int) error { return syscall.Shutdown(fd, syscall.SHUT_RD) }) // no more clients can connect
		_ = s.socket.SetDeadline(time.Unix(1, 0))
	}
	for c := range s.conns {
		_ = c.link.SetReadDeadline(time.Unix(1, 0))
		_ = c.link.SetWriteDeadline(time.Now().Add(s.cfg.partingGap))
	}
	s.mu.Unlock()
	s.waitConns()
}

// waitConns waits for the connections to end, and then closes the remaining ones.
func (s *Server) waitConns() {
	over := make(chan struct{})
	go func() {
		s.wg.Wait()
		close(over)
	}()
	for _, wait := range [...]time.Duration{partingGaps * s.cfg.partingGap, 100 * time.Millisecond} { // the second wait is for a Feed that is stuck
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

// isOver reports whether the server is closing or closed.
func (s *Server) isOver() bool {
	select {
	case <-s.closing:
		return true
	default:
		return false
	}
}

var errOver = &Refused{Text: "this run is over", Status: statusRefused, Over: true}

package control

import (
	"errors"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"crew/runner/exec/kernel"
)

const (
	replyWait     = time.Second      // for the server to reply
	readWait      = 5 * time.Second  // for the server to read a request
	remoteTimeout = 30 * time.Second // after the last exchange
	remoteParting = 5 * time.Second  // for the clients to fetch their last replies
	maxReply      = 32 << 10         // bytes of one reply
)

// RemoteClients connects a server to clients on other machines, which exchange messages in turns: a
// question, and its answer. Its methods are safe for concurrent use.
type RemoteClients struct {
	ServeClient func(Link) // serves a client; nil if clients are not served

	mu      sync.Mutex
	clients map[string]*remoteClient
}

// remoteClient is the client's end of a connection to the server.
type remoteClient struct {
	*os.File
	expiry *time.Timer
}

// remoteLink is the server's end.
type remoteLink struct {
	link
	from string // the user and machine of the client
}

// Exchange passes said, the words of a client, to the server. If said is empty, it waits up to a second for
// a reply. It returns the reply so far; done means that no more will come. name identifies the connection,
// which is opened if first is set, and from names the client.
func (v *RemoteClients) Exchange(name, from string, first bool, said []byte) (reply []byte, done bool, err error) {
	v.mu.Lock()
	c := v.clients[name]
	if c == nil && first && v.ServeClient != nil && len(v.clients) < maxConns {
		var ours *os.File
		c = &remoteClient{expiry: time.AfterFunc(remoteTimeout, func() { v.Disconnect(name) })}
		if ours, c.File, err = pair(); err != nil {
			v.mu.Unlock()
			return nil, true, err
		}
		if v.clients == nil {
			v.clients = map[string]*remoteClient{}
		}
		v.clients[name] = c
		go v.ServeClient(remoteLink{link{ours}, from})
	}
	v.mu.Unlock()
	if c == nil {
		return nil, true, errors.New("the run takes no more clients, or has disconnected this one")
	}
	c.expiry.Reset(remoteTimeout)
	wait := replyWait
	if len(said) > 0 {
		_ = c.SetWriteDeadline(time.Now().Add(readWait))
		_, _ = c.Write(said) // a server without room for this client answers without reading
		wait = 0
	}
	_ = c.SetReadDeadline(time.Now().Add(wait))
	reply = make([]byte, maxReply)
	n, err := c.Read(reply)
	return reply[:n], err != nil && !errors.Is(err, os.ErrDeadlineExceeded), nil
}

// Disconnect closes the connection of a client.
func (v *RemoteClients) Disconnect(name string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if c := v.clients[name]; c != nil {
		c.expiry.Stop()
		_ = c.Close()
		delete(v.clients, name)
	}
}

// Wait waits until the clients have fetched their last replies and disconnected, for up to five seconds. The
// server must be closed.
func (v *RemoteClients) Wait() {
	kernel.Poll(remoteParting, func() bool {
		v.mu.Lock()
		defer v.mu.Unlock()
		return len(v.clients) == 0
	})
}

// pair returns the two ends of a connected pair of sockets.
func pair() (a, b *os.File, err error) {
	syscall.ForkLock.RLock() // otherwise a process that starts meanwhile would hold both open
	defer syscall.ForkLock.RUnlock()
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	for _, fd := range ends {
		unix.CloseOnExec(fd)
		_ = unix.SetNonblock(fd, true)
	}
	return os.NewFile(uintptr(ends[0]), "client"), os.NewFile(uintptr(ends[1]), "client"), nil
}

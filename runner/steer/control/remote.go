package control

import (
	"errors"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	turnWait    = time.Second      // for a run to have something to say
	readWait    = 5 * time.Second  // for it to read what a client says
	visitorGone = 30 * time.Second // without a turn
	mostSaid    = 32 << 10         // bytes of one reply
)

// RemoteClients connects a server to clients on other machines, which exchange messages in turns: a
// question, and its answer. Its methods are safe for concurrent use.
type RemoteClients struct {
	ServeClient func(Link) // serves a client; nil if clients are not served

	mu  sync.Mutex
	all map[string]*visitor
}

// visitor is a client's end of a connection to the server.
type visitor struct {
	*os.File
	leaves *time.Timer
}

// far is the server's end.
type far struct {
	link
	from string // who the client is, and where
}

// Exchange passes said, the words of a client, to the server. If said is empty, it waits up to a second for
// a reply. It returns the reply so far; done means that no more will come. name identifies the connection,
// which is opened if first is set, and from says who the client is.
func (v *RemoteClients) Exchange(name, from string, first bool, said []byte) (reply []byte, done bool, err error) {
	v.mu.Lock()
	c := v.all[name]
	if c == nil && first && v.ServeClient != nil && len(v.all) < mostConns {
		var ours *os.File
		c = &visitor{leaves: time.AfterFunc(visitorGone, func() { v.Disconnect(name) })}
		if ours, c.File, err = pair(); err != nil {
			v.mu.Unlock()
			return nil, true, err
		}
		if v.all == nil {
			v.all = map[string]*visitor{}
		}
		v.all[name] = c
		go v.ServeClient(far{link{ours}, from})
	}
	v.mu.Unlock()
	if c == nil {
		return nil, true, errors.New("it takes no more clients, or has given this one up")
	}
	c.leaves.Reset(visitorGone)
	wait := turnWait
	if len(said) > 0 {
		_ = c.SetWriteDeadline(time.Now().Add(readWait))
		_, _ = c.Write(said) // a server that has no room says so and does not read
		wait = 0
	}
	_ = c.SetReadDeadline(time.Now().Add(wait))
	reply = make([]byte, mostSaid)
	n, err := c.Read(reply)
	return reply[:n], err != nil && !errors.Is(err, os.ErrDeadlineExceeded), nil
}

// Disconnect closes the connection of a client.
func (v *RemoteClients) Disconnect(name string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if c := v.all[name]; c != nil {
		c.leaves.Stop()
		_ = c.Close()
		delete(v.all, name)
	}
}

// pair returns the two ends of a connection.
func pair() (a, b *os.File, err error) {
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

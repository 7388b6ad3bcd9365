package engine

import (
	"errors"
	"io/fs"
	"os"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"golang.org/x/sys/unix"

	"crew/runner/keep/trust"
)

const startWait = 10 * time.Second // limit for the start of a server

// startServer starts a server in this process. With o.DontListen, clients reach it only by
// nats.InProcessServer.
func startServer(o *server.Options) (*server.Server, error) {
	o.NoSigs, o.NoLog = true, true
	s, err := server.NewServer(o)
	if err != nil {
		return nil, err
	}
	s.Start()
	if !s.ReadyForConnections(startWait) {
		s.Shutdown()
		return nil, errors.New("the embedded server does not start")
	}
	return s, nil
}

// stopServer stops a server and waits until it has stopped.
func stopServer(s *server.Server) {
	s.Shutdown()
	s.WaitForShutdown()
}

// lockFile opens a file of this user and locks it until it is closed. It fails with EWOULDBLOCK if
// another process holds the lock.
func lockFile(path string, flags int) (*os.File, error) {
	f, err := trust.OpenOwn(path, os.O_RDWR|flags, 0o600)
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == nil {
		err = unix.Fstat(int(f.Fd()), &st)
	}
	if err == nil && st.Nlink == 0 { // its owner has just removed it
		err = fs.ErrNotExist
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

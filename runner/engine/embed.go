package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"golang.org/x/sys/unix"

	"crew/runner/trust"
)

const startWait = 10 * time.Second // for a server that starts

// startServer starts a server in this process, with crew's streams, which it makes as
// the user of as. Without a port in o it listens to nobody, and only
// nats.InProcessServer reaches it.
func startServer(o *server.Options, l limits, as ...nats.Option) (*server.Server, error) {
	o.JetStream, o.NoSigs, o.NoLog = true, true, o.LogFile == ""
	s, err := server.NewServer(o)
	if err != nil {
		return nil, err
	}
	s.Start()
	if !s.ReadyForConnections(startWait) {
		s.Shutdown()
		return nil, errors.New("the embedded server does not start")
	}
	c, err := dial("", nil, append(as, nats.InProcessServer(s), nats.Timeout(startWait))...)
	if err == nil {
		err = c.create(context.Background(), l)
		c.close()
	}
	if err != nil {
		s.Shutdown()
		s.WaitForShutdown()
		return nil, fmt.Errorf("make the streams in %s: %w", o.StoreDir, err)
	}
	return s, nil
}

// dirPrefix begins the names of the directories of private servers.
const dirPrefix = "crew-engine-"

// privateDir makes a directory for the server of a run, which remove removes. It is
// locked, so those of runs that were killed can be told, and go at the next run's
// start.
func privateDir() (dir string, remove func(), err error) {
	old, _ := filepath.Glob(filepath.Join(os.TempDir(), dirPrefix+"*"))
	for _, dir := range old {
		if f := lockDir(dir, unix.LOCK_NB); f != nil {
			_ = os.RemoveAll(dir)
			f.Close()
		}
	}
	if dir, err = os.MkdirTemp("", dirPrefix); err != nil {
		return "", nil, fmt.Errorf("make a directory for the run: %w", err)
	}
	f := lockDir(dir, 0)
	if f == nil { // another run has taken it for an old one
		return privateDir()
	}
	return dir, func() {
		_ = os.RemoveAll(dir)
		f.Close()
	}, nil
}

// lockDir locks a directory of this user's until the file is closed. It returns nil if
// that cannot be, or the directory is not there any more.
func lockDir(dir string, how int) *os.File {
	f, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil
	}
	var open, there unix.Stat_t
	if err = unix.Fstat(int(f.Fd()), &open); err == nil && trust.Own(dir, &open) == nil &&
		unix.Flock(int(f.Fd()), unix.LOCK_EX|how) == nil {
		if err = unix.Lstat(dir, &there); err == nil && there.Ino == open.Ino {
			return f
		}
	}
	f.Close()
	return nil
}

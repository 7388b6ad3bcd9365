package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sys/unix"

	"crew/runner/control"
	"crew/runner/trust"
)

const startWait = 10 * time.Second // for a server that starts

// startServer starts a server in this process, with crew's streams, which it makes as
// the user of as. Without a port in o it listens to nobody, and only
// nats.InProcessServer reaches it.
func startServer(o *server.Options, storage jetstream.StorageType, as ...nats.Option) (*server.Server, error) {
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
		err = c.create(context.Background(), storage, 1)
		c.close()
	}
	if err != nil {
		s.Shutdown()
		s.WaitForShutdown()
		return nil, fmt.Errorf("make the streams in %s: %w", o.StoreDir, err)
	}
	return s, nil
}

// Names of a private server's directory, in that of the user, and of what is in it. The marker
// holds markerText, and is locked while the run lives.
const (
	dirPrefix  = "server."
	markerName = "crew-server"
	markerText = "This directory is a server's of a run of crew, which removes it.\n"
	dataName   = "data" // all that the server writes
)

// privateDir makes a directory for the server of a run, which writes to data, and which remove
// removes. It also removes those of runs that were killed: what has a marker of crew's that
// nobody has locked.
func privateDir() (data string, remove func(), err error) {
	top, err := control.TempDir()
	if err != nil {
		return "", nil, fmt.Errorf("make a directory for the run: %w", err)
	}
	old, _ := filepath.Glob(filepath.Join(top, dirPrefix+"*"))
	for _, dir := range old {
		if f := lockFile(filepath.Join(dir, markerName), 0); f != nil {
			if text, _ := io.ReadAll(io.LimitReader(f, 1<<10)); string(text) == markerText {
				removeDir(dir)
			}
			f.Close()
		}
	}
	dir, err := os.MkdirTemp(top, dirPrefix)
	if err != nil {
		return "", nil, fmt.Errorf("make a directory for the run: %w", err)
	}
	f := lockFile(filepath.Join(dir, markerName), os.O_CREATE|os.O_EXCL)
	if f == nil {
		return "", nil, fmt.Errorf("lock a file in %s: set TMPDIR to a directory where that can be", dir)
	}
	remove = func() {
		removeDir(dir)
		f.Close()
	}
	if _, err = f.WriteString(markerText); err != nil {
		remove()
		return "", nil, fmt.Errorf("make a directory for the run: %w", err)
	}
	return filepath.Join(dir, dataName), remove, nil
}

// lockFile opens and locks a file of this user's until it is closed. It returns nil if that cannot
// be.
func lockFile(path string, flags int) *os.File {
	f, err := trust.OpenOwn(path, os.O_RDWR|flags, 0o600)
	if err != nil {
		return nil
	}
	if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		f.Close()
		return nil
	}
	return f
}

// removeDir removes what crew has made in a directory, and then that, unless it holds anything else.
func removeDir(dir string) {
	_ = os.RemoveAll(filepath.Join(dir, dataName))
	_ = os.Remove(filepath.Join(dir, markerName))
	_ = os.Remove(dir)
}

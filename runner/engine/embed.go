package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
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

package engine

import (
	"errors"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// startServer starts a server in this process. Without a port in o it listens to
// nobody, and is reached by within alone.
func startServer(o *server.Options) (*server.Server, error) {
	o.JetStream, o.NoSigs, o.NoLog = true, true, o.LogFile == ""
	s, err := server.NewServer(o)
	if err != nil {
		return nil, err
	}
	s.Start()
	if !s.ReadyForConnections(10 * time.Second) {
		s.Shutdown()
		return nil, errors.New("the embedded server does not start")
	}
	return s, nil
}

// within has a connection go to a server in this process.
func within(s *server.Server) nats.Option { return nats.InProcessServer(s) }

// privateServer returns the options of a server that nobody outside this process can
// reach.
func privateServer(dir string) *server.Options {
	return &server.Options{StoreDir: dir, DontListen: true}
}

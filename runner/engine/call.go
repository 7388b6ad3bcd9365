package engine

import (
	"context"
	"fmt"
	"io"

	"crew/runner/trust"
	"crew/runner/wiring"
)

// Main carries out a command of crew engine.
func Main(c wiring.EngineCall) error {
	switch c.Verb {
	case "serve":
		return serve(&c)
	case "dispatch":
		return dispatch(&c)
	case "key":
		k := trust.NewKey()
		if err := k.Save(c.Operand); err != nil {
			return err
		}
		return say(&c, k.Line()+"\n") // with which workers trust it
	}
	s, err := connect(c.URL, c.Notice)
	if err != nil {
		return err
	}
	defer s.close()
	switch c.Verb {
	case "init":
		return s.init(&c)
	case "status":
		return s.status(&c)
	case opLog:
		return s.showLog(&c)
	case opDrain:
		return s.drain(&c)
	}
	return s.steer(&c)
}

// init makes the streams, and prints the least rights.
func (s *session) init(c *wiring.EngineCall) error {
	l := diskLimits
	if c.MaxTasks > 0 {
		l.tasks = c.MaxTasks
	}
	if c.MaxOutput > 0 {
		l.results = c.MaxOutput
	}
	if c.Replicas > 0 {
		l.replicas = c.Replicas
	}
	if err := s.create(context.Background(), l); err != nil {
		return fmt.Errorf("make the streams: %w", notReady(err))
	}
	return say(c, "# The streams are there. These are the least rights, as a part of nats-server.conf:\n"+leastRights())
}

func say(c *wiring.EngineCall, text string) error {
	_, err := io.WriteString(c.Out, text)
	return err
}

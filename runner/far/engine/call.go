package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go"

	"crew/runner/decide/task"
	"crew/runner/far/credentials"
	"crew/runner/front/wiring"
)

// Far returns the functions of this package that crew calls.
func Far() *wiring.Far {
	return &wiring.Far{Submit: Submit, Detach: Detach, Leave: Leave, Work: Work, Attach: Attach, Engine: Main}
}

// Main runs a command of crew engine.
func Main(c *wiring.Call, verb string) error {
	switch verb {
	case "serve":
		return serve(c)
	case "key":
		k := credentials.NewKey()
		if err := k.Save(c.Ctl.Run); err != nil {
			return err
		}
		return write(c, credentials.Line(k.Signer)+"\n") // for the --trust file of workers
	case "init":
		return write(c, "# These are the least rights, as a part of nats-server.conf:\n"+leastRights())
	}
	s, err := connectFor(c)
	if err != nil {
		return err
	}
	defer s.close()
	return s.explain(s.carryOut(c, verb))
}

// connectFor connects for a command of crew engine. With --dir it connects as the owner of the hub
// there, which may still be starting.
func connectFor(c *wiring.Call) (*session, error) {
	if c.Hub.Dir == "" {
		return connect(c.Engine.URL, c.Notice)
	}
	s, err := connectWithin(startWait, filepath.Join(c.Hub.Dir, ownerFile), c.Notice, errNoServer, os.ErrNotExist)
	if errors.Is(err, os.ErrNotExist) {
		err = fmt.Errorf("there is no hub in %s: start crew engine serve --dir %[1]s", c.Hub.Dir)
	}
	return s, err
}

func (s *session) carryOut(c *wiring.Call, verb string) error {
	switch verb {
	case "status":
		return s.status(c)
	case opDrain:
		return s.drain(c)
	case opInvite:
		return s.invite(c)
	case opRevoke:
		return s.revoke(c)
	}
	return s.cancel(c)
}

var errNoHub = errors.New("the server there is not crew engine serve: it cannot keep runs, and its configuration says who may connect (crew engine init prints the least rights)")

// askHub sends an order to the hub. An Answer with Err becomes an error.
func (s *session) askHub(ctx context.Context, subject string, o Order) (Answer, error) {
	a, err := s.askRetrying(ctx, subject, o, s.hub) // it may be starting
	switch {
	case s.hub || !errors.Is(err, nats.ErrNoResponders):
	case o.Record != nil && o.Record.For != "":
		a.Err = fmt.Sprintf("no crew serve --name %s --state DIR is connected, and the server there is not crew engine serve, which would keep the tasks", o.Record.For)
	default:
		a.Err = errNoHub.Error()
	}
	if a.Err != "" {
		err = errors.New(a.Err)
	}
	return a, err
}

// invite asks the hub to let a user connect, and prints the user's context.
func (s *session) invite(c *wiring.Call) error {
	u := &credentials.User{Name: c.Ctl.Run, Submitter: c.Hub.Invite.Submitter}
	if c.Hub.Invite.For > 0 {
		u.Expires = time.Now().Add(c.Hub.Invite.For).Truncate(time.Second)
	}
	a, err := s.askHub(context.Background(), hubSubject, Order{Op: opInvite, User: u})
	if err != nil {
		return err
	}
	if st, err := c.Out.Stat(); err == nil && st.Mode().IsRegular() {
		_ = c.Out.Chmod(0o600) // fails if the file is another user's
	}
	text, err := contextText(a.Context)
	if err == nil {
		err = write(c, string(text))
	}
	return err
}

// revoke asks the hub to remove a user and close the user's connections.
func (s *session) revoke(c *wiring.Call) error {
	a, err := s.askHub(context.Background(), hubSubject, Order{Op: opRevoke, User: &credentials.User{Name: c.Ctl.Run}})
	if err != nil {
		return err
	}
	return write(c, fmt.Sprintf("%s revoked, %s closed\n", c.Ctl.Run, task.Count(int64(a.Conns), "connection")))
}

func write(c *wiring.Call, text string) error {
	_, err := io.WriteString(c.Out, text)
	return err
}

package engine

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"

	"crew/runner/decide/task"
	"crew/runner/steer/control"
)

// talk passes one turn of a client of crew ctl on another machine to a run. Turn 0 disconnects the
// client.
func talk(v *control.RemoteClients, o *Order, a *Answer) (err error) {
	if o.Turn == 0 {
		v.Disconnect(o.Client)
		return nil
	}
	a.Data, a.Done, err = v.Exchange(o.Client, o.by(), o.Turn == 1, o.Data)
	return err
}

// Relay connects a client of crew ctl to a run on another machine, and returns the exit status. Errors
// are reported to the client.
func Relay(engine, run string, client io.ReadWriter) int {
	s, err := connect(engine, nil)
	if err == nil {
		defer s.close()
		err = s.explain(s.relay(run, client))
	}
	if err != nil {
		text, _ := json.Marshal(control.Reply{V: control.Version, End: true, Facts: task.Facts{Error: task.Bytes(err.Error())}, Status: 1})
		_, _ = client.Write(append(text, '\n'))
	}
	return 0
}

func (s *session) relay(name string, client io.ReadWriter) error {
	r, err := s.findRun(context.Background(), name)
	if err != nil {
		return err
	}
	subject := runSubject(r.User, r.Run)
	switch {
	case r.Progress != nil && r.State == runDone:
		subject = dispatchSubject(s.user) // the hub answers for a run that is over
	case r.State != runRunning:
		return fmt.Errorf("run %s is %s, not running: crew engine status says when it runs", r.Run, r.State)
	}
	said, err := bufio.NewReader(client).ReadBytes('\n')
	if err != nil {
		return err
	}
	left := make(chan struct{})
	go func() {
		defer close(left)
		_, _ = io.Copy(io.Discard, client)
	}()
	o := Order{Op: opTalk, Client: rand.Text(), By: me()}
	defer func() {
		o.Run, o.Turn = r.Run, 0
		_ = s.nc.Publish(subject, o.encode())
		_ = s.nc.FlushTimeout(answerWait)
	}()
	for {
		select {
		case <-left:
			return nil
		default:
		}
		n := min(len(said), maxMessage)
		o.Data, said = said[:n], said[n:]
		o.Turn++
		a, err := s.askRun(r, subject, o)
		if err != nil {
			return err
		}
		if _, err = client.Write(a.Data); err != nil || a.Done {
			return nil
		}
	}
}

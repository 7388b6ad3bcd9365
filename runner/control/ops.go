package control

import (
	"errors"
	"os"
	"slices"
	"time"

	"crew/runner/task"
)

const (
	// mostIDs is how many tasks one pass through the door is about, and mostAsked if it
	// is a question, for which the run may have to look at all tasks.
	mostIDs   = 1000
	mostAsked = 20
	// mostWorkers is the largest number that a resize may name.
	mostWorkers = 100_000
)

// answer carries out a request and replies to it.
func (c *conn) answer(r *Request) {
	s := c.s
	switch r.Op {
	case "hello":
		hello, err := s.hello()
		c.end(&Reply{Hello: hello}, err)
	case "status":
		status, err := s.status()
		c.end(&Reply{Run: status}, err)
	case "log":
		c.log(r)
	case "explain":
		if len(r.Tasks) == 0 {
			c.fail(bad("explain needs tasks"))
			return
		}
		reply, err := s.each(task.Explain, r.Tasks)
		c.end(reply, err)
	case "pause":
		c.end(&Reply{}, s.cfg.Do(task.Command{Op: task.Pause}).Err)
	case "resume":
		c.end(&Reply{}, s.cfg.Do(task.Command{Op: task.Resume}).Err)
	case "resize":
		c.end(&Reply{}, s.resize(r))
	case "cancel":
		c.cancel(r)
	case "retry":
		if len(r.Tasks) == 0 {
			c.fail(bad("retry needs tasks"))
			return
		}
		reply, err := s.each(task.Retry, r.Tasks)
		c.end(reply, err)
	case "drain":
		op := task.Drain
		if r.Rest {
			op = task.Rest
		}
		c.end(&Reply{}, s.cfg.Do(task.Command{Op: op}).Err)
	case "stop":
		c.end(&Reply{}, s.cfg.Do(task.Command{Op: task.Stop}).Err)
	case "add":
		c.add(r)
	case "watch":
		c.watch()
	}
}

func (s *Server) total() (int64, bool) {
	if s.cfg.Total == nil {
		return 0, false
	}
	return s.cfg.Total()
}

func (s *Server) hello() (*Hello, error) {
	snap, err := s.looks.snapshot()
	if err != nil {
		return nil, err
	}
	total, known := s.total()
	return &Hello{
		PID: os.Getpid(), Name: s.cfg.Name, Command: task.Bytes(task.Shorten(s.cfg.Command, longest)), Dir: task.Bytes(s.cfg.Dir),
		Feeds: s.cfg.Feed != nil, Values: s.cfg.Values, Most: s.cfg.Most, Since: s.since, State: snap.State.String(), Progress: progress(snap, total, known),
	}, nil
}

func (s *Server) status() (*Status, error) {
	snap, err := s.looks.snapshot()
	if err != nil {
		return nil, err
	}
	total, known := s.total()
	status := StatusOf(snap, total, known)
	if s.cfg.PIDs != nil {
		pids := s.cfg.PIDs()
		for i := range status.Tasks {
			status.Tasks[i].PID = pids[status.Tasks[i].Task]
		}
	}
	return status, nil
}

// each sends a command about tasks through the door, in parts.
func (s *Server) each(op task.Op, ids []uint64) (*Reply, error) {
	reply := &Reply{}
	var errs error
	do, most := s.cfg.Do, mostIDs
	if op == task.Explain {
		do, most = func(cmd task.Command) task.Reply { return s.looks.ask(cmd, nil) }, mostAsked
	}
	for part := range slices.Chunk(ids, most) {
		if s.over() {
			return reply, errOver
		}
		got := do(task.Command{Op: op, IDs: part})
		reply.Tasks = append(reply.Tasks, got.IDs...)
		now := time.Now()
		for i := range got.Wheres {
			reply.Wheres = append(reply.Wheres, whereOf(&got.Wheres[i], now))
		}
		if errs == nil {
			errs = got.Err
		}
	}
	return reply, errs
}

func (s *Server) resize(r *Request) error {
	cmd := task.Command{Op: task.Resize, N: r.N}
	switch {
	case r.N > mostWorkers || r.N < -mostWorkers:
		return bad("a run has at most %d workers", mostWorkers)
	case r.Relative && r.N != 0:
		cmd.Op = task.Grow
	case r.N < 1:
		return bad("resize needs a number of workers: pause starts nothing more")
	}
	return s.cfg.Do(cmd).Err
}

func (c *conn) cancel(r *Request) {
	switch {
	case len(r.Tasks) > 0 == (r.Key != nil):
		c.fail(bad("cancel needs either tasks or a key"))
	case r.Key != nil:
		got := c.s.cfg.Do(task.Command{Op: task.Cancel, Key: string(*r.Key)})
		c.end(&Reply{Tasks: got.IDs}, got.Err)
	default:
		reply, err := c.s.each(task.Cancel, r.Tasks)
		c.end(reply, err)
	}
}

// add adds tasks and, if asked to, follows them.
func (c *conn) add(r *Request) {
	a := r.Add
	switch {
	case c.s.cfg.Feed == nil:
		c.fail(&Refused{"this run takes no tasks: crew serve makes one that does", refused})
		return
	case a == nil || len(a.Values) > 0 == (len(a.Command) > 0):
		c.fail(bad("add needs either values or a command"))
		return
	case a.Lines && len(a.Values) == 0:
		c.fail(bad("lines are values"))
		return
	}
	var ids []uint64
	var f *follower
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, 200*time.Millisecond) {
		err := c.s.cfg.Feed.Add(a, func(got []uint64) {
			ids = slices.Clone(got)
			if r.Wait {
				f = c.s.sink.follow(ids...)
			}
		})
		if err == nil {
			break
		}
		c.s.sink.unfollow(f)
		f = nil
		if !a.Block || !errors.Is(err, task.ErrFull) {
			c.fail(err)
			return
		}
		_ = c.flush()
		if !c.pause(wait) {
			c.fail(errOver)
			return
		}
	}
	if f == nil {
		c.end(&Reply{Tasks: ids}, nil)
		return
	}
	defer c.s.sink.unfollow(f)
	c.put(&Reply{Tasks: ids})
	_ = c.flush()
	ended, err := c.follow(f)
	if left := f.left(); err != nil && len(left) > 0 {
		_, _ = c.s.each(task.Cancel, left)
	}
	c.end(&Reply{Ended: ended}, err)
}

// pause waits for a while. It returns false if the client went away or the run is
// over.
func (c *conn) pause(d time.Duration) bool {
	select {
	case <-c.s.closing:
		return false
	case <-time.After(d):
		return !c.gone()
	}
}

package control

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"crew/runner/decide/task"
)

const (
	// maxListed is how many tasks explain lists if the request does not name them.
	maxListed = 1000
	// maxWorkers is the largest number of workers that a request may ask for.
	maxWorkers = 100_000
)

// op carries out a request. It returns the last reply, which may be nil, and the error to put into it.
type op func(*conn, *Request) (*Reply, error)

// ops holds the requests.
var ops = map[string]op{
	"hello": (*conn).hello, "status": (*conn).status, "watch": (*conn).watch, "log": (*conn).log,
	"explain": (*conn).explain, "curves": (*conn).curves, "wait": (*conn).await, "add": (*conn).add,
	"pause": steer(task.Pause), "resume": steer(task.Resume), "resize": steer(task.Resize), "cancel": steer(task.Cancel),
	"retry": steer(task.Retry), "hold": steer(task.Hold), "release": steer(task.Release), "move": steer(task.Move),
	"drain": steer(task.Drain), "stop": steer(task.Stop), "signal": (*conn).signal, "send": (*conn).send,
}

// queries are the requests that do not change the run or its tasks, and add.
var queries = []string{"hello", "status", "watch", "log", "explain", "curves", "wait", "add"}

// Steers reports whether the request with this name controls the run.
func Steers(name string) bool { return ops[name] != nil && !slices.Contains(queries, name) }

// Waits reports whether the answer to a request with this name may take any time.
func Waits(name string) bool { return slices.Contains([]string{"add", "log", "watch", "wait"}, name) }

// steer returns an op that carries out a command of the run.
func steer(op task.Op) op {
	return func(c *conn, r *Request) (_ *Reply, err error) {
		cmd := task.Command{Op: op, IDs: r.Tasks}
		switch op {
		case task.Cancel:
			cmd, err = selection(r, op)
		case task.Retry, task.Hold, task.Release, task.Move:
			if !r.Last {
				cmd.N = -1 // a move goes to the front
			}
			if len(r.Tasks) == 0 {
				err = badRequest("%s needs tasks", r.Op)
			}
		case task.Resize:
			switch cmd.N = r.N; {
			case r.N > maxWorkers || r.N < -maxWorkers:
				err = badRequest("a run has at most %d workers", maxWorkers)
			case r.Relative && r.N != 0:
				cmd.Op = task.Grow
			case r.N < 1:
				err = badRequest("resize needs a number of workers: pause starts nothing more")
			}
		case task.Drain:
			if r.Rest {
				cmd.Op = task.StopReading
			}
		}
		if err != nil {
			return nil, err
		}
		return c.carryOut(cmd)
	}
}

func (c *conn) hello(*Request) (*Reply, error) {
	now, err := c.s.status()
	if err != nil {
		return nil, err
	}
	h := c.s.cfg.About
	h.State, h.Progress = now.State, now.Progress
	return &Reply{Hello: &h}, nil
}

func (c *conn) status(*Request) (*Reply, error) {
	now, err := c.s.status()
	return &Reply{Run: now}, err
}

func (c *conn) curves(*Request) (*Reply, error) {
	if c.s.cfg.Curves == nil {
		return nil, errors.New("this run keeps no figures over time")
	}
	return &Reply{Curves: c.s.cfg.Curves()}, nil
}

// status returns a status of the run that is not older than the call.
func (s *Server) status() (*Status, error) {
	reply := s.ask(task.Command{Op: task.Look})
	if reply.Err != nil {
		return nil, reply.Err
	}
	return s.describe(reply.Snapshot), nil
}

// final returns the last status of the run, or nil if the sink did not get the totals.
func (s *Server) final() *Status {
	s.sink.mu.Lock()
	stats := s.sink.final
	s.sink.mu.Unlock()
	switch {
	case stats == nil:
		return nil
	case stats.Start.IsZero(): // the run was over before the server was made
		now, _ := s.status()
		return now
	}
	return s.describe(&task.Snapshot{At: time.Now(), State: task.StateDone, Stats: *stats})
}

// describe returns the status for a snapshot, with the tasks that ended recently.
func (s *Server) describe(snap *task.Snapshot) *Status {
	status := StatusOf(snap, s.cfg.Total)
	var pids map[uint64]int
	var said map[uint64][]byte
	if see := s.cfg.Details; see.PIDs != nil {
		pids = see.PIDs()
	} else if see.Said != nil {
		said = see.Said()
	}
	for i := range status.Tasks {
		t := &status.Tasks[i]
		t.PID, t.Said = pids[t.Task], task.Bytes(strings.Join(task.LastLines(said[t.Task], 1), ""))
	}
	ended, _ := s.sink.remembered()
	status.Ended = forClients(ended, time.Now())
	return status
}

func (c *conn) explain(r *Request) (reply *Reply, err error) {
	ended, named, end := r.Only == "failed" || r.Only == "ended", len(r.Tasks) > 0, "first"
	switch {
	case r.N < 0 || r.N > maxListed:
		return nil, badRequest("explain lists at most %d tasks", maxListed)
	case r.Only != "" && named:
		return nil, badRequest("explain needs either tasks or a kind of them")
	case !ended && !slices.Contains([]string{"", "waiting", "running"}, r.Only):
		return nil, badRequest("there are no tasks that are only %q", r.Only)
	case named && r.N > 0:
		r.Tasks = r.Tasks[:min(len(r.Tasks), r.N)]
	}
	if n := cmp.Or(r.N, maxListed); ended {
		reply, end = c.s.lastEnded(n, r.Only == "failed"), "last"
	} else {
		reply, err = c.carryOut(task.Command{Op: task.Explain, N: n, IDs: r.Tasks, Only: r.Only})
		c.s.addRecords(reply.Wheres, named)
	}
	if !named && len(reply.Wheres) == maxListed {
		reply.Hint = fmt.Sprintf("these are the %s %d", end, maxListed)
	}
	return reply, err
}

// do carries out a command. If it ends the run, or a client on another machine ends tasks, its Err names the
// client.
func (c *conn) do(cmd task.Command) task.Reply {
	l, remote := c.link.(remoteLink)
	switch {
	case cmd.Op == task.Explain:
		return c.s.ask(cmd) // the run may have to examine all tasks
	case cmd.Op == task.Drain || cmd.Op == task.Stop:
		cmd.Err = errors.New("ended by " + cmp.Or(l.from, "crew ctl"))
	case cmd.Op == task.Cancel && remote:
		cmd.Err = errors.New("cancelled by " + l.from)
	}
	return c.s.cfg.Do(cmd)
}

// carryOut carries out a command and returns a reply with its tasks.
func (c *conn) carryOut(cmd task.Command) (*Reply, error) {
	got := c.do(cmd)
	return &Reply{Tasks: got.IDs, Wheres: forClients(got.Wheres, time.Now())}, got.Err
}

func (c *conn) signal(r *Request) (*Reply, error) {
	sig := unix.SignalNum("SIG" + r.Signal)
	switch {
	case sig == 0 || len(r.Tasks) == 0:
		return nil, badRequest("signal needs tasks and the name of a signal")
	case c.s.cfg.Signal == nil:
		return nil, errors.New("its tasks have no processes of their own on this machine: crew ctl cancel ends them")
	}
	reply := &Reply{Tasks: c.s.cfg.Signal(r.Tasks, sig)}
	for _, id := range r.Tasks {
		if !slices.Contains(reply.Tasks, id) {
			return reply, fmt.Errorf("task %d is not running", id)
		}
	}
	return reply, nil
}

// send hands a line to the persistent workers of tasks. A worker with several tasks of a key gets it once.
func (c *conn) send(r *Request) (*Reply, error) {
	_, err := selection(r, task.Find)
	switch {
	case err != nil:
		return nil, err
	case r.All || r.Line == "" || len(r.Line) > task.MaxMessage:
		return nil, badRequest("send needs tasks or a key, and a line of at most %d bytes", task.MaxMessage)
	case c.s.cfg.Send == nil:
		return nil, errors.New("its tasks have no persistent worker on this machine: crew --worker CMD starts workers")
	}
	ask := task.Command{Op: task.Explain, IDs: r.Tasks, N: math.MaxInt}
	if r.Key != nil {
		ask.Only = "running"
	}
	found, err := c.carryOut(ask)
	reply, slots := &Reply{}, map[int]bool{}
	for _, w := range found.Wheres {
		switch {
		case r.Key != nil && (w.Key != *r.Key || slots[w.Worker]):
			continue
		case w.State != "running":
			return reply, fmt.Errorf("task %d is not running, but %s: %s", w.Task, w.State, w.Why())
		}
		if err := c.s.cfg.Send(w.Worker, w.Task, string(r.Line)); err != nil {
			return reply, fmt.Errorf("task %d: %w", w.Task, err)
		}
		slots[w.Worker] = true
		reply.Tasks = append(reply.Tasks, w.Task)
	}
	if len(reply.Tasks) == 0 && err == nil {
		err = errors.New("no task of this key is running")
	}
	return reply, err
}

// selection returns a command for the tasks that a request selects by their numbers, by key, or as all.
func selection(r *Request, op task.Op) (task.Command, error) {
	named, keyed := len(r.Tasks) > 0, r.Key != nil
	cmd := task.Command{Op: op, IDs: r.Tasks, All: r.All}
	if keyed {
		cmd.Key = string(*r.Key)
	}
	if named && keyed || (named || keyed) == r.All {
		return cmd, badRequest("%s needs either tasks, a key, or all", r.Op)
	}
	return cmd, nil
}

// ReadAddition decodes a request to add tasks that did not come over a connection.
func ReadAddition(line []byte) (*Addition, error) {
	r, err := decodeRequest(line)
	if err == nil {
		err = checkAddition(r)
	}
	if err != nil {
		return nil, err
	}
	return r.Add, nil
}

// checkAddition returns an error if a request to add tasks is wrong.
func checkAddition(r *Request) error {
	switch a := r.Add; {
	case a == nil || len(a.Values) > 0 == (len(a.Command) > 0):
		return badRequest("%s needs either values or a command", r.Op)
	case a.Lines && len(a.Values) == 0:
		return badRequest("lines are values")
	case a.Priority != nil && (*a.Priority < -task.MaxPriority || *a.Priority > task.MaxPriority):
		return badRequest("a priority is from %d to %d", -task.MaxPriority, task.MaxPriority)
	}
	return nil
}

// add adds tasks and, if the request waits, follows them.
func (c *conn) add(r *Request) (*Reply, error) {
	if c.s.cfg.Feed == nil {
		return nil, errors.New("this run takes no tasks: start one that does with crew serve")
	}
	if err := checkAddition(r); err != nil {
		return nil, err
	}
	var ids, known []uint64
	var f *follower
	err := c.s.cfg.Feed(r.Add, func(got, old []uint64) {
		if ids, known = got, old; r.Wait {
			f = newFollower(c)
			f.attend(ids)
		}
	})
	if f != nil {
		defer f.close()
	}
	switch {
	case err != nil:
		return nil, err
	case f == nil:
		return &Reply{Tasks: ids, Known: known}, nil
	}
	c.reply(&Reply{Tasks: ids, Known: known})
	_ = c.flush()
	var unknown error
	if len(known) > 0 {
		unknown, err = f.join(known)
	}
	if err == nil {
		err = f.follow(false)
	}
	if err == error(errOver) {
		err = errors.New(errOver.Text) // not a refusal: the tasks were added
	}
	left := slices.DeleteFunc(f.unfinished(), func(id uint64) bool { return slices.Contains(known, id) })
	if err != nil && len(left) > 0 {
		_, _ = c.carryOut(task.Command{Op: task.Cancel, IDs: left})
	}
	return nil, cmp.Or(err, unknown)
}

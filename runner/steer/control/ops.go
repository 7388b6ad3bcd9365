package control

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"crew/runner/decide/task"
)

const (
	// mostIDs is how many tasks one pass through the door is about.
	maxIDs = 1000
	// mostListed is how many tasks explain lists unless it names them.
	maxListed = 1000
	// mostWorkers is the largest number that a resize may name.
	maxWorkers = 100_000
)

// op carries out a request. It returns the last reply, and why it failed.
type op func(*conn, *Request) (*Reply, error)

// asks are the requests that leave the run's tasks as they are, and add.
var queries = map[string]op{
	"hello": (*conn).hello, "status": (*conn).status, "watch": (*conn).watch, "log": (*conn).log,
	"explain": (*conn).explain, "wait": (*conn).await, "add": (*conn).add,
}

// steers are the requests that steer the run.
var commands = map[string]op{
	"pause": command(task.Pause), "resume": command(task.Resume), "resize": (*conn).resize, "cancel": (*conn).cancel,
	"retry": aboutTasks(task.Retry), "hold": aboutTasks(task.Hold), "release": aboutTasks(task.Release), "move": aboutTasks(task.Move),
	"drain": (*conn).drain, "stop": command(task.Stop),
}

// Steers reports whether a request of that name steers a run.
func Steers(name string) bool { return commands[name] != nil }

// opOf returns the op with a name, or nil.
func findOp(name string) op {
	if op := commands[name]; op != nil {
		return op
	}
	return queries[name]
}

// send returns a function that has a command carried out.
func command(op task.Op) op {
	return func(c *conn, _ *Request) (*Reply, error) { return c.doEach(task.Command{Op: op}) }
}

// about returns a function that has a command about tasks carried out.
func aboutTasks(op task.Op) op {
	return func(c *conn, r *Request) (*Reply, error) {
		if len(r.Tasks) == 0 {
			return nil, badRequest("%s needs tasks", r.Op)
		}
		cmd := task.Command{Op: op, IDs: r.Tasks}
		if op == task.Move && !r.Last {
			cmd.N = -1
		}
		return c.doEach(cmd)
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

// status returns the status of the run, which is not older than the call.
func (s *Server) status() (*Status, error) {
	reply := s.ask(task.Command{Op: task.Look})
	if reply.Snapshot == nil {
		return nil, cmp.Or(reply.Err, error(errOver))
	}
	return s.describe(reply.Snapshot), reply.Err
}

// final returns the status of a run that is over, or nil if it did not get to its end.
func (s *Server) final() *Status {
	s.sink.mu.Lock()
	stats := s.sink.final
	s.sink.mu.Unlock()
	if stats == nil {
		return nil
	}
	return s.describe(&task.Snapshot{At: time.Now(), State: task.Done, Stats: *stats})
}

// describe returns the status of the run at a moment, with what ended before it.
func (s *Server) describe(snap *task.Snapshot) *Status {
	status := StatusOf(snap, s.cfg.Details.Total)
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

func (c *conn) explain(r *Request) (*Reply, error) {
	ended, named := r.Only == "failed" || r.Only == "ended", len(r.Tasks) > 0
	switch {
	case r.N < 0 || r.N > maxListed:
		return nil, badRequest("explain lists at most %d tasks", maxListed)
	case r.Only != "" && named:
		return nil, badRequest("explain needs either tasks or a kind of them")
	case ended:
		return c.s.lastEnded(cmp.Or(r.N, maxListed), r.Only == "failed"), nil
	case !slices.Contains([]string{"", "waiting", "running"}, r.Only):
		return nil, badRequest("there are no tasks that are only %q", r.Only)
	case named && r.N > 0:
		r.Tasks = r.Tasks[:min(len(r.Tasks), r.N)]
	}
	reply, err := c.doEach(task.Command{Op: task.Explain, N: cmp.Or(r.N, maxListed), IDs: r.Tasks, Only: r.Only})
	if !named && len(reply.Wheres) == maxListed {
		reply.Hint = fmt.Sprintf("these are the first %d", maxListed)
	}
	c.s.addRecords(reply.Wheres, named)
	return reply, err
}

// do carries out a command, and says who asks for it if that is somebody elsewhere.
func (c *conn) do(cmd task.Command) task.Reply {
	if cmd.Op == task.Explain {
		return c.s.ask(cmd) // the run may have to look at all tasks
	}
	if l, is := c.link.(remoteLink); is {
		switch cmd.Op {
		case task.Cancel:
			cmd.Err = errors.New("cancelled by " + l.from)
		case task.Drain, task.Stop:
			cmd.Err = errors.New("ended by " + l.from)
		}
	}
	return c.s.cfg.Do(cmd)
}

// each sends a command through the door, in parts if it is about many tasks. Of tasks that are moved
// before all others, the last part goes first.
func (c *conn) doEach(cmd task.Command) (*Reply, error) {
	reply := &Reply{}
	var errs error
	parts := slices.Collect(slices.Chunk(cmd.IDs, maxIDs))
	switch {
	case len(parts) == 0:
		parts = [][]uint64{nil}
	case cmd.N < 0:
		slices.Reverse(parts)
	}
	for _, cmd.IDs = range parts {
		if c.s.isOver() {
			return reply, errOver
		}
		got := c.do(cmd)
		reply.Tasks = append(reply.Tasks, got.IDs...)
		reply.Wheres = append(reply.Wheres, forClients(got.Wheres, time.Now())...)
		errs = cmp.Or(errs, got.Err)
	}
	return reply, errs
}

func (c *conn) resize(r *Request) (*Reply, error) {
	cmd := task.Command{Op: task.Resize, N: r.N}
	switch {
	case r.N > maxWorkers || r.N < -maxWorkers:
		return nil, badRequest("a run has at most %d workers", maxWorkers)
	case r.Relative && r.N != 0:
		cmd.Op = task.Grow
	case r.N < 1:
		return nil, badRequest("resize needs a number of workers: pause starts nothing more")
	}
	return c.doEach(cmd)
}

func (c *conn) drain(r *Request) (*Reply, error) {
	if r.Rest {
		return command(task.StopReading)(c, r)
	}
	return command(task.Drain)(c, r)
}

func (c *conn) cancel(r *Request) (*Reply, error) {
	cmd, err := selection(r, task.Cancel)
	if err != nil {
		return nil, err
	}
	return c.doEach(cmd)
}

// naming returns a command about the tasks that a request names, which it does in one way.
func selection(r *Request, op task.Op) (task.Command, error) {
	cmd, ways := task.Command{Op: op, IDs: r.Tasks, All: r.All}, 0
	if len(r.Tasks) > 0 {
		ways++
	}
	if r.Key != nil {
		cmd.Key = string(*r.Key)
		ways++
	}
	if r.All {
		ways++
	}
	if ways != 1 {
		return cmd, badRequest("%s needs either tasks, a key, or all", r.Op)
	}
	return cmd, nil
}

// ReadAddition reads the line of a request to add tasks, which has come otherwise than by a connection.
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

// adds returns what is wrong with a request to add tasks.
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

// add adds tasks and, if asked to, follows them.
func (c *conn) add(r *Request) (*Reply, error) {
	if c.s.cfg.Feed == nil {
		return nil, errors.New("this run takes no tasks: crew serve makes one that does")
	}
	if err := checkAddition(r); err != nil {
		return nil, err
	}
	var ids []uint64
	var f *follower
	err := c.s.cfg.Feed(r.Add, func(got []uint64) {
		if ids = slices.Clone(got); r.Wait {
			f = newFollower(c, ids...)
		}
	})
	if f != nil {
		defer f.close()
	}
	switch {
	case err != nil:
		return nil, err
	case f == nil:
		return &Reply{Tasks: ids}, nil
	}
	c.reply(&Reply{Tasks: ids})
	_ = c.flush()
	if err = f.follow(false); err == error(errOver) {
		err = errors.New(errOver.Text) // but the tasks were added
	}
	if left := f.unfinished(); err != nil && len(left) > 0 {
		_, _ = c.doEach(task.Command{Op: task.Cancel, IDs: left})
	}
	return &Reply{Ended: f.ended}, err
}

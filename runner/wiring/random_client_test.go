package wiring

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/control"
	"crew/runner/crewtest"
	"crew/runner/journal"
	"crew/runner/task"
)

// TestRandomClients has clients that come, go and send rubbish ask a crew serve for anything.
// It lives; its tasks have numbers of their own; each ends once, and none runs twice or under
// the number of another.
func TestRandomClients(t *testing.T) {
	rounds := 8
	if crewtest.Soaking() {
		rounds = 2000
	}
	dir := crewtest.ShortDir(t)
	t.Setenv("XDG_RUNTIME_DIR", dir)
	for seed := range rounds {
		h := &hub{t: t, seed: uint64(seed), over: make(chan struct{}), added: map[uint64]string{}, ran: map[uint64]string{}, ended: map[uint64]task.Outcome{}}
		h.serve()
		sockets, err := filepath.Glob(filepath.Join(dir, "crew", "*.sock"))
		require.NoError(t, err)
		require.Len(t, sockets, 1)
		h.socket = sockets[0]
		var clients sync.WaitGroup
		for n := range 6 {
			clients.Go(func() { (&visitor{hub: h, Rand: rand.New(rand.NewPCG(h.seed, uint64(n)))}).visit(120) })
		}
		clients.Wait()
		h.finish()
	}
}

// hub is a crew serve with a socket, whose tasks need no processes.
type hub struct {
	t      *testing.T
	seed   uint64
	s      *served
	srv    *control.Server
	socket string
	over   chan struct{} // closed for tasks to end
	guests sync.WaitGroup

	mu    sync.Mutex
	last  uint64                  // the highest number that a client was told
	added map[uint64]string       // labels of the tasks whose numbers clients were told; "" of retried ones
	ran   map[uint64]string       // labels of the tasks that ran
	ended map[uint64]task.Outcome // how tasks ended
	left  int                     // tasks that the next crew serve would run
}

func (h *hub) serve() {
	line := "-j4 --max-queued 300"
	if h.seed%2 == 0 {
		line += " --state " + h.t.TempDir()
	}
	h.srv = control.Serve(control.Config{
		Do:   func(cmd task.Command) task.Reply { return h.s.Do(cmd) },
		Feed: func(a *control.Addition, numbered func([]uint64)) (bool, error) { return h.s.Add(a, numbered) },
		See:  control.Sight{Live: func(id uint64) (stdout, stderr task.Live, attempt int) { return nil, nil, 1 }},
	})
	h.s = serve(h.t, line, h, h.srv.Sink(), h)
}

// Run runs a task of the words task, LABEL and what it does.
func (h *hub) Run(ctx context.Context, a task.Attempt) *task.Result {
	h.mu.Lock()
	if _, twice := h.ran[a.Task.ID]; twice {
		h.t.Errorf("seed %d: task %d runs twice", h.seed, a.Task.ID)
	}
	h.ran[a.Task.ID] = a.Task.Argv[1]
	h.mu.Unlock()
	r := &task.Result{Task: a.Task, Attempt: a.Number, Worker: a.Slot.ID, Outcome: task.OK}
	switch a.Task.Argv[2] {
	case "fails":
		r.Outcome, r.Code = task.Exit, 1
	case "lasts":
		select {
		case <-h.over:
		case <-ctx.Done():
			r.Outcome = task.Cancelled
		}
	}
	return r
}

func (h *hub) Kill(uint64, int) {}
func (h *hub) Suspend()         {}
func (h *hub) Resume()          {}

// Consume notes how tasks end.
func (h *hub) Consume(events []task.Event) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range events {
		if e := &events[i]; e.Kind == task.Finished {
			if _, twice := h.ended[e.Task.ID]; twice {
				h.t.Errorf("seed %d: task %d ends twice", h.seed, e.Task.ID)
			}
			h.ended[e.Task.ID] = e.Result.Outcome
			if o := e.Result.Outcome; (o == task.NotRun || o == task.Cancelled) && !e.Result.Final {
				h.left++
			}
		}
	}
	return nil
}

func (h *hub) Close(task.Stats) error { return nil }

// told notes the numbers that a client was told.
func (h *hub) told(label string, ids []uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, id := range ids {
		if _, twice := h.added[id]; twice {
			h.t.Errorf("seed %d: number %d was given twice", h.seed, id)
		}
		if h.added[id] = ""; label != "" {
			h.added[id] = fmt.Sprint(label, i)
		}
		h.last = max(h.last, id)
	}
}

// visitor is a client. Each request has a connection of its own.
type visitor struct {
	*hub
	*rand.Rand
}

func (v *visitor) visit(requests int) {
	for n := range requests {
		switch v.IntN(12) {
		case 0, 1, 2, 3:
			v.add(fmt.Sprint("t", v.Uint64(), ".", n, "."))
		case 4, 5:
			v.retry()
		case 6:
			v.rubbish()
		case 8:
			if n > requests*3/4 && v.IntN(20) == 0 {
				v.ask(v.pick(control.Request{Op: "drain"}, control.Request{Op: "drain", Rest: true}, control.Request{Op: "stop"}))
			}
		case 7: // they last
			v.leave(v.pick(
				control.Request{Op: "watch"}, control.Request{Op: "wait", All: true}, control.Request{Op: "wait", Tasks: v.some(3)},
				control.Request{Op: "log", Tasks: v.some(1), Follow: true}, control.Request{Op: "log", Tasks: v.some(1)},
			))
		default:
			v.ask(v.pick(
				control.Request{Op: "hello"}, control.Request{Op: "status"}, control.Request{Op: "explain"}, control.Request{Op: "explain", Tasks: v.some(9)},
				control.Request{Op: "explain", Only: []string{"waiting", "running", "failed", "ended"}[v.IntN(4)], N: v.IntN(9)},
				control.Request{Op: "pause"}, control.Request{Op: "resume"}, control.Request{Op: "resume"},
				control.Request{Op: "resize", N: 1 + v.IntN(8)}, control.Request{Op: "resize", N: v.IntN(5) - 2, Relative: true},
				control.Request{Op: "cancel", Tasks: v.some(5)}, control.Request{Op: "cancel", All: true}, control.Request{Op: "cancel", Key: new(task.Bytes)},
				control.Request{Op: "hold", Tasks: v.some(5)}, control.Request{Op: "release", Tasks: v.some(9)},
				control.Request{Op: "move", Tasks: v.some(5), Last: v.IntN(2) == 0},
			))
		}
	}
}

// rubbish sends a request with bytes of it changed or cut off.
func (v *visitor) rubbish() {
	line, _ := json.Marshal(v.pick(
		control.Request{V: 2, Op: "add", Add: &control.Addition{Lines: true, Values: []task.Bytes{"task x ends"}}}, control.Request{V: 2, Op: "wait", All: true},
		control.Request{V: 2, Op: "add"}, control.Request{V: 2, Op: "retry"}, control.Request{V: 2, Op: "log"}, control.Request{V: 1, Op: "stop"}, control.Request{},
	))
	for range v.IntN(4) {
		line[v.IntN(len(line))] = byte(v.IntN(256))
	}
	c := v.send(append(line[:v.IntN(len(line))], '\n'))
	defer c.Close()
	if v.IntN(2) == 0 {
		_, _ = bufio.NewReader(c).ReadByte()
	}
}

func (v *visitor) pick(list ...control.Request) control.Request { return list[v.IntN(len(list))] }

// some returns numbers of tasks that there may be.
func (v *visitor) some(most int) (ids []uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for range 1 + v.IntN(most) {
		ids = append(ids, 1+v.Uint64N(v.last+2))
	}
	return ids
}

// add adds tasks: commands, lines of them, or only a comment.
func (v *visitor) add(label string) {
	r := control.Request{Op: "add", Wait: v.IntN(4) == 0, Add: &control.Addition{Lines: true, Block: v.IntN(4) == 0, Values: []task.Bytes{"# comment"}}}
	for i := range v.IntN(5) {
		kind := []string{"ends", "ends", "ends", "fails", "fails", "lasts"}[v.IntN(6)]
		r.Add.Values = append(r.Add.Values, task.Bytes(fmt.Sprint("task ", label, i, " ", kind)))
	}
	if v.IntN(3) == 0 {
		r.Add.After = v.some(2)
	}
	note := func(reply *control.Reply) { v.told(label, reply.Tasks) }
	if r.Wait || r.Add.Block {
		v.linger(r, note)
	} else {
		v.call(r, note)
	}
}

// retry retries tasks, which get other numbers.
func (v *visitor) retry() {
	v.call(control.Request{Op: "retry", Tasks: v.some(200)}, func(reply *control.Reply) { v.told("", reply.Tasks) })
}

func (v *visitor) ask(r control.Request) { v.call(r, func(*control.Reply) {}) }

// leave makes a request that takes a while, and may go before it is answered.
func (v *visitor) leave(r control.Request) { v.linger(r, func(*control.Reply) {}) }

// linger makes a request in the background.
func (v *visitor) linger(r control.Request, take func(*control.Reply)) {
	replies := 1 + v.IntN(20)
	v.guests.Go(func() { v.make(r, replies, take) })
}

func (v *visitor) call(r control.Request, take func(*control.Reply)) { v.make(r, 1000, take) }

// make makes a request and takes so many replies at most. The client goes without warning.
func (h *hub) make(r control.Request, most int, take func(*control.Reply)) {
	r.V = control.Version
	line, err := json.Marshal(r)
	if err != nil {
		h.t.Error(err)
	}
	c := h.send(append(line, '\n'))
	if c == nil {
		return
	}
	defer c.Close()
	in := bufio.NewReader(c)
	for range most {
		line, err := in.ReadBytes('\n')
		reply := &control.Reply{}
		if err != nil || json.Unmarshal(line, reply) != nil {
			h.t.Errorf("seed %d: %s: %v, %q", h.seed, r.Op, err, line)
			return
		}
		if take(reply); reply.End {
			return
		}
	}
}

// finish ends the run, and looks at what became of the tasks.
func (h *hub) finish() {
	close(h.over)
	for _, r := range []control.Request{{Op: "cancel", All: true}, {Op: "drain"}} {
		h.make(r, 1, func(*control.Reply) {})
	}
	stats := (<-h.s.end).Stats
	h.srv.Close()
	h.guests.Wait()
	require.Len(h.t, h.ended, int(stats.Admitted))
	told := len(h.ended)
	for id, label := range h.added {
		o, ended := h.ended[id]
		ran, did := h.ran[id]
		require.Equal(h.t, did, did && ended, "seed %d: task %d is lost", h.seed, id)
		require.True(h.t, !did || label == "" || label == ran, "seed %d: task %d ran as %s", h.seed, id, ran)
		require.True(h.t, did || o != task.OK, "seed %d: task %d did not run", h.seed, id)
		if !ended {
			told++
			h.left++
		}
	}
	require.Len(h.t, h.added, told, "seed %d: clients were told of all tasks", h.seed)
	if dir := h.s.source.opts.State.Dir; dir != "" {
		sum, err := journal.Dump(dir, io.Discard)
		require.NoError(h.t, err)
		require.Zero(h.t, sum.Running)
		require.Equal(h.t, sum.Waiting, h.left, "seed %d: tasks are lost", h.seed)
	}
}

// send sends text over a new connection.
func (h *hub) send(text []byte) net.Conn {
	c, err := net.Dial("unix", h.socket)
	if err != nil {
		h.t.Errorf("seed %d: %v", h.seed, err)
		return nil
	}
	_, _ = c.Write(text)
	return c
}

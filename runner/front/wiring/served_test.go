package wiring

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner"
	"crew/runner/decide/core"
	"crew/runner/decide/task"
	"crew/runner/exec/spool"
	"crew/runner/show/sink"
	"crew/runner/steer/control"
	"crew/sched"
)

// fakeWork is an Executor without processes. Each attempt writes a line and then waits until the test ends it.
type fakeWork struct {
	t     *testing.T
	store *spool.Store
	mu    sync.Mutex
	turns map[uint64]*fakeTurn // by task
}

type fakeTurn struct {
	task.Attempt
	out *spool.Buffer
	end chan task.Outcome
}

// said returns the output of an attempt.
func (w *fakeTurn) said() string { return fmt.Sprintf("%s, attempt %d\n", w.Task.Argv[1], w.Number) }

func (x *fakeWork) Run(ctx context.Context, a task.Attempt) *task.Result {
	w := &fakeTurn{a, x.store.Buffer(), make(chan task.Outcome)}
	_, _ = w.out.Write([]byte(w.said()))
	x.mu.Lock()
	if x.turns[a.Task.ID] != nil {
		x.t.Errorf("task %d runs twice at once", a.Task.ID)
	}
	x.turns[a.Task.ID] = w
	x.mu.Unlock()
	r := &task.Result{Task: a.Task, Attempt: a.Number, Worker: a.Slot.ID, Outcome: task.Cancelled, Start: time.Now(), Stdout: w.out}
	select {
	case r.Outcome = <-w.end:
	case <-ctx.Done():
	}
	if r.End = time.Now(); r.Outcome == task.Exit {
		r.Code = 3
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.turns, a.Task.ID)
	return r
}

// now returns the running attempts.
func (x *fakeWork) now() map[uint64]*fakeTurn {
	x.mu.Lock()
	defer x.mu.Unlock()
	return maps.Clone(x.turns)
}

func (x *fakeWork) Kill(uint64, int) {}
func (x *fakeWork) Suspend()         {}
func (x *fakeWork) Resume()          {}

// Live implements control.Details.Live.
func (x *fakeWork) Live(id uint64) (stdout, stderr task.Live, attempt int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if w := x.turns[id]; w != nil {
		return w.out.Hold(), nil, w.Number
	}
	return nil, nil, 0
}

// served is a crew serve without processes. Its clients connect in memory.
type served struct {
	*feed
	*fakeWork
	srv  *control.Server
	run  *runner.Run
	left int // tasks that an earlier crew serve left
	end  chan core.Ending
}

// serve starts a crew serve. It uses the options in line that concern the pool, the queue and the state. A failed
// task is retried after 10 s.
func serve(t *testing.T, line string) *served {
	o := parsed(t, strings.Fields("serve "+line)...)
	p, err := newPlan(o, unset, false)
	require.NoError(t, err)
	src, err := openSource(o, p.jobs, nil, nil)
	require.NoError(t, err)
	policy := sched.New(o.Sched.Policy, sched.Topics{})
	cfg := core.Config{
		Pool: core.Pool{Workers: p.jobs}, Queue: core.Queue{Policy: policy, Buffer: p.limits.Queue.Buffer, Terms: true, Caps: o.Queue.Caps},
		Retry: core.Retry{Max: 1, Delay: 10 * time.Second, MaxDelay: time.Minute, Jitter: func() float64 { return 1 }},
		Feed:  core.Feed{Open: true, MaxQueued: o.Serve.Feed.MaxQueued, Remember: true},
	}
	s := &served{fakeWork: &fakeWork{t: t, store: spool.New(1<<20, ""), turns: map[uint64]*fakeTurn{}}, end: make(chan core.Ending, 1)}
	w := &wiring{opts: o, plan: p, source: src, screen: sink.NewScreen(os.Stdout, os.Stderr), out: os.Stdout}
	require.NoError(t, w.openState())
	s.feed = newFeed(src, w.state, func(cmd task.Command) task.Reply { return s.run.Do(cmd) }, func(left int) { s.left = left })
	see := control.Details{Live: s.Live}
	var rec runner.Recorder
	var sinks []runner.Sink
	if s.queue != nil {
		rec, sinks = s.queue, append(sinks, s.queue.Commit())
		see.Ended = s.queue.EndedTasks
	}
	s.srv = control.Serve(control.Config{Do: s.feed.Do, Feed: s.Add, Details: see, Delay: 1 << 62})
	s.run = runner.New(cfg, s.feed, s, rec, append(sinks, s.srv.Sink()))
	go func() {
		end := s.run.Wait()
		s.close()
		s.srv.Close()
		if s.queue != nil {
			_ = s.queue.Close()
		}
		_ = s.store.Close()
		s.end <- end
	}()
	return s
}

// talk is a client with its request and the replies.
type talk struct {
	net.Conn
	req     control.Request
	left    atomic.Bool // the client is gone
	mu      sync.Mutex
	replies []control.Reply
}

// leave closes the client's connection.
func (k *talk) leave() {
	k.left.Store(true)
	_ = k.Close()
}

// textOf returns a request in the form in which a client sends it.
func textOf(r control.Request) string {
	r.V = control.Version
	line, _ := json.Marshal(r)
	return string(line) + "\n"
}

// says connects a client that sends text or, if that is empty, the request.
func (s *served) says(text string, r control.Request) *talk {
	text = cmp.Or(text, textOf(r))
	k := &talk{req: r}
	client, server := net.Pipe()
	k.Conn = client
	go s.srv.ServeClient(fakeLink{server, &k.left})
	go func() { _, _ = client.Write([]byte(text)) }() // the server may not read everything
	go func() {
		in := bufio.NewReader(client)
		for {
			line, err := in.ReadBytes('\n')
			var reply control.Reply
			if err != nil || json.Unmarshal(line, &reply) != nil {
				return
			}
			k.mu.Lock()
			k.replies = append(k.replies, reply)
			k.mu.Unlock()
		}
	}()
	return k
}

// fakeLink is a control.Link in memory.
type fakeLink struct {
	net.Conn
	left *atomic.Bool
}

func (l fakeLink) Gone() bool { return l.left.Load() }

// first returns the first reply, or nil if there is none yet.
func (k *talk) first() *control.Reply {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.replies) == 0 {
		return nil
	}
	return &k.replies[0]
}

// over returns the last reply, or nil if more will come.
func (k *talk) over() *control.Reply {
	k.mu.Lock()
	defer k.mu.Unlock()
	if n := len(k.replies); n > 0 && k.replies[n-1].End {
		return &k.replies[n-1]
	}
	return nil
}

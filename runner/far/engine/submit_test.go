package engine

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"crew/runner"
	"crew/runner/crewtest"
	"crew/runner/decide/core"
	"crew/runner/decide/task"
	"crew/runner/exec/spool"
	"crew/runner/front/cli"
	"crew/runner/front/wiring"
	"crew/sched"
)

// broker is a server that can be killed and restarted.
type broker struct {
	t       *testing.T
	dir     string
	current atomic.Pointer[server.Server]
	ahead   int    // core.Pool.Ahead of its runs
	policy  string // policy of its runs; "" for fifo
	runs    string // directory of its dispatchers
	over    *line  // connects its runs and dispatchers; may be nil
	cluster string // name of the cluster of the server; "" for none
	name    string // of the server; "" for the name of a hub's
}

func (b *broker) start() {
	s, err := startServer(&server.Options{DontListen: true, ServerName: cmp.Or(b.name, hubName), Cluster: server.ClusterOpts{Name: b.cluster}})
	require.NoError(b.t, err)
	b.current.Store(s)
}

func (b *broker) stop() {
	if s := b.current.Swap(nil); s != nil {
		s.Shutdown()
		s.WaitForShutdown()
	}
}

// InProcessConn connects to the server that runs now.
func (b *broker) InProcessConn() (net.Conn, error) {
	if s := b.current.Load(); s != nil {
		return s.InProcessConn()
	}
	return nil, io.ErrClosedPipe
}

func (b *broker) connect(notice func(string)) *session {
	return b.connectBy(notice, b)
}

// connectOver connects over a line.
func (b *broker) connectOver(l *line) *session { return b.connectBy(nil, l) }

func (b *broker) connectBy(notice func(string), by nats.InProcessConnProvider) *session {
	s, err := b.dial(notice, by)
	require.NoError(b.t, err)
	return s
}

func (b *broker) dial(notice func(string), by nats.InProcessConnProvider) (*session, error) {
	s, err := dial("", notice, nats.InProcessServer(by))
	if err == nil {
		s.now = func() time.Duration { return time.Duration(time.Now().UnixNano()) }
		b.t.Cleanup(s.close)
	}
	return s, err
}

// way returns the connection for runs and dispatchers.
func (b *broker) way() nats.InProcessConnProvider {
	if b.over != nil {
		return b.over
	}
	return b
}

// fakeTTL is the TTL of a fake, which announces itself every 250 ms.
const fakeTTL = 3 * time.Second

// fake is a worker that speaks the wire format and runs nothing.
type fake struct {
	t        *testing.T
	s        *session
	queue    string
	presence Presence
	run      func(f *fake, a *Attempt) // called for each attempt, in order
	orders   chan *AttemptOrder
	leaves   func() // called before it answers opLeave; may be nil
	silent   atomic.Bool
	ignores  atomic.Bool // it does not answer orders
	mu       sync.Mutex  // held while it announces itself
}

// testCall returns the call of a run.
func testCall() *wiring.Call {
	o := &cli.Options{Command: cli.Command{Words: []string{"true", "{}"}}}
	o.Engine.Queue = "q"
	return &wiring.Call{Options: o, Notice: quiet}
}

func (b *broker) worker(name string, slots int, run func(*fake, *Attempt)) *fake {
	sum, text := digest(testCall().Options)
	f := &fake{
		t: b.t, s: b.connect(nil), queue: "q", run: run, orders: make(chan *AttemptOrder, 1000),
		presence: Presence{
			Queue: "q", Version: Version, ID: "=." + name + "-" + strings.ToLower(newIdentity().Run[:6]), Host: name, Slots: slots, TTL: fakeTTL,
			State: ready, Job: Job{Template: fmt.Sprintf("%x", sum), Command: text},
		},
	}
	b.t.Cleanup(f.s.close)
	_, err := f.s.nc.Subscribe(orderSubject("q", f.presence.ID, "*"), func(m *nats.Msg) {
		var o Order
		require.NoError(b.t, json.Unmarshal(m.Data, &o))
		if f.ignores.Load() {
			return
		}
		if o.Op == opLeave && f.leaves != nil {
			f.leaves()
		}
		_ = m.Respond([]byte("{}"))
	})
	require.NoError(b.t, err)
	_, err = f.s.serveMessages(taskSubject("q", f.presence.ID, "*", "*"), func(_ string, data []byte) {
		for part := range splitMessages(data) {
			if a, err := decode[Attempt](part, kindAttempt); err == nil && a.Whole.Name != "" {
				var msg bytes.Buffer
				_ = f.s.blobs.Pull(context.Background(), a.User, a.Whole, 0, &msg)
				part = msg.Bytes()
			}
			if a, err := decode[Attempt](part, kindAttempt); err == nil {
				f.run(f, a)
			} else if o, err := decode[AttemptOrder](part, kindOrder); err == nil {
				f.orders <- o
			}
		}
	})
	require.NoError(b.t, err)
	f.put(ready)
	stop := make(chan struct{})
	b.t.Cleanup(func() { close(stop) })
	go func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(250 * time.Millisecond):
				if !f.silent.Load() {
					f.mu.Lock()
					f.store()
					f.mu.Unlock()
				}
			}
		}
	}()
	return f
}

// put announces the worker.
func (f *fake) put(state string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.presence.State = state
	require.NoError(f.t, f.store())
}

func (f *fake) store() error {
	return f.s.publishJSON(presenceSubject(f.queue, f.presence.ID), f.presence)
}

// final returns the result of a successful attempt.
func (f *fake) final(a *Attempt) *Final {
	return &Final{
		ID: a.ID, Token: a.Token, Identity: a.Identity,
		Facts: task.Facts{Host: task.Bytes(f.presence.Host), Outcome: task.OK, Exit: status(0), Duration: task.Seconds(time.Millisecond)},
	}
}

func status(code int) *int { return &code }

func (f *fake) publish(a *Attempt, msg []byte) {
	_ = f.s.nc.Publish(resultSubject(a.User, a.Run, f.presence.ID), msg)
}

// end publishes the result of a successful attempt, as changed by change.
func (f *fake) end(a *Attempt, change func(*Final)) {
	fin := f.final(a)
	change(fin)
	f.publish(a, encode(kindFinal, fin))
}

// says publishes the beginning of the output of an attempt.
func (f *fake) says(a *Attempt, text string) {
	f.publish(a, encode(kindFinal, &Final{ID: a.ID, Token: a.Token, Stdout: FinalOutput{Text: []byte(text)}}))
}

// answer answers at once.
func answer(f *fake, a *Attempt) { f.end(a, shows(a.Records[0][0]+"\n")) }

// shows returns a change for end: the result brings text as its whole stdout.
func shows(text string) func(*Final) {
	return func(fin *Final) { fin.Stdout.Text = []byte(text) }
}

// records is a runner.Source of n tasks.
type records struct {
	n, next int
	change  func(*task.Task) // called with each task; may be nil
}

func (r *records) Next(number func() uint64) (*task.Task, error) {
	if r.next == r.n {
		return nil, io.EOF
	}
	r.next++
	id := number()
	t := &task.Task{ID: id, Argv: []string{"true", fmt.Sprint(r.next)}, Records: [][]string{{fmt.Sprint(r.next)}}}
	t.Identity[0], t.Identity[1], t.Identity[2] = 1, byte(r.next), byte(r.next>>8)
	if r.change != nil {
		r.change(t)
	}
	return t, nil
}

// collect is a runner.Sink.
type collect struct {
	mu      sync.Mutex
	results map[uint64]*task.Result
	outputs map[uint64]string
	lost    int
	seen    []func(*task.Result) // if not empty, called instead of collecting outputs
}

func (c *collect) Consume(events []task.Event) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range events {
		switch {
		case e.Kind == task.Finished:
			c.results[e.ID] = e.Result
			for _, seen := range c.seen {
				seen(e.Result)
			}
			if e.Result.Stdout != nil && c.seen == nil {
				var b strings.Builder
				if _, err := e.Result.Stdout.WriteTo(&b); err != nil {
					return err
				}
				c.outputs[e.ID] = b.String()
			}
		case e.Kind == task.Retried && e.Result.Outcome == task.Lost:
			c.lost++
		}
	}
	return nil
}

func (c *collect) Close(task.Stats) error { return nil }

// testRun is a run whose tasks go to workers.
type testRun struct {
	*collect
	t      *testing.T
	x      *submitter
	run    *runner.Run
	ending chan core.Ending
}

// run starts a run of n tasks. change may change the submission.
func (b *broker) run(n int, change func(*wiring.Call), seen ...func(*task.Result)) *testRun {
	r, err := b.tryRun(&records{n: n}, change, seen...)
	require.NoError(b.t, err)
	return r
}

func (b *broker) tryRun(source runner.Source, change func(*wiring.Call), seen ...func(*task.Result)) (*testRun, error) {
	store := spool.New(1<<20, b.t.TempDir())
	b.t.Cleanup(func() { store.Close() })
	r := &testRun{
		t: b.t, collect: &collect{results: map[uint64]*task.Result{}, outputs: map[uint64]string{}, seen: seen},
		ending: make(chan core.Ending, 1),
	}
	made := make(chan struct{})
	sub := testCall()
	sub.Store, sub.Notice = store, quiet
	sub.Do = func(c task.Command) task.Reply { <-made; return r.run.Do(c) }
	if change != nil {
		change(sub)
	}
	r.x = &submitter{builder: newMessageBuilder(sub)}
	err := r.x.start(sub, b.connectBy(quiet, b.way()))
	if err != nil {
		return nil, err
	}
	policy := sched.New(cmp.Or(b.policy, "fifo"), sched.Topics{})
	r.run = runner.New(core.Config{
		Pool: core.Pool{Workers: 1, Remote: true, Ahead: b.ahead}, Queue: core.Queue{Policy: policy, Buffer: 1024}, Limit: core.Limit{Limit: task.Limit{KillAfter: time.Second}},
	}, source, r.x, nil, []runner.Sink{r.x.Sink(), r.collect})
	r.run.SetMaker(naming{})
	close(made)
	go func() {
		ending := r.run.Wait()
		_ = r.x.Close()
		r.ending <- ending
	}()
	return r, nil
}

// wait returns how the run ended.
func (r *testRun) wait() core.Ending {
	r.t.Helper()
	return crewtest.Receive(r.t, r.ending, "the end of the run")
}

// Attempts of a slot do not overlap, however late their results come and whatever the worker's clock shows.
func TestTimesOfAttempts(t *testing.T) {
	inTime(t, func(t *testing.T, b *broker) {
		rows := []struct{ ahead, late, shown time.Duration }{ // shown is how much later than by this machine's clock
			{time.Hour, 60, 60}, {time.Hour, 5, 5}, {time.Hour, 2900, 2}, {time.Hour, 1900, 2}, {time.Hour, 2, 2},
			{-time.Hour, 4, 4}, {2 * time.Hour, 3, 3}, {2 * time.Hour, 9, 3},
		}
		b.ahead = len(rows)
		var all []*Attempt
		begun := time.Now()
		b.worker("a", 1, func(f *fake, a *Attempt) {
			if all = append(all, a); len(all) < len(rows) {
				return
			}
			begun = time.Now()
			for i, row := range rows {
				end := begun.Add(time.Duration(i+1) * time.Second)
				time.AfterFunc(time.Until(end)+row.late*time.Millisecond, func() {
					f.end(all[i], func(fin *Final) {
						fin.Start, fin.Duration = end.Add(row.ahead-time.Second), task.Seconds(time.Second)
					})
				})
			}
		})
		r := b.run(len(rows), nil)
		r.wait()
		for i, row := range rows {
			end := begun.Add(time.Duration(i+1)*time.Second + row.shown*time.Millisecond)
			got := r.results[uint64(i+1)]
			require.WithinDuration(t, end, got.End, 0, "task %d", i+1)
			require.Equal(t, time.Second, got.End.Sub(got.Start))
		}
	})
}

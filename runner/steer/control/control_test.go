package control

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/decide/task"
	"crew/runner/exec/spool"
)

// run is a fake run. It records commands, and tests trigger its events.
type run struct {
	t     *testing.T
	s     *Server
	store *spool.Store

	mu     sync.Mutex
	did    []task.Command
	err    error
	snap   task.Snapshot
	wheres map[uint64]task.Where
	live   map[uint64]*attempt
	last   uint64 // the last number given
	added  []*Addition

	explained int // number of Explain commands
}

// attempt is a running attempt of a fake run.
type attempt struct {
	task     *task.Task
	number   int
	out, err *spool.Buffer
}

// newRun serves a fake run, whose socket is in its own directory. change may modify the Config.
func newRun(t *testing.T, change func(*Config)) *run {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	t.Setenv("TMPDIR", t.TempDir())
	r := &run{t: t, store: spool.New(1<<20, t.TempDir()), wheres: map[uint64]task.Where{}, live: map[uint64]*attempt{}}
	cfg := Config{About: Hello{Name: "fake", Command: "gzip {}", Dir: "/data"}, Do: r.do, Details: Details{Live: r.output}, Feed: r.Add}
	if change != nil {
		change(&cfg)
	}
	r.s = Serve(cfg)
	t.Cleanup(func() {
		r.s.Close()
		require.Zero(t, r.listeners(), "nobody listens any more")
		require.NoError(t, r.store.Close())
	})
	return r
}

// listeners returns the number of listeners of the sink.
func (r *run) listeners() int {
	r.s.sink.mu.Lock()
	defer r.s.sink.mu.Unlock()
	return len(r.s.sink.listeners)
}

func (r *run) do(cmd task.Command) task.Reply {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch cmd.Op {
	case task.Look:
		snap := r.snap
		return task.Reply{Snapshot: &snap, Err: r.err}
	case task.Explain:
		r.explained++
		reply := task.Reply{Err: r.err}
		for _, id := range cmd.IDs {
			w := r.wheres[id]
			w.Task = id
			reply.Wheres = append(reply.Wheres, w)
		}
		return reply
	case task.Find:
		reply := task.Reply{IDs: cmd.IDs}
		for _, id := range cmd.IDs {
			if r.wheres[id].State != "ended" {
				reply.Tasks = append(reply.Tasks, &task.Task{ID: id})
			}
		}
		return reply
	}
	r.did = append(r.did, cmd)
	return task.Reply{Err: r.err, IDs: cmd.IDs}
}

// commands returns the commands that the run got since the last call.
func (r *run) commands() []task.Command {
	r.mu.Lock()
	defer r.mu.Unlock()
	did := r.did
	r.did = nil
	return did
}

func (r *run) output(id uint64) (stdout, stderr task.Live, number int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a := r.live[id]; a != nil {
		return a.out.Hold(), a.err.Hold(), a.number
	}
	return nil, nil, 0
}

func (r *run) Add(a *Addition, numbered func(_, _ []uint64)) error {
	n := max(len(a.Values), 1)
	r.mu.Lock()
	if r.err != nil {
		defer r.mu.Unlock()
		return r.err
	}
	r.added = append(r.added, a)
	ids := make([]uint64, n)
	for i := range ids {
		r.last++
		ids[i] = r.last
	}
	r.mu.Unlock()
	numbered(ids, nil)
	return nil
}

// start starts an attempt of a task.
func (r *run) start(id uint64, number int) *attempt {
	a := &attempt{&task.Task{ID: id, Argv: []string{"work"}}, number, r.store.Buffer(), r.store.Buffer()}
	r.mu.Lock()
	r.live[id] = a
	r.wheres[id] = task.Where{State: "running", Of: a.task, EndedTask: task.EndedTask{Facts: task.Facts{Worker: 1, Attempt: number}}}
	r.mu.Unlock()
	r.event(task.Event{Kind: task.Started, Task: a.task, Slot: 1, Attempt: number})
	return a
}

// end ends an attempt, as proc and the pump do.
func (r *run) end(a *attempt, o task.Outcome, final bool) {
	r.mu.Lock()
	delete(r.live, a.task.ID)
	r.wheres[a.task.ID] = task.Where{State: "ended"}
	r.mu.Unlock()
	res := &task.Result{Task: a.task, Attempt: a.number, Outcome: o, Start: time.Now(), End: time.Now()}
	if o == task.Exit {
		res.Code = 3
	}
	for _, s := range []struct {
		b  *spool.Buffer
		to *task.Output
	}{{a.out, &res.Stdout}, {a.err, &res.Stderr}} {
		if s.b.Len() == 0 {
			s.b.Close()
		} else {
			*s.to = s.b
		}
	}
	kind := task.Retried
	if final {
		kind = task.Finished
	}
	r.event(task.Event{Kind: kind, Task: a.task, Result: res, Attempt: a.number})
	res.Close()
}

func (r *run) event(events ...task.Event) {
	for i := range events {
		events[i].At = time.Now()
	}
	require.NoError(r.t, r.s.Sink().Consume(events))
}

// talk sends a request over a new connection, and calls f with all replies.
func (r *run) talk(q Request, f func(*Reply) error) error {
	_, err := Ask(r.t.Context(), Hello{PID: os.Getpid(), path: r.s.path}, q, func(_ []byte, reply *Reply) error { return f(reply) })
	return err
}

// ask sends a request over a new connection and returns all replies.
func (r *run) ask(q Request) (replies []Reply, err error) {
	err = r.talk(q, func(reply *Reply) error {
		replies = append(replies, *reply)
		return nil
	})
	return replies, err
}

// raw sends bytes over a new connection and returns all replies of the server.
func (r *run) raw(text string) string {
	f := r.connect()
	defer f.Close()
	_, err := io.WriteString(f, text)
	require.NoError(r.t, err)
	require.NoError(r.t, withFD(f, func(fd int) error { return syscall.Shutdown(fd, syscall.SHUT_WR) }))
	got, err := io.ReadAll(f)
	require.NoError(r.t, err)
	return string(got)
}

func TestHello(t *testing.T) {
	own := "hello-" + itoa(os.Getpid()) // unique to this run
	r := newRun(t, func(c *Config) {
		c.About.Name, c.Details.Total = own, func(s *task.Stats) (int64, int64, bool) { return 9, s.Done() + 1, true }
	})
	r.snap.Stats = task.Stats{Admitted: 5, Running: 1}
	r.snap.Stats.ByOutcome[task.Exit] = 2
	nine := int64(9)
	want := Hello{
		PID: os.Getpid(), Name: own, Command: "gzip {}", Dir: "/data", Feeds: true, State: "running",
		Progress: Progress{Total: &nine, Done: 3, Failed: 2, Running: 1, Waiting: 2},
	}
	check := func(got Hello) {
		require.WithinDuration(t, time.Now(), got.Since, time.Minute)
		require.Equal(t, r.s.path, got.path)
		got.Since, got.path = time.Time{}, ""
		require.Equal(t, want, got)
	}
	for _, name := range []string{own, itoa(os.Getpid())} {
		got, err := Find(name)
		require.NoError(t, err)
		check(got)
	}
	for _, got := range List() { // real runs of this user may be listed, too
		if got.PID == os.Getpid() {
			check(got)
			return
		}
	}
	t.Error("it is not in the list")
}

func TestBadRequests(t *testing.T) {
	r := newRun(t, nil)
	text := strings.NewReplacer("DEEP", strings.Repeat("[", 100_000), "FF", "\xff")
	crewtest.Examples(t, "testdata/refused.jsonl", func(t *testing.T, row struct{ Line, Says string }) {
		got := r.raw(text.Replace(row.Line) + "\n")
		require.Contains(t, got, row.Says)
		require.Contains(t, got, `"end":true,"error":"bad request: `)
		require.Contains(t, got, `"status":2}`)
		require.Equal(t, 1, strings.Count(got, "\n"), "%s", got)
	})
	require.Empty(t, r.commands())
	require.Contains(t, r.raw(`{"v":2,"op":"pause"`), "the line has no end")
	require.Empty(t, r.commands())
	require.Equal(t, "{\"v\":2,\"end\":true}\n",
		r.raw(" { \"op\" : \"pause\" ,\t\"v\":2 } \r\n"+`{"v":2,"op":"resume"}`+"\n"), "one request a connection")
	require.Len(t, r.commands(), 1)
}

func TestSocketGoes(t *testing.T) {
	r := newRun(t, nil)
	path := r.s.path
	st, err := os.Lstat(filepath.Dir(path))
	require.NoError(t, err)
	require.EqualValues(t, 0o700, st.Mode().Perm())
	r.s.Close()
	r.s.Close()
	_, err = os.Lstat(path)
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = Ask(t.Context(), Hello{PID: 7, path: path}, Request{Op: "hello"}, nil)
	require.ErrorContains(t, err, "run 7 has ended")

	soon := Serve(Config{Do: r.do, Delay: time.Hour})
	require.Empty(t, soon.path)
	soon.Close()
	soon = Serve(Config{About: Hello{Name: "fake"}, Do: r.do, Delay: time.Nanosecond})
	crewtest.Exists(t, path)
	soon.Close()
	_, err = os.Lstat(path)
	require.ErrorIs(t, err, os.ErrNotExist)
}

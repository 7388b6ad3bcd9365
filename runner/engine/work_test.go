package engine

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/task"
	"crew/runner/wiring"
)

// bench is the engine side of a test of crew worker: what a submitter would do.
type bench struct {
	t       *testing.T
	s       *session
	words   []string
	sum     [32]byte
	results chan any // *Chunk and *Final, in order
	last    uint64
}

func newBench(t *testing.T, url string, words ...string) *bench {
	s, err := connect(url, func(text string) { t.Log(text) })
	require.NoError(t, err)
	t.Cleanup(s.close)
	b := &bench{t: t, s: s, words: words, results: make(chan any, 10_000)}
	b.sum, _ = digest(wiring.Template{Words: words, Replace: "{}"})
	c, err := s.js.OrderedConsumer(t.Context(), resultsStream, jetstream.OrderedConsumerConfig{FilterSubjects: []string{"crew.r.>"}})
	require.NoError(t, err)
	_, err = c.Consume(func(m jetstream.Msg) {
		for part := range parts(m.Data()) {
			if c, err := DecodeChunk(part); err == nil {
				b.results <- c
			} else if f, err := DecodeFinal(part); err == nil {
				b.results <- f
			}
		}
	})
	require.NoError(t, err)
	return b
}

// worker waits for a worker's record for which ok holds.
func (b *bench) worker(ok func(p *Presence) bool) (p *Presence) {
	b.t.Helper()
	kv, err := b.s.js.KeyValue(b.t.Context(), workersBucket)
	require.NoError(b.t, err)
	w, err := kv.WatchAll(b.t.Context())
	require.NoError(b.t, err)
	defer w.Stop()
	for end := time.Now().Add(crewtest.Patience); ; {
		require.True(b.t, time.Now().Before(end), "no such worker has come")
		e := crewtest.Receive(b.t, w.Updates(), "such a worker")
		p = &Presence{}
		if e != nil && json.Unmarshal(e.Value(), p) == nil && ok(p) {
			return p
		}
	}
}

func isReady(p *Presence) bool { return p.State == ready && p.Slots > 0 }

// attempt returns a new attempt with a value.
func (b *bench) attempt(value string) *Attempt {
	b.last++
	a := &Attempt{
		ID: ID{"run", 1, b.last, 1}, Slot: int(b.last), Template: b.sum, Records: [][]string{{value}}, KillAfter: 5 * time.Second,
	}
	copy(a.Token[:], fmt.Sprint("token ", b.last))
	return a
}

func (b *bench) give(worker string, a *Attempt) {
	b.t.Helper()
	_, err := b.s.js.Publish(b.t.Context(), taskSubject("default", worker, a.Run), a.Encode())
	require.NoError(b.t, err)
}

func (b *bench) order(worker string, o Order) (a Answer) {
	b.t.Helper()
	o.Version = Version
	data, err := json.Marshal(o)
	require.NoError(b.t, err)
	m, err := b.s.nc.Request(orderSubject("default", worker), data, crewtest.Patience)
	require.NoError(b.t, err)
	require.NoError(b.t, json.Unmarshal(m.Data, &a))
	return a
}

// final returns the next end of an attempt, and the chunks before it.
func (b *bench) final() (f *Final, chunks []*Chunk) {
	b.t.Helper()
	for {
		r := crewtest.Receive(b.t, b.results, "a result")
		if f, ok := r.(*Final); ok {
			return f, chunks
		}
		chunks = append(chunks, r.(*Chunk))
	}
}

// ends returns the end of an attempt, which is the next to end.
func (b *bench) ends(a *Attempt) *Final {
	b.t.Helper()
	f, _ := b.final()
	require.Equal(b.t, a.ID, f.ID, f.Error)
	return f
}

func (b *bench) allAcknowledged() {
	b.t.Helper()
	crewtest.Until(b.t, func() bool { return b.s.messages(b.t, tasksStream) == 0 }, "all tasks to be acknowledged")
}

func TestWorkerRunsItsOwnCommand(t *testing.T) {
	url := startHub(t)
	b := newBench(t, url, "printf", "got %s", "{}")
	w := crew(t, "worker", "--engine", url, "-j2", "-t", "--name", "w1", "--labels", "gpu", "printf", "got %s", "{}")
	p := b.worker(isReady)
	require.Equal(t, 2, p.Slots)
	require.Equal(t, "w1", p.Host)
	require.Equal(t, []string{"gpu"}, p.Labels)
	require.Equal(t, "printf 'got %s' '{}'", p.Command)

	b.give(p.ID, b.attempt("a  b"))
	f, chunks := b.final()
	require.Empty(t, chunks)
	require.Equal(t, "got a  b", string(f.Stdout))
	require.Equal(t, int64(8), f.StdoutLen)
	require.Equal(t, task.OK, f.Outcome)
	require.EqualValues(t, "w1", f.Host)
	w.Says(w.Stderr, "printf 'got %s' 'a  b'\n")

	for what, change := range map[string]func(a *Attempt){
		"command is not that": func(a *Attempt) { a.Template[0]++ },
		"runs no commands":    func(a *Attempt) { a.Argv = []string{"echo", "no"} },
		"own directory":       func(a *Attempt) { a.Dir = "/" },
		"own environment":     func(a *Attempt) { a.Env = []string{"PATH=/nowhere"} },
	} {
		a := b.attempt("x")
		change(a)
		b.give(p.ID, a)
		f, _ := b.final()
		require.Equal(t, task.StartFailed, f.Outcome)
		require.Contains(t, f.Error, what)
	}
	b.allAcknowledged()
	w.Send(syscall.SIGTERM)
	w.Dies(syscall.SIGTERM)
	require.Equal(t, gone, b.worker(func(p *Presence) bool { return p.State == gone }).State)
}

// newWorker starts a worker that runs scripts, and returns the engine's side of it.
func newWorker(t *testing.T, url string, options ...string) (*bench, *crewtest.Process, *Presence) {
	t.Helper()
	obey := obeys(t)
	b := newBench(t, url, obey, "{}")
	return b, crew(t, slices.Concat([]string{"worker", "--engine", url}, options, []string{obey, "{}"})...), b.worker(isReady)
}

func TestWorkerSendsLongOutput(t *testing.T) {
	b, _, p := newWorker(t, startHub(t), "-j1")
	b.give(p.ID, b.attempt(`head -c 1000000 /dev/zero | tr '\0' x; printf abc >&2; exit 3`))
	f, chunks := b.final()
	require.Equal(t, task.Exit, f.Outcome)
	require.Equal(t, 3, *f.Exit)
	require.Equal(t, "abc", string(f.Stderr))
	require.Equal(t, int64(1_000_000), f.StdoutLen)
	var out []byte
	for _, c := range chunks {
		require.False(t, c.Stderr)
		require.Equal(t, int64(len(out)), c.Offset)
		require.LessOrEqual(t, len(c.Data), chunkSize)
		out = append(out, c.Data...)
	}
	out = append(out, f.Stdout...)
	require.LessOrEqual(t, len(f.Stdout), restSize)
	require.Equal(t, 1_000_000, len(out))
	require.Empty(t, strings.Trim(string(out), "x"))
}

func TestWorkerSendsOutputThatIsWatched(t *testing.T) {
	b, _, p := newWorker(t, startHub(t), "-j1")
	dir := t.TempDir()
	a := b.attempt("printf one; until [ -e " + dir + "/go ]; do sleep 0.05; done; printf two")
	a.Live = true
	b.give(p.ID, a)
	c := (<-b.results).(*Chunk)
	require.Equal(t, "one", string(c.Data))
	touch(t, dir+"/go")
	f, chunks := b.final()
	for _, c := range chunks { // if the machine is slow
		require.Equal(t, "two", string(c.Data))
	}
	require.Equal(t, int64(6), f.StdoutLen)
}

func touch(t *testing.T, path string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, nil, 0o600))
}

func TestWorkerObeysOrders(t *testing.T) {
	b, _, p := newWorker(t, startHub(t), "-j4")
	dir := t.TempDir()
	epoch := uint64(1)
	hang := func(name string) *Attempt {
		a := b.attempt("trap '' TERM; echo $$ > " + dir + "/" + name + "; while :; do sleep 0.05; done")
		a.Epoch, a.KillAfter = epoch, 50*time.Millisecond
		b.give(p.ID, a)
		return a
	}
	about := func(op string, a *Attempt) Order {
		return Order{Op: op, ID: a.ID}
	}
	one, two := hang("one"), hang("two")
	pids := []int{crewtest.PID(t, dir+"/one"), crewtest.PID(t, dir+"/two")}
	first, second := ID{"run", 1, 1, 1}, ID{"run", 1, 2, 1}
	require.Equal(t, []ID{first, second}, b.order(p.ID, Order{Op: opHolds, IDs: []ID{first, second, {"run", 1, 3, 1}, {"run", 1, 1, 2}}}).IDs)
	require.Empty(t, b.order(p.ID, about(opCancel, one)).Err)
	f := b.ends(one)
	require.Equal(t, task.Cancelled, f.Outcome)
	require.Equal(t, int(syscall.SIGKILL), f.Signal)
	require.Empty(t, b.order(p.ID, about(opKill, two)).Err)
	b.ends(two)
	for _, pid := range pids {
		require.False(t, crewtest.Alive(pid))
	}

	// An order may overtake its attempt.
	three := b.attempt("echo $$ > " + dir + "/three")
	b.order(p.ID, about(opCancel, three))
	b.give(p.ID, three)
	f = b.ends(three)
	require.Equal(t, task.Lost, f.Outcome, "it had not begun")
	require.NoFileExists(t, dir+"/three")

	// A submitter that was restarted has what is left of its past end, and hears
	// nothing more of it.
	hang("four")
	pid := crewtest.PID(t, dir+"/four")
	require.Empty(t, b.order(p.ID, Order{Op: opLeave, ID: ID{Run: "run", Epoch: 2}}).Err)
	require.False(t, crewtest.Alive(pid))
	epoch = 2
	fresh := b.attempt("echo fresh")
	fresh.Epoch = epoch
	b.give(p.ID, fresh)
	b.ends(fresh)

	// So does one that is over.
	hang("five")
	pid = crewtest.PID(t, dir+"/five")
	b.heartbeat(Heartbeat{Run: "run", Epoch: 2, Over: true})
	crewtest.Gone(t, pid)
	b.allAcknowledged()
	require.Empty(t, b.results)
}

func (b *bench) heartbeat(beat Heartbeat) {
	b.t.Helper()
	beat.Version = Version
	data, err := json.Marshal(beat)
	require.NoError(b.t, err)
	require.NoError(b.t, b.s.nc.Publish(heartbeatSubject("default"), data))
}

func TestWorkerTakesAnAttemptOnce(t *testing.T) {
	b, _, p := newWorker(t, startHub(t), "-j2")
	dir := t.TempDir()
	slow := b.attempt("echo >> " + dir + "/slow; until [ -e " + dir + "/go ]; do sleep 0.05; done")
	quick := b.attempt("echo >> " + dir + "/quick")
	b.give(p.ID, slow)
	b.give(p.ID, quick)
	b.ends(quick)
	forged := *slow
	forged.Token[0]++
	for _, a := range []*Attempt{slow, quick, &forged} { // while it runs, and after it
		b.give(p.ID, a)
	}
	other := b.attempt("echo other")
	b.give(p.ID, other)
	b.ends(other)
	touch(t, dir+"/go")
	f := b.ends(slow)
	require.Equal(t, slow.Token, f.Token)
	b.allAcknowledged()
	for _, name := range []string{"/slow", "/quick"} {
		text, err := os.ReadFile(dir + name)
		require.NoError(t, err)
		require.Equal(t, "\n", string(text))
	}
	require.Empty(t, b.results)
}

func TestWorkerDrains(t *testing.T) {
	b, w, p := newWorker(t, startHub(t), "-j1")
	dir := t.TempDir()
	running := b.attempt("touch " + dir + "/runs; until [ -e " + dir + "/go ]; do sleep 0.05; done; echo done")
	waiting := b.attempt("touch " + dir + "/waits")
	b.give(p.ID, running)
	b.give(p.ID, waiting)
	crewtest.Exists(t, dir+"/runs")
	w.Send(syscall.SIGINT)
	f := b.ends(waiting)
	require.Equal(t, task.Lost, f.Outcome, "handed back")
	b.worker(func(p *Presence) bool { return p.State == draining })
	late := b.attempt("touch " + dir + "/late")
	b.give(p.ID, late)
	f = b.ends(late)
	require.Equal(t, task.Lost, f.Outcome, "refused")
	touch(t, dir+"/go")
	f = b.ends(running)
	require.Equal(t, "done\n", string(f.Stdout))
	w.Dies(syscall.SIGINT)
	require.NotContains(t, w.Stderr(), "--state", "it is the tasks' own run that goes on")
	require.NoFileExists(t, dir+"/waits")
	b.worker(func(p *Presence) bool { return p.State == gone })
	b.allAcknowledged()
}

func TestWorkerIsPaused(t *testing.T) {
	b, _, p := newWorker(t, startHub(t), "-j1", "--name", "paused", "--worker-ttl", "4s")
	dir := t.TempDir()
	b.give(p.ID, b.attempt("touch "+dir+"/runs; until [ -e "+dir+"/go ]; do sleep 0.05; done"))
	b.give(p.ID, b.attempt("touch "+dir+"/waits"))
	crewtest.Exists(t, dir+"/runs")
	crew(t, "ctl", "pause", "paused").Exits(0)
	f, _ := b.final()
	require.Equal(t, task.Lost, f.Outcome)
	require.Equal(t, uint64(2), f.ID.Task)
	require.Equal(t, paused, b.worker(func(p *Presence) bool { return p.State != ready }).State)
	crew(t, "ctl", "resume", "paused").Exits(0)
	b.worker(isReady)
	touch(t, dir+"/go")
	f, _ = b.final()
	require.Equal(t, task.OK, f.Outcome)
	require.NoFileExists(t, dir+"/waits")
	crew(t, "ctl", "drain", "paused").Exits(0)
}

// What somebody cancels at the worker ends for its submitter, too, whether it runs or waits.
func TestWorkerCancels(t *testing.T) {
	b, _, p := newWorker(t, startHub(t), "-j1", "--name", "cancels")
	dir := t.TempDir()
	running, waiting := b.attempt("touch "+dir+"/runs; exec sleep 1000"), b.attempt("touch "+dir+"/waits")
	waiting.Slot = 2
	b.give(p.ID, running)
	crewtest.Exists(t, dir+"/runs")
	b.give(p.ID, waiting)
	crewtest.Until(t, func() bool {
		c := crew(t, "ctl", "explain", "--run", "cancels", "--only", "waiting")
		c.Exits(0)
		return c.Stdout() != ""
	}, "the second task to wait")
	for _, a := range []*Attempt{waiting, running} { // or else the first would make room for the second
		crew(t, "ctl", "cancel", "--run", "cancels", fmt.Sprint(a.Task)).Exits(0)
		f := b.ends(a)
		require.Equal(t, task.Cancelled, f.Outcome)
		require.EqualValues(t, "cancelled by crew ctl on cancels", f.Error)
	}
	require.NoFileExists(t, dir+"/waits")
	b.allAcknowledged()
}

func TestWorkerIsKilled(t *testing.T) {
	b, w, p := newWorker(t, startHub(t), "-j1")
	dir := t.TempDir()
	b.give(p.ID, b.attempt("sleep 1000 & echo $! > "+dir+"/pid; wait"))
	pid := crewtest.PID(t, dir+"/pid")
	w.Send(syscall.SIGKILL)
	crewtest.Gone(t, pid)
}

func TestWorkerIsStopped(t *testing.T) {
	b, w, p := newWorker(t, startHub(t), "-j1", "--worker-ttl", "6s")
	dir := t.TempDir()
	b.give(p.ID, b.attempt("sleep 1000 & echo $! > "+dir+"/pid; wait"))
	pid := crewtest.PID(t, dir+"/pid")
	w.Send(syscall.SIGSTOP)
	last, passed := time.Now(), time.Duration(0) // while this machine did not stand still
	crewtest.Until(t, func() bool {
		now := time.Now()
		passed += min(now.Sub(last), 100*time.Millisecond)
		last = now
		return !crewtest.Alive(pid)
	}, "the end of process %d", pid)
	require.Less(t, passed, 6*time.Second, "its lease had not ended")
	w.Send(syscall.SIGCONT)
	again := b.worker(func(q *Presence) bool { return isReady(q) && q.ID != p.ID })
	b.give(again.ID, b.attempt("echo again"))
	f, _ := b.final()
	require.Equal(t, "again\n", string(f.Stdout), "it says nothing of what its lease did not cover")
	w.Says(w.Stderr, "its tasks are killed, and 1 task will start elsewhere")
}

func TestWorkerWithoutEngine(t *testing.T) {
	t.Parallel()
	dir, data := t.TempDir(), t.TempDir()
	hub, url := startHubProcess(t, data, "")
	b, w, p := newWorker(t, url, "-j2", "--worker-ttl", "10m")
	port := url[strings.LastIndexByte(url, ':')+1:]

	// A short absence costs nothing.
	short := b.attempt("touch " + dir + "/short; until [ -e " + dir + "/go ]; do sleep 0.05; done; echo short")
	b.give(p.ID, short)
	crewtest.Exists(t, dir+"/short")
	hub.Kill()
	touch(t, dir+"/go")
	w.Says(w.Stderr, "the engine is away")
	hub, _ = startHubProcess(t, data, port)
	b = newBench(t, url, b.words...)
	f := b.ends(short)
	require.Equal(t, "short\n", string(f.Stdout))
	b.allAcknowledged()
	w.Send(syscall.SIGTERM)
	w.Dies(syscall.SIGTERM)

	// A long one costs the lease.
	b, _, p = newWorker(t, url, "-j2", "--worker-ttl", "8s")
	b.last = 10
	b.give(p.ID, b.attempt("sleep 1000 & echo $! > "+dir+"/pid; wait"))
	pid := crewtest.PID(t, dir+"/pid")
	hub.Kill()
	crewtest.Gone(t, pid)
	startHubProcess(t, data, port)
	b = newBench(t, url, b.words...)
	again := b.worker(func(q *Presence) bool { return isReady(q) && q.ID != p.ID })
	b.last = 20
	b.give(again.ID, b.attempt("echo again"))
	for f.ID.Task != 21 {
		f, _ = b.final()
		require.NotEqual(t, uint64(11), f.ID.Task)
	}
}

func TestRunOutlivesItsWorkers(t *testing.T) {
	url := startHub(t)
	obey := obeys(t)
	worker := func(name string) *crewtest.Process {
		return crew(t, "worker", "--engine", url, "-j2", "--worker-ttl", "4s", "--name", name, obey, "{}")
	}
	killed, drained := worker("killed"), worker("drained")
	args := []string{"--engine", url, "-k", "--json", "--output", "none", obey, "{}", ":::"}
	dir := t.TempDir()
	for i := range 40 {
		wait := ""
		if i >= 10 {
			wait = "; until [ -e " + dir + "/go ]; do sleep 0.05; done"
		}
		args = append(args, fmt.Sprintf("echo x >> %s/%d; sleep 0.05%s", dir, i, wait))
	}
	run := crew(t, args...)
	crewtest.Until(t, func() bool { list, err := os.ReadDir(dir); return err == nil && len(list) >= 14 }, "each slot to have a task that waits")
	killed.Send(syscall.SIGKILL)
	drained.Send(syscall.SIGTERM)
	touch(t, dir+"/go")
	worker("last")
	run.Exits(0)
	drained.Dies(syscall.SIGTERM)
	lines := strings.Split(strings.TrimSpace(run.Stdout()), "\n")
	require.Len(t, lines, 40)
	attempts := 0
	for i, l := range lines {
		var r struct {
			Task    int
			Outcome string
			Host    string
		}
		require.NoError(t, json.Unmarshal([]byte(l), &r))
		require.Equal(t, "ok", r.Outcome)
		require.Contains(t, []string{"killed", "drained", "last"}, r.Host)
		text, err := os.ReadFile(fmt.Sprintf("%s/%d", dir, i))
		require.NoError(t, err)
		attempts += strings.Count(string(text), "x")
	}
	const sent = 2 * (1 + 3) // what each slot runs, and what it is sent ahead
	require.LessOrEqual(t, attempts, 40+sent, "more was repeated than the worker that died had got")
	run.Says(run.Stderr, "lost")
}

package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"crew/runner"
	"crew/runner/crewtest"
	"crew/runner/decide/core"
	"crew/runner/decide/task"
	"crew/runner/exec/spool"
	"crew/sched"
)

const (
	modelTasks = 60
	modelKeys  = 7
	modelSlots = 2
	modelAhead = 3
)

// model is a run on real workers, with simulated processes of tasks and a simulated network, which
// loses, duplicates, delays and reorders messages. It compares the outcome with the guarantees of a
// run.
type model struct {
	*testing.T
	*broker
	rand    *rand.Rand
	ttl     time.Duration
	keyed   bool // otherwise tasks are sent ahead
	run     *testRun
	ending  chan core.Ending
	line    *line // of the submitter
	workers []*modelWorker
	quiet   atomic.Bool // echo repeats nothing any more

	mu       sync.Mutex
	echoes   *rand.Rand     // for echo, which has goroutines of its own
	running  map[string]int // by key: number of the running task
	begun    map[int]int    // attempts
	whole    map[int]int    // attempts that ended by themselves
	latest   map[string]int // by key
	reported map[int]task.Outcome
	given    map[int]bool // tasks whose cancellation was requested
	crashed  bool         // the reports of the run are lost
	faults   int          // so far
	mayRun   int          // attempts that the faults so far may have lost
}

// modelWorker is a worker of the model, and the executor of its tasks.
type modelWorker struct {
	crew  *worker
	model *model
	line  *line
	run   *runner.Run
	over  chan struct{}

	mu    sync.Mutex
	kills map[uint64]context.CancelFunc // by task; nil once the worker is dead
	guard *time.Timer
}

func keyOf(n int) string { return "k" + strconv.Itoa(n%modelKeys) }

// textOf returns the output of a task: a line, or text that takes several messages.
func textOf(n int) string { return strings.Repeat(fmt.Sprintln("task", n), 1+n%5/4*18000) }

func outcomeOf(n int) (task.Outcome, int) {
	if n%13 == 0 {
		return task.Exit, 3
	}
	return task.OK, 0
}

func (m *model) worker() *modelWorker {
	w := &modelWorker{model: m, line: m.broker.line(time.Duration(m.rand.IntN(30)) * time.Millisecond), over: make(chan struct{}), kills: map[uint64]context.CancelFunc{}}
	made := make(chan struct{})
	work := testCall()
	work.Engine.TTL, work.Control.Name, work.Notice, work.Ready = m.ttl, fmt.Sprint("w", len(m.workers)), m.note, func() {}
	work.Make = func(t *task.Task, _, _ []string) error { t.Argv = []string{"true", t.Records[0][0]}; return nil }
	work.Do = func(c task.Command) task.Reply { <-made; return w.run.Do(c) }
	w.crew = newWorker(work)
	w.crew.s = m.connectOver(w.line)
	require.NoError(m, w.crew.subscribe())
	policy := sched.New("fifo", sched.Topics{})
	exec := w.crew.Executor(w)
	w.run = runner.New(core.Config{
		Pool: core.Pool{Workers: modelSlots}, Queue: core.Queue{Policy: policy, Buffer: 1000, PerKey: 1}, Limit: core.Limit{Limit: task.Limit{KillAfter: time.Second}}, Feed: core.Feed{Open: true},
	}, w.crew, exec, nil, []runner.Sink{w.crew})
	time.AfterFunc(time.Millisecond, func() { close(made) })
	go func() {
		defer close(w.over)
		w.run.Wait()
		_ = exec.Close()
	}()
	m.workers = append(m.workers, w)
	return w
}

// Run runs an attempt. See runner.Executor.
func (w *modelWorker) Run(ctx context.Context, a task.Attempt) *task.Result {
	r := &task.Result{Task: a.Task, Attempt: a.Number, Worker: a.Slot.ID, Outcome: task.OK, Start: time.Now()}
	life, kill := context.WithCancel(context.Background())
	defer kill()
	w.mu.Lock()
	dead := w.kills == nil
	if !dead {
		w.kills[a.Task.ID] = kill
	}
	w.mu.Unlock()
	n, _ := strconv.Atoi(a.Task.Records[0][0])
	if !dead {
		w.model.begin(n)
		select {
		case <-time.After(time.Duration(20+n*n*37%1500) * time.Millisecond):
		case <-life.Done():
			r.Outcome, r.Signal = task.Signal, 9
		case <-ctx.Done():
			select {
			case <-time.After(time.Duration(n*700) * time.Millisecond % (3 * time.Second)):
			case <-life.Done():
			}
			r.Outcome = task.OutcomeOf(context.Cause(ctx))
		}
		w.model.end(n, r.Outcome == task.OK)
	}
	if r.Outcome == task.OK {
		r.Stdout = spool.Text(textOf(n))
		r.Outcome, r.Code = outcomeOf(n)
	}
	r.End = time.Now()
	return r
}

// Kill kills an attempt. See runner.Executor.
func (w *modelWorker) Kill(id uint64, _ int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if kill := w.kills[id]; kill != nil {
		kill()
	}
}

func (w *modelWorker) killAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, kill := range w.kills {
		kill()
	}
}

// Lease kills the running tasks at a time. See guarded.
func (w *modelWorker) Lease(until time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.guard != nil {
		w.guard.Stop()
	}
	w.guard = time.AfterFunc(time.Until(until), w.killAll)
}

// Suspend does nothing. See runner.Executor.
func (w *modelWorker) Suspend() {}

// Resume does nothing. See runner.Executor.
func (w *modelWorker) Resume() {}

// Close does nothing. See wiring.Executor.
func (w *modelWorker) Close() error { return nil }

// die makes the worker vanish with all its tasks.
func (w *modelWorker) die() {
	w.crew.s.nc.Close()
	w.killAll()
	w.mu.Lock()
	w.kills = nil
	w.mu.Unlock()
	w.run.Do(task.Command{Op: task.Kill})
	<-w.over
}

// begin notes that an attempt at a task begins.
func (m *model) begin(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.begun[n]++; m.running[keyOf(n)] > 0 && (m.keyed || m.running[keyOf(n)] == n) {
		m.Errorf("task %d runs, and %d begins", m.running[keyOf(n)], n)
	}
	if o, is := m.reported[n]; is {
		m.Errorf("task %d begins after %v", n, o)
	}
	if m.keyed && n < m.latest[keyOf(n)] {
		m.Errorf("task %d begins after %d", n, m.latest[keyOf(n)])
	}
	m.running[keyOf(n)], m.latest[keyOf(n)] = n, n
}

func (m *model) end(n int, whole bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.running[keyOf(n)] == n {
		m.running[keyOf(n)] = 0
	}
	if whole {
		m.whole[n]++
	}
}

// report handles the result of a task.
func (m *model) report(r *task.Result) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.crashed || r.Task.Done != nil {
		return
	}
	n := int(r.Task.ID)
	if _, again := m.reported[n]; again {
		m.Errorf("task %d is reported twice", n)
	}
	m.reported[n] = r.Outcome
	want, code := outcomeOf(n)
	switch {
	case r.Outcome == task.Cancelled && m.given[n]:
	case r.Outcome != want || r.Code != code:
		m.Errorf("task %d: %v %d %v", n, r.Outcome, r.Code, r.Err)
	default:
		var text strings.Builder
		if r.Stdout != nil {
			_, _ = r.Stdout.WriteTo(&text)
		}
		if len(r.Before) > m.faults {
			m.Errorf("task %d was lost %d times in %d faults", n, len(r.Before), m.faults)
		}
		if text.String() != textOf(n) || m.whole[n] == 0 {
			m.Errorf("task %d has written %d bytes: %.40q", n, text.Len(), text.String())
		}
	}
}

func (m *model) note(text string) { m.Log(time.Now().Format("04:05.000"), text) }

// submit starts the run, or continues it.
func (m *model) submit() {
	m.line = m.broker.line(5 * time.Millisecond)
	m.over = m.line
	m.mu.Lock()
	m.crashed = false
	m.mu.Unlock()
	r, err := m.tryRun(&records{n: modelTasks, change: func(t *task.Task) {
		t.Key = keyOf(int(t.ID))
		m.mu.Lock()
		defer m.mu.Unlock()
		if o, is := m.reported[int(t.ID)]; is {
			t.Done = &task.Result{Task: t, Outcome: o, Attempt: 1}
		}
	}}, inDir(m.dir), m.report)
	require.NoError(m, err)
	m.run, m.ending = r, r.ending
}

// echo repeats messages after a delay, and forges results like an attacker without the token.
func (m *model) echo() {
	s := m.connect(nil)
	seen := func(msg *nats.Msg) {
		m.mu.Lock()
		often, late := m.echoes.IntN(12), time.Duration(m.echoes.IntN(9000))*time.Millisecond
		m.mu.Unlock()
		data := slices.Clone(msg.Data)
		for part := range splitMessages(data) {
			if a, err := decode[Attempt](part, kindAttempt); err == nil && often == 2 {
				fin := Final{ID: a.ID, Facts: task.Facts{Outcome: task.OK, Exit: status(0)}, Stdout: FinalOutput{Text: []byte("forged")}}
				_ = s.nc.Publish(resultSubject(a.User, a.Run, strings.Join(strings.Split(msg.Subject, ".")[3:5], ".")), encode(kindFinal, fin))
			}
		}
		if often < 2 {
			time.AfterFunc(late, func() {
				if !m.quiet.Load() {
					_ = s.nc.Publish(msg.Subject, data)
				}
			})
		}
	}
	var own sync.Map // messages from echo itself are not repeated
	for _, subject := range []string{"crew.t.>", "crew.r.>", "crew.w.>", "crew.b.>"} {
		_, err := s.nc.Subscribe(subject, func(msg *nats.Msg) {
			if _, again := own.LoadOrStore(msg.Subject+string(msg.Data), true); !again {
				seen(msg)
			}
		})
		require.NoError(m, err)
	}
}

// fault injects one random fault.
func (m *model) fault() {
	i := m.rand.IntN(len(m.workers))
	w, pause := m.workers[i], time.Duration(m.rand.IntN(12000))*time.Millisecond
	const atOnce = modelSlots * (1 + modelAhead)
	replace := func() {
		m.workers = slices.Delete(m.workers, i, i+1)
		m.worker()
	}
	what := []string{"kill worker", "drain worker", "cut worker", "hold worker", "cut run", "hold run", "kill run", "cut all", "hold all", "cancel", "pause"}[m.rand.IntN(11)]
	m.note(fmt.Sprint(what, " ", i, " ", pause))
	m.mu.Lock()
	m.faults++
	m.mu.Unlock()
	if !slices.Contains([]string{"drain worker", "cancel", "pause"}, what) && (what != "hold run" || pause > 2*m.ttl) {
		m.mayRun += atOnce
	}
	switch what {
	case "kill worker":
		w.die()
		replace()
	case "drain worker":
		w.run.Do(task.Command{Op: task.Drain})
		<-w.over
		replace()
	case "cut worker":
		w.line.cut(pause)
	case "hold worker":
		w.line.hold(true)
		time.Sleep(pause)
		w.line.hold(false)
	case "cut run":
		m.line.cut(pause)
	case "hold run":
		m.line.hold(true)
		time.Sleep(pause)
		m.line.hold(false)
	case "kill run":
		m.mu.Lock()
		m.crashed = true
		m.mu.Unlock()
		m.run.die()
		m.submit()
	case "cut all":
		m.mayRun += atOnce * (len(m.workers) - 1)
		m.line.cut(pause)
		for _, w := range m.workers {
			w.line.cut(pause)
		}
	case "hold all":
		m.mayRun += atOnce * (len(m.workers) - 1)
		lines := []*line{m.line}
		for _, w := range m.workers {
			lines = append(lines, w.line)
		}
		for _, l := range lines {
			l.hold(true)
		}
		time.Sleep(pause)
		for _, l := range lines {
			l.hold(false)
		}
	case "cancel":
		n := 1 + m.rand.IntN(modelTasks)
		m.mu.Lock()
		m.given[n] = true
		m.mu.Unlock()
		m.run.run.Do(task.Command{Op: task.Cancel, IDs: []uint64{uint64(n)}}) // it may have ended
	case "pause":
		m.run.run.Do(task.Command{Op: task.Pause})
		time.Sleep(pause)
		m.run.run.Do(task.Command{Op: task.Resume})
	}
}

// round runs tasks with some faults.
func (m *model) round() {
	for range 3 {
		m.worker()
	}
	m.echo()
	m.submit()
	for range 4 {
		time.Sleep(time.Duration(50+m.rand.IntN(3000)) * time.Millisecond)
		if len(m.ending) == 0 {
			m.fault()
		}
	}
	crewtest.Until(m, func() bool { m.mu.Lock(); defer m.mu.Unlock(); return len(m.reported) > modelTasks*9/10 }, "most results")
	m.quiet.Store(true)
	e := crewtest.Receive(m, m.ending, "the end of the run")
	require.NoError(m, e.Err)
	require.Len(m, m.reported, modelTasks)
	again := 0
	for _, n := range m.begun {
		again += n - 1
	}
	require.LessOrEqual(m, again, m.mayRun)
	for _, w := range m.workers {
		w.run.Do(task.Command{Op: task.Drain})
		<-w.over
	}
}

// TestModel checks the guarantees of a run while the network is unreliable and processes are killed:
// each task is reported once and with all its output; none is lost; no two attempts at a task run at
// the same time, nor two tasks of a key, nor one before an earlier one; a task that was reported does
// not run again; and nothing runs again without a fault.
func TestModel(t *testing.T) {
	for i := range crewtest.Rounds(12) {
		inTime(t, func(t *testing.T, b *broker) {
			m := &model{
				T: t, broker: b, rand: crewtest.Rand(t, i), echoes: crewtest.Rand(t, 1000+i), keyed: i%2 == 0, ttl: time.Duration(2+i%4*2) * time.Second,
				running: map[string]int{}, begun: map[int]int{}, whole: map[int]int{}, latest: map[string]int{}, reported: map[int]task.Outcome{}, given: map[int]bool{},
			}
			if b.policy = "keyed"; !m.keyed {
				b.policy, b.ahead = "fifo", modelAhead
			}
			m.round()
		})
	}
}

package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/decide/core"
	"crew/runner/decide/task"
)

// model is a run with random surroundings: a Source, an Executor, a Recorder, and a user who gives
// commands. It knows what must have happened to each task.
type model struct {
	t       *testing.T
	cfg     core.Config
	n       uint64 // tasks
	input   error  // how it ends
	record  bool
	hurried bool // only tasks take time

	mu       sync.Mutex
	rng      *rand.Rand
	lives    map[uint64]*life
	slots    map[int]uint64 // tasks that hold them
	given    uint64
	kills    map[uint64]chan struct{}
	stopping bool // the run was asked to stop, so it does not wait long
}

// life is the history of a task.
type life struct {
	begun    int   // attempts
	open     int   // the attempt whose start is recorded, but not its end
	ended    []int // attempts whose ends are recorded
	final    task.Outcome
	freed    int  // how often its block was freed
	outputs  int  // outputs not closed yet
	refused  bool // it cannot be run
	admitted bool
	finished task.Outcome
	released bool
}

func (m *model) int(n int) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.rng.IntN(n)
}

// pause takes up to most milliseconds.
func (m *model) pause(most int) {
	if !m.hurried {
		time.Sleep(time.Duration(m.int(most+1)) * time.Millisecond)
	}
}

// life updates the history of a task.
func (m *model) life(id uint64, change func(*life)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.lives[id] == nil {
		m.lives[id] = &life{}
	}
	change(m.lives[id])
}

// Next implements Source.
func (m *model) Next(number func() uint64) (*task.Task, error) {
	if m.given == m.n {
		return nil, m.input
	}
	if m.int(10) == 0 {
		m.pause(2000)
	}
	m.given++
	t := &task.Task{ID: number(), Key: string(rune('a' + m.int(5))), Cost: 1}
	t.Block = &task.Block{Text: []byte("x"), Free: func() { m.life(t.ID, func(l *life) { l.freed++ }) }}
	if m.int(20) == 0 {
		t.Err = errors.New("too long")
	}
	m.life(t.ID, func(l *life) { l.refused = t.Err != nil })
	return t, nil
}

// Buffered implements Source.
func (m *model) Buffered() bool { return m.int(2) == 0 }

// Run implements Executor.
func (m *model) Run(ctx context.Context, a task.Attempt) *task.Result {
	id, kill := a.Task.ID, make(chan struct{})
	m.life(id, func(l *life) {
		l.begun++
		l.outputs++
		require.Equal(m.t, l.begun, a.Number)
		require.True(m.t, !m.record || l.open == a.Number, "the start of task %d is on record", id)
		require.Zero(m.t, l.freed, "the block of task %d is gone", id)
		require.Zero(m.t, m.slots[a.Slot.ID], "a slot that task %d takes is in use", id)
		m.slots[a.Slot.ID], m.kills[id] = id, kill
	})
	r := &task.Result{Task: a.Task, Attempt: a.Number, Worker: a.Slot.ID, Outcome: task.OK, Start: time.Now(), Stdout: &output{m: m, id: id}}
	if id%7 == 0 || m.int(6) == 0 {
		r.Outcome, r.Code = task.Exit, 1
	}
	select {
	case <-time.After(time.Duration(1+m.int(2000)) * time.Millisecond):
	case <-ctx.Done():
		r.Outcome = task.OutcomeOf(context.Cause(ctx))
		select {
		case <-time.After(time.Duration(m.int(5000)) * time.Millisecond):
		case <-kill:
		}
	}
	r.End = time.Now()
	m.life(id, func(*life) {
		if delete(m.kills, id); !m.record {
			m.slots[a.Slot.ID] = 0
		}
	})
	return r
}

// Kill implements Executor.
func (m *model) Kill(id uint64, _ int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if kill := m.kills[id]; kill != nil {
		close(kill)
		m.kills[id] = nil
	}
}

func (m *model) Suspend() {}
func (m *model) Resume()  {}

// output is the output of an attempt.
type output struct {
	task.Output
	m    *model
	id   uint64
	once sync.Once
}

func (o *output) Close() error {
	o.once.Do(func() { o.m.life(o.id, func(l *life) { l.outputs-- }) })
	return nil
}

// Started implements Recorder.
func (m *model) Started(a task.Attempt, _ bool) {
	m.pause(100)
	m.life(a.Task.ID, func(l *life) {
		require.Zero(m.t, l.open)
		l.open = a.Number
	})
}

// Ended implements Recorder. Until it returns, the slot stays held, and no sink sees the result.
func (m *model) Ended(a task.Attempt, r *task.Result, final bool) {
	m.pause(500)
	m.life(a.Task.ID, func(l *life) {
		require.Equal(m.t, l.open, a.Number, "0 for a task that cannot be run")
		require.True(m.t, l.finished == 0 || m.stopping, "task %d is shown before it is on record", a.Task.ID)
		require.Zero(m.t, l.final)
		l.open, l.ended = 0, append(l.ended, a.Number)
		if final {
			l.final = r.Outcome
		}
		m.slots[a.Slot.ID] = 0
	})
}

func (m *model) Idle() {}

// watcher is a Sink that checks the events of a model.
type watcher struct {
	*model
	stats  task.Stats
	final  task.Stats // passed to Close
	last   uint64     // the last released task
	closed bool
}

// Consume implements Sink.
func (w *watcher) Consume(batch []task.Event) error {
	for _, e := range batch {
		w.stats.Apply(&e)
		if w.hurried {
			require.LessOrEqual(w.t, time.Since(e.At), 2*lag, "news are old")
		}
		w.life(e.ID, func(l *life) { w.happens(l, e) })
	}
	w.pause(300)
	return nil
}

// happens checks an event of a task.
func (w *watcher) happens(l *life, e task.Event) {
	switch e.Kind {
	case task.Admitted:
		l.admitted = true
	case task.Started:
		require.LessOrEqual(w.t, e.Attempt, w.cfg.Retry.Max+1)
		require.Zero(w.t, l.finished)
	case task.Finished:
		require.Zero(w.t, l.finished)
		l.finished = e.Result.Outcome
		require.Positive(w.t, l.freed, "the block of task %d waits", e.ID)
		require.LessOrEqual(w.t, len(e.Result.Before), l.begun)
		if kept := len(e.Result.Before); w.cfg.Retry.Keep && e.Attempt > 0 && e.Result.Outcome != task.Cancelled {
			require.Equal(w.t, kept+1, l.outputs, "outputs of task %d", e.ID)
		}
	case task.Released:
		require.True(w.t, !w.cfg.Order.Keep || e.ID == w.last+1, "task %d is shown after task %d", e.ID, w.last)
		for w.last = e.Last; e.ID <= e.Last; e.ID++ {
			require.NotZero(w.t, w.lives[e.ID].finished)
			w.lives[e.ID].released = true
		}
	}
}

// Close implements Sink.
func (w *watcher) Close(stats task.Stats) error {
	require.False(w.t, w.closed)
	w.closed, w.final = true, stats
	return nil
}

// newModel returns a model with random features.
func newModel(t *testing.T, round int) *model {
	m := &model{t: t, rng: crewtest.Rand(t, round), lives: map[uint64]*life{}, slots: map[int]uint64{}, kills: map[uint64]chan struct{}{}}
	m.n, m.record, m.hurried = uint64(m.int(120)), m.int(2) == 0, m.int(4) == 0
	m.input = []error{io.EOF, io.EOF, io.EOF, io.ErrUnexpectedEOF}[m.int(4)]
	cfg := config(1 + m.int(6))
	cfg.Queue.Policy = policy([]string{"fifo", "keyed", "round-robin"}[m.int(3)])
	cfg.Queue.Buffer = []int{1, 2, 3, 64}[m.int(4)]
	cfg.Retry = core.Retry{Max: []int{0, 1, 2, 14}[m.int(4)], Delay: time.Second, MaxDelay: 2 * time.Second, Jitter: func() float64 { return 1 }, Keep: m.int(2) == 0}
	if m.int(2) == 0 {
		cfg.Order = core.Order{Keep: true, Window: 1 + m.int(50)}
	}
	m.cfg = cfg
	return m
}

// steer gives commands until the run is over.
func (m *model) steer(r *Run) {
	for err := error(nil); !errors.Is(err, errRunOver); err = r.Do(task.Command{Op: task.Look}).Err {
		time.Sleep(time.Duration(m.int(3000)) * time.Millisecond)
		for _, op := range []task.Op{task.Resume, task.Continue} {
			r.Do(task.Command{Op: op})
		}
		id := uint64(1 + m.int(int(m.n+1)))
		switch m.int(40) {
		case 0:
			r.Do(task.Command{Op: task.Drain})
		case 1, 2:
			m.life(id, func(*life) { m.stopping = true })
			r.Do(task.Command{Op: []task.Op{task.Stop, task.Kill}[id%2]})
		case 3, 4, 5, 6:
			r.Do(task.Command{Op: task.Pause})
		case 7, 8:
			r.Do(task.Command{Op: task.Suspend})
		case 9, 10, 11, 12:
			r.Do(task.Command{Op: task.Resize, N: 1 + m.int(8)})
		case 13, 14, 15, 16, 17, 18:
			r.Do(task.Command{Op: task.Cancel, IDs: []uint64{id}, Kill: id%2 == 0})
		case 19, 20:
			r.Do(task.Command{Op: task.Retry, IDs: []uint64{id}})
		}
	}
}

// TestModel checks that each task runs, is recorded and is shown as it must, whatever is slow,
// breaks, or is commanded.
func TestModel(t *testing.T) {
	for round := range crewtest.Rounds(100) {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { newModel(t, round).run() })
		})
	}
}

func (m *model) run() {
	sink := &watcher{model: m}
	sinks := []Sink{sink}
	var bad *broken
	if m.int(4) == 0 {
		bad = &broken{t: m.t, err: []error{syscall.EPIPE, errors.New("no space left on device")}[m.int(2)], good: m.int(10)}
		sinks = append(sinks, bad)
	}
	var rec Recorder
	if m.record {
		rec = m
	}
	r := New(m.cfg, m, m, rec, sinks)
	var steering sync.WaitGroup
	if !m.hurried {
		steering.Go(func() { m.steer(r) })
	}
	end := r.Wait()
	steering.Wait()
	time.Sleep(time.Minute) // let late goroutines end
	synctest.Wait()
	require.True(m.t, sink.closed)
	if end.Unshown { // the sinks were too slow for a run that was asked to stop
		require.True(m.t, m.stopping)
		return
	}
	require.Equal(m.t, sink.stats.ByOutcome, end.Stats.ByOutcome)
	require.Equal(m.t, sink.stats.ByOutcome, sink.final.ByOutcome)
	require.Equal(m.t, sink.stats.Busy, sink.final.Busy)
	require.True(m.t, m.input == io.EOF || !end.Stats.InputEnd || end.Reason >= core.Requested, "nobody says that the input has failed")
	require.True(m.t, bad == nil || bad.good >= 0 || end.Reason >= core.PipeClosed, "nobody says that a sink has failed")
	for id, l := range m.lives {
		if l.admitted {
			m.check(id, l, end.Reason == core.Completed)
		}
	}
}

// check compares the history of a task with its result.
func (m *model) check(id uint64, l *life, completed bool) {
	require.NotZero(m.t, l.finished, "task %d", id)
	require.True(m.t, l.released, "task %d", id)
	require.Equal(m.t, 1, l.freed, "task %d", id)
	require.True(m.t, l.outputs == 0 || !completed, "task %d", id)
	require.True(m.t, l.final == l.finished || !m.record || l.finished == task.NotRun || l.finished == task.Cancelled, "task %d", id)
	switch {
	case l.refused:
		require.Zero(m.t, l.begun)
		require.NotEqual(m.t, task.OK, l.finished)
	case l.finished == task.Exit && completed:
		require.Equal(m.t, 1+m.cfg.Retry.Max, l.begun, "task %d", id)
	case m.hurried && completed:
		require.Equal(m.t, task.OK, l.finished)
	}
}

// broken is a Sink that fails after some batches.
type broken struct {
	t    *testing.T
	err  error
	good int // batches until then
}

func (b *broken) Consume([]task.Event) error {
	require.True(b.t, b.good >= 0 || b.err == syscall.EPIPE, "only Close is called")
	if b.good--; b.good < 0 {
		return b.err
	}
	return nil
}

func (b *broken) Close(task.Stats) error { return nil }

package coproc

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/decide/task"
	"crew/runner/exec/proc"
	"crew/runner/exec/spool"
)

func TestMain(m *testing.M) { os.Exit(crewtest.Main{M: m, Parallel: 16}.Run()) }

// fixture runs tasks on Workers as a run does: it immediately returns attempts that come back without
// having begun.
type fixture struct {
	*Workers
	slots, window int
	argv          []string
	protocol      task.Protocol
	dir           string
	keepOpen      bool // do not report the end of the input
	stopOnFailure bool // stop as soon as a task has failed

	mu       sync.Mutex
	queue    []task.Attempt
	stopped  bool
	running  int            // number of attempts that workers have
	slotOf   map[uint64]int // slot of each of these attempts, by task
	results  map[uint64]*task.Result
	returned map[uint64]int // how often each task came back without having begun
	notices  []string
	stray    bytes.Buffer

	// Hooks; may be nil.
	ended   func(*task.Result)
	taken   func()
	noticed func(string)
}

func newFixture(t *testing.T, cfg Config, argv ...string) *fixture {
	t.Helper()
	store := spool.New(1<<20, t.TempDir())
	c := &fixture{
		slots: 1, window: 1, argv: argv, protocol: task.LineProtocol,
		slotOf: map[uint64]int{}, results: map[uint64]*task.Result{}, returned: map[uint64]int{},
	}
	var err error
	cfg.Local, err = proc.New(proc.Config{Env: os.Environ(), Outputs: spool.Outputs{Store: store}, Limit: task.Limit{KillAfter: 10 * time.Second}, Notice: func(text string) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.notices = append(c.notices, text)
		if c.noticed != nil {
			c.noticed(text)
		}
	}})
	require.NoError(t, err)
	cfg.Stray = func(task.Slot) io.WriteCloser { return &stray{c} }
	c.Workers = New(cfg)
	t.Cleanup(func() {
		for _, r := range c.results {
			r.Close()
		}
		require.NoError(t, c.Close())
		require.NoError(t, cfg.Local.Close())
		require.NoError(t, store.Close())
	})
	return c
}

// stray stores stderr that belongs to no record.
type stray struct{ c *fixture }

func (s *stray) Write(p []byte) (int, error) {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	return s.c.stray.Write(p)
}

func (s *stray) Close() error { return nil }

// add adds a task for each record.
func (c *fixture) add(records ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, rec := range records {
		id := uint64(len(c.queue) + c.running + len(c.results) + 1)
		t := &task.Task{ID: id, Argv: c.argv, Dir: c.dir, Protocol: c.protocol, Stdin: []byte(rec)}
		c.queue = append(c.queue, task.Attempt{Task: t, Number: 1})
	}
	for slot := 1; slot <= c.slots; slot++ {
		go c.Wake(slot)
	}
}

// run runs the tasks that add has added.
func (c *fixture) run() {
	var wg sync.WaitGroup
	for slot := 1; slot <= c.slots; slot++ {
		wg.Go(func() { c.Serve(task.Slot{ID: slot, Cap: c.window}, c.swap(slot)) })
	}
	wg.Wait()
}

// awaitNotices waits until there are n notices, and returns all of them.
func (c *fixture) awaitNotices(t *testing.T, n int) (notices []string) {
	t.Helper()
	crewtest.Until(t, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		notices = slices.Clone(c.notices)
		return len(notices) >= n
	}, "%d notices", n)
	return notices
}

func mkfifo(path string) error { return syscall.Mkfifo(path, 0o600) }

// fill writes to a FIFO that has a reader.
func fill(path string) { _ = os.WriteFile(path, []byte("\n"), 0) }

func (c *fixture) swap(slot int) task.Swap {
	mine := 0
	return func(ended []*task.Result) (next []task.Attempt, left task.Expectation) {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, r := range ended {
			mine--
			c.running--
			id := r.Task.ID
			delete(c.slotOf, id)
			if r.Outcome == task.Lost && r.Unbegun {
				if c.returned[id]++; c.stopped {
					continue
				}
				c.queue = append([]task.Attempt{{Task: r.Task, Number: r.Attempt}}, c.queue...)
				r.Close()
				continue
			}
			if c.results[id] != nil {
				panic(fmt.Sprintf("task %d ended twice", id))
			}
			c.results[id] = r
			if c.stopOnFailure && r.Outcome.Failed() {
				c.stopped, c.queue = true, nil
			}
			if c.ended != nil {
				c.ended(r)
			}
		}
		for len(c.queue) > 0 && mine < c.window {
			next = append(next, c.queue[0])
			c.slotOf[c.queue[0].Task.ID] = slot
			c.queue = c.queue[1:]
			mine++
			c.running++
		}
		if len(next) > 0 && c.taken != nil {
			c.taken()
		}
		switch {
		case len(c.queue)+c.running == 0 && !c.keepOpen:
			for other := 1; other <= c.slots; other++ {
				if len(ended) > 0 && other != slot {
					go c.Wake(other)
				}
			}
			return nil, task.ExpectNone
		case len(c.queue) == 0 && !c.keepOpen:
			left = task.ExpectRetries
		}
		return next, left
	}
}

// show describes how a task ended, with its outputs.
func (c *fixture) show(t *testing.T, id uint64) string {
	t.Helper()
	r := c.results[id]
	require.NotNil(t, r, "task %d", id)
	text := r.Outcome.String()
	if r.Code != 0 {
		text += fmt.Sprintf(" %d", r.Code)
	}
	if r.Signal != 0 {
		text += fmt.Sprintf(" signal %d", r.Signal)
	}
	for _, out := range []task.Output{r.Stdout, r.Stderr} {
		var b bytes.Buffer
		if out != nil {
			_, err := out.WriteTo(&b)
			require.NoError(t, err)
		}
		text += fmt.Sprintf("|%s", b.String())
	}
	if r.Err != nil {
		text += "|" + r.Err.Error()
	}
	return text
}

// loopOwing returns a loop whose worker owes n answers, without a process.
func loopOwing(t *testing.T, n int) *loop {
	c := newFixture(t, Config{}, "cat")
	l := newLoop(c.Workers, task.Slot{ID: 1}, &c.Life)
	for id := range n {
		l.addAttempt(task.Attempt{Task: &task.Task{ID: uint64(id + 1), Protocol: task.LineProtocol}})
	}
	l.w = newWorker(l, &proc.Worker{In: -1, Out: -1, Err: -1})
	l.w.encoded, l.w.encodedBytes = n, math.MaxInt64
	return l
}

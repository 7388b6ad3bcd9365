package runner

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/decide/core"
	"crew/runner/decide/task"
)

// fakeStreamer is a Streamer that answers attempts with a function.
type fakeStreamer struct {
	instant
	answer func(task.Attempt) *task.Result // nil leaves the attempt to End

	mu       sync.Mutex
	bells    map[int]chan struct{}      // by slot
	ended    map[int][]ended            // by slot: the calls of End
	peak     int                        // attempts in one slot at once
	expected map[int][]task.Expectation // by slot: each change
	served   map[int]int                // by slot: how often Serve was called
	stuck    bool                       // after task.ExpectNone, Serve waits for End
	killing  []uint64
}

type ended struct {
	id    uint64
	cause error
}

func newFakeStreamer(answer func(task.Attempt) *task.Result) *fakeStreamer {
	return &fakeStreamer{
		answer: answer, bells: map[int]chan struct{}{}, ended: map[int][]ended{}, expected: map[int][]task.Expectation{}, served: map[int]int{},
	}
}

// answer lets an attempt succeed.
func answer(a task.Attempt) *task.Result {
	return &task.Result{Task: a.Task, Attempt: a.Number, Worker: a.Slot.ID, Outcome: task.OK, Start: start, End: start}
}

var start = time.Unix(0, 0)

func (l *fakeStreamer) bell(slot int) chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.bells[slot] == nil {
		l.bells[slot] = make(chan struct{}, 1)
	}
	return l.bells[slot]
}

func (l *fakeStreamer) Wake(slot int) {
	select {
	case l.bell(slot) <- struct{}{}:
	default:
	}
}

func (l *fakeStreamer) End(slot int, id uint64, _ int, cause error) {
	l.mu.Lock()
	l.ended[slot] = append(l.ended[slot], ended{id, cause})
	l.mu.Unlock()
	l.Wake(slot)
}

func (l *fakeStreamer) Kill(id uint64, _ int) {
	l.mu.Lock()
	l.killing = append(l.killing, id)
	l.mu.Unlock()
}

// note records the answer of a swap.
func (l *fakeStreamer) note(slot, running int, left task.Expectation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.peak = max(l.peak, running)
	if told := l.expected[slot]; len(told) == 0 || told[len(told)-1] != left {
		l.expected[slot] = append(told, left)
	}
}

// asked returns which of the running attempts End has asked to end, and whether it has asked the
// worker itself.
func (l *fakeStreamer) asked(slot int, running map[uint64]task.Attempt) (results []*task.Result, worker bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.ended[slot] {
		worker = worker || e.id == 0
		if a, ok := running[e.id]; ok {
			delete(running, e.id)
			r := answer(a)
			r.Outcome = task.Cancelled
			results = append(results, r)
		}
	}
	l.ended[slot] = nil
	return results, worker
}

func (l *fakeStreamer) Serve(slot task.Slot, swap task.Swap) {
	l.mu.Lock()
	l.served[slot.ID]++
	l.mu.Unlock()
	bell := l.bell(slot.ID)
	running := map[uint64]task.Attempt{}
	var results []*task.Result
	for asked := false; ; {
		next, left := swap(results)
		results = nil
		for _, a := range next {
			if r := l.answer(a); r != nil {
				results = append(results, r)
			} else {
				running[a.Task.ID] = a
			}
		}
		l.note(slot.ID, len(running)+len(results), left)
		if len(results) > 0 {
			continue
		}
		if len(running) == 0 && left == task.ExpectNone && (asked || !l.stuck) {
			return
		}
		<-bell
		results, asked = l.asked(slot.ID, running)
	}
}

// never leaves an attempt to End.
func never(task.Attempt) *task.Result { return nil }

func windowed(workers, window int) core.Config {
	cfg := config(workers)
	cfg.Pool.Window = window
	return cfg
}

// TestStreamKnowsWhatToExpect checks that a slot learns, while its last attempts run, that no task
// waits.
func TestStreamKnowsWhatToExpect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		exec := newFakeStreamer(never)
		r, end := begin(t, windowed(2, 2), &tasks{n: 6}, exec, nil)
		require.Equal(t, []task.Expectation{task.ExpectMore}, exec.expected[1], "two tasks wait")
		exec.End(1, 1, 1, nil)
		exec.End(1, 3, 1, nil)
		synctest.Wait()
		require.Equal(t, []task.Expectation{task.ExpectMore, task.ExpectRetries}, exec.expected[1])
		require.Equal(t, []task.Expectation{task.ExpectMore, task.ExpectRetries}, exec.expected[2])
		r.Do(task.Command{Op: task.Stop})
		e := <-end
		require.EqualValues(t, 6, e.Stats.ByOutcome[task.Cancelled])
		require.Equal(t, []task.Expectation{task.ExpectMore, task.ExpectRetries, task.ExpectNone}, exec.expected[2])
	})
}

// TestStreamResizes checks that a slot that leaves finishes its attempts, and may join again
// meanwhile.
func TestStreamResizes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		exec := newFakeStreamer(never)
		r, end := begin(t, windowed(2, 1), &tasks{n: 100}, exec, nil)
		r.Do(task.Command{Op: task.Resize, N: 1})
		synctest.Wait()
		require.Equal(t, task.ExpectNone, exec.expected[2][len(exec.expected[2])-1])
		exec.End(2, 2, 1, nil)
		synctest.Wait()
		r.Do(task.Command{Op: task.Resize, N: 3})
		synctest.Wait()
		require.Equal(t, map[int]int{1: 1, 2: 2, 3: 1}, exec.served)
		r.Do(task.Command{Op: task.Kill})
		synctest.Wait()
		require.Contains(t, exec.killing, uint64(0))
		e := <-end
		require.EqualValues(t, e.Stats.Admitted, e.Stats.Finished())
	})
}

// TestStreamCancelsUntaken checks that an attempt that ends before its slot has taken it is
// recorded like any other.
func TestStreamCancelsUntaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		exec := newFakeStreamer(func(a task.Attempt) *task.Result {
			if a.Task.ID == 1 {
				<-hold
			}
			return answer(a)
		})
		rec, sink := &fakeRecorder{}, &fakeSink{}
		r, end := begin(t, windowed(1, 2), &tasks{n: 3, pause: time.Second}, exec, rec, sink)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Empty(t, r.Do(task.Command{Op: task.Cancel, IDs: []uint64{2}}).Err)
		close(hold)
		e := <-end
		require.EqualValues(t, 2, e.Stats.ByOutcome[task.OK])
		require.EqualValues(t, 1, e.Stats.ByOutcome[task.Cancelled])
		require.Equal(t, task.Cancelled, sink.finished[2].Outcome)
		require.Equal(t, []string{"+1", "-2", "-1", "idle0", "+3", "-3", "idle0"}, rec.calls)
	})
}

// TestStreamEndsWorkers checks that a stop asks workers to end, and that workers that do not end
// are given up.
func TestStreamEndsWorkers(t *testing.T) {
	for _, deaf := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			exec := newFakeStreamer(answer)
			exec.stuck = true
			r, end := begin(t, windowed(2, 4), &tasks{n: 10}, exec, nil)
			select {
			case <-end:
				require.Fail(t, "the workers have not ended")
			default:
			}
			bells := []chan struct{}{exec.bell(1), exec.bell(2)}
			if deaf {
				exec.mu.Lock()
				clear(exec.bells)
				exec.mu.Unlock()
			}
			r.Do(task.Command{Op: task.Stop})
			e := <-end
			require.EqualValues(t, 10, e.Stats.ByOutcome[task.OK])
			if !deaf {
				require.Zero(t, e.Abandoned)
				return
			}
			require.Equal(t, 2, e.Abandoned)
			for _, bell := range bells {
				bell <- struct{}{}
			}
		})
	}
}

// TestStreamRepeatsUnbegun checks that an attempt that comes back without having begun is repeated
// at once, and does not count.
func TestStreamRepeatsUnbegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var back sync.Map
		exec := newFakeStreamer(func(a task.Attempt) *task.Result {
			require.Equal(t, 1, a.Number)
			r := answer(a)
			if _, was := back.Swap(a.Task.ID, true); !was {
				r.Outcome, r.Unbegun = task.Lost, true
			}
			return r
		})
		start := time.Now()
		_, end := begin(t, windowed(2, 16), &tasks{n: 100}, exec, nil)
		e := <-end
		require.EqualValues(t, 100, e.Stats.ByOutcome[task.OK])
		require.Zero(t, e.Stats.Lost)
		require.Zero(t, e.Stats.Retried)
		require.Less(t, time.Since(start), time.Second)
	})
}

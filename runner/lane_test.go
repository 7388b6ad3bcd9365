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

// lanes is a Streamer whose slots answer their attempts with a function.
type lanes struct {
	instant
	answer func(task.Attempt) *task.Result // nil for an attempt that only End ends

	mu      sync.Mutex
	bells   map[int]chan struct{}      // by slot
	ended   map[int][]ended            // by slot: what End has asked for
	most    int                        // attempts that a slot had at once
	told    map[int][]task.Expectation // by slot: each change
	served  map[int]int                // by slot: how often Serve was called
	stuck   bool                       // Serve does not return after task.ExpectNone until End
	killing []uint64
}

type ended struct {
	id    uint64
	cause error
}

func newLanes(answer func(task.Attempt) *task.Result) *lanes {
	return &lanes{
		answer: answer, bells: map[int]chan struct{}{}, ended: map[int][]ended{}, told: map[int][]task.Expectation{}, served: map[int]int{},
	}
}

// answer ends an attempt well.
func answer(a task.Attempt) *task.Result {
	return &task.Result{Task: a.Task, Attempt: a.Number, Worker: a.Slot.ID, Outcome: task.OK, Start: start, End: start}
}

var start = time.Unix(0, 0)

func (l *lanes) bell(slot int) chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.bells[slot] == nil {
		l.bells[slot] = make(chan struct{}, 1)
	}
	return l.bells[slot]
}

func (l *lanes) Wake(slot int) {
	select {
	case l.bell(slot) <- struct{}{}:
	default:
	}
}

func (l *lanes) End(slot int, id uint64, _ int, cause error) {
	l.mu.Lock()
	l.ended[slot] = append(l.ended[slot], ended{id, cause})
	l.mu.Unlock()
	l.Wake(slot)
}

func (l *lanes) Kill(id uint64, _ int) {
	l.mu.Lock()
	l.killing = append(l.killing, id)
	l.mu.Unlock()
}

// note takes down what a swap has returned.
func (l *lanes) note(slot, running int, left task.Expectation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.most = max(l.most, running)
	if told := l.told[slot]; len(told) == 0 || told[len(told)-1] != left {
		l.told[slot] = append(told, left)
	}
}

// asked returns which of the running attempts End has asked to end, and whether it has
// asked the worker itself.
func (l *lanes) asked(slot int, running map[uint64]task.Attempt) (results []*task.Result, worker bool) {
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

func (l *lanes) Serve(slot task.Slot, swap task.Swap) {
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

// A slot learns that nothing waits any more while its last attempts run.
func TestStreamTellsWhatIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		exec, sink := newLanes(never), &seen{}
		r, end := begin(t, windowed(2, 2), &tasks{n: 6}, exec, nil, sink)
		require.Equal(t, []task.Expectation{task.ExpectMore}, exec.told[1], "two tasks wait")
		exec.End(1, 1, 1, nil)
		exec.End(1, 3, 1, nil)
		synctest.Wait()
		require.Equal(t, []task.Expectation{task.ExpectMore, task.ExpectRetries}, exec.told[1])
		require.Equal(t, []task.Expectation{task.ExpectMore, task.ExpectRetries}, exec.told[2])
		r.Do(task.Command{Op: task.Stop})
		e := <-end
		require.EqualValues(t, 6, e.Stats.Count(task.Cancelled))
		require.Equal(t, []task.Expectation{task.ExpectMore, task.ExpectRetries, task.ExpectNone}, exec.told[2])
	})
}

// The slot that leaves finishes what it has, and may come back meanwhile.
func TestStreamResizes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		exec, sink := newLanes(never), &seen{}
		r, end := begin(t, windowed(2, 1), &tasks{n: 100}, exec, nil, sink)
		r.Do(task.Command{Op: task.Resize, N: 1})
		synctest.Wait()
		require.Equal(t, task.ExpectNone, exec.told[2][len(exec.told[2])-1])
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

// An attempt that ends before its slot has taken it has an end on record like any
// other.
func TestStreamRecallsWhatIsNotTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		exec := newLanes(func(a task.Attempt) *task.Result {
			if a.Task.ID == 1 {
				<-hold
			}
			return answer(a)
		})
		rec, sink := &told{}, &seen{}
		r, end := begin(t, windowed(1, 2), &tasks{n: 3, pause: time.Second}, exec, rec, sink)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Empty(t, r.Do(task.Command{Op: task.Cancel, IDs: []uint64{2}}).Err)
		close(hold)
		e := <-end
		require.EqualValues(t, 2, e.Stats.Count(task.OK))
		require.EqualValues(t, 1, e.Stats.Count(task.Cancelled))
		require.Equal(t, task.Cancelled, sink.finished[2].Outcome)
		require.Equal(t, []string{"+1", "-2", "-1", "idle0", "+3", "-3", "idle0"}, rec.calls)
	})
}

// Workers that do not end are asked to by a stop, and given up in the end.
func TestStreamEndsWorkers(t *testing.T) {
	for _, deaf := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			exec, sink := newLanes(answer), &seen{}
			exec.stuck = true
			r, end := begin(t, windowed(2, 4), &tasks{n: 10}, exec, nil, sink)
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
			require.EqualValues(t, 10, e.Stats.Count(task.OK))
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

// What comes back without having begun runs again at once, and counts for nothing.
func TestStreamTakesBackWhatHasNotBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var back sync.Map
		exec := newLanes(func(a task.Attempt) *task.Result {
			require.Equal(t, 1, a.Number)
			r := answer(a)
			if _, was := back.Swap(a.Task.ID, true); !was {
				r.Outcome, r.Unbegun = task.Lost, true
			}
			return r
		})
		sink := &seen{}
		start := time.Now()
		_, end := begin(t, windowed(2, 16), &tasks{n: 100}, exec, nil, sink)
		e := <-end
		require.EqualValues(t, 100, e.Stats.Count(task.OK))
		require.Zero(t, e.Stats.Lost)
		require.Zero(t, e.Stats.Retried)
		require.Less(t, time.Since(start), time.Second)
	})
}

package core

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/task"
)

// sendAhead is a configuration of a run on other machines whose slots hold n attempts ahead.
func sendAhead(name string, n int) Config {
	cfg := remote(name)
	cfg.Pool.Ahead = n
	return cfg
}

func (s *sim) about(kind task.Kind) (ids []uint64) {
	for _, e := range s.events {
		if e.Kind == kind {
			ids = append(ids, e.ID)
		}
	}
	return ids
}

func TestEverySlotHasAnAttemptBeforeOneIsSentAhead(t *testing.T) {
	s := simulate(t, sendAhead("fifo", 1), 6, func(s *sim) {
		s.open = true
		s.do = func(task.Attempt) (time.Duration, task.Outcome) { return brief / 2, task.OK }
	})
	s.join(4, "a")
	require.Equal(t, []uint64{1, 2, 3, 4}, s.begun)
	require.Len(t, s.ahead, 2)
	require.NotEqual(t, s.ahead[0].Slot.ID, s.ahead[1].Slot.ID)
	now := s.look()
	require.Len(t, now.Running, 4)
	require.EqualValues(t, 4, now.Stats.Running, "what waits at a worker does not run")
	require.Equal(t, []task.Blocking{{By: task.BySlots, Tasks: 2}}, now.Waiting)
	require.Equal(t, task.BySlot, s.where(s.ahead[0].Task.ID).Blocking.By)
	require.ErrorContains(t, s.try(task.Command{Op: task.Hold, IDs: []uint64{5}}).Err, "sent to a worker")
	s.sleep(time.Hour)
	require.Len(t, s.finished, 6)
	require.Empty(t, s.recalled)
}

// What waits behind a long task goes to a slot that joins or has become free, at once and
// without a trace.
func TestWhatWaitsGoesToASlotThatIsFree(t *testing.T) {
	s := simulate(t, sendAhead("fifo", 1), 4, func(s *sim) {
		s.do = func(a task.Attempt) (time.Duration, task.Outcome) {
			return map[uint64]time.Duration{1: time.Hour}[a.Task.ID] + time.Second, task.OK
		}
	})
	s.join(1, "a")
	require.Len(t, s.ahead, 1)
	s.join(1, "b")
	require.Equal(t, []uint64{1, 3}, s.begun)
	s.sleep(2 * time.Second)
	require.Equal(t, []uint64{1, 3, 4, 2}, s.begun, "as soon as b had nothing else")
	require.Equal(t, []uint64{2}, s.recalled)
	end := s.wait()
	require.Equal(t, time.Hour+time.Second, s.took())
	require.EqualValues(t, 4, end.Stats.Of(task.OK))
	require.Zero(t, end.Stats.Lost+end.Stats.Retried)
	require.Empty(t, s.about(task.Retried))
	require.Len(t, s.about(task.Started), 4)
}

// Whatever the policy, no slot is free while something waits at another one that it could run.
func TestNoSlotIsFreeWhileItsWorkWaitsElsewhere(t *testing.T) {
	for _, name := range []string{"fifo", "longest-first", "fair", "least-busy", "round-robin", "keyed"} {
		for seed := range uint64(20) {
			n := rand.New(rand.NewPCG(seed, 1))
			s := simulate(t, sendAhead(name, 1+n.IntN(3)), 200, func(s *sim) {
				s.pause = time.Duration(n.IntN(3)) * 100 * time.Millisecond
				s.change = func(t *task.Task) { t.Key, t.Cost = string(rune('a'+n.IntN(30))), 1+n.Int64N(5) }
				s.do = func(a task.Attempt) (time.Duration, task.Outcome) {
					return time.Duration(n.IntN(1000)) * time.Millisecond, task.OK
				}
			})
			for i := range 4 {
				s.join(1+n.IntN(3), fmt.Sprint("host", i))
				s.sleep(time.Second)
			}
			for !s.over {
				at, ok := s.next()
				require.True(t, ok)
				s.sleep(at.Sub(s.now))
				for _, a := range s.ahead {
					free := s.core.pool.idle > 0 && s.core.queue.ready.Choice(s.core.entries[a.Task.ID].item).Idle
					require.False(t, free, "%s %d: task %d waits at worker %d", name, seed, a.Task.ID, a.Slot.ID)
				}
			}
			require.EqualValues(t, 200, s.wait().Stats.Of(task.OK))
			require.Len(t, s.about(task.Started), 200)
			for _, id := range s.recalled {
				again := slices.DeleteFunc(slices.Clone(s.recalled), func(o uint64) bool { return o != id })
				require.LessOrEqual(t, len(again), 3, "%s: recalls of a task go on", name)
			}
			if name == "round-robin" {
				require.LessOrEqual(t, len(s.recalled), 40, "only when slots have joined")
			}
		}
	}
}

// A task waits behind another one only as long as that could be brief, even if all slots are busy.
func TestALongTaskHoldsUpNoOther(t *testing.T) {
	s := simulate(t, sendAhead("fifo", 3), 10_000, func(s *sim) {
		s.do = func(a task.Attempt) (time.Duration, task.Outcome) {
			if a.Task.ID <= 2 {
				return 10 * time.Minute, task.OK
			}
			return 100 * time.Millisecond, task.OK
		}
	})
	s.join(4, "a")
	s.sleep(2 * time.Minute)
	for i, id := range s.begun {
		require.LessOrEqual(t, int(id)-i, 60, "task %d begins as the %dth", id, i)
		require.LessOrEqual(t, i-int(id), 60, "task %d begins as the %dth", id, i)
	}
	require.Len(t, s.recalled, 6, "once for each that waited behind a long one")
	for _, a := range s.ahead {
		require.Greater(t, a.Slot.ID, 2)
	}
	require.EqualValues(t, 10_000, s.wait().Stats.Of(task.OK))
}

func TestNothingSentAheadBeginsOnceTheRunEnds(t *testing.T) {
	for _, op := range []task.Op{task.Drain, task.Stop} {
		s := simulate(t, sendAhead("fifo", 2), 20)
		s.join(2, "a")
		s.sleep(500 * time.Millisecond)
		require.Len(t, s.ahead, 4)
		s.ask(task.Command{Op: op})
		require.Empty(t, s.ahead)
		end := s.wait()
		require.Equal(t, []uint64{1, 2}, s.begun)
		require.EqualValues(t, 18, end.Stats.Of(task.NotRun))
		require.Len(t, s.about(task.Started), 2)
	}
}

func TestAPauseTakesBackWhatWasSentAhead(t *testing.T) {
	s := simulate(t, sendAhead("fifo", 1), 5)
	s.join(1, "a")
	s.ask(task.Command{Op: task.Pause})
	s.sleep(time.Hour)
	require.Equal(t, []uint64{1}, s.begun)
	s.ask(task.Command{Op: task.Resume})
	s.wait()
	require.Equal(t, []uint64{1, 2, 3, 4, 5}, s.begun)
	require.Equal(t, time.Hour+4*time.Second, s.took())
}

func TestASlotThatLeavesGivesBackWhatWaitsThere(t *testing.T) {
	s := simulate(t, sendAhead("fifo", 1), 4)
	a := s.join(2, "a")
	s.leave(a[1:])
	require.Equal(t, []uint64{4}, s.recalled)
	require.EqualValues(t, 4, s.wait().Stats.Of(task.OK))
	require.Equal(t, 3*time.Second, s.took())
}

func TestATaskIsCancelledWhereItWaits(t *testing.T) {
	s := simulate(t, sendAhead("fifo", 1), 2)
	s.join(1, "a")
	s.ask(task.Command{Op: task.Cancel, IDs: []uint64{2}})
	end := s.wait()
	require.EqualValues(t, 1, end.Stats.Of(task.Cancelled))
	require.Equal(t, []uint64{1}, s.begun)
	require.Equal(t, time.Second, s.took())
}

// The end of an attempt can come before that of the one before it in the slot.
func TestEndsComeInAnyOrder(t *testing.T) {
	s := simulate(t, sendAhead("fifo", 1), 3)
	s.join(1, "a")
	second := s.ahead[0]
	s.ahead = nil
	s.step(func(c *Core) { c.Ended(&task.Result{Task: second.Task, Attempt: 1, Outcome: task.OK}) })
	require.EqualValues(t, 1, s.look().Stats.Running)
	require.EqualValues(t, 3, s.wait().Stats.Of(task.OK))
}

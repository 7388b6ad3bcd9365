package sink

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/task"
)

// simulate runs tasks that take the times of took on slots, in order, up to a moment.
func simulate(took []time.Duration, slots int, until time.Duration) (l load, s task.Stats, waiting int64) {
	ends := make([]time.Duration, slots)
	var events []task.Event
	for i, d := range took {
		slot := 0
		for s := range ends {
			if ends[s] < ends[slot] {
				slot = s
			}
		}
		if ends[slot] > until {
			waiting++
			continue
		}
		e := task.Event{Kind: task.Started, At: dawn.Add(ends[slot]), ID: uint64(i + 1), Slot: slot + 1}
		events = append(events, e)
		if ends[slot] += d; ends[slot] <= until {
			e.Kind, e.At, e.Took, e.Attempt = task.Finished, dawn.Add(ends[slot]), d, 1
			e.Result = &task.Result{Outcome: task.OK}
			events = append(events, e)
		}
	}
	for i := range events {
		l.apply(&events[i], events[i].At)
		s.Apply(&events[i])
	}
	return l, s, waiting
}

func TestETA(t *testing.T) {
	equal := make([]time.Duration, 500)
	for i := range equal {
		equal[i] = 10 * time.Second
	}
	for _, c := range []struct {
		slots       int
		total, from time.Duration // of the whole run, and when to look
	}{
		{4, 1250 * time.Second, 416 * time.Second},
		{1, 5000 * time.Second, 1666 * time.Second},
		{64, 80 * time.Second, 27 * time.Second}, // in waves
		{64, 80 * time.Second, 39 * time.Second},
		{250, 20 * time.Second, 12 * time.Second},
	} {
		l, s, waiting := simulate(equal, c.slots, c.from)
		now := dawn.Add(c.from)
		eta, ok := s.ETA(waiting, l.ages(now), now)
		require.True(t, ok)
		require.InEpsilon(t, c.total-c.from, eta, 0.15, "%d slots", c.slots)
	}

	slow := append([]time.Duration{time.Hour}, equal...)
	for i := range slow[1:] {
		slow[i+1] = 50 * time.Millisecond
	}
	for at := 200 * time.Millisecond; at < 20*time.Second; at += 200 * time.Millisecond {
		l, s, waiting := simulate(slow, 2, at)
		_, ok := s.ETA(waiting, l.ages(dawn.Add(at)), dawn.Add(at))
		require.False(t, ok, "after %v one task has run longer than any other", at)
		require.Equal(t, at, dawn.Add(at).Sub(l.oldest(1)[0].since))
	}

	l, s, waiting := simulate(equal, 4, 5*time.Second)
	now := dawn.Add(5 * time.Second)
	_, ok := s.ETA(waiting, l.ages(now), now)
	require.False(t, ok, "no task is finished yet")
}

// TestETAWhileStartsAreRare has the measured number of running tasks count, not the
// number of slots.
func TestETAWhileStartsAreRare(t *testing.T) {
	var s task.Stats
	for i := range 10 {
		at := dawn.Add(time.Duration(i) * time.Second)
		s.Apply(&task.Event{Kind: task.Started, ID: uint64(i + 1), At: at})
		s.Apply(&task.Event{
			Kind: task.Finished, ID: uint64(i + 1), At: at.Add(100 * time.Millisecond), Attempt: 1,
			Took: 100 * time.Millisecond, Result: &task.Result{Outcome: task.OK},
		})
	}
	eta, ok := s.ETA(50, nil, dawn.Add(10*time.Second))
	require.True(t, ok)
	require.InDelta(t, 50*time.Second, eta, float64(time.Second))
}

func TestTally(t *testing.T) {
	s := task.Stats{Admitted: 70, Running: 4}
	s.ByOutcome[task.OK], s.ByOutcome[task.Exit], s.ByOutcome[task.Cancelled], s.ByOutcome[task.NotRun] = 10, 2, 1, 50
	s.Earlier[task.OK] = 5
	crewtest.Examples(t, "testdata/tally.jsonl", func(t *testing.T, c struct {
		It, Want   string
		Tasks      *int64
		Known, End bool
		Done       int64
	}) {
		in := Input{Done: c.Done}
		if c.Tasks != nil {
			in.Tasks = func(time.Duration) (int64, bool) { return *c.Tasks, c.Known }
		}
		s.InputEnd = c.End
		require.Equal(t, c.Want, fmt.Sprint(in.tally(&s, 0)), c.It)
	})
}

func TestNamesFit(t *testing.T) {
	for _, c := range []struct {
		task    task.Task
		columns int
		want    string
	}{
		{task.Task{Records: [][]string{{"a", "b"}}}, 30, "a b"},
		{task.Task{Argv: []string{"sleep", "1 2"}}, 30, "sleep '1 2'"},
		{task.Task{Argv: []string{"x"}, Records: [][]string{{""}}}, 30, "x"},
		{task.Task{Records: [][]string{{"a\x1b[2J\tb\n"}}}, 30, `a\x1b[2J b`},
		{task.Task{Records: [][]string{{"日本語日本語"}}}, 7, "日本語…"},
		{task.Task{Records: [][]string{{"one"}, {"two"}, {"three"}}}, 8, "one two…"},
	} {
		require.Equal(t, c.want, runningTask{task: &c.task}.name(c.columns))
	}
}

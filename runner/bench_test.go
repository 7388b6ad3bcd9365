package runner

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/decide/core"
	"crew/runner/decide/task"
)

// sameTask is a Source of n tasks, which are made in advance.
type sameTask struct {
	tasks []task.Task
	next  int
	batch bool // they can be taken many at a time
}

func (s *sameTask) Next(number func() uint64) (*task.Task, error) {
	if s.next == len(s.tasks) {
		return nil, io.EOF
	}
	t := &s.tasks[s.next]
	s.next++
	t.ID = number()
	return t, nil
}

// instant is an Executor that has nothing to do.
type instant struct{}

func (instant) Run(_ context.Context, a task.Attempt) *task.Result {
	now := time.Now()
	return &task.Result{Task: a.Task, Attempt: a.Number, Worker: a.Slot.ID, Outcome: task.OK, Start: now, End: now}
}

func (instant) Kill(uint64, int) {}
func (instant) Suspend()         {}
func (instant) Resume()          {}

// null is a Sink that ignores everything.
type null struct{}

func (null) Consume([]task.Event) error { return nil }
func (null) Close(task.Stats) error     { return nil }

// BenchmarkRun measures the cost of a task from the reader to the sinks, without a process: with
// one attempt at a time in each slot, and with a Streamer.
func BenchmarkRun(b *testing.B) {
	for _, c := range []struct {
		name            string
		workers, window int
		keep            bool
		exec            Executor
	}{
		{"workers=2", 2, 0, false, instant{}}, {"workers=8", 8, 0, false, instant{}}, {"workers=8/keep", 8, 0, true, instant{}},
		{"window=1", 2, 1, false, newFakeStreamer(answer)}, {"window=64", 2, 64, false, newFakeStreamer(answer)}, {"window=64/keep", 2, 64, true, newFakeStreamer(answer)},
	} {
		b.Run(c.name, func(b *testing.B) {
			src := &sameTask{tasks: make([]task.Task, b.N), batch: c.window > 0}
			for i := range src.tasks {
				src.tasks[i] = task.Task{Cost: 1}
			}
			cfg := core.Config{
				Pool: core.Pool{Workers: c.workers, Window: c.window}, Queue: core.Queue{Policy: policy("fifo"), Buffer: 256},
				Order: core.Order{Keep: c.keep, Window: 1 << 20},
			}
			r := New(cfg, src, c.exec, nil, []Sink{null{}})
			b.ReportAllocs()
			b.ResetTimer()
			ending := r.Wait()
			require.EqualValues(b, b.N, ending.Stats.ByOutcome[task.OK])
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
		})
	}
}

func (s *sameTask) Buffered() bool { return s.batch && s.next < len(s.tasks) }

package journal

import (
	"io"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/task"
)

// many is a source of n tasks.
type many struct{ n uint64 }

func (m *many) Next(number func() uint64) (*task.Task, error) {
	id := number()
	if id > m.n {
		return nil, io.EOF
	}
	return &task.Task{ID: id, Argv: []string{"true", strconv.FormatUint(id, 10)}, Cost: 1}, nil
}

// BenchmarkResume resumes a run of 100,000 tasks, all of which are done: load-ms is what it
// takes to open the journal, and next-ms what it takes to read the tasks.
func BenchmarkResume(b *testing.B) {
	dir := b.TempDir()
	resume := func(each func(*Journal, *task.Task)) (load, next time.Duration) {
		began := time.Now()
		j, err := Open(Config{
			Dir: dir, Notice: func(string) {}, Slack: 64 << 10, Output: Output{Plan: task.Plan{Show: task.ShowLines}},
		})
		require.NoError(b, err)
		load = time.Since(began)
		s, last := j.Source(&many{100_000}), uint64(0)
		for {
			t, err := s.Next(func() uint64 { last++; return last })
			if err != nil {
				break
			}
			each(j, t)
		}
		next = time.Since(began) - load
		require.NoError(b, j.Close())
		return load, next
	}
	resume(func(j *Journal, t *task.Task) {
		a := task.Attempt{Task: t, Number: 1, Slot: task.Slot{ID: 1}}
		j.Started(a, false)
		now := time.Now()
		j.Ended(a, &task.Result{Task: t, Attempt: 1, Worker: 1, PID: 12345, Outcome: task.OK, Start: now, End: now.Add(793456)}, true)
	})
	var load, next time.Duration
	for b.Loop() {
		l, n := resume(func(_ *Journal, t *task.Task) {
			if t.Done == nil {
				b.Fatal("task", t.ID, "would run again")
			}
		})
		load, next = load+l, next+n
	}
	b.ReportMetric(load.Seconds()*1e3/float64(b.N), "load-ms")
	b.ReportMetric(next.Seconds()*1e3/float64(b.N), "next-ms")
}

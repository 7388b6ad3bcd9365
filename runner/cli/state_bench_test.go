package cli

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner"
	"crew/runner/journal"
	"crew/runner/task"
	"crew/sched"
)

// numbers is a source of so many tasks.
type numbers struct{ n, last uint64 }

func (s *numbers) Next() (*task.Task, error) {
	if s.n == s.last {
		return nil, io.EOF
	}
	s.n++
	return &task.Task{ID: s.n, Argv: []string{"echo", strconv.FormatUint(s.n, 10)}}, nil
}

// brief is an executor whose attempts take some time and no processor.
type brief time.Duration

func (d brief) Run(_ context.Context, a task.Attempt) *task.Result {
	start := time.Now()
	time.Sleep(time.Duration(d))
	return &task.Result{
		Task: a.Task, Attempt: a.Number, Worker: a.Worker, PID: 12345, Argv: a.Argv(), Outcome: task.OK, Start: start, End: time.Now(),
	}
}

// drop is a sink that shows nothing.
type drop struct{}

func (drop) Consume([]task.Event) error { return nil }

func (drop) Close(task.Stats) error { return nil }

// BenchmarkState is tasks with and without a journal, as many a second as
// processes could be started on a good machine, and what the journal takes.
func BenchmarkState(b *testing.B) {
	for name, with := range map[string]bool{"without": false, "with": true} {
		b.Run(name, func(b *testing.B) {
			var src runner.Source = &numbers{last: uint64(b.N)}
			var exec runner.Executor = brief(time.Millisecond)
			sinks := []runner.Sink{drop{}}
			dir := b.TempDir()
			if with {
				j, err := journal.Open(journal.Config{Dir: dir, Command: journal.Command{Line: "crew", Dir: "/"}})
				require.NoError(b, err)
				defer j.Close()
				src, exec = j.Source(src), j.Executor(exec)
				sinks = []runner.Sink{j.Commit(), j.Shown(drop{})}
			}
			e, err := runner.Run(runner.Config{
				Pool: runner.Pool{Workers: 8, Policy: sched.NewFIFO(8), Buffer: 64}, KillAfter: time.Second,
			}, src, exec, sinks, nil)
			require.NoError(b, err)
			require.NoError(b, e.Err)
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
			if st, err := os.Stat(filepath.Join(dir, "journal.jsonl")); err == nil {
				b.ReportMetric(float64(st.Size())/float64(b.N), "B/task")
			}
		})
	}
}

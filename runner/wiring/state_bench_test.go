package wiring

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
	"crew/runner/core"
	"crew/runner/journal"
	"crew/runner/task"
	"crew/sched"
)

// numbers is a source of so many tasks.
type numbers struct{ n, last uint64 }

func (s *numbers) Next(number func() uint64) (*task.Task, error) {
	if s.n == s.last {
		return nil, io.EOF
	}
	s.n++
	return &task.Task{ID: number(), Argv: []string{"echo", strconv.FormatUint(s.n, 10)}}, nil
}

// brief is an executor whose attempts take some time and no processor.
type brief time.Duration

func (d brief) Run(_ context.Context, a task.Attempt) *task.Result {
	start := time.Now()
	time.Sleep(time.Duration(d))
	return &task.Result{
		Task: a.Task, Attempt: a.Number, Worker: a.Slot.ID, PID: 12345, Argv: a.Argv(), Outcome: task.OK, Start: start, End: time.Now(),
	}
}

func (brief) Kill(uint64, int) {}
func (brief) Suspend()         {}
func (brief) Resume()          {}

// drop is a sink that shows nothing.
type drop struct{}

func (drop) Consume([]task.Event) error { return nil }

func (drop) Close(task.Stats) error { return nil }

// instantly is a Streamer whose attempts take no time.
type instantly struct {
	brief
	bell [3]chan struct{} // by slot
}

func (x *instantly) Wake(slot int) {
	select {
	case x.bell[slot] <- struct{}{}:
	default:
	}
}

func (x *instantly) End(int, uint64, error) {}

func (x *instantly) Serve(slot task.Slot, swap task.Swap) {
	var ended []*task.Result
	for {
		next, left := swap(ended)
		ended = ended[:0]
		at := time.Now()
		for _, a := range next {
			ended = append(ended, &task.Result{
				Task: a.Task, Attempt: a.Number, Worker: a.Slot.ID, PID: 12345, Argv: a.Task.Argv, Outcome: task.OK, Start: at, End: at,
			})
		}
		if len(next) > 0 {
			continue
		}
		if left == task.LeftNone {
			return
		}
		<-x.bell[slot.ID]
	}
}

// BenchmarkStateOfWorkers is records for two persistent workers with and without a
// journal.
func BenchmarkStateOfWorkers(b *testing.B) {
	for name, with := range map[string]bool{"without": false, "with": true} {
		b.Run(name, func(b *testing.B) {
			var src runner.Source = &lines{numbers{last: uint64(b.N)}}
			exec := &instantly{}
			for i := range exec.bell {
				exec.bell[i] = make(chan struct{}, 1)
			}
			var rec runner.Recorder
			sinks := []runner.Sink{drop{}}
			if with {
				j, err := journal.Open(journal.Config{Dir: b.TempDir(), Command: journal.Command{Line: "crew", Dir: "/"}})
				require.NoError(b, err)
				defer j.Close()
				src, rec = j.Source(src), j
				sinks = []runner.Sink{j.Commit(), j.Shown(drop{})}
			}
			policy, err := sched.New(sched.Config{Name: "fifo"})
			require.NoError(b, err)
			r, err := runner.New(core.Config{
				Pool: core.Pool{Workers: 2, Window: 64, Policy: policy, Buffer: 256},
			}, src, exec, rec, sinks)
			require.NoError(b, err)
			require.NoError(b, r.Wait().Err)
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
		})
	}
}

// lines is a source of so many records for persistent workers.
type lines struct{ numbers }

var catWorker = []string{"cat"}

func (s *lines) Next(number func() uint64) (*task.Task, error) {
	t, err := s.numbers.Next(number)
	if err == nil {
		t.Argv, t.Stdin, t.Protocol = catWorker, []byte(t.Argv[1]), task.LineProtocol
	}
	return t, err
}

func (*lines) Buffered() bool { return true }

// BenchmarkState is tasks with and without a journal, as many a second as
// processes could be started on a good machine, and what the journal takes.
func BenchmarkState(b *testing.B) {
	for name, with := range map[string]bool{"without": false, "with": true} {
		b.Run(name, func(b *testing.B) {
			var src runner.Source = &numbers{last: uint64(b.N)}
			var exec runner.Executor = brief(time.Millisecond)
			var rec runner.Recorder
			sinks := []runner.Sink{drop{}}
			dir := b.TempDir()
			if with {
				j, err := journal.Open(journal.Config{Dir: dir, Command: journal.Command{Line: "crew", Dir: "/"}})
				require.NoError(b, err)
				defer j.Close()
				src, rec = j.Source(src), j
				sinks = []runner.Sink{j.Commit(), j.Shown(drop{})}
			}
			policy, err := sched.New(sched.Config{Name: "fifo"})
			require.NoError(b, err)
			r, err := runner.New(core.Config{
				Pool: core.Pool{Workers: 8, Policy: policy, Buffer: 64},
			}, src, exec, rec, sinks)
			require.NoError(b, err)
			require.NoError(b, r.Wait().Err)
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
			if st, err := os.Stat(filepath.Join(dir, "journal.jsonl")); err == nil {
				b.ReportMetric(float64(st.Size())/float64(b.N), "B/task")
			}
		})
	}
}

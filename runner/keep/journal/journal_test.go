package journal

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/decide/task"
)

// TestCloseWhileReading checks that Close does not wait for the Source, and that the Source does
// not then call outputs damaged that it cannot read any more.
func TestCloseWhileReading(t *testing.T) {
	j, err := Open(configured(t.TempDir()))
	require.NoError(t, err)
	require.NoError(t, j.Close())
	_, err = j.Source(&given{{Argv: []string{"x"}}}).Next(nil)
	require.ErrorIs(t, err, io.EOF)
	_, err = j.out.verified(extent{0, 2, 0})
	require.ErrorIs(t, err, os.ErrClosed)
}

// TestReplayedResult checks that a replayed result is complete.
func TestReplayedResult(t *testing.T) {
	w := newWorld(t, false)
	require.NoError(t, w.do("open a"))
	start := time.Date(2026, 7, 1, 12, 0, 0, 123456789, time.FixedZone("", 7200))
	r := task.Result{
		Task: w.tasks["a"], Attempt: 1, Worker: 1, Argv: w.tasks["a"].Argv,
		Host: "web1", PID: 4711, Outcome: task.Signal, Signal: 9, Start: start, End: start.Add(1234567891 * time.Nanosecond),
		User: 1500 * time.Microsecond, System: time.Nanosecond, MaxRSS: 1 << 20, Leaked: true, Err: errors.New("a \"reason\"\n"),
		Units:  []task.Units{{Name: "db", Held: []string{"0", "1"}}, {Name: "gpu", Held: []string{"0"}}},
		Stdout: text(strings.Repeat("0123456789abcdef", 2*smallOutput)), Stderr: text("err\xff\x00"),
	}
	// all returns a result as text, without its task and the places of its outputs.
	all := func(r task.Result) string {
		said := ""
		for _, o := range []task.Output{r.Stdout, r.Stderr} {
			var b strings.Builder
			n, err := o.WriteTo(&b)
			require.NoError(t, err)
			tail, err := task.Tail(o, 7)
			require.NoError(t, err)
			said += fmt.Sprintf("%s %d %d %s\n", b.String(), n, o.Len(), tail)
		}
		r.Task, r.Stdout, r.Stderr = nil, nil, nil
		r.Err = errors.New(r.Err.Error())
		times := fmt.Sprintln(r.Start.Format(time.RFC3339Nano), r.Duration())
		r.Start, r.End = time.Time{}, time.Time{}
		return said + times + fmt.Sprintf("%+v", r)
	}
	want := all(r)
	w.j.Ended(task.Attempt{Task: r.Task, Number: 1}, &r, true)
	require.NoError(t, w.do("close"))
	require.NoError(t, w.do("open a"))
	require.True(t, want == all(*w.tasks["a"].Done))
	require.NoError(t, w.do("close"))
	w.cfg.Output.All = true
	require.NoError(t, w.do("open b"))
	b := task.Attempt{Task: w.tasks["b"], Number: 1}
	w.j.Ended(b, &task.Result{Task: b.Task, Attempt: 1, Outcome: task.Cancelled, Stdout: text("cancelled")}, true)
	require.NoError(t, w.do("close"))
	w.cfg.Output.All = false
	require.NoError(t, w.do("open -compact b"))
	kept, err := os.ReadFile(w.j.out.file.Name())
	require.NoError(t, err)
	require.True(t, strings.HasSuffix(string(kept), "cancelled"), "the outputs of a task that is not done move, too")
}

// TestQueueUnderLoad checks that, while a queue is compacted again and again, it remembers the
// right tasks, the directory stays small, and EndedTasks returns outputs of the file that the lines
// which it has read refer to.
func TestQueueUnderLoad(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	n := uint64(3 * crewtest.Rounds(60))
	w.cfg.Queue.Keep, w.cfg.Slack = -time.Hour, 10_000
	require.NoError(t, w.do("open"))
	w.j.cfg.Slack = w.cfg.Slack
	var adders sync.WaitGroup
	var showing sync.Mutex
	for first := range uint64(4) {
		adders.Go(func() {
			for id := first + 1; id <= n; id += 4 {
				tk := &task.Task{ID: id, Argv: []string{"x"}, Bare: true, Env: []string{fmt.Sprint("A=", id%5)}}
				failed := w.j.Accept([]*task.Task{tk}, "")
				if id%10 != 0 { // others wait
					w.j.Started(task.Attempt{Task: tk, Number: 1}, false)
					r := &task.Result{Task: tk, Attempt: 1, Outcome: task.OK, Start: time.Now(), Stdout: text(strings.Repeat("o", 5000))}
					w.j.Ended(task.Attempt{Task: tk, Number: 1}, r, true)
					events := []task.Event{{Kind: task.Finished, ID: id, Task: tk, Result: r, Attempt: 1}, {Kind: task.Released, ID: id, Last: id}}
					showing.Lock()
					failed = errors.Join(failed, w.commit.Consume(events), w.shown.Consume(events))
					showing.Unlock()
					for _, p := range w.j.EndedTasks(1, func(uint64, task.Outcome) bool { return true }) {
						_, err := p.Outputs[0].ReadAt(make([]byte, 5000), 0)
						failed = errors.Join(failed, err)
					}
				}
				if failed != nil {
					t.Error(failed)
				}
			}
		})
	}
	adders.Wait()
	retried := &task.Task{ID: 10, Identity: w.j.queueID.identity(10), Argv: []string{"x"}}
	for n := range 1000 {
		a := task.Attempt{Task: retried, Number: n + 1}
		w.j.Ended(a, &task.Result{Task: retried, Attempt: n + 1, Outcome: task.Exit, Code: 1}, false)
		require.NoError(t, w.commit.Consume(nil))
		w.j.compactor.running.Wait()
	}
	require.Less(t, w.j.end, int64(100_000), "it is also compacted while no task ends")
	require.NoError(t, w.j.Close())
	require.Error(t, w.j.Accept(nil, ""))
	require.NoError(t, w.do("open -compact"))
	require.Less(t, size(t, w.cfg.Dir), int64(n)*500)
	require.Len(t, w.order, int(n/10))
	for _, tk := range w.tasks {
		require.Zero(t, tk.ID%10)
		require.Equal(t, []string{fmt.Sprint("A=", tk.ID%5)}, tk.Env)
	}
	require.Equal(t, n, w.j.LastID(), "it is known although most are forgotten")
}

// size returns the disk space of a directory.
func size(t testing.TB, dir string) (n int64) {
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			n += info.Sys().(*syscall.Stat_t).Blocks * 512
		}
	}
	return n
}

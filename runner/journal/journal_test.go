package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/task"
)

// A run that is told to end does not wait for its reader, which takes no output that it can
// read no more for damaged.
func TestNothingIsReadOnceItIsClosed(t *testing.T) {
	j, err := Open(configured(t.TempDir()))
	require.NoError(t, err)
	require.NoError(t, j.Close())
	_, err = j.Source(&given{{Argv: []string{"x"}}}).Next(nil)
	require.ErrorIs(t, err, io.EOF)
	_, err = j.out.verified(extent{0, 2, 0})
	require.ErrorIs(t, err, os.ErrClosed)
}

// All that a result says comes back.
func TestReplayedResult(t *testing.T) {
	w := newWorld(t, false)
	require.NoError(t, w.do("open a"))
	start := time.Date(2026, 7, 1, 12, 0, 0, 123456789, time.FixedZone("", 7200))
	want := task.Result{
		Task: w.tasks["a"], Attempt: 1, Worker: 1, Argv: w.tasks["a"].Argv,
		Host: "web1", PID: 4711, Outcome: task.Signal, Signal: 9, Start: start, End: start.Add(1234567891 * time.Nanosecond),
		User: 1500 * time.Microsecond, System: time.Nanosecond, MaxRSS: 1 << 20, Leaked: true, Err: errors.New("a \"reason\"\n"),
		Units:  []task.Units{{Name: "db", Held: []string{"0", "1"}}, {Name: "gpu", Held: []string{"0"}}},
		Stdout: text(strings.Repeat("0123456789abcdef", bufferSize/8)), Stderr: text("err\xff\x00"),
	}
	r := want
	w.j.Ended(task.Attempt{Task: r.Task, Number: 1}, &r, true)
	require.NoError(t, w.do("close"))
	require.NoError(t, w.do("open a"))
	got := *w.tasks["a"].Done
	for _, o := range [][2]task.Output{{want.Stdout, got.Stdout}, {want.Stderr, got.Stderr}} {
		var a, b bytes.Buffer
		_, err := o[0].WriteTo(&a)
		require.NoError(t, err)
		n, err := o[1].WriteTo(&b)
		require.NoError(t, err)
		require.Equal(t, o[1].Len(), n)
		require.True(t, bytes.Equal(a.Bytes(), b.Bytes()))
		tail, err := o[1].Tail(7)
		require.NoError(t, err)
		require.Equal(t, a.Bytes()[max(0, a.Len()-7):], tail)
	}
	require.Equal(t, start.Format(time.RFC3339Nano), got.Start.Format(time.RFC3339Nano))
	require.Equal(t, want.Start.Sub(want.End), got.Start.Sub(got.End))
	require.Equal(t, want.Err.Error(), got.Err.Error())
	got.Stdout, got.Stderr, got.Start, got.End, got.Err = want.Stdout, want.Stderr, want.Start, want.End, want.Err
	want.Task = w.tasks["a"]
	require.Equal(t, want, got)
}

// However often a run is resumed or a queue opened, its directory stays small.
func TestDirectoryStaysSmall(t *testing.T) {
	for _, queue := range []bool{false, true} {
		w := newWorld(t, queue)
		if w.cfg.Slack = 10_000; queue {
			w.cfg.Queue.Keep = -time.Hour
		}
		for round := range 30 {
			names := "a b c d e f"
			open := "open -retry " + names
			if queue {
				names, open = fmt.Sprintf("%d %d", 2*round+1, 2*round+2), "open"
			}
			require.NoError(t, w.do(open))
			if queue {
				require.NoError(t, w.do("accept "+names))
			}
			for range 3 { // the third one writes much
				require.NoError(t, w.do("retry "+names))
			}
			for _, step := range []string{"exit ", "show ", "close "} {
				require.NoError(t, w.do(step+names))
			}
			require.Less(t, size(t, w.cfg.Dir), int64(300_000))
		}
	}
}

// Tasks come and go while the journal of a queue is compacted again and again: what is
// remembered is what it should be, and the directory stays small.
func TestQueueUnderLoad(t *testing.T) {
	w := newWorld(t, true)
	n := uint64(1000)
	if crewtest.Soaking() {
		n = 100_000
	}
	w.cfg.Queue.Keep, w.cfg.Slack = -time.Hour, 10_000
	require.NoError(t, w.do("open"))
	w.j.cfg.Slack = w.cfg.Slack
	var adders sync.WaitGroup
	var showing sync.Mutex
	most := int64(0)
	for first := range uint64(4) {
		adders.Go(func() {
			for id := first + 1; id <= n; id += 4 {
				tk := &task.Task{ID: id, Argv: []string{"x"}, Bare: true, Env: []string{fmt.Sprint("A=", id%5)}}
				if err := w.j.Accept([]*task.Task{tk}); err != nil {
					t.Error(err)
				}
				if id%10 == 0 {
					continue // it waits
				}
				w.j.Started(task.Attempt{Task: tk, Number: 1}, false)
				r := &task.Result{Task: tk, Attempt: 1, Outcome: task.OK, Start: time.Now(), Stdout: text(strings.Repeat("o", 1000))}
				w.j.Ended(task.Attempt{Task: tk, Number: 1}, r, true)
				showing.Lock()
				events := []task.Event{{Kind: task.Finished, ID: id, Task: tk, Result: r, Attempt: 1}, {Kind: task.Released, ID: id, Last: id}}
				if err := errors.Join(w.commit.Consume(events), w.shown.Consume(events)); err != nil {
					t.Error(err)
				}
				most = max(most, size(t, w.cfg.Dir))
				showing.Unlock()
			}
		})
	}
	adders.Wait()
	if n > 10_000 {
		require.Less(t, heap(), int64(20<<20))
		require.Less(t, most, int64(n)*1000/2) // of fewer, a slow disk holds most before the first compaction has ended
	}
	require.NoError(t, w.j.Close())
	require.Error(t, w.j.Accept(nil))
	require.NoError(t, w.do("open -compact"))
	require.Less(t, size(t, w.cfg.Dir), int64(n)*1000/10)
	require.Len(t, w.order, int(n/10))
	for _, tk := range w.tasks {
		require.Zero(t, tk.ID%10)
		require.Equal(t, []string{fmt.Sprint("A=", tk.ID%5)}, tk.Env)
	}
	require.Equal(t, n, w.j.Last(), "it is known although most are forgotten")
}

// size returns how much disk space a directory takes.
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

// heap returns how many bytes are in use.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Two logs that fail are told of in one line.
func TestLogsFail(t *testing.T) {
	l := new(Journal).Logs(&shower{err: errors.New("no log")}, &shower{err: errors.New("no tree")})
	require.EqualError(t, l.Consume(nil), "no log; no tree")
	require.EqualError(t, l.Close(task.Stats{}), "no log; no tree")
}

// There are no files that others can read in the directory of a queue, whatever they were.
func TestQueueIsPrivate(t *testing.T) {
	for _, dir := range []string{"new", "old"} {
		w := newWorld(t, true)
		w.cfg.Dir = filepath.Join(w.cfg.Dir, dir)
		if dir == "old" {
			require.NoError(t, os.Mkdir(w.cfg.Dir, 0o755))
		}
		for _, step := range []string{"open", "accept 1", "ok 1", "show 1", "compact-all", "accept 2", "close"} {
			require.NoError(t, w.do(step))
		}
		for range 2 {
			entries, err := os.ReadDir(w.cfg.Dir)
			require.NoError(t, err)
			require.Len(t, entries, 3)
			for _, e := range entries {
				info, err := e.Info()
				require.NoError(t, err)
				require.Equal(t, os.FileMode(0o600), info.Mode(), e.Name())
				require.NoError(t, os.Chmod(filepath.Join(w.cfg.Dir, e.Name()), 0o644))
			}
			require.NoError(t, w.do("open")) // which makes them private again
			require.NoError(t, w.do("close"))
		}
		info, err := os.Stat(w.cfg.Dir)
		require.NoError(t, err)
		require.Equal(t, map[string]os.FileMode{"new": 0o700, "old": 0o755}[dir], info.Mode().Perm())
	}
}

package coproc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/task"
)

// eval is a worker that does what each record says: the shell reads no more than that.
const eval = `while read -r x; do eval "$x"; done`

func shells(t *testing.T, cfg Config) *crowd { return newCrowd(t, cfg, "sh", "-c", eval) }

// TestWorkersAndTheirRecords has one worker at a time answer records, or fail to.
func TestWorkersAndTheirRecords(t *testing.T) {
	t.Parallel()
	whole := strings.NewReplacer("$LONG", strings.Repeat("x", 200_000), "$EXCERPT", strings.Repeat("x", excerptSize)).Replace
	protocols := map[string]task.Protocol{"": task.LineProtocol, "NUL": task.NULProtocol, "JSON": task.JSONProtocol, "filter": task.FilterProtocol}
	crewtest.Examples(t, "testdata/workers.txt", func(t *testing.T, c struct {
		Name, Protocol, Script    string // the script is eval if empty
		Argv, Records, Want, Said []string
		Ready, Gone               bool
		Window                    int
	}) {
		t.Parallel()
		var life Life
		if c.Ready {
			life.Ready = regexp.MustCompile("^ready")
		}
		w := newCrowd(t, Config{Life: life}, "sh", "-c", cmp.Or(c.Script, eval))
		if c.Argv != nil {
			w.argv = c.Argv
		}
		w.protocol, w.window, w.gone = protocols[c.Protocol], max(1, c.Window), c.Gone
		for _, rec := range c.Records {
			w.add(whole(rec))
		}
		w.run()
		for i, want := range c.Want {
			shown := w.show(t, uint64(i+1))
			want, exact := strings.CutPrefix(whole(want), "=")
			if exact {
				require.Equal(t, want, shown)
			}
			require.Contains(t, shown, want)
			require.Equal(t, c.Gone, w.results[uint64(i+1)].BadCommand)
		}
		if !c.Gone {
			require.Empty(t, w.back)
		}
		all := strings.Join(w.said(t, len(c.Said)), "\n")
		for _, part := range c.Said {
			require.Contains(t, all, part)
		}
	})
}

// To end is how a worker fails a record, so it delays no other.
func TestFailedRecordsDelayNothing(t *testing.T) {
	t.Parallel()
	c := shells(t, Config{})
	c.add("exit 3", "exit 3", "exit 3", "kill -SEGV $$", "kill -SEGV $$", "exit 3", "echo 7")
	var deaths []int
	c.ended = func(*task.Result) {
		c.Workers.mu.Lock()
		defer c.Workers.mu.Unlock()
		deaths = append(deaths, c.loops[1].deaths)
	}
	c.run()
	require.Equal(t, []int{0, 0, 0, 1, 2, 0, 0}, deaths)
}

func TestALateLineEndsTheWorker(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := newCrowd(t, Config{}, "sh", "-c", `read x; echo "$x"; read y <go; echo late; cat`)
	require.NoError(t, mkfifo(dir+"/go"))
	c.dir = dir
	c.hold = true
	c.add("1")
	c.ended = func(r *task.Result) {
		if r.Task.ID == 1 {
			go fill(dir + "/go")
		}
	}
	c.noticed = func(string) {
		c.hold = false
		go c.Wake(1)
	}
	c.run()
	require.Equal(t, []string{`worker 1 wrote a line that answers no record, and is replaced: "late"`}, c.said(t, 1))
}

func TestTimeoutReplacesTheWorker(t *testing.T) {
	t.Parallel()
	for first, signal := range map[string]int{"": 15, "trap '' TERM; ": 9} {
		c := newCrowd(t, Config{Life: Life{KillAfter: 50 * time.Millisecond}}, "sh", "-c", first+eval)
		c.window = 3
		c.add("echo 1", "sleep 1000; sleep 1000; sleep 1000", "echo 3")
		c.queue[1].Task.Timeout = 50 * time.Millisecond
		c.run()
		require.Equal(t, "ok|1\n|", c.show(t, 1))
		require.Equal(t, fmt.Sprintf("timeout signal %d||", signal), c.show(t, 2))
		require.Equal(t, "ok|3\n|", c.show(t, 3))
		require.Empty(t, c.back)
	}
}

func TestEndAndKill(t *testing.T) {
	t.Parallel()
	for _, kill := range []bool{false, true} {
		c := shells(t, Config{})
		c.window = 3
		c.add("echo 1", "echo here >&2; sleep 1000; sleep 1000", "echo 3")
		c.ended = func(r *task.Result) {
			switch {
			case r.Task.ID != 1:
			case kill:
				go c.Kill(2, 1)
			default:
				go c.End(1, 2, 1, errors.New("enough"))
			}
		}
		c.run()
		require.Equal(t, map[bool]string{false: "cancelled signal 15||", true: "cancelled signal 9||"}[kill],
			strings.TrimSuffix(c.show(t, 2), "here\n"))
		require.Equal(t, "ok|3\n|", c.show(t, 3))
	}
}

func TestEndOfARecordThatWaits(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, Config{Life: Life{Ready: regexp.MustCompile("^go$")}}, "sh", "-c", "read x <go; echo go; exec cat")
	c.dir = t.TempDir()
	require.NoError(t, mkfifo(c.dir+"/go"))
	c.window = 2
	c.add("1", "2")
	c.ended = func(r *task.Result) {
		if r.Task.ID == 2 {
			go fill(c.dir + "/go")
		}
	}
	c.taken = func() { go c.End(1, 2, 1, errors.New("enough")) }
	c.run()
	require.Equal(t, "cancelled||", c.show(t, 2))
	require.Equal(t, "ok|1\n|", c.show(t, 1))
}

func TestDeathsOfAllWorkersCount(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, Config{}, "false")
	c.slots = 12
	c.gone = true
	c.add(numbers(12)...)
	c.run()
	bad := 0
	for _, r := range c.results {
		if r.BadCommand {
			bad++
		}
	}
	require.NotZero(t, bad)
}

func TestProcessesThatOutliveTheirWorker(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, Config{}, "sh", "-c", `read x; (yes >&2 & sleep 1000 & echo $x); exit 0`)
	c.add("1")
	c.run()
	require.Equal(t, task.OK, c.results[1].Outcome)
	c = blocks(t, 1, "sh", "-c", `(trap "" TERM; cat; echo late) & exit 0`)
	c.addBlock(&task.Block{Text: []byte("text\n")})
	c.run()
}

func TestWorkersAreReplaced(t *testing.T) {
	t.Parallel()
	for _, window := range []int{1, 4} {
		c := newCrowd(t, Config{Life: Life{Records: 3}}, "sh", "-c", `while read x; do echo $$; done`)
		c.window = window
		c.add(numbers(10)...)
		c.run()
		pids := map[string]int{}
		for id := uint64(1); id <= 10; id++ {
			pids[c.show(t, id)]++
		}
		require.Len(t, pids, 4)
		for _, n := range pids {
			require.LessOrEqual(t, n, 3)
		}
		require.Empty(t, c.notices)
	}
	c := newCrowd(t, Config{Life: Life{Age: time.Nanosecond}}, "cat")
	c.hold = true
	c.add("1")
	c.ended = func(r *task.Result) {
		if c.hold = r.Task.ID < 3; c.hold {
			go c.add("next")
		}
	}
	c.run()
	require.Len(t, c.results, 3)
}

func TestEager(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, mkfifo(dir+"/go"))
	argv := []string{"sh", "-c", "echo >go; exec cat"}
	model := &task.Task{Argv: argv, Dir: dir, Protocol: task.LineProtocol}
	c := newCrowd(t, Config{Life: Life{Eager: model}}, argv...)
	c.dir, c.hold = dir, true
	go func() {
		_, _ = os.ReadFile(dir + "/go")
		c.add("1")
	}()
	c.ended = func(*task.Result) { c.hold = false }
	c.run()
	require.Equal(t, "ok|1\n|", c.show(t, 1))
}

func TestWorkersThatAreNotReady(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, mkfifo(dir+"/go"))
	c := newCrowd(t, Config{Life: Life{Ready: regexp.MustCompile("^ready$")}}, "sh", "-c", "echo >go; cat; echo loading; cat")
	c.dir = dir
	c.add("1")
	go func() {
		_, _ = os.ReadFile(dir + "/go")
		c.clock.Change(func(k *task.Clock, _ time.Time) { k.Lost -= readyAfter })
		c.Wake(1)
	}()
	c.noticed = func(string) { go c.End(1, 1, 1, errors.New("enough")) }
	c.run()
	require.Equal(t, []string{"worker 1 has not said that it is ready for 10 s: expected a line on stdout that matches '^ready$'"}, c.said(t, 1))
}

func TestFloodOnStderr(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, Config{}, "sh", "-c", `head -c 300000 /dev/zero >&2; while read x; do head -c 1000000 /dev/zero >&2; echo $x; done`)
	c.add("1", "2", "3")
	c.run()
	for id := uint64(1); id <= 3; id++ {
		require.Equal(t, task.OK, c.results[id].Outcome)
		require.GreaterOrEqual(t, c.results[id].Stderr.Len(), int64(1_000_000))
	}
}

func TestRun(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, Config{}, "sh", "-c", `echo $$; while read -r x; do eval "$x"; done`)
	run := func(ctx context.Context, id uint64, rec string) *task.Result {
		r := c.Run(ctx, task.Attempt{
			Task: &task.Task{ID: id, Argv: c.argv, Protocol: task.LineProtocol, Stdin: []byte(rec)}, Number: 1, Slot: task.Slot{ID: 1},
		})
		c.results[id] = r
		return r
	}
	c.argv = []string{"sh", "-c", eval}
	bg := context.Background()
	first := run(bg, 1, "echo 1")
	require.Equal(t, "ok|1\n|", c.show(t, 1))
	require.Equal(t, first.PID, run(bg, 2, "echo 2").PID, "the worker lives on")
	run(bg, 3, "exit 3")
	require.Contains(t, c.show(t, 3), "exit 3|")
	ctx, cancel := context.WithCancelCause(bg)
	begun := t.TempDir() + "/begun"
	go func() {
		crewtest.Exists(t, begun)
		cancel(task.ErrTimeout)
	}()
	run(ctx, 4, "echo >"+begun+"; exec sleep 1000")
	require.Contains(t, c.show(t, 4), "timeout signal 15|")
	run(bg, 5, "echo 5")
	require.Equal(t, "ok|5\n|", c.show(t, 5))
	r := c.Run(bg, task.Attempt{Task: &task.Task{ID: 6, Argv: []string{"true"}}, Number: 1, Slot: task.Slot{ID: 1}})
	require.Equal(t, task.OK, r.Outcome)
}

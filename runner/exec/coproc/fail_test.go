package coproc

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/decide/task"
)

// eval is a worker that runs each record as a command. The shell reads no more than one line at a time.
const eval = `while read -r x; do eval "$x"; done`

func shells(t *testing.T, cfg Config) *fixture { return newFixture(t, cfg, "sh", "-c", eval) }

// TestWorkersAndTheirRecords checks how workers answer records, or fail to.
func TestWorkersAndTheirRecords(t *testing.T) {
	t.Parallel()
	whole := strings.NewReplacer("$LONG", strings.Repeat("x", 200_000), "$EXCERPT", strings.Repeat("x", excerptSize)).Replace
	protocols := map[string]task.Protocol{"": task.LineProtocol, "NUL": task.NULProtocol, "JSON": task.JSONProtocol, "filter": task.FilterProtocol}
	crewtest.Examples(t, "testdata/workers.txt", func(t *testing.T, c struct {
		Name, Protocol, Script, Stray     string // the script is eval if it is empty
		Argv, Records, Want, Said         []string
		Ready, Gone, Back                 bool
		Slots, Window, Timeout, End, Kill int
		Minutes                           time.Duration // they pass once there is a file "here"
	}) {
		t.Parallel()
		var life task.Life
		if c.Ready {
			life.Ready = "^ready"
		}
		w := newFixture(t, Config{Life: life}, "sh", "-c", cmp.Or(c.Script, eval))
		w.Limit.KillAfter = cmp.Or(time.Duration(c.Timeout)*25*time.Millisecond, w.Limit.KillAfter)
		if c.Minutes > 60 {
			w.Limit.Idle = time.Hour
		}
		if c.Argv != nil {
			w.argv = c.Argv
		}
		w.protocol, w.slots, w.window, w.stopOnFailure, w.dir = protocols[c.Protocol], max(1, c.Slots), max(1, c.Window), c.Gone, t.TempDir()
		for i, rec := range c.Records {
			w.add(whole(rec))
			if added := w.queue[i].Task; c.Protocol == "filter" {
				added.Stdin, added.Block = nil, &task.Block{Text: []byte(whole(rec))}
			} else if i+1 == c.Timeout {
				added.Timeout = 50 * time.Millisecond
			}
		}
		w.ended = func(r *task.Result) {
			switch {
			case r.Task.ID != 1:
			case c.End > 0:
				go w.End(1, uint64(c.End), 1, errors.New("enough"))
			case c.Kill > 0:
				go w.Kill(uint64(c.Kill), 1)
			}
		}
		if c.Minutes > 0 {
			w.noticed = func(string) { go w.End(1, 1, 1, errors.New("enough")) }
			go func() {
				crewtest.Exists(t, w.dir+"/here")
				w.minutes(c.Minutes)
			}()
		}
		w.run()
		for i, want := range c.Want {
			shown := w.show(t, uint64(i+1))
			want, exact := strings.CutPrefix(whole(want), "=")
			if exact {
				require.Equal(t, want, shown)
			}
			require.Contains(t, shown, want)
		}
		bad := func(r *task.Result) bool { return r.BadCommand }
		require.Equal(t, c.Gone, slices.ContainsFunc(slices.Collect(maps.Values(w.results)), bad))
		require.True(t, c.Gone || c.Back || len(w.returned) == 0, "%v", w.returned)
		require.Contains(t, w.stray.String(), c.Stray)
		all := strings.Join(w.awaitNotices(t, len(c.Said)), "\n")
		for _, part := range c.Said {
			require.Contains(t, all, part)
		}
	})
}

// A worker fails a record by ending, so this does not delay other workers.
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
	c := newFixture(t, Config{}, "sh", "-c", `read x; echo "$x"; read y <go; echo late; cat`)
	require.NoError(t, mkfifo(dir+"/go"))
	c.dir = dir
	c.keepOpen = true
	c.add("1")
	c.ended = func(r *task.Result) {
		if r.Task.ID == 1 {
			go fill(dir + "/go")
		}
	}
	c.noticed = func(string) {
		c.keepOpen = false
		go c.Wake(1)
	}
	c.run()
	require.Equal(t, []string{`worker 1 is replaced, because it wrote a line that answers no record: "late"`}, c.awaitNotices(t, 1))
}

func TestEndOfARecordThatWaits(t *testing.T) {
	t.Parallel()
	c := newFixture(t, Config{Life: task.Life{Ready: "^go$"}}, "sh", "-c", "read x <go; echo go; exec cat")
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

func TestWorkersAreReplaced(t *testing.T) {
	t.Parallel()
	for _, window := range []int{1, 4} {
		c := newFixture(t, Config{Life: task.Life{Records: 3}}, "sh", "-c", `while read x; do echo $$; done`)
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
	c := newFixture(t, Config{Life: task.Life{Age: time.Nanosecond}}, "cat")
	c.keepOpen = true
	c.add("1")
	c.ended = func(r *task.Result) {
		if c.keepOpen = r.Task.ID < 3; c.keepOpen {
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
	c := newFixture(t, Config{Eager: model}, argv...)
	c.dir, c.keepOpen = dir, true
	go func() {
		_, _ = os.ReadFile(dir + "/go")
		c.add("1")
	}()
	c.ended = func(*task.Result) { c.keepOpen = false }
	c.run()
	require.Equal(t, "ok|1\n|", c.show(t, 1))
}

// Run takes attempts of runs that have no reader of their own, and tasks without records.
func TestRun(t *testing.T) {
	t.Parallel()
	c := shells(t, Config{})
	run := func(ctx context.Context, id uint64, rec string) (shown string) {
		c.results[id] = c.Run(ctx, task.Attempt{
			Task: &task.Task{ID: id, Argv: c.argv, Protocol: task.LineProtocol, Stdin: []byte(rec), KillAfter: time.Hour}, Number: 1, Slot: task.Slot{ID: 1},
		})
		return c.show(t, id)
	}
	require.Equal(t, "ok|1\n|", run(t.Context(), 1, "echo 1"))
	require.Equal(t, "ok|2\n|", run(t.Context(), 2, "echo 2"))
	require.Equal(t, c.results[1].PID, c.results[2].PID, "the worker lives on")
	require.Contains(t, run(t.Context(), 3, "exit 3"), "exit 3|")
	ctx, cancel := context.WithCancelCause(t.Context())
	begun := t.TempDir() + "/begun"
	go func() {
		crewtest.Exists(t, begun)
		cancel(task.ErrMemory)
	}()
	require.Contains(t, run(ctx, 4, "trap '' TERM; echo >"+begun+"; exec sleep 1000"), "memory signal 9|", "it is killed soon")
	r := c.Run(t.Context(), task.Attempt{Task: &task.Task{ID: 6, Argv: []string{"true"}}, Number: 1, Slot: task.Slot{ID: 1}})
	require.Equal(t, task.OK, r.Outcome)
}

// TestEndedEarly ends an attempt between two swaps, before the swap that returns it.
func TestEndedEarly(t *testing.T) {
	t.Parallel()
	c := shells(t, Config{})
	swaps, ended := 0, task.Outcome(0)
	c.Serve(task.Slot{ID: 1}, func(came []*task.Result) (next []task.Attempt, left task.Expectation) {
		switch swaps++; {
		case swaps == 1:
			c.Wake(1)
			c.End(1, 1, 1, task.ErrMemory)
		case swaps == 2:
			next = []task.Attempt{{Task: &task.Task{ID: 1, Argv: c.argv, Protocol: task.LineProtocol, Stdin: []byte("echo 1")}, Number: 1}}
		case len(came) > 0:
			ended, left = came[0].Outcome, task.ExpectNone
		}
		return next, left
	})
	require.Equal(t, task.Memory, ended)
}

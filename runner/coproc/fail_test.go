package coproc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/task"
)

// eval is a worker that does what each record says: the shell reads no more than that.
const eval = `while read -r x; do eval "$x"; done`

func shells(t *testing.T, cfg Config) *crowd { return newCrowd(t, cfg, "sh", "-c", eval) }

func TestCrashCountsForTheOldestRecordAlone(t *testing.T) {
	t.Parallel()
	c := shells(t, Config{})
	c.window = 4
	c.add("echo 1", "echo oh >&2; exit 3", "echo 3", "kill -SEGV $$", "echo 5")
	c.run()
	// Only the worker knows whether it wrote an answer first, or what is on stderr.
	require.Contains(t, []string{"ok|1\n|", "ok|1\n|oh\n"}, c.show(t, 1))
	require.Equal(t, "exit 3|||the worker ended before it answered: exit status 3", strings.Replace(c.show(t, 2), "oh\n", "", 1))
	require.Equal(t, "ok|3\n|", c.show(t, 3))
	require.Equal(t, "signal signal 11|||the worker ended before it answered: killed by SIGSEGV", c.show(t, 4))
	require.Equal(t, "ok|5\n|", c.show(t, 5))
	require.Empty(t, c.back)
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

func TestTooLittle(t *testing.T) {
	t.Parallel()
	c := shells(t, Config{})
	c.window = 2
	c.add("exit 0", "printf hal; exit 0", "printf hal; exit 2", "echo 4")
	c.run()
	require.Equal(t, "bad-answer|||expected one line for record 1, got none before it ended", c.show(t, 1))
	require.Equal(t, `bad-answer|||expected one line for record 2, got half of one before it ended: "hal"`, c.show(t, 2))
	require.Equal(t, "exit 2|||the worker ended before it answered: exit status 2", c.show(t, 3))
	require.Equal(t, "ok|4\n|", c.show(t, 4))
}

func TestTooMuch(t *testing.T) {
	t.Parallel()
	c := shells(t, Config{})
	c.add(`printf 'a\nb\n'`, "echo 2")
	c.run()
	require.Equal(t, `bad-answer|a`+"\n"+`||expected one line for record 1, got another one: "b"`, c.show(t, 1))
	require.Equal(t, "ok|2\n|", c.show(t, 2))
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

func TestEndOfTheWorkerItself(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, Config{Life: Life{KillAfter: 50 * time.Millisecond}}, "sh", "-c", "read x; echo $x; trap '' TERM; sleep 1000; sleep 1000")
	c.add("1")
	c.ended = func(*task.Result) { go c.End(1, 0, 1, errors.New("the run is over")) }
	c.run()
	require.Equal(t, "ok|1\n|", c.show(t, 1))
}

func TestWorkersThatCloseAStream(t *testing.T) {
	t.Parallel()
	c := shells(t, Config{})
	c.slots = 2
	c.add("exec >&-; exec sleep 1000", "exec >&-; exit 7")
	c.run()
	require.Equal(t, "bad-answer|||expected one line for record 1, got none before it closed stdout", c.show(t, 1))
	require.Equal(t, "exit 7|||the worker ended before it answered: exit status 7", c.show(t, 2))
	c = newCrowd(t, Config{}, "sh", "-c", "exec <&-; exec sleep 1000")
	c.gone = true
	c.add(strings.Repeat("x", 200_000))
	c.run()
	require.Contains(t, c.show(t, 1), "ended 3 times before it read a record: it closed stdin")
	c = newCrowd(t, Config{}, "sh", "-c", "head -c 1 >&2; exec <&-; exec sleep 1000")
	c.add(strings.Repeat("x", 200_000))
	c.run()
	require.Equal(t, `bad-answer||x|expected one line for record 1, got none before it closed stdin`, c.show(t, 1))
}

func TestCommandsThatCannotRun(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, Config{}, "no-such-worker")
	c.window = 2
	c.gone = true
	c.add("1", "2")
	c.run()
	require.Equal(t, "start-failed 127|||no-such-worker: command not found", c.show(t, 1))
	require.True(t, c.results[1].BadCommand)

	c = newCrowd(t, Config{}, "sh", "-c", "echo cannot import >&2; exit 4")
	c.window = 2
	c.gone = true
	c.add("1", "2")
	c.run()
	require.Contains(t, c.show(t, 1), "ended 3 times before it read a record: exit status 4: cannot import")
	require.Contains(t, c.show(t, 1), "start-failed 126|")
	require.True(t, c.results[1].BadCommand)
	require.Len(t, c.said(t, 2), 2)
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

func TestAnswersToWhatWasNotRead(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, Config{}, "yes")
	c.window, c.gone = 2, true
	c.add("1", "2")
	c.run()
	require.Contains(t, c.show(t, 1), `ended 3 times before it read a record: it wrote "y"`)
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

func TestReady(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, Config{Life: Life{Ready: regexp.MustCompile("^ready")}}, "sh", "-c", "echo loading; echo ready to go; exec cat")
	c.window = 3
	c.add("1", "2", "3")
	c.run()
	for id, want := range map[uint64]string{1: "ok|1\n|", 2: "ok|2\n|", 3: "ok|3\n|"} {
		require.Equal(t, want, c.show(t, id))
	}

	for _, protocol := range []task.Protocol{task.NULProtocol, task.FilterProtocol} {
		c = newCrowd(t, Config{Life: Life{Ready: regexp.MustCompile("^ready$")}}, "sh", "-c", "echo ready; echo and; exec cat")
		c.window, c.protocol = 2, protocol
		c.add("1")
		c.run()
		require.Contains(t, c.show(t, 1), "and\n1")
	}

	c = newCrowd(t, Config{Life: Life{Ready: regexp.MustCompile("^ready")}}, "sh", "-c", "echo loading; echo never")
	c.gone = true
	c.add("1")
	c.run()
	require.Contains(t, c.show(t, 1), "ended 3 times before it read a record: exit status 0")
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

func TestStatusAfterTheLastAnswer(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, Config{}, "sh", "-c", "read x; echo $x; read y; echo more; exit 5")
	c.add("1")
	c.run()
	require.Equal(t, "ok|1\n|", c.show(t, 1))
	require.ElementsMatch(t, []string{
		`worker 1 wrote a line after its last answer: "more"`, "worker 1 ended after its last answer: exit status 5",
	}, c.said(t, 2))
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

func TestHint(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, Config{}, "sh", "-c", "while read x; do :; done")
	c.hold = true
	c.add("1")
	c.ended = func(*task.Result) { c.hold = false }
	c.noticed = func(string) { go c.End(1, 1, 1, errors.New("enough")) }
	c.run()
	require.Contains(t, c.notices[0], "worker 1 has read record 1, answers nothing and waits for more: does it flush?")
}

// When no record follows, a worker that does not flush is at the end of its input.
func TestLastRecordsOfAWorkerThatDoesNotFlush(t *testing.T) {
	t.Parallel()
	for _, life := range []Life{{}, {Records: 2}} {
		c := newCrowd(t, Config{Life: life}, "tr", "a-z", "A-Z")
		c.window = 4
		c.add("a", "b", "c", "d")
		c.run()
		for id := uint64(1); id <= 4; id++ {
			require.Equal(t, "ok|"+string(rune('@'+id))+"\n|", c.show(t, id))
		}
		require.Contains(t, c.said(t, 1)[0], "does it flush?")
	}
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
		c.clock.change(func(k *task.Clock, _ time.Time) { k.Lost -= readyAfter })
		c.Wake(1)
	}()
	c.noticed = func(string) { go c.End(1, 1, 1, errors.New("enough")) }
	c.run()
	require.Equal(t, []string{"worker 1 has not said that it is ready for 10 s: expected a line on stdout that matches '^ready$'"}, c.said(t, 1))
}

func TestBanner(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, Config{}, "sh", "-c", "echo hello; exec sleep 1000")
	c.add("1")
	c.gone = true
	c.run()
	require.Contains(t, c.said(t, 2)[0], `worker 1 ended before it read a record: it wrote "hello": if that says that it is ready, add --worker-ready REGEX`)
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
	ctx, cancel := context.WithTimeoutCause(bg, 50*time.Millisecond, task.ErrTimeout)
	defer cancel()
	run(ctx, 4, "exec sleep 1000")
	require.Contains(t, c.show(t, 4), "timeout signal 15|")
	run(bg, 5, "echo 5")
	require.Equal(t, "ok|5\n|", c.show(t, 5))
	r := c.Run(bg, task.Attempt{Task: &task.Task{ID: 6, Argv: []string{"true"}}, Number: 1, Slot: task.Slot{ID: 1}})
	require.Equal(t, task.OK, r.Outcome)
}

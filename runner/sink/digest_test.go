package sink

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/spool"
	"crew/runner/task"
)

// ended returns the Finished event of a task.
func ended(id uint64, r task.Result) task.Event {
	t := &task.Task{ID: id, Argv: []string{"job", "a b"}, Records: [][]string{{"a b"}}}
	if r.Start.IsZero() {
		r.Start, r.End = dawn, dawn.Add(210*time.Millisecond)
	}
	if r.Attempt == 0 {
		r.Attempt = 1
	}
	r.Task = t
	return task.Event{Kind: task.Finished, At: dawn, ID: id, Task: t, Result: &r, Attempt: r.Attempt}
}

// skippedEvent returns the Finished event of a task that was up to date.
func skippedEvent(id uint64) task.Event {
	e := ended(id, task.Result{Outcome: task.Skipped})
	e.Task.Makes = &task.Making{Targets: []task.Target{{Path: "a b.png"}, {Path: "b.png"}}}
	e.Result.Attempt, e.Result.Start, e.Result.End, e.Attempt = 0, time.Time{}, time.Time{}, 0
	return e
}

var inputEnd = task.Event{Kind: task.InputEnd, At: dawn}

// digestOf returns the digest of a run with these events.
func digestOf(t *testing.T, cfg RerunConfig, events ...task.Event) string {
	var err bytes.Buffer
	d := NewDigest(NewScreen(io.Discard, &err), Input{}, cfg)
	closeDigest(t, d, events)
	return err.String()
}

func closeDigest(t *testing.T, d *Digest, events []task.Event) {
	var s task.Stats
	s.Apply(&task.Event{At: dawn, Kind: task.Resized, Slot: 2})
	for _, e := range events {
		if e.Kind == task.Finished {
			s.Apply(&task.Event{At: dawn, Kind: task.Admitted})
			s.Apply(&task.Event{At: dawn, Kind: task.Started})
		}
		s.Apply(&e)
	}
	s.Running, s.InputEnd = 0, s.InputEnd || !s.Draining
	s.Last = dawn.Add(3200 * time.Millisecond)
	require.NoError(t, d.Consume(events))
	require.NoError(t, d.Close(s))
}

func TestDigestCountsSkippedTasks(t *testing.T) {
	require.Empty(t, digestOf(t, RerunConfig{}, skippedEvent(1), inputEnd))
	require.Equal(t, `crew: 1 of 3 tasks failed in 3.2s; 1 skipped: job 'a b'
crew: task 1: made no output after 210ms: a.png was not made: job 'a b'
`, digestOf(t, RerunConfig{}, ended(1, task.Result{Outcome: task.NoOutput, Err: errors.New("a.png was not made")}),
		skippedEvent(2), ended(3, task.Result{Outcome: task.OK}), inputEnd))
	require.Contains(t, digestOf(t, RerunConfig{}, skippedEvent(1), ended(2, task.Result{Outcome: task.OK}), ended(3, task.Result{Outcome: task.NotRun})),
		"crew: 2 of 3 tasks done in 3.2s; 1 not started, 1 skipped\n")
}

func TestDigestNamesFailures(t *testing.T) {
	timeout := ended(5, task.Result{Outcome: task.Timeout, Signal: 15})
	timeout.Task.Timeout = 5 * time.Second
	never := ended(6, task.Result{Outcome: task.StartFailed, Code: 127, Err: errors.New("exec: \"job\": not found")})
	never.Task.Argv = []string{"job", strings.Repeat("x", 500)}
	got := digestOf(t, RerunConfig{},
		ended(1, task.Result{Outcome: task.OK}),
		ended(2, task.Result{Outcome: task.Exit, Code: 3, Stderr: spool.Text("0\n1\n2\n\n3\r\n4\n\x1b[31mred\xff\n")}),
		task.Event{Kind: task.Retried, Result: &task.Result{}},
		task.Event{Kind: task.Started, Attempt: 2, Retries: 1},
		ended(3, task.Result{Outcome: task.Signal, Signal: 11, Attempt: 2, Tail: []byte(strings.Repeat("é", 100) + "\n")}),
		ended(4, task.Result{Outcome: task.Signal, Signal: 63}),
		timeout, never,
		ended(7, task.Result{Outcome: task.Timeout}),
		ended(8, task.Result{Outcome: task.NotRun}),
		ended(9, task.Result{Outcome: task.Cancelled}),
		ended(10, task.Result{Outcome: task.StartFailed}),
		inputEnd,
	)
	require.Equal(t, `crew: 1 of 10 tasks done in 3.2s; 7 failed, 1 interrupted, 1 not started, 1 retried
crew: task 2: exit 3 after 210ms: job 'a b'
crew:   | 1
crew:   | 2
crew:   | 3
crew:   | 4
crew:   | red\xff
crew: task 3: killed by SIGSEGV after 210ms, attempt 2: job 'a b'
crew:   | `+strings.Repeat("é", 80)+`…
crew: task 4: killed by signal 63 after 210ms: job 'a b'
crew: task 5: timed out after 5s: job 'a b'
crew: task 6 (a b): not started: exec: "job": not found: job `+strings.Repeat("x", 196)+`…
crew: task 7: timed out after 210ms: job 'a b'
crew: task 10: not started: job 'a b'
`, got)
}

// What was lost with a worker is told apart from what failed.
func TestDigestTellsOfLosses(t *testing.T) {
	lost := func(id uint64, unbegun bool) task.Event {
		r := ended(id, task.Result{Outcome: task.Lost, Host: "web1", Unbegun: unbegun})
		r.Kind = task.Retried
		return r
	}
	poison := ended(1, task.Result{Outcome: task.Lost, Host: "web1", Attempt: 5})
	poison.Result.Before = []*task.Result{lost(1, false).Result}
	failed := ended(2, task.Result{Outcome: task.Exit, Code: 3, Host: "web2"})
	got := digestOf(t, RerunConfig{}, lost(1, false), lost(1, true), lost(1, false), poison, failed, inputEnd)
	require.Equal(t, `crew: 2 of 2 tasks failed in 3.2s; 2 restarted: job 'a b', …
crew: task 1: lost with web1 after 210ms, attempt 5: job 'a b'
crew: task 2: exit 3 after 210ms on web2: job 'a b'
`, got)

	unrun := ended(3, task.Result{Outcome: task.NotRun})
	unrun.Result.Before = []*task.Result{lost(3, false).Result}
	unrun.Attempt = 0
	got = digestOf(t, RerunConfig{}, lost(4, false), ended(4, task.Result{Outcome: task.OK}), lost(3, false), unrun, inputEnd)
	require.Equal(t, `crew: 1 of 2 tasks done in 3.2s; 1 lost with their worker, 1 restarted
`, got)
}

// Tasks that wait for a retry are named, with what they wrote when they failed.
func TestDigestNamesTasksThatWait(t *testing.T) {
	var events []task.Event
	for id := uint64(5); id > 0; id-- {
		failed := ended(id, task.Result{Outcome: task.Exit, Code: int(id), Attempt: 2, Stderr: spool.Text("oh\nno\n")})
		failed.Kind = task.Retried
		unrun := ended(id, task.Result{Outcome: task.NotRun, Before: []*task.Result{failed.Result}})
		unrun.Attempt = 0
		events = append(events, failed, unrun)
	}
	got := digestOf(t, RerunConfig{}, append(events, inputEnd)...)
	require.Equal(t, `crew: 0 of 5 tasks done in 3.2s; 5 waiting for a retry
crew: task 3 waits for a retry: exit 3 after 210ms, attempt 2: job 'a b'
crew:   | oh
crew:   | no
crew: task 4 waits for a retry: exit 4 after 210ms, attempt 2: job 'a b'
crew:   | oh
crew:   | no
crew: task 5 waits for a retry: exit 5 after 210ms, attempt 2: job 'a b'
crew:   | oh
crew:   | no
`, got)
}

func TestDigestReportsLeaks(t *testing.T) {
	leaked := task.Result{Outcome: task.OK, Leaked: true}
	earlier := ended(3, leaked)
	earlier.Task.Done = earlier.Result
	require.Equal(t, "crew: 2 tasks left something running that held the output open (1, 4)\n",
		digestOf(t, RerunConfig{}, ended(4, leaked), ended(1, leaked), earlier))
	again := ended(2, task.Result{Outcome: task.OK, Attempt: 3, Leaked: true, Before: []*task.Result{{Leaked: true}, {}}})
	mended := ended(3, task.Result{Outcome: task.OK, Attempt: 2, Before: []*task.Result{{Leaked: true}}})
	require.Equal(t, "crew: 2 tasks left something running that held the output open (2, 3)\n",
		digestOf(t, RerunConfig{}, again, mended, ended(4, task.Result{Outcome: task.OK, Before: []*task.Result{{}}})))
	var many []task.Event
	for i := range uint64(11) {
		many = append(many, ended(i+1, leaked))
	}
	require.Contains(t, digestOf(t, RerunConfig{}, many...), "11 tasks left something running that held the output open (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, …)\n")
}

func TestDigestWithoutFailure(t *testing.T) {
	ok := ended(1, task.Result{Outcome: task.OK})
	require.Empty(t, digestOf(t, RerunConfig{}, ok))
	require.Empty(t, digestOf(t, RerunConfig{}))
	require.Empty(t, digestOf(t, RerunConfig{}, ok, inputEnd, task.Event{Kind: task.Stopping, Text: "SIGPIPE"}))

	y := newTTY(t, 80)
	closeDigest(t, NewDigest(NewScreen(io.Discard, y.File), Input{}, RerunConfig{}), []task.Event{ok})
	require.Equal(t, "crew: 1 task in 3.2s\r\n", y.all())
}

// TestDigestAfterAnEarlyEnd has the counts add up to the number of tasks, as far as
// that is known, and a last line say how to go on.
func TestDigestAfterAnEarlyEnd(t *testing.T) {
	tasks := func(n int64, ok bool) func(time.Duration) (int64, bool) {
		return func(time.Duration) (int64, bool) { return n, ok }
	}
	done, cut, left := ended(1, task.Result{Outcome: task.OK}), ended(2, task.Result{Outcome: task.Cancelled}), ended(3, task.Result{Outcome: task.NotRun})
	for _, c := range []struct {
		in   Input
		why  string
		rest []task.Event
		want string
	}{
		{Input{}, "SIGINT", []task.Event{inputEnd},
			"crew: 1 of 3 tasks done in 3.2s; 1 interrupted, 1 not started\n"},
		{Input{Tasks: tasks(3000, true)}, "SIGTERM", nil,
			"crew: 1 of 3000 tasks done in 3.2s; 1 interrupted, 2998 not started\n"},
		{Input{Tasks: tasks(3000, true), Kept: true, Done: 1000}, "SIGINT", nil,
			"crew: 1001 of 3000 tasks done in 3.2s; 1 interrupted, 1998 not started, 1000 done before\n" +
				"crew: to go on, give the same command again\n"},
		{Input{Tasks: tasks(3000, true), Shown: true}, "SIGINT", nil,
			"crew: 1 of 3000 tasks shown; the run is left as it is, and the same command shows it from the beginning\n"},
		{Input{Tasks: tasks(3, true), Shown: true}, "", []task.Event{inputEnd}, // it has ended early, or is gone
			"crew: 1 of 3 tasks done in 3.2s; 1 interrupted, 1 not started\n"},
		{Input{Tasks: tasks(0, false)}, "SIGINT", nil,
			"crew: 1 of at least 3 tasks done in 3.2s; 1 interrupted, at least 1 not started\n"},
		{Input{}, "--halt", nil,
			"crew: 1 of at least 3 tasks done in 3.2s; 1 interrupted, at least 1 not started\n"},
		{Input{Tasks: tasks(9, true), Kept: true}, "SIGPIPE", nil,
			"crew: nobody reads stdout any more: 1 of 9 tasks done in 3.2s; 1 interrupted, 7 not started\n"},
	} {
		var err bytes.Buffer
		d := NewDigest(NewScreen(io.Discard, &err), c.in, RerunConfig{})
		closeDigest(t, d, append([]task.Event{{Kind: task.Draining, Text: c.why}, done, cut, left}, c.rest...))
		require.Equal(t, c.want, err.String())
	}
	drained := task.Event{Kind: task.Draining, Text: "SIGINT"}
	require.Equal(t, "crew: 1 of at least 1 task done in 3.2s, the rest of the input not read\n",
		digestOf(t, RerunConfig{}, drained, done))
	require.Equal(t, "crew: interrupted before any task was read\n", digestOf(t, RerunConfig{}, drained))
	require.Empty(t, digestOf(t, RerunConfig{}, inputEnd, drained, done), "nothing was left out")
}

// brokenOutput cannot be read.
type brokenOutput struct{ spool.Text }

func (brokenOutput) Tail(int) ([]byte, error) { return nil, os.ErrClosed }

func (brokenOutput) WriteTo(io.Writer) (int64, error) { return 0, os.ErrClosed }

func TestDigestStderrUnreadable(t *testing.T) {
	got := digestOf(t, RerunConfig{}, ended(1, task.Result{Outcome: task.Exit, Code: 1, Stderr: brokenOutput{}}))
	require.Contains(t, got, "crew:   its output cannot be read: file already closed\n")
}

func TestDigestShowsEarlierAttempts(t *testing.T) {
	attempt := func(n int, r task.Result) *task.Result {
		r.Attempt, r.Start, r.End = n, dawn, dawn.Add(50*time.Millisecond)
		return &r
	}
	store := newStore(t, 1<<20)
	first := attempt(1, task.Result{Outcome: task.Exit, Code: 7, Stderr: kept(t, store, "one\ntwo\nthree\n")})
	second := attempt(2, task.Result{Outcome: task.Exit, Code: 1, Tail: []byte("same\n")})
	last := ended(1, task.Result{Outcome: task.Exit, Code: 1, Attempt: 3, Tail: []byte("same\n"), Before: []*task.Result{first, second}})
	retried := func(r *task.Result) task.Event {
		return task.Event{Kind: task.Retried, At: dawn, ID: 1, Task: last.Task, Result: r}
	}
	require.Equal(t, `crew: 1 of 1 task failed in 3.2s: job 'a b'
crew: task 1: exit 1 after 210ms, attempt 3: job 'a b'
crew:   | same
crew:   attempt 1: exit 7 after 50ms
crew:   | two
crew:   | three
`, digestOf(t, RerunConfig{}, retried(first), retried(second), last))

	// All are counted where there are many. What those of an earlier run wrote is unknown.
	alike, other := *second, *first
	alike.Attempt, alike.Earlier, alike.Tail = 5, true, nil
	other.Attempt, other.Earlier, other.Tail, other.Stderr = 6, true, nil, nil
	last.Result.Before, last.Result.Omitted, last.Result.Attempt = []*task.Result{first, &alike, &other}, 3, 7
	require.Equal(t, `crew: 1 of 1 task failed in 3.2s: job 'a b'
crew: task 1: exit 1 after 210ms, attempt 7: job 'a b'
crew:   | same
crew:   6 attempts before
crew:   attempt 1: exit 7 after 50ms
crew:   | two
crew:   | three
crew:   attempt 6: exit 7 after 50ms
`, digestOf(t, RerunConfig{}, last))

	waiting := ended(1, task.Result{Outcome: task.NotRun, Before: []*task.Result{first}})
	require.Contains(t, digestOf(t, RerunConfig{}, retried(first), waiting, inputEnd),
		"crew: 0 of 1 task done in 3.2s; 1 waiting for a retry\n")
}

func TestTimesForPeople(t *testing.T) {
	for want, got := range map[string]string{
		"0s": task.Span(0), "999ms": task.Span(999 * time.Millisecond), "5s": task.Span(5*time.Second + time.Millisecond),
		"2m5s": task.Span(125 * time.Second), "59s": task.Brief(time.Minute - 1), "3m5s": task.Brief(185 * time.Second),
		"1h59m": task.Brief(2*time.Hour - time.Second), "3d2h": task.Brief(74*time.Hour + 30*time.Minute),
		"241/s": task.Speed(240.6), "2.5/s": task.Speed(2.54), "1.5/min": task.Speed(0.025),
	} {
		require.Equal(t, want, got)
	}
}

package control

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/task"
)

// call sends a request in another goroutine. The replies come over a channel, which
// is closed after the last one.
func (r *run) call(q Request) (<-chan Reply, <-chan error) {
	c := r.dial()
	replies, over := make(chan Reply, 10_000), make(chan error, 1)
	go func() {
		over <- c.Call(q, func(_ []byte, reply *Reply) error {
			replies <- *reply
			return nil
		})
		close(replies)
	}()
	return replies, over
}

// follow asks for the output of a task, and returns once the server knows that it runs.
func (r *run) follow(id uint64, follow bool) (<-chan Reply, <-chan error) {
	explained := func() int {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.explained
	}
	before := explained()
	replies, over := r.call(Request{Op: "log", Tasks: []uint64{id}, Follow: follow})
	crewtest.Until(r.t, func() bool { return explained() > before }, "the server to look for the task")
	return replies, over
}

func all(replies <-chan Reply) (list []Reply) {
	for r := range replies {
		list = append(list, r)
	}
	return list
}

func TestLogOfARunningTask(t *testing.T) {
	r := newRun(t, nil)
	a := r.start(7, 1)
	big := bytes.Repeat([]byte("0123456789abcdef"), 100_000)
	a.out.Write(big)
	a.err.Write([]byte("no\xffise\n"))
	replies, err := r.ask(Request{Op: "log", Tasks: []uint64{7}})
	require.NoError(t, err)
	got := outputs(replies)
	require.True(t, string(big) == got["7 stdout"])
	require.Equal(t, "no\xffise\n", got["7 stderr"])
	require.Nil(t, replies[len(replies)-1].Ended)

	stop := make(chan struct{})
	done := make(chan struct{})
	go func() { // a task that writes faster than a client reads
		defer close(done)
		for len(stop) == 0 {
			select {
			case <-stop:
				return
			default:
				a.out.Write(big[:1000])
			}
		}
	}()
	_, err = r.ask(Request{Op: "log", Tasks: []uint64{7}})
	require.NoError(t, err, "log without follow ends")
	close(stop)
	<-done
	r.end(a, task.OK, true)
}

func TestFollowThroughRetries(t *testing.T) {
	r := newRun(t, nil)
	a := r.start(7, 2)
	a.out.Write([]byte("two "))
	replies, over := r.call(Request{Op: "log", Tasks: []uint64{7}, Follow: true})
	first := <-replies
	require.Equal(t, []any{uint64(7), "stdout", "two "}, []any{first.Task, first.Stream, string(first.Data)})
	a.err.Write([]byte("sorry"))
	r.end(a, task.Exit, false)
	// The third ends before anybody can look at it. The fourth has nothing to say.
	b := r.start(7, 3)
	b.out.Write([]byte("three "))
	r.end(b, task.Exit, false)
	r.end(r.start(7, 4), task.Exit, false)
	c := r.start(7, 5)
	c.out.Write([]byte("five "))
	for got := range replies {
		if string(got.Data) == "five " {
			break
		}
	}
	c.out.Write([]byte("end"))
	r.end(c, task.Exit, true)
	list := all(replies)
	require.NoError(t, <-over)
	require.Equal(t, "end", outputs(list)["7 stdout"])
	require.Equal(t, []string{"task 7: exit 3"}, endings(list))
	require.True(t, list[len(list)-1].End)

	// Again, from the start and all at once.
	a = r.start(8, 1)
	replies, over = r.follow(8, true)
	for i := 1; i <= 20; i++ {
		if i > 1 {
			a = r.start(8, i)
		}
		fmt.Fprintf(a.out, "%d ", i)
		fmt.Fprintf(a.err, "(%d) ", i)
		r.end(a, task.Exit, i == 20)
	}
	got := outputs(all(replies))
	require.NoError(t, <-over)
	require.Equal(t, "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 ", got["8 stdout"])
	require.Equal(t, "(1) (2) (3) (4) (5) (6) (7) (8) (9) (10) (11) (12) (13) (14) (15) (16) (17) (18) (19) (20) ", got["8 stderr"])
}

// TestFollowWhenEventsAreLate: the events of a task come a little later than what its
// attempts write.
func TestFollowWhenEventsAreLate(t *testing.T) {
	r := newRun(t, nil)
	one := r.start(7, 1)
	one.out.Write([]byte("one "))
	two := &attempt{one.task, 2, r.store.Buffer(), r.store.Buffer()}
	two.out.Write([]byte("two "))
	r.mu.Lock()
	r.live[7] = two
	r.mu.Unlock()
	replies, over := r.follow(7, true)
	r.end(one, task.Exit, false)
	require.Equal(t, "one ", string((<-replies).Data))
	r.event(task.Event{Kind: task.Started, Task: one.task, Slot: 1, Attempt: 2})
	r.end(two, task.OK, true)
	require.Equal(t, map[string]string{"7 stdout": "two "}, outputs(all(replies)))
	require.NoError(t, <-over)

	// log is asked for after an attempt has ended, but before its event.
	one, two = r.start(8, 1), r.start(8, 2)
	one.out.Write([]byte("old"))
	replies, over = r.call(Request{Op: "log", Tasks: []uint64{8}, Follow: true})
	two.out.Write([]byte("two "))
	require.Equal(t, "two ", string((<-replies).Data))
	res := &task.Result{Task: one.task, Attempt: 1, Outcome: task.Exit, Stdout: one.out}
	r.event(task.Event{Kind: task.Retried, Task: one.task, Result: res}, task.Event{Kind: task.Started, Task: one.task, Slot: 1, Attempt: 2})
	res.Close()
	two.out.Write([]byte("end"))
	r.end(two, task.OK, true)
	require.Equal(t, map[string]string{"8 stdout": "end"}, outputs(all(replies)))
	require.NoError(t, <-over)
}

func TestLogOfOtherTasks(t *testing.T) {
	r := newRun(t, func(c *Config) {
		c.See.Ended = func(ids ...uint64) map[uint64]task.Past {
			p := task.Past{Facts: task.Facts{Task: 5, Outcome: task.OK}, Kept: true}
			p.Outputs[0] = live{strings.NewReader("kept")}
			return map[uint64]task.Past{5: p}
		}
	})
	r.wheres = map[uint64]task.Where{
		2: {Known: true, Blocking: &task.Blocking{By: task.BySlots, Tasks: 1}},
		3: {Known: true, Held: 2}, 4: {Known: true, Outcome: task.OK}, 5: {Known: true},
	}
	var answers []<-chan error
	var wants []string
	for id, want := range map[uint64]string{
		1: "there is no task 1 yet", 2: "task 2 does not run: 1 task waits for a worker",
		3: "task 3 has ended, and its output is shown once task 2 has ended", 4: "task 4 has ended, and its output was shown",
	} {
		for _, follow := range []bool{false, true} {
			if follow && id == 2 {
				continue // it waits
			}
			_, answer := r.call(Request{Op: "log", Tasks: []uint64{id}, Follow: follow})
			answers, wants = append(answers, answer), append(wants, want)
		}
	}
	for i, answer := range answers { // each takes a moment
		require.ErrorContains(t, <-answer, wants[i])
	}
	replies, err := r.ask(Request{Op: "log", Tasks: []uint64{5}})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"5 stdout": "kept"}, outputs(replies))

	plain := newRun(t, func(c *Config) { c.See.Live = nil })
	plain.start(5, 1)
	_, err = plain.ask(Request{Op: "log", Tasks: []uint64{5}})
	require.ErrorContains(t, err, "keeps no output")
}

type live struct{ *strings.Reader }

func (live) Close() error { return nil }

// TestLogAtTheEnd: between its last breath and the event of its end, a task is
// neither live nor finished.
func TestLogAtTheEnd(t *testing.T) {
	r := newRun(t, nil)
	for _, follow := range []bool{false, true} {
		a := r.start(7, 1)
		a.out.Write([]byte("last"))
		r.mu.Lock()
		delete(r.live, 7)
		r.mu.Unlock()
		replies, over := r.follow(7, follow)
		r.end(a, task.OK, true)
		got := all(replies)
		require.Equal(t, "last", outputs(got)["7 stdout"])
		require.Equal(t, follow, len(got[len(got)-1].Ended) == 1)
		require.NoError(t, <-over)
	}
}

// instant is a feed whose tasks end before Add returns.
type instant struct {
	*run
	before func(id uint64)
}

func (i instant) Add(a *Addition, numbered func([]uint64)) (next bool, err error) {
	return i.run.Add(a, func(ids []uint64) {
		numbered(ids)
		for _, id := range ids {
			i.before(id)
			t := i.start(id, 1)
			fmt.Fprintf(t.out, "out %d", id)
			fmt.Fprintf(t.err, "err %d", id)
			i.end(t, task.OK, true)
		}
	})
}

// endings returns how tasks ended, as the last reply says.
func endings(list []Reply) (ends []string) {
	for _, f := range list[len(list)-1].Ended {
		ends = append(ends, fmt.Sprintf("task %d: %v %d", f.Task, f.Outcome, *f.Exit))
	}
	return ends
}

func TestAddAndWait(t *testing.T) {
	r := newRun(t, nil)
	r.s.cfg.Feed = instant{r, func(uint64) {}}.Add
	replies, err := r.ask(Request{Op: "add", Wait: true, Add: &Addition{Values: []task.Bytes{"a", "b\xff", "c"}}})
	require.NoError(t, err)
	require.Equal(t, []uint64{1, 2, 3}, replies[0].Tasks)
	require.Equal(t, map[string]string{
		"1 stdout": "out 1", "2 stdout": "out 2", "3 stdout": "out 3", "1 stderr": "err 1", "2 stderr": "err 2", "3 stderr": "err 3",
	}, outputs(replies))
	require.Equal(t, []string{"task 1: ok 0", "task 2: ok 0", "task 3: ok 0"}, endings(replies))

	key, dir := task.Bytes("k"), task.Bytes("/tmp")
	a := &Addition{
		Command: []task.Bytes{"make", "\xfe"}, Dir: dir, Env: []task.Bytes{"A=\xff"}, Key: &key, After: []uint64{1, 2}, Block: true,
	}
	replies, err = r.ask(Request{Op: "add", Add: a})
	require.NoError(t, err)
	require.Equal(t, []Reply{{V: 2, End: true, Tasks: []uint64{4}}}, replies)
	require.Equal(t, a, r.added[1])
}

func TestAddFollowsLive(t *testing.T) {
	r := newRun(t, nil)
	replies, over := r.call(Request{Op: "add", Wait: true, Add: &Addition{Values: []task.Bytes{"a"}}})
	require.Equal(t, []uint64{1}, (<-replies).Tasks)
	a := r.start(1, 1)
	a.out.Write([]byte("begun"))
	require.Equal(t, "begun", string((<-replies).Data), "it comes while the task runs")
	big := bytes.Repeat([]byte("x"), 5<<20)
	a.out.Write(big)
	r.end(a, task.Exit, true)
	list := all(replies)
	require.NoError(t, <-over)
	require.Len(t, outputs(list)["1 stdout"], len(big))
	require.Equal(t, 3, *list[len(list)-1].Ended[0].Exit)

	// A task that is cancelled before it starts has no output.
	replies, over = r.call(Request{Op: "add", Wait: true, Add: &Addition{Values: []task.Bytes{"a"}}})
	<-replies
	r.event(task.Event{Kind: task.Finished, Task: &task.Task{ID: 2}, Result: &task.Result{Outcome: task.Cancelled}})
	list = all(replies)
	require.NoError(t, <-over)
	require.Equal(t, []task.Facts{{Task: 2, Outcome: task.Cancelled}}, list[0].Ended)
}

func TestWaiterGoesAway(t *testing.T) {
	r := newRun(t, nil)
	c := r.dial()
	gone := fmt.Errorf("gone")
	require.Equal(t, gone, c.Call(Request{Op: "add", Wait: true, Add: &Addition{Values: []task.Bytes{"a", "b", "c"}}},
		func([]byte, *Reply) error { return gone }))
	r.end(r.start(2, 1), task.OK, true)
	a := r.start(3, 1)
	c.Close()
	crewtest.Until(t, func() bool { return r.listeners() == 0 }, "nobody to wait")
	require.Equal(t, []task.Command{{Op: task.Cancel, IDs: []uint64{1, 3}}}, r.commands())
	r.end(a, task.Cancelled, true)
}

func TestFull(t *testing.T) {
	r := newRun(t, nil)
	r.room = 2
	three := &Addition{Values: []task.Bytes{"a", "b", "c"}}
	_, err := r.ask(Request{Op: "add", Add: three})
	require.Equal(t, &Refused{Text: "add 3 tasks: the queue is full", Status: 75}, err)
	three.Block = true
	replies, over := r.call(Request{Op: "add", Add: three, Wait: true})
	c := r.dial()
	go c.Call(Request{Op: "add", Add: three, Wait: true}, func([]byte, *Reply) error { return nil })
	crewtest.Until(t, func() bool { return r.asked() == 3 }, "three questions") // now both wait
	c.Close()
	r.mu.Lock()
	r.room = 3
	r.mu.Unlock()
	require.Equal(t, []uint64{1, 2, 3}, (<-replies).Tasks)
	for id := uint64(1); id <= 3; id++ {
		r.end(r.start(id, 1), task.OK, true)
	}
	require.Len(t, all(replies)[0].Ended, 3)
	require.NoError(t, <-over)
	require.Len(t, r.added, 1)

	no := newRun(t, func(c *Config) { c.Feed = nil })
	_, err = no.ask(Request{Op: "add", Add: three})
	require.ErrorContains(t, err, "takes no tasks")
}

func TestWatch(t *testing.T) {
	r := newRun(t, func(c *Config) { c.gap = time.Minute })
	replies, over := r.call(Request{Op: "watch"})
	require.Equal(t, "watching", (<-replies).Name)
	r.snap.At = time.Now()
	tk := &task.Task{ID: 7, Key: "k", Argv: []string{"echo", "{%}", "a b"}, Marks: []task.Mark{{Word: 1}}}
	res := &task.Result{
		Task: tk, Attempt: 2, Worker: 3, PID: 99, Argv: []string{"echo", "3", "a b"}, Outcome: task.Exit, Code: 3,
		Start: time.Unix(100, 0), End: time.Unix(101, 0),
	}
	r.event(
		task.Event{Kind: task.Admitted, Task: tk}, task.Event{Kind: task.Released, ID: 1, Last: 2},
		task.Event{Kind: task.Started, Task: tk, Slot: 3, Attempt: 2}, task.Event{Kind: task.Retried, Task: tk, Result: res, Wait: time.Second},
		task.Event{Kind: task.Finished, Task: tk, Result: res}, task.Event{Kind: task.InputEnd}, task.Event{Kind: task.Resized, Slot: 9},
		task.Event{Kind: task.Draining, Text: "SIGINT"}, task.Event{Kind: task.Stopping}, task.Event{Kind: task.Notice, Text: "so"},
		task.Event{Kind: task.Blocked, Blocking: &task.Blocking{By: task.ByKey, Tasks: 2, Key: "k", Slot: 3}}, task.Event{Kind: task.Blocked},
		task.Event{Kind: task.Continued, Wait: time.Second},
	)
	read := task.Facts{Task: 7, Key: "k", Command: "echo '{%}' 'a b'"}
	attempt := task.Facts{Task: 7, Key: "k", Command: "echo 3 'a b'", Attempt: 2, Worker: 3}
	ended := attempt
	ended.PID, ended.Outcome, ended.Exit, ended.Start, ended.Duration = 99, task.Exit, &res.Code, res.Start, task.Seconds(time.Second)
	named := func(name string, f task.Facts) Reply { return Reply{Event: &Event{Name: name}, Facts: f} }
	retried, second := named("retried", ended), task.Seconds(time.Second)
	retried.Wait = second
	for _, want := range []Reply{
		named("admitted", read), named("started", attempt), retried, named("finished", ended),
		{Event: &Event{Name: "input-end"}}, {Event: &Event{Name: "resized", Workers: 9}}, {Event: &Event{Name: "draining", Text: "SIGINT"}},
		{Event: &Event{Name: "stopping"}}, {Event: &Event{Name: "notice", Text: "so"}},
		{Event: &Event{Name: "blocked", Blocking: &task.Blocking{By: task.ByKey, Shown: "2 tasks of key k wait for worker 3", Tasks: 2, Key: "k", Slot: 3}}},
		{Event: &Event{Name: "blocked"}}, {Event: &Event{Name: "continued", Wait: second}},
	} {
		got := <-replies
		require.WithinDuration(t, time.Now(), got.At, time.Minute)
		require.True(t, want.Start.Equal(got.Start))
		got.At, got.V, got.Start, want.Start = time.Time{}, 0, time.Time{}, time.Time{}
		require.Equal(t, want, got)
	}
	r.event(task.Event{Kind: task.Notice, Text: "last words"})
	final := task.Stats{Admitted: 3}
	final.ByOutcome[task.OK] = 2
	require.NoError(t, r.s.Sink().Close(final))
	r.s.Close()
	list := all(replies)
	require.NoError(t, <-over)
	require.Len(t, list, 2)
	require.Equal(t, "last words", list[0].Text)
	require.True(t, list[1].End)
	require.EqualValues(t, 2, list[1].Run.Done)
}

// TestSlowWatcher: what does not fit is counted, in its place, and the run goes on.
func TestSlowWatcher(t *testing.T) {
	r := newRun(t, func(c *Config) { c.gap = time.Minute })
	c := r.dial()
	watching, goOn := make(chan struct{}), make(chan struct{})
	var got, lost int64
	over := make(chan error)
	go func() {
		over <- c.Call(Request{Op: "watch"}, func(_ []byte, reply *Reply) error {
			switch {
			case reply.Event == nil:
			case reply.Name == "watching":
				close(watching)
				<-goOn
			case reply.Name == "lost":
				lost += reply.Count
			default:
				got++
				if want := fmt.Sprint(got + lost); !strings.HasPrefix(reply.Text, want+" ") {
					return fmt.Errorf("%.10q instead of event %s", reply.Text, want)
				}
			}
			return nil
		})
	}()
	<-watching
	const events = 20_000
	long := strings.Repeat("x", 1000)
	for i := range events {
		r.event(task.Event{Kind: task.Notice, Text: fmt.Sprint(i+1, " ", long)})
	}
	close(goOn)
	crewtest.Until(t, func() bool {
		r.s.sink.mu.Lock()
		defer r.s.sink.mu.Unlock()
		for l := range r.s.sink.listeners {
			return len(l.events) == 0
		}
		return false
	}, "the events to be handed over")
	r.s.Close()
	require.NoError(t, <-over)
	require.EqualValues(t, events, got+lost)
	require.Positive(t, lost)
	require.GreaterOrEqual(t, got, int64(mostEvents))
}

func TestStatusAndExplain(t *testing.T) {
	r := newRun(t, func(c *Config) {
		c.See.Total = func() (int64, bool) { return 10, true }
		c.See.PIDs = func() map[uint64]int { return map[uint64]int{4: 99} }
	})
	now := time.Now().Round(0)
	long := &task.Task{ID: 4, Key: "k\xff", Tag: "t", Argv: []string{"echo", strings.Repeat("x", 10_000)}}
	st := task.Stats{Admitted: 8, Running: 1, Released: 1, Retried: 1, Slots: 2, Start: now.Add(-time.Minute)}
	st.ByOutcome[task.OK], st.ByOutcome[task.Exit], st.Earlier[task.OK] = 2, 1, 1
	r.snap = task.Snapshot{
		At: now, State: task.Paused, Stats: st, Slots: []task.Slot{{ID: 1, Cap: 1}, {ID: 2, Host: "h", Cap: 3}},
		Running: []task.Running{{Task: long, Slot: 1, Attempt: 2, Since: now.Add(-time.Second)}},
		Waiting: []task.Blocking{{By: task.ByLimit, Tasks: 2, Key: "k", Limit: 1}}, Blocking: &task.Blocking{By: task.ByPause},
		Queued: 2, Buffer: 64, Aside: 2,
	}
	replies, err := r.ask(Request{Op: "status"})
	require.NoError(t, err)
	got := replies[0].Run
	ten := int64(10)
	require.Len(t, got.Tasks[0].Command, longest+len("…"))
	got.Tasks[0].Command = ""
	require.WithinDuration(t, now, got.At, 0)
	require.WithinDuration(t, now.Add(-time.Second), got.Tasks[0].Start, 0)
	got.At, got.Since, got.Tasks[0].Start = time.Time{}, time.Time{}, time.Time{}
	got.Rate, got.ETA = 0, nil
	want := &Status{
		State: "paused", Elapsed: task.Seconds(time.Minute), Progress: Progress{Total: &ten, Done: 3, Failed: 1, Running: 1, Waiting: 4},
		Outcomes: map[string]int64{"ok": 2, "exit": 1}, Earlier: map[string]int64{"ok": 1}, Retried: 1, Held: 2,
		Snapshot: task.Snapshot{Slots: r.snap.Slots, Queued: 2, Buffer: 64, Aside: 2},
		Tasks:    []Where{{Past: task.Past{Facts: task.Facts{Task: 4, Key: "k\xff", Worker: 1, Attempt: 2, PID: 99, Duration: 1e9}}, State: "running", Tag: "t"}},
	}
	want.Snapshot.Waiting = []task.Blocking{{
		By: task.ByLimit, Shown: "2 tasks of key k wait for the 1 of that key that may run at once", Tasks: 2, Key: "k", Limit: 1,
	}}
	want.Blocking = &task.Blocking{By: task.ByPause, Shown: "paused"}
	require.Equal(t, want, got)

	r.wheres = map[uint64]task.Where{
		2: {Known: true, Task: long, Blocking: &task.Blocking{By: task.ByAfter, Tasks: 1, ID: 4}, Attempt: 1},
		3: {Known: true, Held: 2}, 5: {Known: true, Outcome: task.Timeout, Attempt: 3},
		4: {Known: true, Task: long, Running: &task.Running{Task: long, Slot: 2, Attempt: 2, Since: now.Add(-time.Second)}},
	}
	ids := make([]uint64, mostIDs+50)
	for i := range ids {
		ids[i] = uint64(i + 1)
	}
	replies, err = r.ask(Request{Op: "explain", Tasks: ids})
	require.NoError(t, err)
	w := replies[0].Wheres
	require.Len(t, w, mostIDs+50)
	require.Equal(t, "unknown", w[0].State)
	require.Equal(t, "waiting", w[1].State)
	require.Equal(t, "1 task waits for task 4", w[1].Blocking.Shown)
	require.Equal(t, Where{Past: task.Past{Facts: task.Facts{Task: 3}}, State: "held", Held: 2}, w[2])
	require.Equal(t, []any{"running", 2, 2, task.Bytes("k\xff")}, []any{w[3].State, w[3].Worker, w[3].Attempt, w[3].Key})
	require.Greater(t, w[3].Duration, task.Seconds(9e8))
	require.Equal(t, Where{Past: task.Past{Facts: task.Facts{Task: 5, Outcome: task.Timeout, Attempt: 3}}, State: "ended"}, w[4])

	r.snap.State, r.err = task.Going, os.ErrClosed
	_, err = r.ask(Request{Op: "status"})
	require.Equal(t, &Refused{Text: "file already closed", Status: 1}, err)
}

// TestListenToNothing: who asks about no tasks hears nothing, not everything.
func TestListenToNothing(t *testing.T) {
	k := &Sink{}
	none, all := k.listenTo(), k.listenAll()
	require.NoError(t, k.Consume([]task.Event{{Kind: task.Resized}, {Kind: task.Started, Task: &task.Task{ID: 1}}}))
	heard, _ := k.take(none)
	require.Empty(t, heard)
	heard, _ = k.take(all)
	require.Len(t, heard, 2)
}

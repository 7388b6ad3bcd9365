package control

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/task"
)

// ids returns the tasks of a list.
func ids(list []Where) (ids []uint64) {
	for _, w := range list {
		ids = append(ids, w.Task)
	}
	return ids
}

// What has ended is remembered, the failed ones beside the others, the latest first.
func TestPast(t *testing.T) {
	r := newRun(t, func(c *Config) { c.See.Live = nil })
	ends := func(id uint64, o task.Outcome) {
		a := r.start(id, 1)
		a.err.Write([]byte("oops\n"))
		r.end(a, o, true)
	}
	ends(1, task.Exit)
	for id := uint64(2); id < 1000; id++ {
		ends(id, task.OK)
	}
	ended := r.s.ended(time.Now())
	require.Len(t, ended, 1+mostPast)
	require.Equal(t, uint64(999), ended[0].Task)
	require.Equal(t, uint64(1), ended[mostPast].Task)
	require.Equal(t, "exit 3 after 0s", ended[mostPast].Verdict())

	replies, err := r.ask(Request{Op: "explain", Tasks: []uint64{1, 2, 999}})
	require.NoError(t, err)
	require.Equal(t, []task.Outcome{task.Exit, 0, task.OK}, []task.Outcome{replies[0].Wheres[0].Outcome, replies[0].Wheres[1].Outcome, replies[0].Wheres[2].Outcome})
	require.Equal(t, "--state DIR keeps more", replies[0].Wheres[1].Hint)

	// Their output is there, and with follow how they ended.
	for _, follow := range []bool{false, true} {
		replies, err = r.ask(Request{Op: "log", Tasks: []uint64{1}, Follow: follow})
		require.NoError(t, err)
		require.Equal(t, map[string]string{"1 stderr": "oops\n"}, outputs(replies))
		require.Equal(t, follow, len(replies[len(replies)-1].Ended) == 1)
	}

	// More failed ones take the place of failed ones.
	for id := uint64(1001); id <= 1000+mostPast; id++ {
		ends(id, task.Signal)
	}
	ended = r.s.ended(time.Now())
	require.Len(t, ended, 2*mostPast)
	require.NotContains(t, ids(ended), uint64(1))
	require.Contains(t, ids(ended), uint64(999))
}

// A task that is tried again is listed with its latest failure until it has ended.
func TestPastRetried(t *testing.T) {
	r := newRun(t, nil)
	r.end(r.start(7, 1), task.Exit, false)
	r.end(r.start(7, 2), task.Exit, false)
	ended := r.s.ended(time.Now())
	require.Equal(t, []uint64{7}, ids(ended))
	require.Equal(t, "waiting", ended[0].State)
	require.Equal(t, 2, ended[0].Attempt)
	r.wheres[7] = task.Where{Known: true, Blocking: &task.Blocking{By: task.ByRetry, Tasks: 1}}
	a := r.start(8, 1)
	a.err.Write([]byte("no"))
	r.end(a, task.Exit, false)
	r.wheres[8] = r.wheres[7]
	replies, err := r.ask(Request{Op: "log", Tasks: []uint64{8}})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"8 stderr": "no"}, outputs(replies))
	following, over := r.call(Request{Op: "log", Tasks: []uint64{8}, Follow: true})
	require.Equal(t, "no", string((<-following).Data))
	a = r.start(8, 2)
	a.out.Write([]byte("yes"))
	r.end(a, task.OK, true)
	require.Equal(t, map[string]string{"8 stdout": "yes"}, outputs(all(following)))
	require.NoError(t, <-over)
	require.Nil(t, r.s.sink.find(7))
	r.end(r.start(7, 3), task.OK, true)
	ended = r.s.ended(time.Now())
	require.Equal(t, []uint64{7, 8}, ids(ended))
	require.Equal(t, task.OK, ended[0].Outcome)
}

// What is remembered is bounded, however large tasks and their outputs are.
func TestPastIsBounded(t *testing.T) {
	r := newRun(t, nil)
	long := bytes.Repeat([]byte("x"), 100<<10)
	for id := uint64(1); id < 20; id++ {
		a := r.start(id, 1)
		a.task.Stdin = []byte(strings.Repeat("s", pastBytes/4))
		a.out.Write(long)
		r.end(a, task.OK, true)
	}
	require.Len(t, r.s.ended(time.Now()), 3)
	replies, err := r.ask(Request{Op: "log", Tasks: []uint64{19}})
	require.NoError(t, err)
	require.Equal(t, int64(len(long)-pastTail), replies[0].Cut)
	require.Len(t, outputs(replies)["19 stdout"], pastTail)

	a := r.start(20, 1)
	a.task.Stdin = make([]byte, 10<<20)
	r.end(a, task.OK, true)
	require.Equal(t, []uint64{20}, ids(r.s.ended(time.Now())))
}

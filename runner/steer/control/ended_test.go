package control

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/decide/task"
)

// ids returns the tasks of a list.
func ids(list []task.Where) (ids []uint64) {
	for _, w := range list {
		ids = append(ids, w.Task)
	}
	return ids
}

// TestEnded checks that failed tasks and other ended tasks are remembered separately, the latest first.
func TestEnded(t *testing.T) {
	r := newRun(t, func(c *Config) { c.Details.Live = nil })
	ends := func(id uint64, o task.Outcome) {
		a := r.start(id, 1)
		a.err.Write([]byte("oops\n"))
		r.end(a, o, true)
	}
	ends(1, task.Exit)
	for id := uint64(2); id < 1000; id++ {
		ends(id, task.OK)
	}
	ended, _ := r.s.sink.remembered()
	require.Len(t, ended, 1+maxPast)
	require.Equal(t, uint64(999), ended[0].Task)
	require.Equal(t, uint64(1), ended[maxPast].Task)
	require.Equal(t, "exit 3 after 0s", ended[maxPast].Verdict())

	replies, err := r.ask(Request{Op: "explain", Tasks: []uint64{1, 2, 999}})
	require.NoError(t, err)
	require.Equal(t, []task.Outcome{task.Exit, 0, task.OK}, []task.Outcome{replies[0].Wheres[0].Outcome, replies[0].Wheres[1].Outcome, replies[0].Wheres[2].Outcome})
	require.Equal(t, "--state DIR keeps more", replies[0].Wheres[1].Hint)

	// More failed tasks replace only failed tasks.
	for id := uint64(1001); id <= 1000+maxPast; id++ {
		ends(id, task.Signal)
	}
	ended, _ = r.s.sink.remembered()
	require.Len(t, ended, 2*maxPast)
	require.NotContains(t, ids(ended), uint64(1))
	require.Contains(t, ids(ended), uint64(999))
}

// TestEndedIsBounded checks that the memory is bounded, however large tasks and their outputs are.
func TestEndedIsBounded(t *testing.T) {
	r := newRun(t, func(c *Config) {
		c.Ended = func(int, func(uint64, task.Outcome) bool) []task.EndedTask { return nil }
	})
	long := bytes.Repeat([]byte("x"), 100<<10)
	for id := uint64(1); id < 20; id++ {
		a := r.start(id, 1)
		a.task.Stdin = []byte(strings.Repeat("s", pastBytes/4))
		a.out.Write(long)
		r.end(a, task.OK, true)
	}
	ended, _ := r.s.sink.remembered()
	require.Len(t, ended, 3)
	replies, err := r.ask(Request{Op: "log", Tasks: []uint64{19}})
	require.NoError(t, err)
	require.Equal(t, int64(len(long)-pastTail), replies[0].Cut)
	require.Len(t, replies[1].Data, pastTail)

	a := r.start(20, 1)
	a.task.Stdin = make([]byte, 10<<20)
	r.end(a, task.OK, true)
	ended, _ = r.s.sink.remembered()
	require.Equal(t, []uint64{20}, ids(ended))

	_, err = r.ask(Request{Op: "log", Tasks: []uint64{1}})
	require.EqualError(t, err, "task 1 has ended, and its output was not kept: --results DIR keeps it")
}

// TestLogLeavesOutEarlierResults checks that a task does not seem to wait if the log leaves out how it ended.
func TestLogLeavesOutEarlierResults(t *testing.T) {
	made := &task.Task{ID: 1, Makes: &task.Making{}}
	made.Makes.Done = &task.Result{Task: made, Outcome: task.OK}
	var out strings.Builder
	require.NoError(t, NewLog(&out, Hello{}).Consume([]task.Event{
		{Kind: task.Admitted, ID: 1, Task: made}, {Kind: task.Finished, ID: 1, Task: made, Result: made.Makes.Done},
	}))
	require.Equal(t, 1, strings.Count(out.String(), "\n"), "watching")
}

package web

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/decide/task"
)

// explained answers for a run with two waiting tasks, the second of which is held.
func explained(c task.Command) (reply task.Reply) {
	if c.Only != "waiting" {
		return reply
	}
	first := &task.Task{ID: 7, Argv: []string{"make", "all"}, Asked: &task.Terms{Note: "for Ann", Priority: 5}}
	for _, one := range []*task.Task{first, {ID: 3, Argv: []string{"true"}}}[:min(c.N, 2)] {
		w := task.NewWhere("waiting", one)
		if w.Blocking = (&task.Blocking{By: task.BySlots, Tasks: 1}); one.ID == 3 {
			w.Blocking.By = task.ByHold
		}
		reply.Wheres = append(reply.Wheres, w)
	}
	return reply
}

// TestQueue checks that a page learns that others feed its run, and can ask what waits, and for how much
// of it.
func TestQueue(t *testing.T) {
	f := tell(t)
	path, _ := f.page()
	b := listen(t, f.url+path+"events", "")
	b.until(func(e sse) bool { return e.name == "queue" })
	require.Equal(t, "status", b.next().name)

	status, reply := f.do(path, `{"op":"explain","only":"waiting","n":200}`)
	require.Equal(t, http.StatusOK, status, "%s", reply.Error)
	require.Len(t, reply.Wheres, 2)
	first := reply.Wheres[0]
	require.EqualValues(t, 7, first.Task)
	require.Equal(t, 5, first.Priority)
	require.EqualValues(t, "for Ann", first.Note)
	require.EqualValues(t, "make all", first.Command)
	require.Equal(t, "1 task waits for a worker", first.Blocking.Shown)
	require.Equal(t, task.ByHold, reply.Wheres[1].Blocking.By)

	_, reply = f.do(path, `{"op":"explain","only":"waiting","n":1}`)
	require.Len(t, reply.Wheres, 1)
	status, reply = f.do(path, `{"op":"explain","only":"waiting","n":100000}`)
	require.Equal(t, http.StatusBadRequest, status)
	require.Contains(t, string(reply.Error), "at most 1000 tasks")
	status, _ = f.do(path, `{"op":"add","add":{"values":["x"]}}`)
	require.Equal(t, http.StatusBadRequest, status, "pages still cannot add")
}

package wiring

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/decide/task"
	"crew/runner/keep/journal"
	"crew/runner/steer/control"
)

// turn performs a random action.
func (m *model) turn() {
	switch m.IntN(16) {
	case 0, 1, 2:
		m.add()
	case 3, 4, 5:
		m.end()
	case 6, 7:
		m.byHand()
	case 8:
		m.cancel()
	case 9:
		m.retry()
	case 10:
		m.resize()
	case 11:
		m.linger()
	case 12:
		m.look()
	case 13:
		m.rubbish()
	case 14:
		m.goes()
	case 15:
		m.pass(time.Duration(m.IntN(20)) * time.Second)
	}
	m.settle()
}

// refused reports whether the run refuses a command about its tasks because it is ending.
func (m *model) refused(reply *control.Reply) bool {
	if m.phase >= task.StateDraining {
		require.NotEmpty(m.t, reply.Error)
		require.Empty(m.t, reply.Tasks)
	}
	return m.phase >= task.StateDraining
}

func (m *model) byHand() {
	r := control.Request{Op: []string{"hold", "release", "move"}[m.IntN(3)], Tasks: m.some(4)}
	r.Last = r.Op == "move" && m.IntN(2) == 0
	reply := m.ask(r)
	if m.refused(reply) {
		return
	}
	ids := slices.Clone(r.Tasks)
	if r.Op == "move" && !r.Last {
		slices.Reverse(ids)
	}
	var done []uint64
	now := time.Now()
	for _, id := range ids {
		j := m.jobs[id]
		if j == nil || !j.waits() {
			continue
		}
		switch {
		case r.Op == "hold":
			j.held = true
		case r.Last:
			m.highest++
			j.rank = m.highest
		case r.Op == "move":
			m.lowest--
			j.rank = m.lowest
		case j.held:
			j.held = false
		case j.at.After(now):
			j.at = now
		default:
			continue
		}
		j.since = 0
		m.lends(j)
		done = append(done, id)
	}
	require.Equal(m.t, done, reply.Tasks)
	require.Equal(m.t, len(done) < len(ids), len(reply.Error) > 0, "%s", reply.Error)
}

func (m *model) cancel() {
	r := control.Request{Op: "cancel", Tasks: m.some(3)}
	var named []*job
	key := task.Bytes("k")
	switch m.IntN(8) {
	case 0:
		r.Tasks, r.All = nil, true
	case 1:
		r.Tasks, r.Key = nil, &key
	}
	for _, id := range slices.Backward(slices.Sorted(slices.Values(r.Tasks))) { // jobs that wait for others come first
		named = append(named, m.jobs[id])
	}
	for _, j := range slices.Backward(m.sorted()) {
		if r.Tasks == nil && j.outcome == 0 && (r.All || j.key == "k") {
			named = append(named, j)
		}
	}
	reply := m.ask(r)
	var done []uint64
	var ran []*job
	for _, j := range named {
		if j == nil || j.outcome != 0 {
			continue
		}
		done = append(done, j.id)
		if j.running {
			ran = append(ran, j)
		} else {
			j.last = ""
			m.ends(j, task.Cancelled)
		}
	}
	for _, j := range ran {
		m.stops(j)
		m.ends(j, task.Cancelled)
	}
	slices.Sort(done)
	require.Equal(m.t, done, reply.Tasks)
	require.Equal(m.t, len(done) < len(named) || r.Key != nil && len(named) == 0, len(reply.Error) > 0, "%s", reply.Error)
}

// end ends a running attempt.
func (m *model) end() {
	turns := m.now()
	ids := slices.Sorted(maps.Keys(turns))
	if len(ids) == 0 {
		return
	}
	w := turns[ids[m.IntN(len(ids))]]
	o := []task.Outcome{task.OK, task.OK, task.Exit}[m.IntN(3)]
	m.note("task %d ends: %v", w.Task.ID, o)
	w.end <- o
	j := m.jobs[w.Task.ID]
	m.stops(j)
	switch {
	case o == task.OK || j.failed > 0:
		m.ends(j, o)
	case m.phase >= task.StateDraining:
		j.failed++
		j.left = true
		m.ends(j, task.NotRun)
	default:
		j.failed++
		j.due = time.Now().Add(10 * time.Second)
	}
	synctest.Wait()
	switch m.IntN(4) {
	case 0: // before clients learn of the end
		m.linger()
	case 1: // before they learn of the next attempt, either
		turns := m.now()
		for _, id := range slices.Sorted(maps.Keys(turns)) {
			if j := m.jobs[id]; !j.running {
				m.began(j, turns[id])
				turns[id].end <- task.OK
				m.stops(j)
				m.ends(j, task.OK)
				synctest.Wait()
				break
			}
		}
	}
}

func (m *model) retry() {
	r := control.Request{Op: "retry", Tasks: m.some(4)}
	if all := m.sorted(); len(all) > 0 && m.IntN(2) == 0 { // any job, which has often failed
		r.Tasks[0] = all[m.IntN(len(all))].id
		r.Tasks = slices.Compact(r.Tasks)
	}
	if m.phase == task.StateFinishing {
		return
	}
	reply := m.ask(r)
	if m.refused(reply) {
		return
	}
	chosen := map[uint64]bool{}
	var want []uint64
	wrong := false
	for _, id := range r.Tasks {
		switch j := m.jobs[id]; {
		case j != nil && j.waits() && !j.due.IsZero() && slices.Contains(reply.Tasks, id): // unless it became due just now
			j.due, j.since = time.Now(), 0
			want = append(want, id)
		case j != nil && j.outcome != 0 && !j.left && j.outcome != task.OK && j.again == 0:
			chosen[id] = true
		default:
			wrong = true
		}
	}
	m.addFollowers(chosen)
	require.Len(m.t, reply.Tasks, len(want)+len(chosen), "%v and %v", want, chosen)
	require.Equal(m.t, wrong, len(reply.Error) > 0, "%s", reply.Error)
	for i, id := range slices.Sorted(maps.Keys(chosen)) {
		m.renew(m.jobs[id], reply.Tasks[len(want)+i], slices.Contains(r.Tasks, id))
	}
}

func (m *model) resize() {
	r := control.Request{Op: "pause"}
	n := m.workers
	switch m.IntN(5) {
	case 0, 1:
		r.Op = "resume"
	case 2:
		r.Op, r.N, r.Relative = "resize", m.IntN(5)-2, true
		n = max(1, n+r.N)
	case 3:
		r.Op, r.N = "resize", m.IntN(5)
		n = r.N
	}
	reply := m.ask(r)
	if bad := r.Op == "resize" && r.N == 0; bad || m.refused(reply) {
		require.NotEmpty(m.t, reply.Error)
		return
	}
	require.Empty(m.t, reply.Error)
	if r.Op == "resize" {
		m.workers = n
		time.Sleep(10 * time.Millisecond)
		none := task.Bytes("none")
		for range 8 { // requests that need not wait, at the same time as the event
			m.begins([]control.Request{{Op: "wait", Key: &none}, {Op: "wait", Key: &none}, {Op: "add", Wait: true, Add: &control.Addition{Lines: true, Values: []task.Bytes{"#"}}}}[m.IntN(3)])
		}
	} else {
		m.paused = r.Op == "pause"
	}
}

// addition returns a request to add tasks. Some of its lines may be comments.
func (m *model) addition() control.Request {
	a := &control.Addition{Lines: true, Values: []task.Bytes{"# nothing"}}
	for range m.IntN(4) {
		a.Values = append(a.Values, task.Bytes(fmt.Sprintf("task t%d", m.Uint32())))
	}
	if m.IntN(3) == 0 {
		a.After = m.some(2)
	}
	if m.IntN(4) == 0 {
		a.At = time.Now().Add(time.Duration(1 + m.IntN(60e9)))
	}
	if m.IntN(3) == 0 {
		key := task.Bytes("k")
		a.Key, a.Note, a.Timeout = &key, "noted", task.Seconds(time.Hour)
		a.Dir, a.Env = "/tmp", []task.Bytes{"A=\xff", "B=" + a.Values[0]}
	}
	return control.Request{Op: "add", Wait: m.IntN(4) == 0, Add: a}
}

// add adds tasks, sometimes from several clients at once.
func (m *model) add() {
	for range 1 + m.IntN(4)/3*m.IntN(6) {
		m.begins(m.addition())
	}
}

// linger sends a request that is answered later.
func (m *model) linger() {
	ids := m.some(3)
	r := []control.Request{{Op: "watch", Follow: m.IntN(2) == 0}, {Op: "wait", All: true}, {Op: "wait", Tasks: ids}, {Op: "wait", Tasks: ids},
		{Op: "log", Tasks: ids[:1], Follow: true}, {Op: "log", Tasks: ids[:1], Follow: true}, {Op: "log", Tasks: ids[:1]}}[m.IntN(7)]
	k := m.begins(r)
	for _, j := range m.sorted() {
		if r.All && j.outcome == 0 || slices.Contains(r.Tasks, j.id) || r.Op == "watch" && r.Follow && j.running {
			k.jobs = append(k.jobs, j)
		}
	}
	if r.Op != "log" || len(k.jobs) == 0 {
		return
	}
	j := k.jobs[0]
	if k.from = len(j.outs); j.outcome != 0 {
		k.last = j.last
	} else if n := len(j.outs); m.now()[j.id] == nil && n > 0 {
		k.from = n - 1 // log waits for another attempt
	}
}

// look checks the status and the list of tasks.
func (m *model) look() {
	now := m.ask(control.Request{Op: "status"}).Run
	running, waiting := map[uint64]bool{}, 0
	for _, j := range m.jobs {
		if j.running {
			running[j.id] = true
		} else if j.outcome == 0 {
			waiting++
		}
	}
	for _, w := range now.Tasks {
		require.True(m.t, running[w.Task], "task %d runs", w.Task)
	}
	require.Len(m.t, now.Tasks, len(running))
	require.Equal(m.t, []int64{int64(len(running)), int64(waiting)}, []int64{now.Progress.Running, now.Progress.Waiting})
	for o := task.OK; o < task.Outcomes; o++ {
		require.Equal(m.t, m.counts[o], now.Outcomes[o.String()]-now.Earlier[o.String()], "%v", o)
	}
	state := m.phase
	if m.paused && state < task.StateDraining {
		state = task.StatePaused
	}
	require.Equal(m.t, state.String(), now.State)
	require.Equal(m.t, now.State, m.ask(control.Request{Op: "hello"}).Hello.State)
	ids := m.some(9)
	for i, w := range m.ask(control.Request{Op: "explain", Tasks: ids}).Wheres {
		require.Equal(m.t, ids[i], w.Task)
		switch j := m.jobs[w.Task]; {
		case j == nil:
		case j.running:
			require.Equal(m.t, "running", w.State)
			require.Equal(m.t, j.attempt, w.Attempt)
		case j.outcome == 0:
			require.Equal(m.t, "waiting", w.State)
		default:
			require.Equal(m.t, "ended", w.State)
			require.True(m.t, w.Outcome == j.outcome || w.Outcome == 0, "%v, not %v", w.Outcome, j.outcome)
		}
	}
	for _, only := range []string{"waiting", "running", "failed", "ended"} {
		m.ask(control.Request{Op: "explain", Only: only, N: m.IntN(9)})
	}
}

// rubbish sends bytes that are not a request, perhaps half a line.
func (m *model) rubbish() {
	text := textOf([]control.Request{m.addition(), {Op: "wait", All: true}, {Op: "retry"}, {Op: "stop"}}[m.IntN(4)])
	line := []byte(text[:m.IntN(len(text)-1)])
	for range m.IntN(4) {
		if len(line) > 0 {
			line[m.IntN(len(line))] = byte(m.IntN(256))
		}
	}
	m.note("%q", line)
	k := m.says(string(line)+strings.Repeat("\n", m.IntN(2)), control.Request{})
	if synctest.Wait(); k.over() == nil {
		m.pass(11 * time.Second)
	}
	last := k.over()
	require.True(m.t, last != nil && (last.Status == 2 || last.Over), "%v", last)
	k.leave()
}

// goes disconnects a client. If it waits for tasks that it added, they are cancelled.
func (m *model) goes() {
	if len(m.talks) == 0 {
		return
	}
	i := m.IntN(len(m.talks))
	k := m.talks[i]
	m.note("the client of %s goes", k.req.Op)
	m.talks = slices.Delete(m.talks, i, i+1)
	k.leave()
	m.pass(2 * time.Second)
	if k.req.Op == "add" && k.req.Wait {
		for _, j := range k.jobs {
			if j.running {
				m.stops(j)
			} else if j.outcome == 0 {
				j.last = ""
			}
		}
		for _, j := range k.jobs {
			if j.outcome == 0 {
				m.ends(j, task.Cancelled)
			}
		}
	}
}

// pass lets time pass.
func (m *model) pass(d time.Duration) {
	m.note("%v pass", d)
	time.Sleep(d)
}

// kill abandons a crew serve, and continues with the state that a kill would have left.
func (m *model) kill() {
	m.note("killed")
	require.NoError(m.t, os.RemoveAll(m.dirs[1]))
	require.NoError(m.t, os.CopyFS(m.dirs[1], os.DirFS(m.dirs[0])))
	jobs := map[uint64]*job{}
	for id, j := range m.jobs {
		k := *j
		jobs[id] = &k
	}
	m.phase = task.StateStopping
	m.ask(control.Request{Op: "stop"})
	<-m.served.end
	m.jobs, m.dirs = jobs, slices.Concat(m.dirs[1:], m.dirs[:1])
}

// finish ends a crew serve.
func (m *model) finish() {
	r := []control.Request{{Op: "drain"}, {Op: "drain", Rest: true}, {Op: "stop"}}[m.IntN(3)]
	for range m.IntN(6) / 3 * m.IntN(4) { // at the same time
		if r.Op == "drain" {
			m.begins(m.addition())
		}
	}
	require.Empty(m.t, m.ask(r).Error)
	m.phase = map[string]task.State{"drain": task.StateDraining, "stop": task.StateStopping}[r.Op]
	if r.Rest {
		m.phase = task.StateFinishing
	}
	m.hear()
	for _, j := range m.sorted() {
		if w := m.now()[j.id]; w != nil && !j.running {
			m.began(j, w)
		}
		switch {
		case r.Rest || j.outcome != 0:
		case j.running && r.Op == "stop":
			m.stops(j)
			j.left = true
			m.ends(j, task.Cancelled)
		case !j.running:
			j.left, j.last = true, ""
			m.ends(j, task.NotRun)
		}
	}
	m.settle()
	over := func() bool { return len(m.served.end) > 0 }
	for n := 0; !over(); n++ {
		require.Less(m.t, n, 1000, "it does not end")
		if n < 10 {
			m.turn()
			continue
		}
		m.paused = m.paused && m.ask(control.Request{Op: "resume"}).Error != ""
		for _, j := range m.sorted() {
			if j.waits() && j.held {
				m.ask(control.Request{Op: "release", Tasks: []uint64{j.id}})
				j.held = false
				m.settle()
			}
		}
		m.pass(time.Minute)
		m.settle()
		m.end()
		m.settle()
	}
	stats := (<-m.served.end).Stats
	require.Equal(m.t, stats.Admitted, stats.Finished())
	synctest.Wait()
	for _, k := range m.talks {
		require.NotNil(m.t, k.over(), "%v is not answered", k.req)
	}
	if m.queue != nil {
		left := 0
		for _, j := range m.jobs {
			if j.left {
				left++
			}
		}
		sum, err := journal.Dump(m.dirs[0], io.Discard)
		require.NoError(m.t, err)
		require.Equal(m.t, []int{0, left}, []int{sum.Running, sum.Waiting})
	}
}

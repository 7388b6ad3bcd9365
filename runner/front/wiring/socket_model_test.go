package wiring

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/decide/task"
	"crew/runner/steer/control"
)

// TestSocket runs clients of a crew serve that send all kinds of requests, one after another and several at a time,
// disconnect without notice and send rubbish. It compares everything that crew serve does and answers with a
// naive model. From time to time the crew serve ends or is killed; with --state, another one continues.
func TestSocket(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", crewtest.ShortDir(t))
	for round := range crewtest.Rounds(16) {
		t.Run(strconv.Itoa(round), func(t *testing.T) {
			dirs := []string{"", t.TempDir(), t.TempDir(), t.TempDir(), t.TempDir()}
			synctest.Test(t, func(t *testing.T) {
				m := &model{t: t, Rand: crewtest.Rand(t, round), lowest: lent}
				if round%4 > 0 {
					m.dirs = dirs[1:]
				}
				defer m.abandon()
				for range 4 {
					m.life()
				}
			})
		})
	}
}

// lent is the rank of a task that one with a lower rank, which was moved, comes after.
const lent = -1

// job is what the model knows of a task.
type job struct {
	id          uint64
	label, note string
	key         string
	after       []uint64
	at, due     time.Time // earliest times to start
	held        bool
	rank, since int // its place in the queue; since is the step in which it became ready, or 0 if it is not ready
	running     bool
	worker      int
	attempt     int      // the latest attempt; 0 if unknown
	failed      int      // failures that were retried
	outs        []string // output of each attempt in this life
	last        string   // output of the last attempt, once it has ended
	outcome     task.Outcome
	left        bool   // ended only in this life: the next one runs it
	earlier     bool   // it ended in an earlier life
	again       uint64 // number under which it was run again
}

// waits reports whether a job has neither started nor ended.
func (j *job) waits() bool { return !j.running && j.outcome == 0 }

// expected is a talk whose replies are checked after each step.
type expected struct {
	*talk
	since, from int // the step of the request; for log: the first attempt to expect
	jobs        []*job
	last        string // for log: output from before
	late, took  bool   // for add: it names unknown tasks in after; its jobs are known
}

// model is a naive model of crew serve.
type model struct {
	*rand.Rand
	t    *testing.T
	dirs []string // directories for --state: the first one is in use, and a kill continues with a copy in the next; empty without --state
	jobs map[uint64]*job
	did  []string

	// of a life

	*served
	talks           []*expected
	step            int
	lowest, highest int
	workers, most   int
	paused          bool
	phase           task.State // StateRunning, StateFinishing, StateDraining or StateStopping
	counts          map[task.Outcome]int64
	ended           map[uint64]int // by task, the step in which it ended
}

// life runs one crew serve to its end, or until it is killed.
func (m *model) life() {
	m.begin()
	for range 60 {
		m.turn()
	}
	if m.queue != nil && m.IntN(3) == 0 {
		m.kill()
		return
	}
	m.finish()
}

// abandon logs the requests and the jobs, and stops the run, if the test has failed.
func (m *model) abandon() {
	if m.t.Failed() {
		m.t.Log(strings.Join(m.did, "\n"))
		for _, j := range m.sorted() {
			m.t.Logf("%+v", *j)
		}
		m.run.Do(task.Command{Op: task.Stop})
		for _, k := range m.talks {
			k.leave()
		}
	}
}

// begin starts a crew serve.
func (m *model) begin() {
	m.workers, m.most = 1+m.IntN(4), 5+m.IntN(30)
	line := fmt.Sprintf("-j%d --max-queued %d", m.workers, m.most)
	waiting := 0
	if len(m.dirs) == 0 {
		m.jobs = nil
	} else {
		line += " --state " + m.dirs[0]
	}
	if m.jobs == nil {
		m.jobs = map[uint64]*job{}
	}
	m.phase, m.paused, m.talks, m.counts, m.ended = task.StateRunning, false, nil, map[task.Outcome]int64{}, map[uint64]int{}
	for _, j := range m.jobs {
		j.running, j.since, j.due, j.attempt, j.outs = false, 0, time.Time{}, 0, nil
		if j.left || j.outcome == 0 {
			j.left, j.outcome = false, 0
			waiting++
		}
		if j.earlier = j.outcome != 0; j.rank == lent {
			j.rank = 0
		}
	}
	for _, j := range m.sorted() {
		m.lends(j)
	}
	m.note("serve %s", line)
	m.served = serve(m.t, line)
	for _, j := range m.sorted() {
		if j.waits() {
			m.forgoes(j)
		}
	}
	m.settle()
	require.Equal(m.t, waiting, m.left, "tasks of an earlier crew serve")
}

// note records an action for the log.
func (m *model) note(format string, args ...any) {
	m.did = append(m.did, fmt.Sprintf(format, args...))
}

// sorted returns the jobs by number.
func (m *model) sorted() (list []*job) {
	for _, id := range slices.Sorted(maps.Keys(m.jobs)) {
		list = append(list, m.jobs[id])
	}
	return list
}

// follows reports whether a job waits for others to end.
func (m *model) follows(j *job) bool {
	return j.waits() && slices.ContainsFunc(j.after, func(id uint64) bool { return m.jobs[id] != nil && m.jobs[id].outcome == 0 })
}

// lends gives the rank of a job that was moved to the front to the jobs that it comes after.
func (m *model) lends(j *job) {
	for _, id := range j.after {
		if k := m.jobs[id]; k != nil && j.outcome+k.outcome == 0 && j.rank < 0 && k.rank == 0 {
			k.rank, k.since = lent, 0
			m.lends(k)
		}
	}
}

// stops records the output of an attempt that has ended.
func (m *model) stops(j *job) {
	j.running = false
	j.last = fmt.Sprintf("%s, attempt %d\n", j.label, j.attempt)
	j.outs = append(j.outs, j.last)
}

// ends records that a job has ended, and that the jobs after it do not run if it failed.
func (m *model) ends(j *job, o task.Outcome) {
	j.outcome, j.running = o, false
	m.counts[o]++
	m.ended[j.id] = m.step
	if o == task.OK || m.phase >= task.StateDraining {
		return
	}
	for _, k := range m.sorted() {
		if k.waits() && slices.Contains(k.after, j.id) {
			k.last = ""
			m.ends(k, task.NotRun)
		}
	}
}

// latest returns the latest retry of a job, or the job itself.
func (m *model) latest(id uint64) *job {
	j := m.jobs[id]
	for j != nil && j.again > 0 {
		j = m.jobs[j.again]
	}
	return j
}

// addFollowers adds jobs that did not run because they come after chosen jobs.
func (m *model) addFollowers(chosen map[uint64]bool) {
	if len(chosen) == 0 {
		return
	}
	for _, j := range m.sorted() {
		named := func(id uint64) bool { return chosen[id] }
		failed := func(id uint64) bool {
			l := m.latest(id)
			return !chosen[id] && l.outcome != 0 && l.outcome != task.OK
		}
		if j.outcome == task.NotRun && j.again == 0 && slices.ContainsFunc(j.after, named) && !slices.ContainsFunc(j.after, failed) {
			chosen[j.id] = true
		}
	}
}

// renew records that a job is retried under another number.
func (m *model) renew(j *job, id uint64, named bool) {
	k := &job{id: id, label: j.label, key: j.key, note: j.note}
	for _, id := range j.after {
		if l := m.latest(id); l.outcome == 0 || l.id != id && l.outcome == task.OK {
			k.after = append(k.after, l.id)
		}
	}
	if !named {
		k.at, k.held = j.at, j.held
	}
	j.again = id
	m.enters(k)
}

// enters records a new job.
func (m *model) enters(j *job) {
	require.Nil(m.t, m.jobs[j.id], "number %d is given twice", j.id)
	require.LessOrEqual(m.t, j.id, uint64(len(m.jobs)+40), "numbers are left out")
	m.jobs[j.id] = j
	m.forgoes(j)
}

// forgoes marks a job as not run if it comes after a job that failed, or that was refused after it got a number.
func (m *model) forgoes(j *job) {
	for _, id := range j.after {
		if k := m.jobs[id]; k == nil || !j.left && k.outcome != 0 && k.outcome != task.OK {
			m.ends(j, task.NotRun)
			return
		}
	}
}

// room returns how many tasks may be added.
func (m *model) room() int {
	n := m.most
	if !m.paused {
		n += m.free()
	}
	for _, j := range m.jobs {
		if j.waits() {
			n--
		}
	}
	return n
}

// free returns the number of idle workers. Workers that were removed during an attempt had the highest numbers.
func (m *model) free() int {
	n := m.workers
	for _, j := range m.jobs {
		if j.running && j.worker <= m.workers {
			n--
		}
	}
	return n
}

// hear records the tasks of new additions.
func (m *model) hear() {
	var fresh []*expected
	for _, k := range m.talks {
		if !k.took && k.first() != nil {
			fresh = append(fresh, k)
		}
	}
	first := func(k *expected) uint64 { return append(k.first().Tasks, 1<<63)[0] }
	slices.SortStableFunc(fresh, func(a, b *expected) int { return int(int64(first(a)) - int64(first(b))) })
	for _, k := range fresh {
		k.took = true
		m.take(k, len(fresh) == 1)
	}
}

// take records the tasks of an addition, or checks the reason why it was refused.
func (m *model) take(k *expected, alone bool) {
	a, reply := k.req.Add, k.first()
	n := len(a.Values) - 1
	if reply.Error != "" {
		said := string(reply.Error)
		switch {
		case m.phase >= task.StateFinishing:
			require.True(m.t, reply.Status == statusBusy || reply.Over || k.late || n > m.most, said)
		case strings.Contains(said, "there is no task"):
			require.True(m.t, k.late)
		default:
			require.True(m.t, n > m.most || n > m.room() || !alone, said) // other additions may have taken the room first
			require.Equal(m.t, n <= m.most, reply.Status == statusBusy, said)
		}
		return
	}
	require.Len(m.t, reply.Tasks, n)
	require.True(m.t, m.phase < task.StateFinishing || n == 0 || k.since == m.step)
	for i, id := range reply.Tasks {
		j := &job{id: id, label: strings.Fields(string(a.Values[i+1]))[1], note: string(a.Note), after: a.After, at: a.At}
		if a.Key != nil {
			j.key = string(*a.Key)
		}
		k.jobs = append(k.jobs, j)
		m.enters(j)
	}
}

// settle waits until nothing more happens, and compares the run with the model.
func (m *model) settle() {
	time.Sleep(20 * time.Millisecond) // events come in batches
	synctest.Wait()
	m.step++
	m.hear()
	m.starts()
	m.talks = slices.DeleteFunc(m.talks, func(k *expected) bool {
		m.check(k)
		return k.over() != nil
	})
}

// starts compares the running tasks with those that may run.
func (m *model) starts() {
	now := time.Now()
	var ready, fresh []*job
	running, turns := 0, m.now()
	for _, j := range m.sorted() {
		can := j.waits() && !j.held && !j.at.After(now) && !j.due.After(now) && !m.follows(j) && m.phase < task.StateDraining
		if !can {
			j.since = 0
		} else if j.since == 0 {
			j.since = m.step
		}
		w := turns[j.id]
		switch {
		case w == nil:
			require.False(m.t, j.running, "task %d does not run", j.id)
			if can {
				ready = append(ready, j)
			}
			continue
		case !j.running:
			require.True(m.t, can, "task %d runs", j.id)
			require.Equal(m.t, []any{j.label, j.note}, []any{w.Task.Argv[1], string(w.Task.Terms().Note)})
			require.True(m.t, j.attempt == 0 || w.Number == j.attempt+1, "attempt %d after %d", w.Number, j.attempt)
			require.Equal(m.t, j.key != "", w.Task.Timeout == time.Hour && w.Task.Dir == "/tmp" && len(w.Task.Env) == 2 && w.Task.Env[0] == "A=\xff")
			m.began(j, w)
			require.LessOrEqual(m.t, j.worker, m.workers)
			fresh = append(fresh, j)
		}
		running++
	}
	require.Len(m.t, turns, running)
	require.GreaterOrEqual(m.t, m.free(), 0, "more run than there are workers")
	if len(ready) > 0 && !m.paused {
		require.Zero(m.t, m.free(), "task %d could run", ready[0].id)
	}
	for _, j := range fresh {
		require.False(m.t, m.paused)
		for _, k := range ready {
			before := k.rank < j.rank || k.rank == j.rank && k.since < j.since
			// A task that becomes due during a pause is queued after the pause.
			require.False(m.t, before && k.since < m.step && k.due.IsZero(), "task %d starts before %d", j.id, k.id)
		}
	}
}

// began records that an attempt has started.
func (m *model) began(j *job, w *fakeTurn) {
	j.running, j.attempt, j.worker = true, w.Number, w.Slot.ID
}

// check compares the replies to a client so far with the model.
func (m *model) check(k *expected) {
	over := k.over()
	k.mu.Lock()
	defer k.mu.Unlock()
	told, open, ran, began := map[uint64]task.Outcome{}, false, map[uint64]bool{}, map[[2]int]bool{}
	var out strings.Builder
	for _, r := range k.replies {
		for _, f := range r.Ended {
			require.Zero(m.t, told[f.Task], "it is told twice")
			told[f.Task] = f.Outcome
		}
		out.Write(r.Data)
		if r.Event != nil && r.Name == "finished" {
			require.False(m.t, ran[r.Task], "it is told twice")
			ran[r.Task] = true
		}
		if start := [2]int{int(r.Task), r.Attempt}; r.Event != nil && r.Name == "started" {
			require.False(m.t, ran[r.Task] || began[start], "it is told twice, or after its end")
			began[start], began[[2]int{start[0]}] = true, true
		}
	}
	for _, j := range k.jobs {
		open = open || j.outcome == 0
	}
	failed := over != nil && over.Error != ""
	switch op := k.req.Op; {
	case op == "watch":
		before := len(k.replies) > 0 && k.replies[0].Run != nil // false if the run was over
		for id, step := range m.ended {
			forgotten := m.jobs[id].outcome > task.Exit || m.queue == nil && len(m.ended) > 50
			must := step > k.since || before && !forgotten
			may := step >= k.since || before // the client may have connected before the event reached it
			require.True(m.t, (ran[id] || !must) && (may || !ran[id]), "whether task %d ended", id)
		}
		for _, j := range k.jobs {
			require.True(m.t, !before || began[[2]int{int(j.id)}] || ran[j.id], "task %d ran", j.id)
		}
	case op == "wait" && len(k.jobs) < len(k.req.Tasks):
		require.True(m.t, failed || open && over == nil) // a number may belong to a task that was refused
	case op == "wait":
		require.Equal(m.t, open, over == nil, "%v", over)
		for _, j := range k.jobs {
			unknown := j.earlier || j.left || failed && over.Over || m.queue == nil && len(m.ended) > 50
			require.True(m.t, told[j.id] == j.outcome || (failed || open) && unknown, "task %d: %v, not %v", j.id, told[j.id], j.outcome)
		}
	case op == "add" && k.req.Wait && len(k.jobs) > 0:
		require.Equal(m.t, open, over == nil)
		for _, j := range k.jobs {
			require.True(m.t, open || told[j.id] == j.outcome)
		}
	case op == "log" && k.req.Follow && len(k.jobs) > 0 && over != nil && !failed:
		j := k.jobs[0]
		require.Equal(m.t, j.outcome, told[j.id])
		if want := strings.Join(j.outs[min(k.from, len(j.outs)):], ""); !j.earlier {
			require.Equal(m.t, k.last+want, out.String())
		}
	}
}

// some returns up to most numbers of tasks, mostly of tasks that have not ended. Some may not exist.
func (m *model) some(most int) (ids []uint64) {
	all := m.sorted()
	open := slices.DeleteFunc(slices.Clone(all), func(j *job) bool { return j.outcome != 0 })
	for range 1 + m.IntN(most) {
		id := uint64(len(all) + 1 + m.IntN(2))
		switch n := m.IntN(20); {
		case n > 4 && len(open) > 0:
			id = open[m.IntN(len(open))].id
		case n > 0 && len(all) > 0:
			id = all[m.IntN(len(all))].id
		}
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// begins sends a request.
func (m *model) begins(r control.Request) *expected {
	k := &expected{talk: m.says("", r), since: m.step, took: r.Op != "add"}
	k.late = r.Add != nil && slices.ContainsFunc(r.Add.After, func(id uint64) bool { return m.jobs[id] == nil })
	m.note("%s", strings.TrimSpace(textOf(r)))
	m.talks = append(m.talks, k)
	return k
}

// ask makes a request that is answered at once.
func (m *model) ask(r control.Request) *control.Reply {
	k := m.begins(r)
	synctest.Wait()
	last := k.over()
	require.NotNil(m.t, last, "no answer")
	return last
}

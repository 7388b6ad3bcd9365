package core

import (
	"time"

	"crew/runner/decide/task"
	"crew/sched"
)

const (
	// asideTasks and asideBytes bound the tasks that wait outside the read-ahead, for example for a
	// retry or a limit. If Queue.Bytes is larger, it takes the place of asideBytes.
	asideTasks = 32 << 10
	asideBytes = 16 << 20
	// agingStep is how many starts lower the priority of all later tasks by one, while priorities
	// differ. So no task waits forever.
	agingStep = 64
)

// queue holds the waiting tasks, and counts the tasks in each state.
type queue struct {
	entries   map[uint64]*entry // the core's
	count     [states]int       // tasks by state
	bytes     [states]int       // their sizes by state
	ready     *sched.Dispatcher // chooses among the tasks that are queued or parked
	blockedBy sched.Wait        // why none of these starts
	askAgain  time.Time         // when to ask ready again; zero for never
	caps      caps
	due       sched.Delay   // when delayed tasks continue, and timed ones are checked
	succeeded *sched.Ranges // IDs of the tasks that have succeeded; nil if no task can come after another
	makers    makers
	failed    failedTasks // empty without Feed.Remember
	paused    bool
	halted    bool // paused by Config.Halt

	pushes                  int64 // calls of push
	edits                   int64 // holds, releases and moves
	lowestRank, highestRank int64 // given by hand so far
	lowest, highest         int64 // ranks of priorities since no task waited
	agingStarts             int64 // starts while these ranks differed
}

// setState moves a task to another state.
func (q *queue) setState(e *entry, s state) {
	q.count[e.state]--
	q.bytes[e.state] -= e.size
	e.state = s
	q.count[s]++
	q.bytes[s] += e.size
}

// aside returns the number and total size of the tasks that wait outside the read-ahead.
func (q *queue) aside() (n, bytes int) {
	for _, s := range [...]state{parked, following, held, timed, delayed} {
		n += q.count[s]
		bytes += q.bytes[s]
	}
	return n, bytes
}

// waiting returns the number of waiting tasks.
func (q *queue) waiting() int {
	n, _ := q.aside()
	return q.readAhead() + n
}

// readAhead returns the number of tasks in the read-ahead.
func (q *queue) readAhead() int { return q.count[queued] + q.count[checking] }

// push queues a task. It returns false if no slot would ever take it.
func (q *queue) push(e *entry) bool {
	q.pushes++
	e.nth = q.pushes
	q.setState(e, queued)
	if e.cameBack && e.recalled {
		q.ready.Return(&e.item)
		return true
	}
	return q.ready.Push(&e.item)
}

// age returns the rank of a task that is read now, given the rank of its priority.
func (q *queue) age(rank int64) int64 {
	if q.waiting() == 0 {
		q.lowest, q.highest = rank, rank
	}
	q.lowest, q.highest = min(q.lowest, rank), max(q.highest, rank)
	return rank + q.agingStarts/agingStep
}

// park notes that a queued task was parked, or a parked one queued again.
func (q *queue) park(it *sched.Item, park bool) {
	s := queued
	if park {
		s = parked
	}
	q.setState(q.entries[it.ID], s)
}

// delay makes a task wait for its next attempt until due.
func (q *queue) delay(e *entry, due time.Time) {
	q.setState(e, delayed)
	e.due = due
	q.due.Push(&e.timer, due)
}

// unqueue removes a waiting task from the structure that it waits in. Under a serial policy, a task
// that has begun still blocks the others of its key.
func (q *queue) unqueue(e *entry) {
	e.timer.Stop()
	if e.state == queued || e.state == parked {
		q.ready.Remove(&e.item)
	}
}

// remove removes a waiting task for good.
func (q *queue) remove(e *entry) {
	e.timer.Stop()
	q.ready.Remove(&e.item) // it may still block its key
}

// failedTasks holds the latest tasks that have ended and can be run again, oldest first.
type failedTasks struct {
	tasks map[uint64]failedTask
	order []uint64
	bytes int
}

type failedTask struct {
	task    *task.Task
	outcome task.Outcome
	code    int
	attempt int
	rerunAs uint64 // the ID under which it was run again; 0 if it was not
}

// remember adds a task. It drops the oldest ones if there are too many.
func (m *failedTasks) remember(r *task.Result, t *task.Task) {
	m.tasks[t.ID] = failedTask{task: t, outcome: r.Outcome, code: r.Code, attempt: r.Attempt}
	m.order = append(m.order, t.ID)
	m.bytes += t.Size()
	for len(m.order) > asideTasks || m.bytes > asideBytes && len(m.order) > 1 {
		m.bytes -= m.tasks[m.order[0]].task.Size()
		delete(m.tasks, m.order[0])
		m.order = m.order[1:]
	}
}

// markRerun records that t, which has Asked terms, may run an earlier task again.
func (m *failedTasks) markRerun(t *task.Task) {
	if was, ok := m.tasks[t.Asked.RerunOf]; ok {
		was.rerunAs = t.ID
		m.tasks[t.Asked.RerunOf] = was
	}
}

// latestRun returns the ID under which a task was last run again, or its own if it was not.
func (m *failedTasks) latestRun(id uint64) uint64 {
	for m.tasks[id].rerunAs > 0 {
		id = m.tasks[id].rerunAs
	}
	return id
}

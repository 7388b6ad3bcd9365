package journal

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"crew/runner/decide/task"
)

// Queue configures the journal of a queue. Such a journal holds whole tasks with their
// environments, so only the user can read it. A task that it has accepted is not lost,
// and runs again only if an attempt was running when crew was killed or stopped.
type Queue struct {
	Keep time.Duration // how long a task is remembered after its end, at least
}

// queue is the ID of a queue.
type queue int64

// identity returns the identity of the task that was given a number. The number
// comes first because the table hashes the first bytes.
func (q queue) identity(number uint64) (id identity) {
	binary.LittleEndian.PutUint64(id[:8], number)
	binary.LittleEndian.PutUint64(id[8:], uint64(q))
	return id
}

// numberOf returns the number that q.identity was given.
func numberOf(id identity) uint64 { return binary.LittleEndian.Uint64(id[:8]) }

// LastID returns the highest number that earlier runs gave to a task of the queue.
func (j *Journal) LastID() uint64 { return j.past.last }

// LastDelivery returns the ID of what Accept was last given with one, in this run or an earlier one; "" for none.
func (j *Journal) LastDelivery() string { return j.door }

// Accept records whole tasks, which have their IDs, and sets their Identities. When
// it returns, they are on disk. Each call costs a sync, so callers that have several
// tasks should bring them at once. If Accept returns an error, none of the tasks was
// accepted; if the disk failed, nothing is recorded any more, and the sinks return
// the error, too. With a door, which is the ID of what brings some of them, a crash leaves all of
// the tasks and the ID, or none of them. That costs a second sync. The tasks ascend by ID.
func (j *Journal) Accept(tasks []*task.Task, door string) error {
	for _, t := range tasks {
		t.Identity = j.queue.identity(t.ID)
	}
	var err error
	if door != "" {
		err = cmp.Or(j.append(false, func(b []byte) []byte {
			b = task.AppendInt(begin(b, evDoor), "from", int64(tasks[0].ID))
			b = task.AppendInt(task.AppendInt(b, "to", int64(tasks[len(tasks)-1].ID)), "tasks", int64(len(tasks)))
			return task.AppendText(b, "door", door)
		}), j.sync())
	}
	if err = cmp.Or(err, j.Change(tasks)); err != nil {
		_ = j.Withdraw(tasks) // they may be on disk all the same
	} else if door != "" {
		j.door = door
	}
	return err
}

// Change records new versions of tasks that were accepted and wait. When it returns nil, they
// are on disk.
func (j *Journal) Change(tasks []*task.Task) error {
	err := cmp.Or(j.whole(tasks), j.sync())
	if err == nil {
		j.compactIfWasteful()
	}
	return err
}

// whole writes the lines of tasks.
func (j *Journal) whole(tasks []*task.Task) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	from, now := len(j.waiting), time.Now()
	var env []byte
	var last []string
	var err error
	for _, t := range tasks {
		if t.Bare && (env == nil || !same(t.Env, last)) {
			last, env = t.Env, packEnv(t.Env)
		}
		if j.waiting, err = appendWhole(j.waiting, t, env, now); err != nil {
			j.waiting = j.waiting[:from]
			return err
		}
	}
	return j.flush()
}

// same reports whether two slices are the same memory.
func same(a, b []string) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }

// Withdraw forgets tasks that were accepted and that the run refused. When it
// returns, that is on disk.
func (j *Journal) Withdraw(tasks []*task.Task) error {
	ids := make([]identity, len(tasks))
	for i, t := range tasks {
		ids[i] = t.Identity
	}
	j.appendNotes(appendNotes(nil, evWithdrawn, ids))
	return j.sync()
}

// Succeeded returns the numbers of the tasks that have, as far as they are kept, in ranges
// that ascend, both ends included. It is called before QueueTasks is used.
func (j *Journal) Succeeded() (ranges [][2]uint64) {
	var numbers []uint64
	for e := range j.past.table.all {
		if e.has(done) && e.outcome.Succeeded() {
			numbers = append(numbers, numberOf(e.id))
		}
	}
	slices.Sort(numbers)
	for _, n := range numbers {
		if last := len(ranges) - 1; last >= 0 && ranges[last][1]+1 == n {
			ranges[last][1] = n
		} else {
			ranges = append(ranges, [2]uint64{n, n})
		}
	}
	return ranges
}

// QueueTasks iterates over the tasks that earlier runs of the queue have left, ascending
// by ID. Those that have ended have Done set; those that have succeeded and were
// shown are left out, unless they have a name. It must be used once, after ClearLogged and
// Unlogged: then the journal may be compacted.
func (j *Journal) QueueTasks() iter.Seq2[*task.Task, error] {
	return func(yield func(*task.Task, error) bool) {
		table := j.past.table
		var numbers []uint64
		for e := range table.all {
			if e.spec > 0 && !j.past.gone(e) {
				numbers = append(numbers, numberOf(e.id))
			}
		}
		slices.Sort(numbers)
		envs := map[string][]string{}
		for _, n := range numbers {
			e := *table.find(j.queue.identity(n))
			t, err := j.restore(&e, envs)
			if err == nil {
				err = table.err
			}
			if err != nil {
				yield(nil, fmt.Errorf("read task %d of the queue: %w", n, err))
				return
			}
			if !yield(t, nil) {
				return
			}
		}
		table.close()
		j.mu.Lock()
		j.compactor.ready = true
		j.mu.Unlock()
	}
}

// restore returns the task of an entry. envs holds the environments read so far, as they are
// packed.
func (j *Journal) restore(e *entry, envs map[string][]string) (*task.Task, error) {
	t := &task.Task{ID: numberOf(e.id), Identity: e.id, Attempts: int(e.attempts)}
	rec, err := readRecord(j.past.file, e.spec)
	if err == nil && rec.Spec == nil {
		err = errDamagedRecord
	}
	if err == nil {
		rec.Spec.fill(t)
	}
	if err == nil && t.Bare {
		packed := string(rec.Environment)
		if envs[packed] == nil {
			envs[packed], err = unpackEnv(rec.Environment)
		}
		t.Env = envs[packed]
	}
	if errors.Is(err, errDamagedRecord) {
		t.Err, err = err, nil
	}
	if t.Makes != nil && e.flags&(done|begun) != 0 {
		t.Makes.Known = task.KnownUnmade // the files of other tasks of a queue go by their times
	}
	if e.has(done) {
		j.recallEnded(t, e)
	} else {
		t.Failures = int32(e.failures)
		j.past.restoreTries(t)
	}
	return t, err
}

// recallEnded sets the result of a task that has ended. It is to be shown if it was
// not; Resume.Recall brings it along in any case. If it is damaged although nobody has
// seen it, the task runs again, unless the user has cancelled it.
func (j *Journal) recallEnded(t *task.Task, e *entry) {
	t.Done = e.result(t)
	if (j.cfg.Resume.Recall || !e.has(shown|logged)) && e.reusable() {
		switch r, err := j.recall(t, e); {
		case err == nil:
			t.Done = r
		case e.has(shown) || !finishes(e.outcome):
			j.cfg.Notice(fmt.Sprintf("task %d has ended but is not shown: %v", t.ID, err))
		default:
			j.cfg.Notice(fmt.Sprintf("task %d runs again: %v", t.ID, err))
			t.Done = nil
			return
		}
	}
	t.Done.Final = !finishes(e.outcome)
}

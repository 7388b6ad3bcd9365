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

// Queue configures the journal of a queue. Such a journal holds whole tasks with their environments,
// so only the user can read it. An accepted task is never lost, and runs twice only if an attempt was
// running when crew was killed or stopped.
type Queue struct {
	Keep time.Duration // minimum time that an ended task is remembered
}

// queueID is the ID of a queue.
type queueID int64

// identity returns the identity of the task with the given number. The number comes first, because
// the table hashes the first bytes.
func (q queueID) identity(number uint64) (id identity) {
	binary.LittleEndian.PutUint64(id[:8], number)
	binary.LittleEndian.PutUint64(id[8:], uint64(q))
	return id
}

// numberOf is the inverse of queueID.identity.
func numberOf(id identity) uint64 { return binary.LittleEndian.Uint64(id[:8]) }

// LastID returns the highest task number that earlier runs of the queue used.
func (j *Journal) LastID() uint64 { return j.contents.last }

// Delivered reports whether a delivery with an ID was accepted, in this run or an earlier one. It
// remembers the last maxDeliveries.
func (j *Journal) Delivered(id string) bool { return slices.Contains(j.deliveries, id) }

// maxDeliveries is how many deliveries are remembered.
const maxDeliveries = 4096

// deliveries are the IDs of the last deliveries.
type deliveries []string

func (d *deliveries) add(id string) { *d = append((*d)[max(0, len(*d)-maxDeliveries+1):], id) }

// Accept records whole tasks and sets their Identity. The tasks must have ascending IDs. When
// Accept returns, they are on disk. Each call costs a sync, so callers should accept several tasks
// at once. After an error, none of the tasks was accepted. If the disk failed, nothing more is
// recorded, and the sinks return the error, too.
//
// If delivery is not "", it is the ID of the delivery that some of the tasks belong to. After a
// crash, the journal then has either the ID and all of the tasks, or neither.
func (j *Journal) Accept(tasks []*task.Task, delivery string) error {
	for _, t := range tasks {
		t.Identity = j.queueID.identity(t.ID)
	}
	err := j.change(tasks, delivery)
	if err != nil { // they may be on disk nevertheless
		j.appendNotes(seal(appendDelivery(nil, delivery, -1), 0))
		_ = j.Withdraw(tasks)
	} else if delivery != "" {
		j.deliveries.add(delivery)
	}
	return err
}

// Change records new versions of accepted tasks that are waiting. When it returns nil, they are on
// disk.
func (j *Journal) Change(tasks []*task.Task) error { return j.change(tasks, "") }

func (j *Journal) change(tasks []*task.Task, delivery string) error {
	err := cmp.Or(j.writeTasks(tasks, delivery), j.sync())
	if err == nil {
		j.compactIfWasteful()
	}
	return err
}

// writeTasks writes the lines of whole tasks, which belong to a delivery unless that is "".
func (j *Journal) writeTasks(tasks []*task.Task, delivery string) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	from, now := len(j.pending), time.Now()
	var env []byte
	var last []string
	var err error
	for _, t := range tasks {
		if t.Bare && (env == nil || !sameMemory(t.Env, last)) {
			last, env = t.Env, packEnv(t.Env)
		}
		if j.pending, err = appendAccepted(j.pending, t, env, now, delivery != ""); err != nil {
			j.pending = j.pending[:from]
			return err
		}
	}
	if delivery != "" {
		from = len(j.pending)
		j.pending = seal(appendDelivery(j.pending, delivery, len(tasks)), from)
	}
	return j.flushLocked()
}

// appendDelivery appends the body of a line about a delivery of n tasks, which are before it. -1 means
// that it has failed.
func appendDelivery(b []byte, id string, n int) []byte {
	return task.AppendText(task.AppendInt(beginLine(b, evDelivery), "tasks", int64(n)), "door", id)
}

// sameMemory reports whether two slices have the same elements in memory.
func sameMemory(a, b []string) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }

// Withdraw forgets accepted tasks that the run has refused. When it returns nil, that is on disk.
func (j *Journal) Withdraw(tasks []*task.Task) error {
	ids := make([]identity, len(tasks))
	for i, t := range tasks {
		ids[i] = t.Identity
	}
	j.appendNotes(appendNotes(nil, evWithdrawn, ids))
	return j.sync()
}

// Succeeded returns the numbers of remembered tasks that succeeded, as ascending ranges with both
// ends included. Call it before QueueTasks.
func (j *Journal) Succeeded() (ranges [][2]uint64) {
	for _, n := range j.numbers(func(e *entry) bool { return e.has(done) && e.outcome.Succeeded() }) {
		if last := len(ranges) - 1; last >= 0 && ranges[last][1]+1 == n {
			ranges[last][1] = n
		} else {
			ranges = append(ranges, [2]uint64{n, n})
		}
	}
	return ranges
}

// numbers returns the numbers of the tasks with the wanted entries, in order.
func (j *Journal) numbers(wanted func(*entry) bool) (list []uint64) {
	for e := range j.contents.table.all {
		if wanted(e) {
			list = append(list, numberOf(e.id))
		}
	}
	slices.Sort(list)
	return list
}

// QueueTasks iterates over the tasks that earlier runs of the queue left, in the order of their
// IDs. Ended tasks have Done set. Tasks that succeeded are left out once their results have been shown
// and logged, unless they have a name or are reruns. Use it once, after ClearLogged and Unlogged, because it allows
// the journal to be compacted.
func (j *Journal) QueueTasks() iter.Seq2[*task.Task, error] {
	return func(yield func(*task.Task, error) bool) {
		table := j.contents.table
		envs := map[string][]string{}
		for _, n := range j.numbers(func(e *entry) bool { return e.spec > 0 && !j.contents.droppable(e) }) {
			e := *table.find(j.queueID.identity(n))
			t, err := j.restoreTask(&e, envs)
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

// restoreTask returns the task of an entry. envs caches the environments by their packed form.
func (j *Journal) restoreTask(e *entry, envs map[string][]string) (*task.Task, error) {
	t := &task.Task{ID: numberOf(e.id), Identity: e.id, Attempts: int(e.attempts)}
	rec, err := readRecord(j.contents.file, e.spec)
	if err == nil && rec.Spec == nil {
		err = errDamagedRecord
	}
	if err == nil {
		if rec.Spec.fill(t); t.Bare {
			packed := string(rec.Environment)
			if envs[packed] == nil {
				envs[packed], err = unpackEnv(rec.Environment)
			}
			t.Env = envs[packed]
		}
	}
	if errors.Is(err, errDamagedRecord) {
		t.Err, err = err, nil
	}
	if t.Makes != nil && e.flags&(done|begun) != 0 {
		t.Makes.Known = task.KnownUnmade // for files of other tasks of a queue, only their times count
	}
	if e.has(done) {
		j.restoreResult(t, e)
	} else {
		j.contents.restorePrior(t)
	}
	return t, err
}

// restoreResult sets t.Done to the result of an ended task. It loads the full result if it was not
// shown and logged yet, or if Resume.Recall is set. If a result that was not shown is damaged, the
// task runs again, unless it was cancelled or never ran.
func (j *Journal) restoreResult(t *task.Task, e *entry) {
	t.Done = e.result(t)
	if (j.cfg.Resume.Recall || !e.has(j.contents.settledFlags)) && e.reusable() {
		switch r, err := j.recall(t, e); {
		case err == nil:
			t.Done = r
		case e.has(shown) || !finishes(e.outcome):
			j.cfg.Notice(fmt.Sprintf("task %d has ended, but its result cannot be shown: %v", t.ID, err))
		default:
			j.cfg.Notice(fmt.Sprintf("task %d runs again: %v", t.ID, err))
			t.Done = nil
			return
		}
	}
	t.Done.Final = !finishes(e.outcome)
}

package engine

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"

	"crew/runner/decide/task"
	"crew/runner/far/address"
	"crew/runner/far/credentials"
	"crew/runner/front/wiring"
	"crew/runner/keep/journal"
)

// detachedRun is a detached run in the process that the hub has started for it. It is a run with
// --state that reads its tasks from a file.
type detachedRun struct {
	runDir
	record    runRecord // as of the start of the process
	tasks     *bufio.Reader
	maxOutput int64 // most bytes of output of all runs

	// set by submit

	*attemptTable
	s  *session
	do func(task.Command) task.Reply

	badTask atomic.Bool // a task could not be read

	saveMu sync.Mutex
	saved  runRecord // as it is on disk

	last uint64 // number of the latest task

	mu         sync.Mutex
	signatures map[uint64]*StoredTask // tasks with signed commands, by number
}

// Submitted submits the detached run in a directory of the hub, which keeps up to maxOutput bytes of
// output of all runs, and returns the exit status. Standard input and output are the connection to the
// hub.
func Submitted(dir, maxOutput string) int {
	d := &detachedRun{runDir: runDir(dir), signatures: map[uint64]*StoredTask{}}
	d.maxOutput, _ = strconv.ParseInt(maxOutput, 10, 64)
	if err := d.open(); err != nil {
		fmt.Fprintln(os.Stderr, "crew:", err)
		return 1
	}
	signal.Ignore(syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM) // the hub gets them, too, and ends this process
	r := &d.record
	base, _ := decode[Attempt](r.Options.Attempts, kindAttempt) // valid has checked it
	b := messageBuilder{base: *base, Job: r.Job}
	b.base.Live = true
	status := wiring.RunDetached(&wiring.DetachedRun{
		Orders: r.Options.Orders, Name: r.Name, Command: r.Job.Command, Tasks: r.Tasks, Paused: r.Paused, State: filepath.Join(dir, stateDir),
		Source: d, Finish: d.saveEnd,
	}, &wiring.Far{Submit: func(sub *wiring.Call) (wiring.Executor, error) { return d.submit(sub, b) }})
	if status == statusUsage || d.badTask.Load() {
		return statusHopeless
	}
	return status
}

// statusUsage is the exit status for a wrong command line, and of a process that panics.
const statusUsage = 2

// open reads the record and opens the files.
func (d *detachedRun) open() (err error) {
	if d.record, err = d.load(); err != nil {
		return err
	}
	tasks, err := d.file(tasksFile)
	if err != nil {
		return err
	}
	d.saved, d.tasks = d.record, bufio.NewReader(tasks)
	return nil
}

// submit returns the executor of the run.
func (d *detachedRun) submit(sub *wiring.Call, b messageBuilder) (wiring.Executor, error) {
	r := &d.record
	owner, err := address.Read(filepath.Join(string(d.runDir), "..", "..", ownerFile))
	if err != nil {
		return nil, err
	}
	gone := func() { os.Exit(1) } // as if killed: the next process continues
	if d.s, err = dial("", sub.Notice, nats.UserInfo(credentials.Owner, owner.Password), dialStdio(0, gone)); err != nil {
		return nil, err
	}
	d.s.setUser(r.User)
	sub.Engine.Queue, sub.Coproc.Window = r.Queue, r.Options.Window
	x := &submitter{detached: d, builder: b}
	if b.Signed {
		x.builder.sign = d.sign
	}
	d.attemptTable, d.do = &x.attempts, sub.Do
	if err = x.start(sub, d.s); err == nil {
		x.every(saveEvery, func() { _ = d.saveProgress() })
	}
	return x, err
}

// saveProgress writes the run's progress to its record, where the hub reads it.
func (d *detachedRun) saveProgress() error {
	reply := d.do(task.Command{Op: task.Look})
	if reply.Err != nil {
		return reply.Err
	}
	return d.saveRecord(&reply.Snapshot.Stats, reply.Snapshot.State == task.StatePaused, nil)
}

// saveEnd writes the end of the run to its record, and why it ended early, if it did.
func (d *detachedRun) saveEnd(s *task.Stats, status int, early string) error {
	return d.saveRecord(s, false, &runEnd{status, task.Bytes(early)})
}

// saveRecord writes the record if it has changed. Nothing follows its end.
func (d *detachedRun) saveRecord(s *task.Stats, paused bool, end *runEnd) error {
	d.saveMu.Lock()
	defer d.saveMu.Unlock()
	r, p := d.saved, Progress{Tasks: d.saved.Tasks, Done: s.Finished(), Failed: s.Failed()}
	if r.End != nil || end == nil && paused == r.Paused && p == *r.Progress {
		return nil
	}
	r.Progress, r.Paused, r.End = &p, paused, end
	err := d.save(&r)
	if err == nil {
		d.saved = r
	}
	return err
}

// Next returns the next task. See runner.Source.
func (d *detachedRun) Next(number func() uint64) (*task.Task, error) {
	id := d.last + 1
	if id > d.record.Tasks {
		return nil, io.EOF
	}
	line := &StoredTask{}
	t, err := readTask(d.tasks, id, line)
	if err != nil {
		d.badTask.Store(true)
		return nil, err
	}
	d.last, t.ID, t.Identity = id, number(), identityOf(id)
	if line.Spec = nil; len(line.Signer) > 0 {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.signatures[id] = line
	}
	return t, nil
}

// readTask reads the task with the number id, and its line into *line.
func readTask(from *bufio.Reader, id uint64, line *StoredTask) (*task.Task, error) {
	t := &task.Task{ID: id}
	err := readLine(from, line)
	if err == nil {
		err = journal.DecodeTask(line.Spec, t)
	}
	if err == nil && t.Makes != nil { // no detached run has such tasks
		err = errGarbage
	}
	if err != nil {
		return nil, fmt.Errorf("read task %d: %w", id, err)
	}
	return t, nil
}

// Buffered reports whether the next task can be read without waiting. See runner.Source.
func (d *detachedRun) Buffered() bool { return true }

// sign adds the signature that the client has made for the task to an attempt, if there is one.
func (d *detachedRun) sign(a *Attempt, _ string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if line := d.signatures[a.Task]; line != nil {
		a.Lasting, a.Expires = true, line.Expires
		copy(a.Signer[:], line.Signer)
		copy(a.Sig[:], line.Sig)
	}
}

// Consume waits while the hub has no room for more results, unless all tasks have ended: once the run is
// over, its results can be fetched, which makes room. See runner.Sink.
func (d *detachedRun) Consume(events []task.Event) error {
	_ = d.attemptTable.Consume(events)
	news := false
	for i := range events {
		if events[i].Kind == task.Finished {
			d.mu.Lock()
			delete(d.signatures, events[i].ID)
			d.mu.Unlock()
			news = true
		}
	}
	for news && d.unfinished() && outputBytes(filepath.Dir(string(d.runDir))) > d.maxOutput {
		d.s.notices.notify(errFull.Error())
		time.Sleep(retryWait)
	}
	return nil
}

// unfinished reports whether some tasks had not ended when the progress was last saved.
func (d *detachedRun) unfinished() bool {
	d.saveMu.Lock()
	defer d.saveMu.Unlock()
	return d.saved.Done < int64(d.saved.Tasks)
}

package engine

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"

	"crew/runner"
	"crew/runner/decide/task"
	"crew/runner/far/address"
	"crew/runner/far/credentials"
	"crew/runner/front/wiring"
	"crew/runner/keep/journal"
)

// detachedRun is a detached run in the process that the hub has started for it. It is a run with
// --state that reads its tasks from a file and appends its results to another one.
type detachedRun struct {
	runDir
	record  runRecord // as of the start of the process
	tasks   *bufio.Reader
	results *os.File

	// set by submit

	submitter *submitter
	s         *session
	do        func(task.Command) task.Reply

	full    atomic.Bool // the hub has no room for more results
	badTask atomic.Bool // a task could not be read

	reportMu sync.Mutex
	latest   report

	mu         sync.Mutex
	last       uint64                 // number of the latest task
	signatures map[uint64]*StoredTask // tasks with signed commands, by number
	cancelErrs map[uint64]error       // why tasks that must not run were cancelled
}

// Submitted submits the detached run in a directory of the hub, and returns the exit status. Standard
// input and output are the connection to the hub.
func Submitted(dir string) int {
	d := &detachedRun{runDir: runDir(dir), signatures: map[uint64]*StoredTask{}, cancelErrs: map[uint64]error{}}
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
		Source: d, Results: d.results, WrapSink: d.syncResults, Do: d.carryOut, Finish: d.recordEnd,
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
	d.tasks = bufio.NewReader(tasks)
	if d.results, err = d.file(resultsFile); err != nil {
		return err
	}
	d.latest.Paused = d.record.Paused
	return nil
}

// recover truncates files that a crash may have cut short, and loads what earlier processes recorded.
// The directory of --state must be locked.
func (d *detachedRun) recover() error {
	whole, err := d.each(func(*Ended, int64) {})
	if err == nil {
		err = d.results.Truncate(whole)
	}
	if err != nil {
		return err
	}
	d.latest.Results = whole
	ended, err := d.file(cancelledFile)
	if err != nil {
		return err
	}
	defer ended.Close()
	whole = 0
	for lines := bufio.NewReader(ended); ; {
		var f task.Facts
		n, err := readLine(lines, &f)
		if err != nil {
			return ended.Truncate(whole)
		}
		d.cancelErrs[f.Task] = errors.New(string(f.Error))
		whole += int64(n)
	}
}

// submit returns the executor of the run.
func (d *detachedRun) submit(sub *wiring.Call, b messageBuilder) (wiring.Executor, error) {
	if err := d.recover(); err != nil {
		return nil, err
	}
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
	x := &submitter{detached: r, builder: b}
	if b.Signed {
		x.builder.sign = d.sign
	}
	d.submitter, d.do = x, sub.Do
	if err = x.start(sub, d.s); err == nil {
		x.every(reportEvery, func() { _ = d.report() })
	}
	return x, err
}

// report reports the run's progress to the hub.
func (d *detachedRun) report() error {
	return d.sendReport(func(r *report) {
		if now := d.do(task.Command{Op: task.Look}).Snapshot; now != nil {
			r.count(&now.Stats)
			r.Paused = now.State == task.StatePaused
		}
	})
}

func (r *report) count(s *task.Stats) { r.Done, r.Failed = s.Finished(), s.Failed() }

// sendReport applies change to the latest report and sends it to the hub.
func (d *detachedRun) sendReport(change func(*report)) error {
	d.reportMu.Lock()
	defer d.reportMu.Unlock()
	change(&d.latest)
	d.latest.Size = max(d.latest.Results, d.journalOutput())
	a, err := d.s.askHub(hubSubject, Order{Op: opReport, ID: ID{Run: d.record.Run}, Report: &d.latest})
	d.full.Store(a.Full)
	return err
}

// journalOutput returns the bytes of output in the journal. A part of it may still be waiting to go to
// the results file.
func (d *detachedRun) journalOutput() (size int64) {
	list, _ := os.ReadDir(filepath.Join(string(d.runDir), stateDir))
	for _, e := range list {
		if info, err := e.Info(); err == nil && strings.HasPrefix(e.Name(), "output.") {
			size += info.Size()
		}
	}
	return size
}

// recordEnd reports the end of the run to the hub, and why it ended early, if it did.
func (d *detachedRun) recordEnd(s *task.Stats, status int, early string) error {
	return d.sendReport(func(r *report) { r.count(s); r.End = &runEnd{status, task.Bytes(early)} })
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
	t.Identity = identityOf(id)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last, t.ID = id, number()
	if why := d.cancelErrs[id]; why != nil {
		t.Done = &task.Result{Task: t, Outcome: task.Cancelled, Err: why, Final: true}
	} else if line.Spec = nil; len(line.Signer) > 0 {
		d.signatures[id] = line
	}
	return t, nil
}

// readTask reads the task with the number id, and its line into *line.
func readTask(from *bufio.Reader, id uint64, line *StoredTask) (*task.Task, error) {
	t := &task.Task{ID: id}
	_, err := readLine(from, line)
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

// carryOut carries out a command. Tasks can be cancelled before they are read. Cancelled tasks, and a
// run that was paused or resumed, stay so in the next process.
func (d *detachedRun) carryOut(cmd task.Command, do func(task.Command) task.Reply) (reply task.Reply) {
	if cmd.Op != task.Cancel {
		if reply = do(cmd); reply.Err == nil && (cmd.Op == task.Pause || cmd.Op == task.Resume) {
			reply.Err = d.report()
		}
		return reply
	}
	unread, rest, err := d.splitUnread(cmd)
	if len(rest) > 0 || len(cmd.IDs) == 0 {
		cmd.IDs = rest
		reply = do(cmd)
	}
	reply.IDs = append(unread, reply.IDs...)
	reply.Err = cmp.Or(err, reply.Err, d.recordCancelled(reply.IDs, cmd.Err))
	return reply
}

// splitUnread splits the IDs of cmd into tasks that were not read yet, which can simply be skipped,
// and the rest, which the run has to cancel.
func (d *detachedRun) splitUnread(cmd task.Command) (unread, rest []uint64, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, id := range cmd.IDs {
		switch {
		case id <= d.last || id > d.record.Tasks:
			rest = append(rest, id)
		case d.cancelErrs[id] != nil:
			err = fmt.Errorf("task %d has ended", id)
		default:
			unread = append(unread, id)
			d.cancelErrs[id] = cmd.Err
		}
	}
	return unread, rest, err
}

// recordCancelled records that tasks were cancelled, except running ones.
func (d *detachedRun) recordCancelled(ids []uint64, why error) error {
	f, err := d.file(cancelledFile)
	if err != nil {
		return err
	}
	defer f.Close()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, id := range ids {
		if d.submitter.attempts.running(id) == nil {
			d.cancelErrs[id] = why
			err = cmp.Or(err, json.NewEncoder(f).Encode(task.Facts{Task: id, Error: task.Bytes(why.Error())}))
		}
	}
	return cmp.Or(err, f.Sync())
}

// syncResults wraps the sink that writes results. After each batch it syncs them to disk and tells the
// hub how many there are.
func (d *detachedRun) syncResults(results runner.Sink) runner.Sink { return &syncedSink{results, d} }

type syncedSink struct {
	runner.Sink
	run *detachedRun
}

// Consume waits while the hub has no room for results. See runner.Sink.
func (k *syncedSink) Consume(events []task.Event) error {
	d := k.run
	for len(events) > 0 && d.full.Load() {
		time.Sleep(retryWait)
		_ = d.sendReport(func(*report) {})
	}
	for i := range events {
		if events[i].Kind == task.Finished {
			d.mu.Lock()
			delete(d.signatures, events[i].ID)
			d.mu.Unlock()
		}
	}
	if err := k.Sink.Consume(events); err != nil {
		return err
	}
	size := d.length(resultsFile)
	if size == d.latest.Results {
		return nil
	}
	err := d.results.Sync()
	if err == nil {
		_ = d.sendReport(func(r *report) { r.Results = size }) // the next report repeats it
	}
	return err
}

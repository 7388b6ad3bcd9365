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

// stored is a run that was handed over, in the process that the hub has started for it. It is a run with
// --state whose tasks come from a file, and whose results go to one.
type stored struct {
	runDir
	record  handed // as it was when the process started
	tasks   *bufio.Reader
	results *os.File

	// once it is submitted

	exec *submitter
	s    *session
	do   func(task.Command) task.Reply

	full    atomic.Bool // the hub has no room for more results
	garbage atomic.Bool // a task cannot be read

	telling sync.Mutex
	now     report

	mu        sync.Mutex
	next      uint64             // number of the latest task
	signed    map[uint64]*Stored // tasks that bring commands
	cancelled map[uint64]error   // tasks that are not to run again, and why
}

// Submitted submits a run that was handed over, of which a hub has what there is in a directory, and
// returns the exit status. The hub is at the other end of standard input and output.
func Submitted(dir string) int {
	st := &stored{runDir: runDir(dir), signed: map[uint64]*Stored{}, cancelled: map[uint64]error{}}
	if err := st.open(); err != nil {
		fmt.Fprintln(os.Stderr, "crew:", err)
		return 1
	}
	signal.Ignore(syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM) // the hub, which gets them, too, decides
	r := &st.record
	k := makerOf(&r.Terms.Load)
	k.template, k.live = r.Terms.Template, true
	status := wiring.RunDetached(&wiring.DetachedRun{
		Orders: r.Terms.Orders, Name: r.Name, Command: k.text, Tasks: r.Tasks, Paused: r.Paused, State: filepath.Join(dir, stateDir),
		Source: st, Results: st.results, WrapSink: st.keep, Do: st.door, Finish: st.over,
	}, &wiring.Far{Submit: func(sub wiring.Submission) (wiring.Executor, error) { return st.submit(sub, k) }})
	if status == statusUsage || st.garbage.Load() {
		return statusNever
	}
	return status
}

// statusUsage is the exit status of a command line that is wrong, as of a process that panics.
const statusUsage = 2

// open opens the files.
func (st *stored) open() (err error) {
	if st.record, err = st.load(); err != nil {
		return err
	}
	tasks, err := st.file(tasksFile)
	if err != nil {
		return err
	}
	st.tasks = bufio.NewReader(tasks)
	if st.results, err = st.file(resultsFile); err != nil {
		return err
	}
	st.now.Paused = st.record.Paused
	return nil
}

// settle goes on with what an earlier process has left, which a crash may have cut. The state is locked.
func (st *stored) settle() error {
	whole, err := st.each(func(*Ended, int64) {})
	if err == nil {
		err = st.results.Truncate(whole)
	}
	if err != nil {
		return err
	}
	st.now.Results = whole
	ended, err := st.file(cancelledFile)
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
		st.cancelled[f.Task] = errors.New(string(f.Error))
		whole += int64(n)
	}
}

// submit returns the executor of the run.
func (st *stored) submit(sub wiring.Submission, k maker) (wiring.Executor, error) {
	if err := st.settle(); err != nil {
		return nil, err
	}
	r, t := &st.record, &st.record.Terms
	owner, err := address.Read(filepath.Join(string(st.runDir), "..", "..", ownerFile))
	if err != nil {
		return nil, err
	}
	gone := func() { os.Exit(1) } // as if it was killed: the next process goes on
	if st.s, err = dial("", sub.Notice, nats.UserInfo(credentials.Owner, owner.Password), dialStdio(0, gone)); err != nil {
		return nil, err
	}
	st.s.is(r.User)
	sub.Load, sub.Queue = t.Load, r.Queue
	x := &submitter{handed: r, maker: k}
	if k.commands {
		x.maker.sign = st.sign
	}
	st.exec, st.do = x, sub.Do
	if err = x.start(sub, st.s); err == nil {
		x.each(reportEvery, func() { _ = st.report() })
	}
	return x, err
}

// report has the hub know how far the run is.
func (st *stored) report() error {
	return st.tell(func(r *report) {
		if now := st.do(task.Command{Op: task.Look}).Snapshot; now != nil {
			r.count(&now.Stats)
			r.Paused = now.State == task.Paused
		}
	})
}

func (r *report) count(s *task.Stats) { r.Done, r.Failed = s.Finished(), s.Failed() }

// tell tells the hub what is known, with a change.
func (st *stored) tell(change func(*report)) error {
	st.telling.Lock()
	defer st.telling.Unlock()
	change(&st.now)
	st.now.Size = max(st.now.Results, st.held())
	a, err := st.s.askHub(hubSubject, Order{Op: opReport, ID: ID{Run: st.record.Run}, Report: &st.now})
	st.full.Store(a.Full)
	return err
}

// held returns how much output the journal has, of which some may wait for its turn.
func (st *stored) held() (size int64) {
	list, _ := os.ReadDir(filepath.Join(string(st.runDir), stateDir))
	for _, e := range list {
		if info, err := e.Info(); err == nil && strings.HasPrefix(e.Name(), "output.") {
			size += info.Size()
		}
	}
	return size
}

// over has it be on record that the run is over, and why early, if it is.
func (st *stored) over(s *task.Stats, status int, early string) error {
	return st.tell(func(r *report) { r.count(s); r.Over = &over{status, task.Bytes(early)} })
}

// Next returns the next task. See runner.Source.
func (st *stored) Next(number func() uint64) (*task.Task, error) {
	id := st.next + 1
	if id > st.record.Tasks {
		return nil, io.EOF
	}
	line := &Stored{}
	t, err := readTask(st.tasks, id, line)
	if err != nil {
		st.garbage.Store(true)
		return nil, err
	}
	t.Identity = identityOf(id)
	st.mu.Lock()
	defer st.mu.Unlock()
	st.next, t.ID = id, number()
	if why := st.cancelled[id]; why != nil {
		t.Done = &task.Result{Task: t, Outcome: task.Cancelled, Err: why, Final: true}
	} else if line.Spec = nil; len(line.Signer) > 0 {
		st.signed[id] = line
	}
	return t, nil
}

// readTask reads the task with a number.
func readTask(from *bufio.Reader, id uint64, line *Stored) (*task.Task, error) {
	t := &task.Task{ID: id}
	_, err := readLine(from, line)
	if err == nil {
		err = journal.DecodeTask(line.Spec, t)
	}
	if err == nil && t.Makes != nil { // which no run has that is handed over
		err = errGarbage
	}
	if err != nil {
		return nil, fmt.Errorf("read task %d: %w", id, err)
	}
	return t, nil
}

// Buffered reports whether the next task is here. See runner.Source.
func (st *stored) Buffered() bool { return true }

// sign has an attempt bring the signature that its submitter has made.
func (st *stored) sign(a *Attempt, _ string) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if line := st.signed[a.Task]; line != nil {
		a.Lasting, a.Expires = true, line.Expires
		copy(a.Signer[:], line.Signer)
		copy(a.Sig[:], line.Sig)
	}
}

// door carries out a command. Tasks can be cancelled before they are read. What is answered as cancelled,
// paused or resumed stays so in the next process.
func (st *stored) door(cmd task.Command, do func(task.Command) task.Reply) (reply task.Reply) {
	if cmd.Op != task.Cancel {
		if reply = do(cmd); reply.Err == nil && (cmd.Op == task.Pause || cmd.Op == task.Resume) {
			reply.Err = st.report()
		}
		return reply
	}
	unread, rest, err := st.unread(cmd)
	if len(rest) > 0 || len(cmd.IDs) == 0 {
		cmd.IDs = rest
		reply = do(cmd)
	}
	reply.IDs = append(unread, reply.IDs...)
	reply.Err = cmp.Or(err, reply.Err, st.cancel(reply.IDs, cmd.Err))
	return reply
}

// unread returns which of some tasks are not read yet, so that they can be kept from running, and those
// that are up to the run.
func (st *stored) unread(cmd task.Command) (unread, rest []uint64, err error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for _, id := range cmd.IDs {
		switch {
		case id <= st.next || id > st.record.Tasks:
			rest = append(rest, id)
		case st.cancelled[id] != nil:
			err = fmt.Errorf("task %d has ended", id)
		default:
			unread = append(unread, id)
			st.cancelled[id] = cmd.Err
		}
	}
	return unread, rest, err
}

// cancel has it be on record that tasks were cancelled, but for those that run.
func (st *stored) cancel(ids []uint64, why error) error {
	f, err := st.file(cancelledFile)
	if err != nil {
		return err
	}
	defer f.Close()
	st.mu.Lock()
	defer st.mu.Unlock()
	for _, id := range ids {
		if st.exec.flights.running(id) == nil {
			st.cancelled[id] = why
			err = cmp.Or(err, json.NewEncoder(f).Encode(task.Facts{Task: id, Error: task.Bytes(why.Error())}))
		}
	}
	return cmp.Or(err, f.Sync())
}

// keep returns the sink that writes results, with which they are on disk, and the hub knows.
func (st *stored) keep(results runner.Sink) runner.Sink { return &keeper{results, st} }

type keeper struct {
	runner.Sink
	st *stored
}

// Consume waits while the hub has no room. See runner.Sink.
func (k *keeper) Consume(events []task.Event) error {
	st := k.st
	for len(events) > 0 && st.full.Load() {
		time.Sleep(storeAgain)
		_ = st.tell(func(*report) {})
	}
	for i := range events {
		if events[i].Kind == task.Finished {
			st.mu.Lock()
			delete(st.signed, events[i].ID)
			st.mu.Unlock()
		}
	}
	if err := k.Sink.Consume(events); err != nil {
		return err
	}
	size := st.length(resultsFile)
	if size == st.now.Results {
		return nil
	}
	err := st.results.Sync()
	if err == nil {
		_ = st.tell(func(r *report) { r.Results = size }) // or the next one does
	}
	return err
}

package engine

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"crew/runner/control"
	"crew/runner/core"
	"crew/runner/journal"
	"crew/runner/task"
	"crew/runner/trust"
)

// What the directory of a run holds that was handed over.
const (
	recordFile  = "run"     // handed
	tasksFile   = "tasks"   // Stored, each on a line
	rulingsFile = "rulings" // Ruling, each on a line
	outputsFile = "outputs" // of the tasks that have finished
)

// handed is the record of a run that was handed over, as JSON.
type handed struct {
	Enrolment
	Terms   Terms       `json:"terms"`
	Workers []lastKnown `json:"workers,omitempty"` // see identity
	Over    *over       `json:"over,omitempty"`    // nil while the run is not over, or if it could not be submitted
}

// over says how a run has ended.
type over struct {
	Status int        `json:"status"`          // the exit status that it would have had at its owner's
	Early  task.Bytes `json:"early,omitempty"` // why it ended early, if it did
}

// Stored is a task of a run that was handed over, as JSON.
type Stored struct {
	Spec json.RawMessage `json:"spec"` // as journal.EncodeTask has it

	// of the signature for its attempts, if they bring commands

	Expires time.Time `json:"expires,omitzero"`
	Signer  []byte    `json:"signer,omitempty"`
	Sig     []byte    `json:"sig,omitempty"`
}

// Ruling is what the hub has decided about a task of such a run after an attempt, as JSON, in the
// order of the decisions.
type Ruling struct {
	task.Facts
	Ends  bool         `json:"ends,omitempty"`  // the task has finished; or else it is tried again
	Argv  []task.Bytes `json:"argv,omitempty"`  // the command, if only its worker knows that
	Fault string       `json:"fault,omitempty"` // why its outputs are cut

	// where the outputs are, if the task has finished

	At     int64 `json:"at,omitempty"` // stdout, which stderr follows
	Stdout int64 `json:"stdout,omitempty"`
	Stderr int64 `json:"stderr,omitempty"`
}

// ledger is a run that was handed over, in a directory of the hub's: the source of its tasks, and the
// sink that keeps what was decided about them.
type ledger struct {
	d    *dispatcher
	dir  string
	told *once

	visitors control.Visitors // once it is over
	active   sync.WaitGroup   // it is being submitted

	mu     sync.Mutex
	record handed
	sizes  map[string]int64 // of the files, as far as they are on disk
	heard  time.Time        // when who hands the run over was last heard of
	ctx    context.Context  // until the hub gives the run up
	giveUp context.CancelFunc

	tasks  *bufio.Reader
	past   map[uint64]decided // by task: what was ruled before it was read
	next   uint64             // number of the latest task
	signed map[uint64]*Stored // tasks that have not ended
}

// decided is what was decided about a task before it was read.
type decided struct {
	attempts, failures, code int32
	outcome                  task.Outcome // zero if it has not finished
}

func (d *dispatcher) ledger(record handed) *ledger {
	l := &ledger{d: d, record: record, dir: filepath.Join(d.dir, record.Run), sizes: map[string]int64{}, heard: time.Now()}
	l.told = &once{notice: func(text string) {
		d.told.say("run " + task.Printable(cmp.Or(record.Name, record.Run)) + ": " + text)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.record.Notice = text
	}}
	l.ctx, l.giveUp = context.WithCancel(d.ctx)
	l.visitors.Welcome = control.Serve(control.Config{About: l.hello(), Do: l.rest, Soon: control.Never, See: control.Sight{Ended: l.ended}}).Welcome
	return l
}

// hello says what run it is.
func (l *ledger) hello() control.Hello {
	return control.Hello{Name: l.record.Name, Command: task.Bytes(l.record.Terms.Text)}
}

// save has the record be that on disk. The caller holds mu.
func (l *ledger) save() error {
	text, err := json.Marshal(&l.record)
	if err == nil {
		err = trust.WritePrivate(filepath.Join(l.dir, recordFile), text)
	}
	return err
}

// remember keeps which workers may run something of the run. See identity.
func (l *ledger) remember(workers []lastKnown) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.record.Workers = slices.Clone(workers)
	return l.save()
}

// file opens a file.
func (l *ledger) file(name string) (*os.File, error) {
	return trust.OpenOwn(filepath.Join(l.dir, name), os.O_RDWR|os.O_CREATE, 0o600)
}

// write writes to a file at an offset, where it ends from then on. That is on disk when write returns.
// The caller holds mu.
func (l *ledger) write(name string, at int64, put func(io.Writer) error) error {
	f, err := l.file(name)
	if err != nil {
		return err
	}
	defer f.Close()
	to := io.NewOffsetWriter(f, at)
	w := bufio.NewWriter(to)
	if err = cmp.Or(f.Truncate(at), put(w), w.Flush(), f.Sync()); err == nil {
		end, _ := to.Seek(0, io.SeekCurrent)
		l.sizes[name] = at + end
	}
	return err
}

// read returns what a file has at an offset, at most a piece of it, and nothing at its end.
func (l *ledger) read(name string, at int64) ([]byte, error) {
	l.mu.Lock()
	n := min(l.sizes[name]-at, maxBody)
	l.mu.Unlock()
	if n <= 0 || at < 0 {
		return nil, nil
	}
	f, err := l.file(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b := make([]byte, n)
	_, err = f.ReadAt(b, at)
	return b, err
}

// readLine reads a line of JSON into what to points to, and returns its length.
func readLine(r *bufio.Reader, to any) (int, error) {
	var text []byte
	for {
		part, err := r.ReadSlice('\n')
		switch text = append(text, part...); {
		case errors.Is(err, bufio.ErrBufferFull) && len(text) < mostBody:
		case err != nil:
			return 0, err
		case readJSON(text, to) != nil:
			return 0, errGarbage
		default:
			return len(text), nil
		}
	}
}

// open reads what was decided so far, and begins the run's next epoch.
func (l *ledger) open() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.past, l.next, l.signed = map[uint64]decided{}, 0, map[uint64]*Stored{}
	l.ctx, l.giveUp = context.WithCancel(l.d.ctx)
	tasks, err := l.file(tasksFile)
	if err != nil {
		return err
	}
	l.tasks = bufio.NewReader(tasks)
	context.AfterFunc(l.ctx, func() { tasks.Close() })
	if l.sizes[rulingsFile], err = l.each(l.learn); err != nil { // the file may be longer
		return err
	}
	here := newEnrolment("", "", "", identity{})
	l.record.Host, l.record.PID, l.record.Notice = here.Host, here.PID, ""
	l.record.Epoch++
	return l.save()
}

// learn takes a ruling on a task that was not read yet.
func (l *ledger) learn(r *Ruling) {
	if r.Task < 1 || r.Task > l.record.Tasks || badFacts(&r.Facts) || r.Attempt > math.MaxInt32 {
		return
	}
	e := l.past[r.Task]
	defer func() { l.past[r.Task] = e }()
	e.attempts = int32(r.Attempt)
	if r.Ends {
		e.outcome = r.Outcome
		if r.Exit != nil {
			e.code = int32(*r.Exit)
		}
	} else if !r.Outcome.Replaced() {
		e.failures++
	}
}

// add adds rulings. It tries until they are on disk, or the hub gives the run up.
func (l *ledger) add(list []*Ruling, outputs []task.Output) error {
	for {
		err := l.d.room(len(outputs) > 0)
		if l.mu.Lock(); err == nil && l.holds() {
			err = l.write(outputsFile, l.sizes[outputsFile], func(w io.Writer) (err error) {
				for _, o := range outputs {
					_, e := o.WriteTo(w)
					err = cmp.Or(err, e)
				}
				return err
			})
		}
		if err == nil && l.holds() {
			err = l.write(rulingsFile, l.sizes[rulingsFile], func(w io.Writer) (err error) {
				for _, r := range list {
					err = cmp.Or(err, json.NewEncoder(w).Encode(r))
				}
				return err
			})
		}
		l.mu.Unlock()
		if !l.holds() {
			return l.ctx.Err()
		}
		if err == nil {
			return nil
		}
		l.told.say("its results cannot be stored: " + err.Error() + ": trying again")
		pause(l.ctx, storeAgain)
	}
}

// holds reports whether the hub has not given the run up.
func (l *ledger) holds() bool { return l.ctx.Err() == nil }

// Next returns the next task. See runner.Source.
func (l *ledger) Next(number func() uint64) (*task.Task, error) {
	id := l.next + 1
	if id > l.record.Tasks {
		return nil, io.EOF
	}
	st := &Stored{}
	t := &task.Task{ID: id, Identity: identityOf(id)}
	_, err := readLine(l.tasks, st)
	if err == nil {
		err = journal.DecodeTask(st.Spec, t)
	}
	if err != nil {
		return nil, fmt.Errorf("read task %d: %w", id, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next = id
	e := l.past[id]
	if t.Attempts, t.Failures = int(e.attempts), e.failures; e.outcome != 0 {
		t.Done = &task.Result{Task: t, Outcome: e.outcome, Attempt: t.Attempts, Code: int(e.code)}
	}
	t.ID = number()
	st.Spec = nil
	if len(st.Signer) > 0 && t.Done == nil {
		l.signed[id] = st
	}
	return t, nil
}

// Buffered reports whether the next task is here. See runner.Source.
func (l *ledger) Buffered() bool { return true }

// cancel rules that tasks are cancelled that were not read yet, so that they never run. It returns
// which, and those that are up to the run.
func (l *ledger) cancel(ids []uint64, why error) (unread, rest []uint64, err error) {
	l.mu.Lock()
	for _, id := range ids {
		switch e := l.past[id]; {
		case id <= l.next || id > l.record.Tasks:
			rest = append(rest, id)
		case e.outcome != 0:
			err = cmp.Or(err, fmt.Errorf("task %d has ended", id))
		default:
			e.outcome = task.Cancelled // before the task is read
			l.past[id] = e
			unread = append(unread, id)
		}
	}
	l.mu.Unlock()
	return unread, rest, cmp.Or(l.cancelled(unread, why), err)
}

// cancelled has it be on record that tasks were cancelled of which nothing runs.
func (l *ledger) cancelled(ids []uint64, why error) error {
	var list []*Ruling
	for _, id := range ids {
		list = append(list, &Ruling{Ends: true, Facts: task.Facts{Task: id, Outcome: task.Cancelled, Error: task.Bytes(why.Error())}})
	}
	return l.add(list, nil)
}

// sign has an attempt bring the signature that its submitter has made.
func (l *ledger) sign(a *Attempt, _ string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if st := l.signed[a.Task]; st != nil {
		a.Lasting, a.Expires = true, st.Expires
		copy(a.Signer[:], st.Signer)
		copy(a.Sig[:], st.Sig)
	}
}

// Consume keeps what was decided. See runner.Sink.
func (l *ledger) Consume(events []task.Event) error {
	var list []*Ruling
	var outputs []task.Output
	l.mu.Lock()
	at := l.sizes[outputsFile]
	for i := range events {
		e := &events[i]
		r := l.rule(e)
		if r == nil {
			continue
		}
		list = append(list, r)
		if !r.Ends {
			continue
		}
		delete(l.signed, e.ID)
		r.At, r.Stdout, r.Stderr = at, task.Length(e.Result.Stdout), task.Length(e.Result.Stderr)
		at += r.Stdout + r.Stderr
		for _, o := range []task.Output{e.Result.Stdout, e.Result.Stderr} {
			if task.Length(o) > 0 {
				outputs = append(outputs, o)
			}
		}
	}
	l.mu.Unlock()
	if len(list) == 0 {
		return nil
	}
	return l.add(list, outputs)
}

// rule returns the ruling of an event, or nil if there is none to keep. The caller holds mu.
func (l *ledger) rule(e *task.Event) *Ruling {
	ends := e.Kind == task.Finished
	if !ends && (e.Kind != task.Retried || e.Result.Unbegun) || e.Task != nil && e.Task.Done != nil {
		return nil
	}
	r := &Ruling{Ends: ends, Facts: e.Result.Facts()}
	r.Task, r.Attempt, r.Key = e.ID, e.Attempt, "" // which the task tells
	if e.Task != nil && len(e.Task.Argv) == 0 {
		for _, w := range e.Result.Argv {
			r.Argv = append(r.Argv, task.Bytes(w))
		}
	}
	if e.Result.Fault != nil {
		r.Fault = e.Result.Fault.Error()
	}
	return r
}

// each calls f with the rulings that are on record, and returns their length. It ends before a line
// that a crash has damaged.
func (l *ledger) each(f func(*Ruling)) (size int64, err error) {
	file, err := l.file(rulingsFile)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	for lines := bufio.NewReader(file); ; {
		var r Ruling
		n, err := readLine(lines, &r)
		if err != nil {
			return size, nil
		}
		f(&r)
		size += int64(n)
	}
}

// ended returns what is on record of tasks that have ended. See control.Sight.
func (l *ledger) ended(ids ...uint64) map[uint64]task.Past {
	all := map[uint64]task.Past{}
	_, _ = l.each(func(r *Ruling) {
		if r.Ends && slices.Contains(ids, r.Task) {
			all[r.Task] = task.Past{Facts: r.Facts, Kept: true, Outputs: [2]task.Live{l.output(r.At, r.Stdout), l.output(r.At+r.Stdout, r.Stderr)}}
		}
	})
	return all
}

// rest answers clients once the run is over.
func (l *ledger) rest(cmd task.Command) (reply task.Reply) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch all := l.record.Tasks; cmd.Op {
	case task.Look:
		s := task.Stats{Admitted: int64(all), InputEnd: true, Start: l.record.Since}
		s.ByOutcome[task.OK], s.ByOutcome[task.Exit] = l.record.Done-l.record.Failed, l.record.Failed
		reply.Snapshot = &task.Snapshot{At: time.Now(), State: task.Done, Stats: s}
	case task.Explain:
		for _, id := range cmd.IDs {
			reply.Wheres = append(reply.Wheres, task.Where{ID: id, Known: 1 <= id && id <= all})
		}
	default:
		reply.Err = errors.New("it is over")
	}
	return reply
}

// kept is a part of a file.
type kept struct {
	*io.SectionReader
	io.Closer
}

// output returns an output that is on record, or nil if it is empty or cannot be read.
func (l *ledger) output(at, n int64) task.Live {
	f, err := l.file(outputsFile)
	if err != nil || n == 0 {
		f.Close()
		return nil
	}
	return kept{io.NewSectionReader(f, at, n), f}
}

// end says that the run is over, with the exit status that it would have had here.
func (l *ledger) end(e core.Ending, status int) error {
	why := map[core.Reason]string{
		core.Halted: "--halt has ended it", core.Late: "its --deadline has passed", core.BadCommand: "its command cannot be run", core.Told: "it was cancelled",
	}[e.Reason]
	if e.Err != nil {
		why = e.Err.Error()
	}
	if e.Err != nil && e.Reason == core.Told {
		why = "it was " + why
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.record.State, l.record.Notice, l.record.Over = runDone, "", &over{status, task.Bytes(why)}
	return l.save()
}

// Close does nothing. See runner.Sink.
func (l *ledger) Close(task.Stats) error { return nil }

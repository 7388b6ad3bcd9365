package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"crew/runner/decide/task"
	"crew/runner/far/travel"
)

// job is an attempt in this worker's hands, until its submitter has the result and need not ask for it
// again.
type job struct {
	worker *crewWorker
	lease  *lease
	*Attempt
	ctx    context.Context // until it is not to run any more
	cancel context.CancelFunc

	returned []travel.File

	// under worker.mu

	task   *task.Task // here; nil before all of it has come
	waits  bool       // for those of its slot that came before
	phase  phase
	wish   wish
	result []byte        // its Final, once that is made
	blobs  []travel.Blob // which that names
}

// phase is how far an attempt has come.
type phase int

const (
	taken phase = iota
	begun
	ended // its result is made, or about to be
	told  // a submitter has got that
)

// wish says what an attempt that has not ended is to end for.
type wish int

const (
	toRun    wish = iota
	toEnd         // its submitter has it ended
	toReturn      // it is given back before it begins
	unwanted      // nobody wants its result
)

// runState is the state of a run that has had attempts on this worker.
type runState struct {
	user      string        // whose it is
	epoch     uint64        // those of earlier ones are not taken any more
	heard     time.Duration // since boot, when the run was last heard of
	suspended bool
	silent    bool // its attempts were ended for that, as it is told if it lives
}

// take takes a message with attempts.
func (w *crewWorker) take(t *lease, subject string, data []byte) {
	var jobs []*job
	for part := range parts(data) {
		if h, err := w.takeOne(t, subject, part); err != nil {
			w.dropped.Do(func() { w.tell("a task was dropped: %v; more of them are dropped without a word", err) })
		} else if h != nil {
			jobs = append(jobs, h)
		}
	}
	w.admit(jobs...)
}

// takeOne takes an attempt, or the word that a result is on record. It returns the attempt if it is to
// be admitted now.
func (w *crewWorker) takeOne(t *lease, subject string, data []byte) (*job, error) {
	i := strings.LastIndexByte(subject, '.')
	user, run := userIn(subject[:i]), subject[i+1:]
	if id, err := decode[ID](data, kindKept); err == nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		if h := w.held[*id]; h != nil && h.phase >= ended && h.User == user {
			w.letGo(h)
		}
		return nil, nil
	}
	big, err := decode[Big](data, kindBig)
	a := &Attempt{}
	if err == nil {
		a.ID, a.Token, a.User = big.ID, big.Token, big.User
	} else if a, err = DecodeAttempt(data); err != nil {
		return nil, err
	}
	if a.Run != run || a.User != user {
		return nil, errGarbage
	}
	h := &job{worker: w, lease: t, Attempt: a}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	switch {
	case !w.hold(h):
	case big != nil:
		go w.takeBig(h, subject, big) // others need not wait for it
	case w.queue(h, a, subject, data):
		return h, nil
	}
	return nil, nil
}

// takeBig takes an attempt that is too long for a message.
func (w *crewWorker) takeBig(h *job, subject string, b *Big) {
	var msg bytes.Buffer
	var a *Attempt
	err := errGarbage
	w.big <- struct{}{}
	defer func() { <-w.big }()
	if b.Size <= mostBody {
		err = w.s.blobs.Pull(h.ctx, b.User, b.Blob, 0, &msg)
	}
	if err == nil {
		a, err = DecodeAttempt(msg.Bytes())
	}
	if err != nil || a.ID != h.ID || a.Token != h.Token || a.User != h.User {
		w.finish(h, &task.Result{Outcome: task.Lost}) // its submitter has given it up, or it is garbage
		return
	}
	if w.queue(h, a, subject, msg.Bytes()) {
		w.admit(h)
	}
}

// from returns the slot of a run that has given the attempt.
func (h *job) from() Holder { return Holder{Run: h.Run, Epoch: h.Epoch, Slot: h.Slot} }

// queue makes the task of an attempt, which msg brought, and reports whether it is its turn. Those of a
// slot of a run wait for one another.
func (w *crewWorker) queue(h *job, a *Attempt, subject string, msg []byte) bool {
	t := w.taskOf(a)
	if t.Err = w.equip(a, t, subject, msg); t.Err != nil {
		t.Argv, t.Exec, t.Shell = nil, nil, false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	h.Attempt, h.task = a, t
	if h.over() || h.Protocol != task.NoProtocol && w.seats.Window > 1 { // it waits for its seat
		return true
	}
	line := append(w.lines[h.from()], h)
	w.lines[h.from()] = line
	h.waits = len(line) > 1
	return !h.waits
}

// over reports whether an attempt must not begin any more. It goes by the clock: a process that
// stood still has not noticed yet that its lease has run out. The caller holds worker.mu.
func (h *job) over() bool {
	return h.wish >= toReturn || h.phase >= ended || !h.worker.leased(h.lease)
}

// next takes an attempt that has ended from its line, and admits the one whose turn it is then.
func (w *crewWorker) next(h *job) {
	var turn []*job
	w.mu.Lock()
	h.waits = false
	line := slices.DeleteFunc(w.lines[h.from()], func(o *job) bool { return o == h })
	if w.lines[h.from()] = line; len(line) == 0 {
		delete(w.lines, h.from())
	} else if line[0].waits {
		line[0].waits, turn = false, []*job{line[0]}
	}
	w.mu.Unlock()
	w.admit(turn...)
}

// taskOf makes the task of an attempt.
func (w *crewWorker) taskOf(a *Attempt) *task.Task {
	s := new(struct { // allocate both together
		task.Task
		task.Origin
	})
	s.Origin = task.Origin{Task: a.Task, Number: a.Number, Slot: a.Slot, Host: w.host, Units: a.Units, Once: len(a.Makes) > 0}
	s.Task = task.Task{
		Key: a.Key, Dir: a.Dir, Env: a.Env, Cost: 1, Timeout: a.Timeout, KillAfter: a.KillAfter, Origin: &s.Origin,
		Records: a.Records, Object: a.Object, Argv: a.Argv, Exec: a.Exec, Shell: a.Shell,
		Protocol: a.Protocol, Marks: a.Marks,
	}
	if a.HasStdin {
		s.Task.Stdin = append([]byte{}, a.Stdin...)
	}
	whole := w.work.Window > 1 && a.Protocol == task.NoProtocol // it takes a whole slot
	if whole || len(a.Needs) > 0 {
		s.Task.Asked = &task.Terms{Needs: w.share(a.Needs)}
	}
	if whole {
		s.Task.Asked.Weight = w.work.Window
	}
	return &s.Task
}

// mostNeeds is how many different needs a worker remembers.
const mostNeeds = 1000

// share returns needs that attempts share which need the same, as the run compares them.
func (w *crewWorker) share(needs []task.Need) []task.Need {
	text := task.NeedsText(needs)
	w.mu.Lock()
	defer w.mu.Unlock()
	known, ok := w.needs[text]
	if !ok {
		if len(w.needs) == mostNeeds {
			clear(w.needs)
		}
		known, w.needs[text] = needs, needs
	}
	return known
}

// hold takes an attempt into the worker's hands. It returns false if there is nothing more to do
// about it.
func (w *crewWorker) hold(h *job) bool {
	w.mu.Lock()
	run := w.runs[h.Run]
	if h.lease.lost || w.held[h.ID] != nil || run != nil && (h.Epoch < run.epoch || h.User != run.user) || !w.seen.add(h.Token, time.Now()) {
		w.mu.Unlock()
		return false
	}
	if run == nil {
		w.runs[h.Run] = &runState{user: h.User, epoch: h.Epoch, heard: w.s.now()}
	}
	w.held[h.ID] = h
	back := w.state != ready
	if back {
		h.wish = toReturn
	}
	w.mu.Unlock()
	if back {
		w.finish(h, &task.Result{Outcome: task.Lost})
	}
	return !back
}

// equip gives an attempt's task its command, or returns why it must not run.
func (w *crewWorker) equip(a *Attempt, t *task.Task, subject string, msg []byte) error {
	if task.Lacks(w.work.Offers, a.Needs, false) != nil {
		return fmt.Errorf("this worker does not offer %s: start it with --offers", task.NeedsText(a.Needs))
	}
	if !a.ownCommand() {
		if !w.work.Commands {
			return errNoCommands
		}
		if w.trust == nil {
			return nil
		}
		return check(w.trust, a, subject, msg)
	}
	switch {
	case !w.values:
		return errors.New("this worker has no command of its own, and the task brings none")
	case a.Template != w.digest:
		return fmt.Errorf("the command is not that of the worker, which runs %s", w.text)
	case a.Dir != "":
		return errors.New("this worker runs its own command in its own directory: drop --workdir")
	case len(a.Take)+len(a.Return)+len(a.Makes) > 0:
		return errors.New("this worker runs its own command with its own files: drop --transfer-file, --return and --basefile")
	case len(a.Env) > 0:
		return errors.New("this worker runs its own command in its own environment: drop --env")
	}
	err := w.work.Make(t, a.Names, a.Caps)
	if t.Protocol != task.NoProtocol { // the worker serves many runs
		t.Origin.Slot = 0
		return err
	}
	for _, name := range a.Caps {
		t.Env = append(t.Env, task.CapVariable(name)+"=") // unless it holds units
	}
	return err
}

// admit gives the tasks of attempts to the run, and has those end that are to end already.
func (w *crewWorker) admit(jobs ...*job) {
	if len(jobs) == 0 {
		return
	}
	tasks := make([]*task.Task, len(jobs))
	w.turn.Lock()
	w.mu.Lock()
	for i, h := range jobs {
		w.last++
		h.task.ID, tasks[i] = w.last, h.task
		w.tasks[w.last] = h
	}
	w.mu.Unlock()
	err := w.work.Do(task.Command{Op: task.Add, N: 1, Tasks: tasks}).Err
	w.turn.Unlock()
	var late []*job
	w.mu.Lock()
	for _, h := range jobs {
		if err != nil {
			delete(w.tasks, h.task.ID)
		}
		if err != nil || h.over() {
			late = append(late, h)
		}
	}
	w.mu.Unlock()
	w.stop(false, late...)
	if err != nil {
		for _, h := range jobs {
			w.finish(h, &task.Result{Outcome: task.Lost, Err: err})
		}
	}
}

// seen remembers which attempts were taken, by their tokens: for at least seenFor, or
// only the latest ones.
type seen struct {
	most        int // in now; 0 for no limit
	now, before map[Token]struct{}
	since       time.Time // of now; zero at first
}

const (
	seenFor  = 6 * time.Minute // longer than a signature is valid
	mostSeen = 100_000         // where nobody gains from a message that comes twice
)

// add returns false if it has been called with the token before.
func (s *seen) add(t Token, at time.Time) bool {
	if at.Sub(s.since) > seenFor || s.most > 0 && len(s.now) >= s.most {
		s.now, s.before, s.since = map[Token]struct{}{}, s.now, at
	}
	_, now := s.now[t]
	_, before := s.before[t]
	if now || before {
		return false
	}
	s.now[t] = struct{}{}
	return true
}

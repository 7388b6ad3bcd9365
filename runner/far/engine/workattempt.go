package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"crew/runner/decide/task"
	"crew/runner/far/travel"
)

// heldAttempt is an attempt that this worker has accepted and not yet forgotten: its submitter may
// still need the result.
type heldAttempt struct {
	worker *worker
	lease  *lease
	ID     // its Run is a runKey
	*Attempt
	ctx    context.Context // done once it must not run any more
	cancel context.CancelFunc

	returned []travel.File

	// under worker.mu

	run    *runState
	task   *task.Task // of this worker's run; nil until the whole attempt has arrived
	phase  phase
	stop   stopReason
	result []byte        // the encoded Final; nil until it has ended
	blobs  []travel.Blob // blobs that result names
}

// phase is how far an attempt has come.
type phase int

const (
	phaseTaken phase = iota
	phaseBegun
	phaseEnded    // its result exists, or is about to
	phaseReported // a submitter has the result
)

// stopReason says why an attempt that has not ended must stop.
type stopReason int

const (
	stopNone    stopReason = iota
	stopCancel             // its submitter has cancelled it
	stopReturn             // it must be returned before it begins
	stopDiscard            // its result is to be discarded
	stopSilent             // its run is silent, and learns that it is lost if it reappears
)

// runKey identifies a run on this worker. A run of another user can have the same ID.
func runKey(user, run string) string { return user + "." + run }

// runState is the state of a run that has had attempts on this worker.
type runState struct {
	epoch     uint64        // attempts of earlier epochs are refused
	heard     time.Duration // time since boot of the last heartbeat
	suspended bool
	silent    bool // its attempts were ended for lack of heartbeats; if it reappears, it is told that they are lost

	ctx  context.Context // of the messages to the run
	drop context.CancelFunc
}

// runLocked returns the state of a run. The caller must hold mu.
func (w *worker) runLocked(run string) *runState {
	r := w.runs[run]
	if r == nil {
		r = &runState{heard: w.s.now()}
		r.ctx, r.drop = context.WithCancel(context.Background())
		w.runs[run] = r
	}
	return r
}

// dropMessages drops the undelivered messages to the run. The caller must hold worker.mu.
func (r *runState) dropMessages() {
	r.drop()
	r.ctx, r.drop = context.WithCancel(context.Background())
}

// receive handles a message with attempts.
func (w *worker) receive(l *lease, subject string, data []byte) {
	for part := range splitMessages(data) {
		w.receiveOne(l, subject, part)
	}
}

// receiveOne handles an attempt, or an order about one. It ignores garbage.
func (w *worker) receiveOne(l *lease, subject string, data []byte) {
	i := strings.LastIndexByte(subject, '.')
	user, run := userIn(subject[:i]), subject[i+1:]
	if o, err := decode[AttemptOrder](data, kindOrder); err == nil {
		o.Run = runKey(user, o.Run)
		w.obey(o)
		return
	}
	a, err := decode[Attempt](data, kindAttempt)
	if err != nil || a.Run != run || a.User != user {
		return
	}
	h := &heldAttempt{worker: w, lease: l, ID: a.ID, Attempt: a}
	h.Run = runKey(user, run)
	h.ctx, h.cancel = context.WithCancel(context.Background())
	switch {
	case !w.accept(h):
	case a.Whole.Name != "":
		go w.fetchBig(h, subject, a.Whole) // later attempts need not wait
	default:
		w.admit(h, a, subject, data)
	}
}

// fetchBig fetches an attempt that is too long for a message, and admits it.
func (w *worker) fetchBig(h *heldAttempt, subject string, whole travel.Blob) {
	var msg bytes.Buffer
	var a *Attempt
	err := errGarbage
	if whole.Size <= maxTaskSize {
		err = w.s.blobs.Pull(h.ctx, h.User, whole, 0, &msg)
	}
	if err == nil {
		a, err = decode[Attempt](msg.Bytes(), kindAttempt)
	}
	if err != nil || a.ID != h.Attempt.ID || a.Token != h.Token || a.User != h.User {
		w.finish(h, &task.Result{Outcome: task.Lost}) // its submitter has dropped it, or it is garbage
		return
	}
	w.admit(h, a, subject, msg.Bytes())
}

// admit adds the task of an attempt, which was decoded from msg, to the run. It returns the attempt if
// that was stopped meanwhile.
func (w *worker) admit(h *heldAttempt, a *Attempt, subject string, msg []byte) {
	t := w.taskOf(a)
	if t.Err = w.setCommand(a, t, subject, msg); t.Err != nil {
		t.Argv, t.Exec, t.Shell = nil, nil, false
	}
	w.mu.Lock()
	h.Attempt, h.task = a, t
	stopped := h.stoppedLocked()
	if !stopped {
		w.lastTask++
		t.ID, w.tasks[w.lastTask] = w.lastTask, h
		if stopped = w.Do(task.Command{Op: task.Add, N: 1, Tasks: []*task.Task{t}}).Err != nil; stopped {
			delete(w.tasks, t.ID)
		}
	}
	w.mu.Unlock()
	if stopped {
		w.finish(h, &task.Result{Outcome: task.Lost})
	}
}

// stoppedLocked reports whether an attempt must not begin any more. It checks the clock, because a
// process that was suspended has not yet noticed that its lease has run out. The caller must hold
// worker.mu.
func (h *heldAttempt) stoppedLocked() bool {
	return h.stop >= stopReturn || h.phase >= phaseEnded || !h.worker.leasedLocked(h.lease)
}

// taskOf returns the task of an attempt. Attempts of the same slot of a run wait for one another.
func (w *worker) taskOf(a *Attempt) *task.Task {
	s := new(struct { // allocate both together
		task.Task
		task.Origin
	})
	turn := runKey(a.User, a.Run) + " " + strconv.Itoa(a.Slot)
	if a.Protocol != task.NoProtocol && w.seats.Window > 1 { // it will wait for its seat
		turn += " " + strconv.FormatUint(a.Task, 10)
	}
	s.Origin = task.Origin{Task: a.Task, Number: a.Number, Slot: a.Slot, Host: w.host, Units: a.Units, Once: len(a.Makes) > 0, Bound: a.Bound, Temp: a.Temp}
	s.Task = task.Task{
		Key: a.Key, Dir: a.Dir, Env: a.Env, Cost: 1, Timeout: a.Timeout, KillAfter: a.KillAfter, Origin: &s.Origin,
		Records: a.Records, Object: a.Object, Argv: a.Argv, Exec: a.Exec, Shell: a.Shell,
		Protocol: a.Protocol, Turn: turn,
	}
	if !a.ownCommand() {
		s.Origin.Life = &a.Life
	}
	if a.HasStdin {
		s.Task.Stdin = append([]byte{}, a.Stdin...)
	}
	whole := w.Coproc.Window > 1 && a.Protocol == task.NoProtocol // it fills the slot
	if whole || len(a.Needs) > 0 {
		s.Task.Asked = &task.Terms{Needs: a.Needs}
	}
	if whole {
		s.Task.Asked.Weight = w.Coproc.Window
	}
	return &s.Task
}

// accept adds an attempt to held. It returns false if nothing more is to be done with it: it is a
// duplicate, or was refused.
func (w *worker) accept(h *heldAttempt) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	run := w.runs[h.Run]
	if h.lease.lost || w.held[h.ID] != nil || run != nil && h.Epoch < run.epoch || !w.seen.add(h.Token, time.Now()) {
		return false
	}
	if h.run = w.runLocked(h.Run); run == nil {
		h.run.epoch = h.Epoch
	}
	w.held[h.ID] = h
	if w.state != ready {
		w.stopLocked(stopReturn, h) // admit returns it
	}
	return true
}

// setCommand sets the command of an attempt's task, or returns why it must not run.
func (w *worker) setCommand(a *Attempt, t *task.Task, subject string, msg []byte) error {
	if task.CheckNeeds(w.Queue.Caps, a.Needs, false) != nil {
		return fmt.Errorf("this worker does not offer %s: start it with --offers", task.NeedsText(a.Needs))
	}
	if !a.ownCommand() {
		if !w.Engine.Commands {
			return errNoCommands
		}
		if t.Marks = a.Marks; w.trust == nil { // a submitter must not mark the worker's own command
			return nil
		}
		return check(w.trust, a, subject, msg)
	}
	switch {
	case !w.values || a.Template != w.digest:
		return fmt.Errorf("the command differs from the command of the worker, which runs %s", w.text)
	case a.Dir != "" || len(a.Env)+len(a.Take)+len(a.Return)+len(a.Makes) > 0:
		return errors.New("this worker runs its own command, in its own directory and environment and with its own files")
	}
	err := w.Make(t, a.Names, a.Caps)
	if t.Protocol != task.NoProtocol { // its persistent worker serves many runs
		t.Origin.Slot = 0
		return err
	}
	for _, name := range a.Caps {
		t.Env = append(t.Env, task.CapVariable(name)+"=") // empty unless it holds units
	}
	return err
}

// tokenSet remembers the tokens of accepted attempts: each for at least tokensKept or, if max is not 0,
// at least the latest max tokens.
type tokenSet struct {
	max           int // most tokens in recent; 0 for no limit
	recent, older map[Token]struct{}
	since         time.Time // start of recent; zero at first
}

const (
	tokensKept = 6 * time.Minute // longer than a signature is valid
	maxSeen    = 100_000         // enough where commands are not signed, so replaying one gains nothing
)

// add adds a token. It returns false if the set has it already.
func (s *tokenSet) add(t Token, at time.Time) bool {
	if at.Sub(s.since) > tokensKept || s.max > 0 && len(s.recent) >= s.max {
		s.recent, s.older, s.since = map[Token]struct{}{}, s.recent, at
	}
	_, now := s.recent[t]
	_, before := s.older[t]
	if now || before {
		return false
	}
	s.recent[t] = struct{}{}
	return true
}

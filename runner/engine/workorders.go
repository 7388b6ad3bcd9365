package engine

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"crew/runner/task"
)

const (
	silences    = 3 // times TTL after which a run that is not heard of is over
	leastSilent = 30 * time.Second

	suspendedFor = 24 * time.Hour // the same for one that is suspended, unless the worker drains
	mostEarly    = 4096           // orders to remember that came before their attempts
)

// obey carries out an order of a submitter.
func (w *crewWorker) obey(t *lease, o *Order, a *Answer) error {
	switch o.Op {
	case opCancel, opKill, opReturn:
		w.cancel(o.ID, o.Op)
	case opLeave:
		w.leaveRun(t, o.Run, o.Epoch)
		if o.Epoch >= everyEpoch {
			w.tenure.end() // such a worker has one run
		}
	case opDrain:
		drain := task.Command{Op: task.Drain}
		if o.By != "" { // or else its run has said so
			drain.Err = o.done("drained")
		}
		a.then = func() { w.work.Do(drain) } // after which it may end at once
	default:
		return o.unknown()
	}
	return nil
}

// cancel ends an attempt as its submitter wants. One that has not begun, or is still on its way, is
// given back.
func (w *crewWorker) cancel(id ID, op string) {
	w.mu.Lock()
	h := w.held[id]
	if h == nil {
		if !slices.Contains(w.early, id) {
			w.early = append(w.early[max(0, len(w.early)-mostEarly):], id)
		}
		w.mu.Unlock()
		return
	}
	begun := h.begun
	if begun && op != opReturn {
		h.ordered = true
	} else if !begun {
		h.back = true
		h.cancel()
	}
	w.mu.Unlock()
	if !begun || op != opReturn {
		w.stop(op == opKill, h)
	}
}

// number returns the number of the attempt's task here, if it has one. Its caller holds
// worker.mu.
func (h *job) number() []uint64 {
	if h.worker.tasks[h.task.ID] != h {
		return nil
	}
	return []uint64{h.task.ID}
}

// end asks tasks to end, or kills them.
func (w *crewWorker) end(tasks []uint64, kill bool) {
	if len(tasks) > 0 {
		w.work.Do(task.Command{Op: task.Cancel, IDs: tasks, Kill: kill})
	}
}

// stop ends attempts that are in the run, or kills them. Those that wait for their turn end at
// once.
func (w *crewWorker) stop(kill bool, jobs ...*job) {
	var tasks []uint64
	var waiting []*job
	w.mu.Lock()
	for _, h := range jobs {
		tasks = append(tasks, h.number()...)
		if h.waits {
			waiting = append(waiting, h)
		}
	}
	w.mu.Unlock()
	for _, h := range waiting {
		w.finish(h, &task.Result{Outcome: task.Lost})
	}
	w.end(tasks, kill)
}

// handBack gives back all attempts that have not begun.
func (w *crewWorker) handBack() {
	var list []*job
	w.mu.Lock()
	for _, h := range w.held {
		if !h.begun {
			h.back = true
			list = append(list, h)
		}
	}
	w.mu.Unlock()
	w.stop(false, list...)
}

// leaveRun ends all attempts of a run's epochs before one, brings what it has kept of them, and
// returns once they have ended and a submitter has what they had to tell.
func (w *crewWorker) leaveRun(t *lease, run string, epoch uint64) {
	for _, ended := range w.abandon(run, epoch) {
		defer func() { <-ended }()
	}
	for _, h := range w.of(run, epoch, func(h *job) bool { return h.told && h.asked < epoch }) {
		w.mu.Lock()
		h.told, h.asked = false, epoch
		w.mu.Unlock()
		w.send(h)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	left := func() bool {
		for id, h := range w.held {
			if id.Run == run && id.Epoch < epoch && !h.told {
				return true
			}
		}
		return false
	}
	for !t.lost && left() {
		w.forgotten.Wait()
	}
}

// of returns the attempts of a run's epochs before one for which which holds.
func (w *crewWorker) of(run string, epoch uint64, which func(*job) bool) (list []*job) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, h := range w.held {
		if id.Run == run && id.Epoch < epoch && which(h) {
			list = append(list, h)
		}
	}
	return list
}

// abandon refuses and ends all attempts of a run's epochs before one.
func (w *crewWorker) abandon(run string, epoch uint64) (ended []<-chan struct{}) {
	w.mu.Lock()
	t := w.runs[run]
	if t == nil {
		t = &runState{heard: w.s.now()}
		w.runs[run] = t
	}
	if epoch > t.epoch {
		t.epoch, t.lost = epoch, nil
	}
	w.mu.Unlock()
	return w.quit(run, epoch)
}

// quit ends all attempts of a run's epochs before one, and their processes. Nobody wants
// their results any more, except those that are on their way. For ended see Seats.End.
func (w *crewWorker) quit(run string, epoch uint64) (ended []<-chan struct{}) {
	list := w.of(run, epoch, func(h *job) bool { h.unwanted = h.unwanted || !h.ended; return !h.ended })
	for _, h := range list {
		h.cancel()
	}
	w.stop(false, list...)
	return w.seats.End(func(c *Seat) bool { return c.Run == run && c.Epoch < epoch })
}

// forgetRun ends all attempts of a run's epochs before one. Nobody wants any of their results.
func (w *crewWorker) forgetRun(run string, epoch uint64) {
	w.quit(run, epoch)
	for _, h := range w.of(run, epoch, func(h *job) bool { return h.ended }) {
		w.forget(h)
	}
	w.out.Drop(func(subject string) bool { return strings.Split(subject, ".")[3] == run }) // see resultSubject
}

// heartbeat takes a sign of life of a run.
func (w *crewWorker) heartbeat(m *nats.Msg) {
	var b Heartbeat
	if readJSON(m.Data, &b) != nil {
		return
	}
	if b.Version != Version {
		w.ignored.Do(func() {
			w.tell("a run was ignored: %v; more of them are ignored without a word", &versionError{b.Version})
		})
		return
	}
	w.seats.Hear(b.Run)
	w.mu.Lock()
	t := w.runs[b.Run]
	if t != nil && b.Epoch < t.epoch {
		w.mu.Unlock()
		return
	}
	if b.Over {
		w.files.End(b.Run)
		w.seats.End(func(c *Seat) bool { return c.Run == b.Run && c.Epoch <= b.Epoch })
	}
	if t == nil {
		w.mu.Unlock()
		return
	}
	newer, lost := b.Epoch > t.epoch, t.lost
	t.heard, t.suspended, t.lost = w.s.now(), b.Suspended, nil
	w.mu.Unlock()
	switch {
	case b.Over:
		w.abandon(b.Run, b.Epoch+1)
		w.forgetRun(b.Run, b.Epoch+1)
	case newer:
		w.abandon(b.Run, b.Epoch)
	default:
		for _, h := range lost {
			w.send(h)
		}
	}
}

// endSilent ends the attempts of runs that have not been heard of for too long.
func (w *crewWorker) endSilent() {
	most := max(silences*w.work.TTL, leastSilent)
	if w.s.nc.ConnectedClusterName() != "" { // a part of which a run may be cut off from, and take this worker for lost
		most = w.work.TTL * fence / 100
	}
	now := w.s.now()
	silent := map[string]uint64{} // the first epoch that is none of theirs
	w.mu.Lock()
	if !w.s.nc.IsConnected() {
		w.mu.Unlock()
		return
	}
	for run, t := range w.runs {
		switch {
		case now-t.heard <= most, t.suspended && now-t.heard <= suspendedFor && w.state != draining:
		case t.attempts > 0:
			silent[run] = t.epoch + 1
		case len(t.lost) == 0 || now-t.heard > suspendedFor:
			delete(w.runs, run)
		}
	}
	w.mu.Unlock()
	w.seats.End(func(c *Seat) bool { return c.Busy == 0 && now-c.Heard > most })
	for _, run := range slices.Sorted(maps.Keys(silent)) {
		w.work.Notice("the submitter of run " + run + " has not been heard of for " + most.String() + ": its tasks are ended")
		var lost []*job
		for _, h := range w.of(run, silent[run], func(h *job) bool { return !h.told }) {
			result := &Final{ID: h.ID, Token: h.Token, Facts: task.Facts{Outcome: task.Lost}}
			lost = append(lost, &job{worker: w, lease: h.lease, Attempt: &Attempt{ID: h.ID, Trip: h.Trip}, result: result.Encode()})
		}
		w.mu.Lock()
		if t := w.runs[run]; t != nil {
			t.lost, t.heard = append(t.lost, lost...), now // not again at once
		}
		w.mu.Unlock()
		w.forgetRun(run, silent[run])
	}
}

package engine

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"crew/runner/task"
)

const (
	silences    = 3 // times TTL after which a run that is not heard of is over
	leastSilent = 30 * time.Second
	mostEarly   = 4096 // orders to remember that came before their attempts
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
	case opHolds:
		w.mu.Lock()
		defer w.mu.Unlock()
		a.IDs = slices.DeleteFunc(o.IDs, func(id ID) bool { return w.held[id] == nil })
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

// leaveRun ends all attempts of a run's epochs before one, and returns once they have
// ended and what they had to tell is stored.
func (w *crewWorker) leaveRun(t *lease, run string, epoch uint64) {
	for _, ended := range w.abandon(run, epoch) {
		defer func() { <-ended }()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	left := func() bool {
		for id := range w.held {
			if id.Run == run && id.Epoch < epoch {
				return true
			}
		}
		return false
	}
	for !t.lost && left() {
		w.forgotten.Wait()
	}
}

// abandon ends all attempts of a run's epochs before one, and their processes. Nobody wants
// their results any more, except those that are on their way. For ended see Seats.End.
func (w *crewWorker) abandon(run string, epoch uint64) (ended []<-chan struct{}) {
	w.mu.Lock()
	if t := w.runs[run]; t != nil {
		t.epoch = max(t.epoch, epoch)
	}
	var list []*job
	for id, h := range w.held {
		if id.Run == run && id.Epoch < epoch && !h.ended {
			h.unwanted = true
			list = append(list, h)
		}
	}
	w.mu.Unlock()
	for _, h := range list {
		h.wake()
	}
	w.stop(false, list...)
	return w.seats.End(func(c *Seat) bool { return c.Run == run && c.Epoch < epoch })
}

// forgetRun ends all attempts of a run that is over. Nobody wants any of their results.
func (w *crewWorker) forgetRun(run string) {
	w.abandon(run, math.MaxUint64)
	w.out.Drop(func(subject string) bool { return strings.HasSuffix(subject, "."+run) })
	w.mu.Lock()
	var list []*job
	for id, h := range w.held {
		if id.Run == run && h.ended {
			list = append(list, h)
		}
	}
	w.mu.Unlock()
	for _, h := range list {
		w.forget(h)
	}
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
	newer := b.Epoch > t.epoch
	t.heard, t.suspended = w.s.now(), b.Suspended
	w.mu.Unlock()
	if b.Over {
		w.forgetRun(b.Run)
	} else if newer {
		w.abandon(b.Run, b.Epoch)
	}
}

// endSilent ends the attempts of runs that have not been heard of for too long.
func (w *crewWorker) endSilent() {
	most := max(silences*w.work.TTL, leastSilent)
	now := w.s.now()
	var runs []string
	w.mu.Lock()
	if !w.s.nc.IsConnected() {
		w.mu.Unlock()
		return
	}
	for run, t := range w.runs {
		if !t.suspended && now-t.heard > most {
			t.heard = now // not again at once
			runs = append(runs, run)
		}
	}
	w.mu.Unlock()
	w.seats.End(func(c *Seat) bool { return c.Busy == 0 && now-c.Heard > most })
	slices.Sort(runs)
	for _, run := range runs {
		w.work.Notice("the submitter of run " + run + " has not been heard of for " + most.String() + ": its tasks are ended")
		w.forgetRun(run)
	}
}

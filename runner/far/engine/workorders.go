package engine

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"crew/runner/decide/task"
	"crew/runner/far/travel"
)

const (
	silences    = 3 // times TTL after which a run that is not heard of is over
	leastSilent = 30 * time.Second

	suspendedFor = 24 * time.Hour // the same for one that is suspended, unless the worker drains
)

// obey carries out an order of a submitter.
func (w *crewWorker) obey(t *lease, o *Order, a *Answer) error {
	if !w.isOf(o.Run, o.from) {
		return errGarbage
	}
	switch o.Op {
	case opCancel, opKill, opReturn:
		w.cancel(o.ID, o.Op)
	case opLeave:
		w.leaveRun(t, o.Run, o.from, o.Epoch)
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

// isOf reports whether a run is a user's, or unknown.
func (w *crewWorker) isOf(run, user string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.runs[run]
	return t == nil || t.user == user
}

// cancel ends an attempt as its submitter wants. One that has not begun is given back.
func (w *crewWorker) cancel(id ID, op string) {
	w.mu.Lock()
	h, end := w.held[id], false
	if h != nil && h.phase == taken {
		h.wish, end = max(h.wish, toReturn), true
		h.cancel()
	} else if h != nil && h.phase == begun && op != opReturn {
		h.wish, end = max(h.wish, toEnd), true
	}
	w.mu.Unlock()
	if end {
		w.stop(op == opKill, h)
	}
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
		if h.waits {
			waiting = append(waiting, h)
		} else if h.task != nil && w.tasks[h.task.ID] == h {
			tasks = append(tasks, h.task.ID)
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
		if h.phase == taken {
			h.wish = max(h.wish, toReturn)
			list = append(list, h)
		}
	}
	w.mu.Unlock()
	w.stop(false, list...)
}

// of returns the attempts of a run's epochs before one. Its caller holds mu.
func (w *crewWorker) of(run string, epoch uint64) (list []*job) {
	for id, h := range w.held {
		if id.Run == run && id.Epoch < epoch {
			list = append(list, h)
		}
	}
	return list
}

// leaveRun ends all attempts of a run's epochs before one, brings what it has kept of them, and
// returns once they have ended and a submitter has what they had to tell.
func (w *crewWorker) leaveRun(t *lease, run, user string, epoch uint64) {
	for _, exited := range w.abandon(run, user, epoch) {
		defer func() { <-exited }()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	untold := func(h *job) bool { return h.phase != told }
	for !t.lost && slices.ContainsFunc(w.of(run, epoch), untold) {
		w.forgotten.Wait()
	}
}

// abandon refuses and ends all attempts of a run's epochs before one. If there was none as late as
// that, it brings what it has kept of them. For exited see Seats.End.
func (w *crewWorker) abandon(run, user string, epoch uint64) (exited []<-chan struct{}) {
	w.mu.Lock()
	t := w.runs[run]
	if t == nil {
		t = &runState{user: user, heard: w.s.now()}
		w.runs[run] = t
	}
	if epoch > t.epoch {
		t.epoch = epoch
		w.bring(run, epoch)
	}
	w.mu.Unlock()
	return w.quit(run, epoch)
}

// bring sends what attempts of a run's epochs before one have to tell, if they have ended. Its caller
// holds mu.
func (w *crewWorker) bring(run string, epoch uint64) {
	for _, h := range w.of(run, epoch) {
		if h.result != nil {
			h.phase = ended
			w.send(h)
		}
	}
}

// quit ends all attempts of a run's epochs before one, and their processes. Nobody wants
// their results any more, except those that are on their way. For exited see Seats.End.
func (w *crewWorker) quit(run string, epoch uint64) (exited []<-chan struct{}) {
	var list []*job
	w.mu.Lock()
	for _, h := range w.of(run, epoch) {
		if h.phase < ended {
			h.wish = unwanted
			h.cancel()
			list = append(list, h)
		}
	}
	w.mu.Unlock()
	w.stop(false, list...)
	return w.seats.End(func(c *Seat) bool { return c.Run == run && c.Epoch < epoch })
}

// forgetRun ends all attempts of a run's epochs before one. Nobody wants any of their results.
func (w *crewWorker) forgetRun(run string, epoch uint64) {
	w.dropRun(run) // or else those that wait for their turn would wait for room to tell of their ends
	w.quit(run, epoch)
	w.mu.Lock()
	for _, h := range w.of(run, epoch) {
		if h.phase >= ended {
			w.letGo(h)
		}
	}
	w.dropRun(run)
	w.mu.Unlock()
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
	user := userIn(m.Subject)
	if !w.isOf(b.Run, user) {
		return
	}
	w.mu.Lock()
	t := w.runs[b.Run]
	known, newer := t != nil, t != nil && b.Epoch > t.epoch
	if known && b.Epoch < t.epoch {
		w.mu.Unlock()
		return
	}
	if known {
		if t.silent {
			w.bring(b.Run, b.Epoch+1)
		}
		if t.heard, t.suspended, t.silent = w.s.now(), b.Suspended, false; b.Over {
			t.epoch = b.Epoch + 1
		}
	}
	w.mu.Unlock()
	switch {
	case b.Over:
		w.files.End(b.Run)
		w.forgetRun(b.Run, b.Epoch+1)
	case newer:
		w.abandon(b.Run, user, b.Epoch)
	}
}

// endSilent ends the attempts of runs that have not been heard of for too long.
func (w *crewWorker) endSilent() {
	most := max(silences*w.work.TTL, leastSilent)
	if w.s.nc.ConnectedClusterName() != "" { // a part of which a run may be cut off from, and take this worker for lost
		most = w.work.TTL * fence / 100
	}
	now := w.s.now()
	silent := map[string][]*job{}
	w.mu.Lock()
	for run, t := range w.runs {
		if !w.s.nc.IsConnected() { // its heartbeats cannot come
			t.heard = now
		}
		since := now - t.heard
		if since <= most || t.suspended && since <= suspendedFor && w.state != draining {
			continue
		}
		jobs := w.of(run, everyEpoch)
		again := t.silent
		switch {
		case len(jobs) == 0 || again && since > suspendedFor:
			delete(w.runs, run)
		case again:
			continue
		}
		t.silent, t.heard, silent[run] = true, now, jobs
		for _, h := range jobs {
			h.wish = unwanted
			h.cancel()
			if w.letGo(h); h.phase != told && !again && !h.lease.lost { // what it is told if it lives
				lost := &Final{ID: h.ID, Token: h.Token, Facts: task.Facts{Outcome: task.Lost}}
				a := &Attempt{ID: h.ID, Token: h.Token, Trip: travel.Trip{User: h.User}}
				w.held[h.ID] = &job{worker: w, lease: h.lease, Attempt: a, cancel: func() {}, phase: ended, result: lost.Encode()}
			}
		}
		w.dropRun(run)
	}
	w.mu.Unlock()
	for _, run := range slices.Sorted(maps.Keys(silent)) {
		if len(silent[run]) > 0 {
			w.work.Notice("the submitter of run " + run + " has not been heard of for " + most.String() + ": its tasks are ended")
		}
		w.stop(false, silent[run]...)
		w.seats.End(func(c *Seat) bool { return c.Run == run })
	}
}

// dropRun sends nothing any more of what a run is told.
func (w *crewWorker) dropRun(run string) {
	w.out.Drop(func(subject string) bool { return strings.Split(subject, ".")[3] == run }) // see resultSubject
}

package engine

import (
	"errors"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"crew/runner/decide/task"
)

const (
	// A run without heartbeats is over after silentTTLs times TTL, but not before minSilent. A suspended run is
	// over only after suspendedFor, unless the worker is draining.
	silentTTLs   = 3
	minSilent    = 30 * time.Second
	suspendedFor = 24 * time.Hour
)

// carryOut carries out an order of a submitter.
func (w *worker) carryOut(l *lease, o *Order, a *Answer) error {
	switch o.Op {
	case opLeave:
		if err := w.endEpochs(l, runKey(o.from, o.Run), o.Epoch); err != nil {
			return err
		}
		if o.Epoch >= maxEpoch {
			w.removeLock() // a worker of --ssh has one run
		}
	case opDrain:
		drain := task.Command{Op: task.Drain}
		if o.By != "" { // otherwise the worker's own run has sent it
			drain.Err = o.cause("drained")
		}
		a.after = func() { w.Do(drain) } // the worker may end at once
	default:
		return o.unknown()
	}
	return nil
}

// obey carries out an order about an attempt. An attempt that has not begun is returned.
func (w *worker) obey(o *AttemptOrder) {
	var tasks []uint64
	w.mu.Lock()
	switch h := w.held[o.ID]; {
	case h == nil:
	case o.Op == opRecorded:
		if h.phase >= phaseEnded {
			w.forgetLocked(h)
		}
	case h.phase == phaseTaken:
		tasks = w.stopLocked(stopReturn, h)
	case o.Op != opReturn:
		tasks = w.stopLocked(stopCancel, h)
	}
	w.mu.Unlock()
	w.cancelTasks(tasks, o.Op == opKill)
}

// stopLocked makes attempts that have not ended stop. It returns the tasks that the caller must cancel
// once it has released mu, which it must hold.
func (w *worker) stopLocked(why stopReason, attempts ...*heldAttempt) (tasks []uint64) {
	for _, h := range attempts {
		if h.phase >= phaseEnded {
			continue
		}
		if h.stop = max(h.stop, why); why != stopCancel {
			h.cancel()
		}
		if h.task != nil && w.tasks[h.task.ID] == h {
			tasks = append(tasks, h.task.ID)
		}
	}
	return tasks
}

// cancelTasks cancels tasks of this worker's run.
func (w *worker) cancelTasks(tasks []uint64, kill bool) {
	if len(tasks) > 0 {
		w.Do(task.Command{Op: task.Cancel, IDs: tasks, Kill: kill})
	}
}

// returnUnbegun returns all attempts that have not begun.
func (w *worker) returnUnbegun() {
	var tasks []uint64
	w.mu.Lock()
	for _, h := range w.held {
		if h.phase == phaseTaken {
			tasks = append(tasks, w.stopLocked(stopReturn, h)...)
		}
	}
	w.mu.Unlock()
	w.cancelTasks(tasks, false)
}

// beforeEpochLocked returns the held attempts of a run's epochs before epoch. The caller must hold mu.
func (w *worker) beforeEpochLocked(run string, epoch uint64) (list []*heldAttempt) {
	for id, h := range w.held {
		if id.Run == run && id.Epoch < epoch {
			list = append(list, h)
		}
	}
	return list
}

// endEpochs ends all attempts of a run's epochs before epoch, resends the results that are kept of
// them, and returns once the attempts have ended and a submitter has all results. It returns an error if
// the lease is lost: then expire kills the attempts, which may not have ended yet.
func (w *worker) endEpochs(l *lease, run string, epoch uint64) error {
	for _, exited := range w.refuseEpochs(run, epoch) {
		defer func() { <-exited }()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	unreported := func(h *heldAttempt) bool { return h.phase != phaseReported }
	for !l.lost && slices.ContainsFunc(w.beforeEpochLocked(run, epoch), unreported) {
		w.heldChanged.Wait()
	}
	if l.lost {
		return errors.New("the lease of this worker is lost")
	}
	return nil
}

// refuseEpochs refuses and ends all attempts of a run's epochs before epoch, and their processes. Their
// results are discarded unless they are being sent already. If epoch is newer than all so far, it also
// resends the results that are kept of them. For exited see Seats.End.
func (w *worker) refuseEpochs(run string, epoch uint64) (exited []<-chan struct{}) {
	w.mu.Lock()
	r := w.runLocked(run)
	if epoch > r.epoch {
		r.epoch = epoch
		w.resendLocked(run, epoch)
	}
	tasks := w.stopLocked(stopDiscard, w.beforeEpochLocked(run, epoch)...)
	w.mu.Unlock()
	w.cancelTasks(tasks, false)
	return w.seats.End(func(seat *Seat) bool { return seat.Run == run && seat.Epoch < epoch })
}

// resendLocked sends the kept results of a run's earlier epochs, those below epoch, again. The caller
// must hold mu.
func (w *worker) resendLocked(run string, epoch uint64) {
	for _, h := range w.beforeEpochLocked(run, epoch) {
		if h.result != nil {
			h.phase = phaseEnded
			w.sendResultLocked(h)
		}
	}
}

// forgetRun ends all attempts of a run's epochs before epoch and discards all their results.
func (w *worker) forgetRun(run string, epoch uint64) {
	w.refuseEpochs(run, epoch)
	w.mu.Lock()
	for _, h := range w.beforeEpochLocked(run, epoch) {
		if h.phase >= phaseEnded {
			w.forgetLocked(h)
		}
	}
	w.runLocked(run).dropMessages()
	w.mu.Unlock()
}

// receiveHeartbeat handles a heartbeat of a run.
func (w *worker) receiveHeartbeat(m *nats.Msg) {
	var b Heartbeat
	if readJSON(m.Data, &b) != nil || b.Version != Version { // the run says why it does not use this worker
		return
	}
	b.Run = runKey(userIn(m.Subject), b.Run)
	w.mu.Lock()
	r := w.runs[b.Run]
	older := r != nil && b.Epoch < r.epoch
	if r != nil && !older {
		if r.silent {
			w.resendLocked(b.Run, b.Epoch+1)
		}
		r.heard, r.suspended, r.silent = w.s.now(), b.Suspended, false
	}
	w.mu.Unlock()
	if b.Over && !older {
		w.files.CleanUp(b.Run)
		w.forgetRun(b.Run, b.Epoch+1)
	}
}

// endSilentRuns ends the attempts of runs without a recent heartbeat. A run that reappears within keptFor
// learns of it.
func (w *worker) endSilentRuns() {
	most, connected := max(silentTTLs*w.Engine.TTL, minSilent), w.s.nc.IsConnected()
	if connected {
		w.cluster = w.s.nc.ConnectedClusterName() != ""
	}
	if w.cluster { // a run may be cut off from this part of the cluster, and consider this worker lost
		most = w.Engine.TTL * fence / 100
	}
	now := w.s.now()
	silent := map[string]int{} // number of attempts by run
	var tasks []uint64
	w.mu.Lock()
	for run, r := range w.runs {
		if !connected && !w.cluster { // heartbeats cannot arrive
			r.heard = now
		}
		since := now - r.heard
		again := r.silent
		if since <= most || again && since <= keptFor || r.suspended && since <= suspendedFor && w.state != draining {
			continue
		}
		attempts := w.beforeEpochLocked(run, maxEpoch)
		if again || len(attempts) == 0 {
			delete(w.runs, run)
		}
		r.silent, r.heard, silent[run] = true, now, len(attempts)
		tasks = append(tasks, w.stopLocked(stopSilent, attempts...)...)
		for _, h := range attempts {
			h.stop = stopSilent // also if its result is about to exist
			if h.phase == phaseReported || again {
				w.forgetLocked(h)
			} else if h.result != nil {
				w.loseLocked(h)
			}
		}
		r.dropMessages()
	}
	w.mu.Unlock()
	w.cancelTasks(tasks, w.cluster)
	for run, n := range silent {
		if n > 0 {
			w.Notice("the submitter of run " + userIn(run) + " has sent no heartbeat for " + most.String() + ": its tasks are ended")
		}
		w.seats.End(func(seat *Seat) bool { return seat.Run == run })
	}
}

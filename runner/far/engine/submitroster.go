package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"crew/runner/decide/task"
	"crew/runner/front/cli"
)

// roster is the workers that this run uses, and their slots.
type roster struct {
	mu        sync.RWMutex // held while slots join, so an attempt finds the worker of its slot
	open      bool         // slots may join; false until earlier epochs have ended
	workers   map[string]*remoteWorker
	bySlot    map[int]*remoteWorker
	noticed   map[string]bool // notices given so far
	refusal   string          // why a worker was last refused, at refusedAt
	lastCheck time.Time       // when checkWorkers last ran

	awake     time.Duration // how long this process has run, without its suspensions
	usedAt    time.Duration // when there were last slots, by awake; at first, when they could join
	refusedAt time.Duration // by awake
}

// remoteWorker is a worker that this run uses.
type remoteWorker struct {
	id, host      string // from its first announcement, or known from an earlier epoch
	tasks, orders string // subjects
	ttl           time.Duration
	offers        *[]task.Need
	clock         clock
	ctx           context.Context // done once the worker is lost; its cause is the error of the attempts
	lost          context.CancelCauseFunc

	// under roster.mu
	presence Presence      // the latest one; zero if only an earlier epoch knew the worker
	heardAt  time.Duration // roster.awake when it was last heard
	slots    []int         // IDs in the run
}

// user returns the user as which the worker connects.
func (w *remoteWorker) user() string {
	user, _, _ := strings.Cut(w.id, ".")
	return user
}

// openRoster subscribes to the announcements of the queue's workers.
func (x *submitter) openRoster() error {
	r := &x.roster
	r.workers, r.bySlot, r.noticed, r.lastCheck = map[string]*remoteWorker{}, map[int]*remoteWorker{}, map[string]bool{}, time.Now()
	for _, k := range x.id.Workers { // they may still run attempts of earlier epochs: see endEarlierEpochs
		x.addWorkerLocked(k.ID, k.Host, k.TTL)
	}
	_, err := x.s.nc.Subscribe(presenceSubject(x.Engine.Queue, allWorkers), func(m *nats.Msg) {
		if p, ok := parsePresence(m.Subject, m.Data); ok {
			x.receivePresence(p)
		}
	})
	if err == nil && x.detached == nil && x.hosts == nil {
		err = x.builder.probeWorkers(x.ctx, x.s, x.Engine.Queue)
	} else if err == nil { // a detached run, or one with hosts of its own, starts without workers
		err = x.s.nc.Publish(askSubject, nil)
	}
	return err
}

// maxTTL is the longest lease.
const maxTTL = 30 * 24 * time.Hour

// validWorker reports whether id is well formed.
func validWorker(id string) bool {
	user, name, _ := strings.Cut(id, ".")
	return user != "" && userToken(user) == user && validName(name)
}

// parsePresence decodes the announcement of a worker. ok is false if the announcement is invalid, or
// names another worker than the subject: the server has checked the user in the subject.
func parsePresence(subject string, data []byte) (p Presence, ok bool) {
	if readJSON(data, &p) != nil || presenceSubject(p.Queue, p.ID) != subject || !validWorker(p.ID) || p.Host == "" {
		return p, false
	}
	p.Slots = max(p.Slots, 0)
	return p, true
}

// addWorkerLocked adds a worker, as if it had just announced itself. The caller must hold mu.
func (x *submitter) addWorkerLocked(id, host string, ttl time.Duration) *remoteWorker {
	w := &remoteWorker{
		id: id, host: host, tasks: taskSubject(x.Engine.Queue, id, x.s.user, x.id.Run), orders: orderSubject(x.Engine.Queue, id, x.s.user),
		ttl: min(max(ttl, time.Second), maxTTL), heardAt: x.roster.awake,
	}
	w.ctx, w.lost = context.WithCancelCause(x.ctx)
	x.roster.workers[id] = w
	return w
}

// receivePresence handles the announcement of a worker.
func (x *submitter) receivePresence(p Presence) {
	r := &x.roster
	r.mu.Lock()
	defer r.mu.Unlock()
	w, why := r.workers[p.ID], x.info.unusable(&p, Version)
	if why != "" && r.open { // before that, Submit may return the reason as an error
		x.noticeOnceLocked(why)
		r.refusal, r.refusedAt = why, r.awake
	}
	switch {
	case w == nil && (p.State == gone || why != ""):
		return
	case w == nil:
		w = x.addWorkerLocked(p.ID, p.Host, p.TTL)
	case why != "":
		p.Slots = 0
	}
	if needs, err := task.ParseNeeds(p.Offers); err == nil && len(needs) > 0 && w.offers == nil {
		w.offers = &needs
	}
	w.presence, w.heardAt = p, r.awake
	if p.State == gone {
		x.loseLocked(w, "")
	} else {
		x.fitSlotsLocked(w)
	}
	if p.After == "" {
		return
	}
	for _, last := range r.workers {
		// Through a hub, any worker could claim to follow another user's.
		if last != w && last.user() == w.user() && (last.id == p.After || last.user() == p.After) {
			x.loseLocked(last, "it has ended")
		}
	}
}

// noticeOnceLocked gives a notice, once. The caller must hold mu.
func (x *submitter) noticeOnceLocked(text string) {
	if r := &x.roster; !r.noticed[text] && len(r.noticed) < 100 {
		r.noticed[text] = true
		go x.Notice(text) // it may block
	}
}

// maxSlots is the most slots of a run, however many its workers announce.
const maxSlots = 1 << 18

// fitSlotsLocked adds or removes slots of a worker until the run has as many as the worker offers. The
// caller must hold mu.
func (x *submitter) fitSlotsLocked(w *remoteWorker) {
	r := &x.roster
	want := 0
	if r.open && w.presence.State == ready && !x.leaving(w) {
		want = w.presence.Slots
	}
	want = min(want, len(w.slots)+max(0, maxSlots-len(r.bySlot)))
	for len(w.slots) > want {
		last := len(w.slots) - 1
		id := w.slots[last]
		w.slots = w.slots[:last]
		delete(r.bySlot, id)
		x.Do(task.Command{Op: task.Leave, N: id})
	}
	if n := want - len(w.slots); n > 0 && x.rememberLocked(w) {
		ids := x.Do(task.Command{Op: task.Join, N: n, Slot: task.Slot{Cap: x.Coproc.Window, Host: w.host, Labels: w.presence.Labels, Offers: w.offers}}).Slots
		for _, id := range ids {
			r.bySlot[id] = w
		}
		w.slots = append(w.slots, ids...)
	}
}

// assign assigns an attempt to the worker of its slot. It returns false if that has just left, or the
// attempt was recalled.
func (x *submitter) assign(p *pendingAttempt) bool {
	x.roster.mu.RLock()
	defer x.roster.mu.RUnlock()
	x.attempts.mu.Lock()
	defer x.attempts.mu.Unlock()
	w, a := x.roster.bySlot[p.attempt.Slot.ID], p.attempt
	if w == nil || p.order == opReturn {
		return false
	}
	x.attempts.count++
	p.id = ID{x.id.Run, x.id.Epoch, a.Task.ID, a.Number, x.attempts.count}
	p.worker, p.token = w, x.builder.token(w.id, p.id)
	return true
}

// loseLocked removes a worker that has ended or is silent. Its unfinished attempts are lost, and
// core.Core.willRetry starts them elsewhere. why is ""
// if the worker has announced its end, and so has returned those attempts unbegun. The caller must
// hold mu.
func (x *submitter) loseLocked(w *remoteWorker, why string) {
	delete(x.roster.workers, w.id)
	x.id.Workers = slices.DeleteFunc(x.id.Workers, w.matches)
	w.presence.State = gone
	x.fitSlotsLocked(w)
	err := errUnbegun
	if why != "" {
		err = fmt.Errorf("its worker %s is lost", w.host)
		then := "it ran nothing"
		if lost := x.attempts.filter(func(p *pendingAttempt) bool { return p.worker == w && !p.kept }); len(lost) > 0 {
			then = task.Count(int64(len(lost)), "task") + " will start elsewhere"
		}
		go x.Notice(fmt.Sprintf("worker %s is lost: %s; %s", w.host, why, then))
	}
	w.lost(err)
}

// checkWorkers tells workers on leaving hosts to drain. It reports whether workers are silent, and with
// remove, removes those. connected says whether this process can receive announcements now. The run
// fails if it has had no slots for the time of --connect-timeout, because all workers were refused.
func (x *submitter) checkWorkers(connected, remove bool) (silent bool) {
	r := &x.roster
	r.mu.Lock()
	defer r.mu.Unlock()
	r.awake += min(time.Since(r.lastCheck), time.Second)
	r.lastCheck = time.Now()
	for _, w := range r.workers {
		if !connected {
			w.heardAt = r.awake
		}
		switch {
		case r.awake-w.heardAt > w.ttl:
			if silent = true; !remove {
				break
			}
			x.loseLocked(w, fmt.Sprintf("nothing came from it for %v", w.ttl))
		case x.leaving(w) && w.presence.State != draining: // it has to drain
			x.fitSlotsLocked(w)
			_ = x.s.nc.Publish(w.orders, Order{Op: opDrain}.encode()) // repeated if lost
		}
	}
	if len(r.bySlot) > 0 {
		r.usedAt = r.awake
	} else if reach := x.Engine.Reach; r.awake-r.usedAt > reach && r.awake-r.refusedAt < reach {
		x.Do(task.Command{Op: task.Fail, Err: errors.New(r.refusal)})
	}
	return silent
}

// leaving reports whether the host of a worker is to leave the run.
func (x *submitter) leaving(w *remoteWorker) bool {
	return x.hosts != nil && x.hosts.Leaving(w.presence.Mark)
}

// SetHosts replaces the hosts of the run. Workers on hosts that are not in list drain and leave.
func (x *submitter) SetHosts(list []cli.Host) {
	x.hosts.Set(x.hosts.workers(x.Call, list))
}

// all returns the workers of the run.
func (r *roster) all() []*remoteWorker {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Collect(maps.Values(r.workers))
}

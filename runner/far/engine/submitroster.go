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
	"crew/runner/front/wiring"
)

// roster is the workers that this run uses, and their slots.
type roster struct {
	mu         sync.RWMutex // held while slots join, so that an attempt finds its slot's worker
	open       bool         // slots may join
	workers    map[string]*remoteWorker
	bySlot     map[int]*remoteWorker
	noticed    map[string]bool // notices given
	emptySince time.Time       // since when there has been no slot; zero if there are some
	refusal    string          // a worker was refused last, at refused
	refusedAt  time.Time
	lastDeaf   time.Time // when this process last could not have heard of workers; for the ticker alone
	lastCheck  time.Time // when it last looked for silent ones
}

// worker is a worker that this run uses.
type remoteWorker struct {
	id, host      string // as it first said
	tasks, orders string // subjects
	ttl           time.Duration
	offers        *task.Offers
	clock         clock
	ctx           context.Context // until it is lost, which is its cause
	lost          context.CancelCauseFunc

	// The roster's mu guards what follows.
	presence  Presence // last; without slots if it is here only for what an earlier epoch gave it
	heardAt   time.Time
	slots     []int     // of the run
	drainSent time.Time // when it was last told to end, as its host leaves
}

// user returns as which user the worker connects.
func (w *remoteWorker) user() string {
	user, _, _ := strings.Cut(w.id, ".")
	return user
}

// openRoster begins to listen to the workers of the queue.
func (x *submitter) openRoster() error {
	r := &x.roster
	r.workers, r.bySlot, r.noticed = map[string]*remoteWorker{}, map[int]*remoteWorker{}, map[string]bool{}
	for _, k := range x.id.Workers { // until they have left what they may run of earlier epochs, or their leases have ended
		x.addWorkerLocked(k.ID, k.Host, k.TTL)
	}
	_, err := x.s.nc.Subscribe(presenceSubject(x.sub.Queue, allWorkers), func(m *nats.Msg) {
		if p, ok := parsePresence(m.Subject, m.Data); ok {
			x.receivePresence(p)
		}
	})
	if err == nil && x.detached == nil && x.hosts == nil {
		_, err = x.builder.probeWorkers(x.ctx, x.s, x.sub.Queue)
	} else if err == nil { // others may come
		err = x.s.nc.Publish(askSubject, nil)
	}
	return err
}

// mostTTL is the longest lease.
const maxTTL = 30 * 24 * time.Hour

// validWorker reports whether an ID can be a worker's.
func validWorker(id string) bool {
	user, name, _ := strings.Cut(id, ".")
	return user != "" && userToken(user) == user && validName(name)
}

// presence reads what a worker tells of itself. It ignores what names another one than the subject
// does, for whose user the server vouches.
func parsePresence(subject string, data []byte) (p Presence, ok bool) {
	if readJSON(data, &p) != nil || presenceSubject(p.Queue, p.ID) != subject || !validWorker(p.ID) || p.Host == "" {
		return p, false
	}
	p.Slots = min(max(p.Slots, 0), 1<<16)
	return p, true
}

// newWorker adds a worker of which something has just been heard. Its caller holds mu.
func (x *submitter) addWorkerLocked(id, host string, ttl time.Duration) *remoteWorker {
	w := &remoteWorker{
		id: id, host: host, tasks: taskSubject(x.sub.Queue, id, x.s.user, x.id.Run), orders: orderSubject(x.sub.Queue, id, x.s.user),
		ttl: min(max(ttl, time.Second), maxTTL), heardAt: time.Now(),
	}
	w.ctx, w.lost = context.WithCancelCause(x.ctx)
	x.roster.workers[id] = w
	return w
}

// heard takes what a worker tells of itself.
func (x *submitter) receivePresence(p Presence) {
	r := &x.roster
	r.mu.Lock()
	defer r.mu.Unlock()
	w, why := r.workers[p.ID], x.builder.unusable(p)
	if why != "" && r.open { // before that, Submit may return it as an error
		x.noticeOnceLocked(why)
		r.refusal, r.refusedAt = why, time.Now()
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
		w.offers = (*task.Offers)(&needs)
	}
	w.presence, w.heardAt = p, time.Now()
	if p.State == gone {
		x.loseLocked(w, "")
	} else {
		x.fitSlotsLocked(w)
	}
	// On an engine, who says so may be anybody.
	if last := r.workers[p.After]; last != nil && last != w && x.hosts != nil {
		x.loseLocked(last, "it has ended")
	}
}

// tell gives a notice once.
func (x *submitter) noticeOnceLocked(text string) {
	if r := &x.roster; !r.noticed[text] && len(r.noticed) < 100 {
		r.noticed[text] = true
		go x.sub.Notice(text) // which may wait for a reader
	}
}

// mostSlots is how many a run has at most, whatever workers say.
const maxSlots = 1 << 18

// fit has as many slots of a worker in the run as it offers. The caller holds mu.
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
		x.sub.Do(task.Command{Op: task.Leave, N: id})
	}
	if n := want - len(w.slots); n > 0 && x.rememberLocked(w) {
		ids := x.sub.Do(task.Command{Op: task.Join, N: n, Slot: task.Slot{Cap: x.sub.Window, Host: w.host, Labels: w.presence.Labels, Offers: w.offers}}).Slots
		for _, id := range ids {
			r.bySlot[id] = w
		}
		w.slots = append(w.slots, ids...)
	}
}

// assign gives a flight to the worker of its slot. It returns false if that has just left, or the flight
// is recalled.
func (x *submitter) assign(p *pendingAttempt) bool {
	x.roster.mu.RLock()
	defer x.roster.mu.RUnlock()
	x.attempts.mu.Lock()
	defer x.attempts.mu.Unlock()
	w, a := x.roster.bySlot[p.attempt.Slot.ID], p.attempt
	if w == nil || p.order == opReturn {
		return false
	}
	p.id = ID{x.id.Run, x.id.Epoch, a.Task.ID, a.Number}
	p.worker, p.token = w, x.builder.token(w.id, p.id)
	return true
}

// lose forgets a worker, which has ended or is silent: what it was given and has not brought back is
// lost. why is "" if it has said that it has gone, and nothing of that has begun. The caller holds mu.
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
		go x.sub.Notice(fmt.Sprintf("worker %s is lost: %s; %s", w.host, why, then))
	}
	w.lost(err)
	x.attempts.dropMessages(w)
}

// watch looks for workers that are silent. connected says whether this process can
// hear of them.
func (x *submitter) checkWorkers(now time.Time, connected bool) {
	r := &x.roster
	r.mu.Lock()
	defer r.mu.Unlock()
	if !connected || now.Sub(r.lastCheck) > time.Second {
		r.lastDeaf = now // or this process stood still
	}
	r.lastCheck = now
	slots := 0
	for _, w := range r.workers {
		switch {
		case now.Sub(w.heardAt) > w.ttl && now.Sub(r.lastDeaf) > w.ttl:
			x.loseLocked(w, fmt.Sprintf("nothing came from it for %v", w.ttl))
		case x.leaving(w) && w.presence.State != draining && now.Sub(w.drainSent) >= orderAfter: // to end, once what runs has finished
			w.drainSent = now
			x.fitSlotsLocked(w)
			_ = x.s.nc.Publish(w.orders, Order{Op: opDrain}.encode()) // the next one follows
		}
		slots += len(w.slots)
	}
	x.reportNoSlotsLocked(now, slots)
}

// leaving reports whether a worker is on a host that leaves the run.
func (x *submitter) leaving(w *remoteWorker) bool {
	return x.hosts != nil && x.hosts.Leaving(w.presence.Mark)
}

// SetHosts has workers on the hosts of a place, and on these alone once others have left.
func (x *submitter) SetHosts(p wiring.Place) error {
	sub := x.sub
	sub.Place = p
	return x.hosts.Set(x.hosts.workers(sub))
}

// loneFor is how long a run is without slots before it says so: the last worker may be
// restarting.
const noSlotsAfter = time.Second

// missing says when there is no slot, and hence nothing runs.
func (x *submitter) reportNoSlotsLocked(now time.Time, slots int) {
	r := &x.roster
	switch {
	case slots > 0:
		r.emptySince = time.Time{}
		delete(r.noticed, x.noWorkerText())
	case !r.open || x.hosts != nil:
	case r.emptySince.IsZero():
		r.emptySince = now
	case now.Sub(r.emptySince) > x.sub.Reach && now.Sub(r.refusedAt) < x.sub.Reach: // all that are there are refused
		x.sub.Do(task.Command{Op: task.Fail, Err: errors.New(r.refusal)})
	case now.Sub(r.emptySince) > noSlotsAfter:
		x.noticeOnceLocked(x.noWorkerText())
	}
}

func (x *submitter) noWorkerText() string {
	return "no worker of queue " + x.sub.Queue + " is there: the run waits for a crew worker"
}

// lacking says what tasks need and no worker offers: once, when it has been so for some time.
func (x *submitter) unmetNeedsReporter() func() {
	seen := map[string]int{} // how often in a row
	return func() {
		now := x.sub.Do(task.Command{Op: task.Look}).Snapshot
		if now == nil || len(now.Slots) == 0 { // missing says that
			return
		}
		tasks := map[string]int{}
		for _, b := range now.Waiting {
			if b.By == task.ByOffers {
				tasks[b.Needs] += b.Tasks
			}
		}
		maps.DeleteFunc(seen, func(needs string, _ int) bool { return tasks[needs] == 0 })
		for _, needs := range slices.Sorted(maps.Keys(tasks)) {
			if seen[needs]++; seen[needs] == 2 {
				n, wait := tasks[needs], " wait for one"
				if n == 1 {
					wait = " waits for one"
				}
				x.sub.Notice("no worker of queue " + x.sub.Queue + " offers " + needs + ": " + task.Count(int64(n), "task") + wait)
			}
		}
	}
}

// all returns the workers that are used.
func (r *roster) all() []*remoteWorker {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Collect(maps.Values(r.workers))
}

// find returns the worker with an ID if it is still used, or nil.
func (r *roster) find(id string) *remoteWorker {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.workers[id]
}

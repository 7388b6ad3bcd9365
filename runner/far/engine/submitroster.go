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
	mu      sync.RWMutex // held while slots join, so that an attempt finds its slot's worker
	open    bool         // slots may join
	workers map[string]*worker
	bySlot  map[int]*worker
	told    map[string]bool // notices given
	empty   time.Time       // since when there has been no slot; zero if there are some
	why     string          // a worker was refused last, at refused
	refused time.Time
	grace   time.Time // when this process last could not have heard of workers; for the ticker alone
	looked  time.Time // when it last looked for silent ones
}

// worker is a worker that this run uses.
type worker struct {
	id, host      string // as it first said
	tasks, orders string // subjects
	ttl           time.Duration
	offers        *task.Offers
	clock         clock
	ctx           context.Context // until it is lost, which is its cause
	lost          context.CancelCauseFunc

	// The roster's mu guards what follows.
	said  Presence // last; without slots if it is here only for what an earlier epoch gave it
	heard time.Time
	slots []int     // of the run
	told  time.Time // when it was last told to end, as its host leaves
}

// user returns as which user the worker connects.
func (w *worker) user() string {
	user, _, _ := strings.Cut(w.id, ".")
	return user
}

// openRoster begins to listen to the workers of the queue.
func (x *submitter) openRoster() error {
	r := &x.roster
	r.workers, r.bySlot, r.told = map[string]*worker{}, map[int]*worker{}, map[string]bool{}
	for _, k := range x.id.Workers { // until they have left what they may run of earlier epochs, or their leases have ended
		x.newWorker(k.ID, k.Host, k.TTL)
	}
	_, err := x.s.nc.Subscribe(presenceSubject(x.sub.Queue, anyOne), func(m *nats.Msg) {
		if p, ok := presence(m.Subject, m.Data); ok {
			x.heard(p)
		}
	})
	if err == nil && x.handed == nil && x.hosts == nil {
		_, err = x.maker.present(x.ctx, x.s, x.sub.Queue)
	} else if err == nil { // others may come
		err = x.s.nc.Publish(askSubject, nil)
	}
	return err
}

// mostTTL is the longest lease.
const mostTTL = 30 * 24 * time.Hour

// validWorker reports whether an ID can be a worker's.
func validWorker(id string) bool {
	user, name, _ := strings.Cut(id, ".")
	return user != "" && userToken(user) == user && validName(name)
}

// presence reads what a worker tells of itself. It ignores what names another one than the subject
// does, for whose user the server vouches.
func presence(subject string, data []byte) (p Presence, ok bool) {
	if readJSON(data, &p) != nil || presenceSubject(p.Queue, p.ID) != subject || !validWorker(p.ID) || p.Host == "" {
		return p, false
	}
	p.Slots = min(max(p.Slots, 0), 1<<16)
	return p, true
}

// newWorker adds a worker of which something has just been heard. Its caller holds mu.
func (x *submitter) newWorker(id, host string, ttl time.Duration) *worker {
	w := &worker{
		id: id, host: host, tasks: taskSubject(x.sub.Queue, id, x.s.user, x.id.Run), orders: orderSubject(x.sub.Queue, id, x.s.user),
		ttl: min(max(ttl, time.Second), mostTTL), heard: time.Now(),
	}
	w.ctx, w.lost = context.WithCancelCause(x.ctx)
	x.roster.workers[id] = w
	return w
}

// heard takes what a worker tells of itself.
func (x *submitter) heard(p Presence) {
	r := &x.roster
	r.mu.Lock()
	defer r.mu.Unlock()
	w, why := r.workers[p.ID], x.maker.refuses(p)
	if why != "" && r.open { // before that, Submit may return it as an error
		x.tell(why)
		r.why, r.refused = why, time.Now()
	}
	switch {
	case w == nil && (p.State == gone || why != ""):
		return
	case w == nil:
		w = x.newWorker(p.ID, p.Host, p.TTL)
	case why != "":
		p.Slots = 0
	}
	if needs, err := task.ParseNeeds(p.Offers); err == nil && len(needs) > 0 && w.offers == nil {
		w.offers = (*task.Offers)(&needs)
	}
	w.said, w.heard = p, time.Now()
	if p.State == gone {
		x.lose(w, "")
	} else {
		x.fit(w)
	}
	// On an engine, who says so may be anybody.
	if last := r.workers[p.After]; last != nil && last != w && x.hosts != nil {
		x.lose(last, "it has ended")
	}
}

// tell gives a notice once.
func (x *submitter) tell(text string) {
	if r := &x.roster; !r.told[text] && len(r.told) < 100 {
		r.told[text] = true
		go x.sub.Notice(text) // which may wait for a reader
	}
}

// mostSlots is how many a run has at most, whatever workers say.
const mostSlots = 1 << 18

// fit has as many slots of a worker in the run as it offers. The caller holds mu.
func (x *submitter) fit(w *worker) {
	r := &x.roster
	want := 0
	if r.open && w.said.State == ready && !x.leaving(w) {
		want = w.said.Slots
	}
	want = min(want, len(w.slots)+max(0, mostSlots-len(r.bySlot)))
	for len(w.slots) > want {
		last := len(w.slots) - 1
		id := w.slots[last]
		w.slots = w.slots[:last]
		delete(r.bySlot, id)
		x.sub.Do(task.Command{Op: task.Leave, N: id})
	}
	if n := want - len(w.slots); n > 0 && x.remember(w) {
		ids := x.sub.Do(task.Command{Op: task.Join, N: n, Slot: task.Slot{Cap: x.sub.Window, Host: w.host, Labels: w.said.Labels, Offers: w.offers}}).Slots
		for _, id := range ids {
			r.bySlot[id] = w
		}
		w.slots = append(w.slots, ids...)
	}
}

// assign gives a flight to the worker of its slot. It returns false if that has just left, or the flight
// is recalled.
func (x *submitter) assign(f *flight) bool {
	x.roster.mu.RLock()
	defer x.roster.mu.RUnlock()
	x.flights.mu.Lock()
	defer x.flights.mu.Unlock()
	w, a := x.roster.bySlot[f.attempt.Slot.ID], f.attempt
	if w == nil || f.op == opReturn {
		return false
	}
	f.id = ID{x.id.Run, x.id.Epoch, a.Task.ID, a.Number}
	f.worker, f.token = w, x.maker.token(w.id, f.id)
	return true
}

// lose forgets a worker, which has ended or is silent: what it was given and has not brought back is
// lost. why is "" if it has said that it has gone, and nothing of that has begun. The caller holds mu.
func (x *submitter) lose(w *worker, why string) {
	delete(x.roster.workers, w.id)
	x.id.Workers = slices.DeleteFunc(x.id.Workers, w.is)
	w.said.State = gone
	x.fit(w)
	err := errUnbegun
	if why != "" {
		err = fmt.Errorf("its worker %s is lost", w.host)
		then := "it ran nothing"
		if lost := x.flights.of(func(f *flight) bool { return f.worker == w && !f.kept }); len(lost) > 0 {
			then = task.Count(int64(len(lost)), "task") + " will start elsewhere"
		}
		go x.sub.Notice(fmt.Sprintf("worker %s is lost: %s; %s", w.host, why, then))
	}
	w.lost(err)
	x.flights.drop(w)
}

// watch looks for workers that are silent. connected says whether this process can
// hear of them.
func (x *submitter) watch(now time.Time, connected bool) {
	r := &x.roster
	r.mu.Lock()
	defer r.mu.Unlock()
	if !connected || now.Sub(r.looked) > time.Second {
		r.grace = now // or this process stood still
	}
	r.looked = now
	slots := 0
	for _, w := range r.workers {
		switch {
		case now.Sub(w.heard) > w.ttl && now.Sub(r.grace) > w.ttl:
			x.lose(w, fmt.Sprintf("nothing came from it for %v", w.ttl))
		case x.leaving(w) && w.said.State != draining && now.Sub(w.told) >= orderAfter: // to end, once what runs has finished
			w.told = now
			x.fit(w)
			_ = x.s.nc.Publish(w.orders, Order{Op: opDrain}.encode()) // the next one follows
		}
		slots += len(w.slots)
	}
	x.missing(now, slots)
}

// leaving reports whether a worker is on a host that leaves the run.
func (x *submitter) leaving(w *worker) bool { return x.hosts != nil && x.hosts.Leaving(w.said.Mark) }

// SetHosts has workers on the hosts of a place, and on these alone once others have left.
func (x *submitter) SetHosts(p wiring.Place) error {
	sub := x.sub
	sub.Place = p
	return x.hosts.Set(x.hosts.workers(sub))
}

// loneFor is how long a run is without slots before it says so: the last worker may be
// restarting.
const loneFor = time.Second

// missing says when there is no slot, and hence nothing runs.
func (x *submitter) missing(now time.Time, slots int) {
	r := &x.roster
	switch {
	case slots > 0:
		r.empty = time.Time{}
		delete(r.told, x.nobody())
	case !r.open || x.hosts != nil:
	case r.empty.IsZero():
		r.empty = now
	case now.Sub(r.empty) > x.sub.Reach && now.Sub(r.refused) < x.sub.Reach: // all that are there are refused
		x.sub.Do(task.Command{Op: task.Fail, Err: errors.New(r.why)})
	case now.Sub(r.empty) > loneFor:
		x.tell(x.nobody())
	}
}

func (x *submitter) nobody() string {
	return "no worker of queue " + x.sub.Queue + " is there: the run waits for a crew worker"
}

// lacking says what tasks need and no worker offers: once, when it has been so for some time.
func (x *submitter) lacking() func() {
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
func (r *roster) all() []*worker {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Collect(maps.Values(r.workers))
}

// find returns the worker with an ID if it is still used, or nil.
func (r *roster) find(id string) *worker {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.workers[id]
}

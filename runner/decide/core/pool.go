package core

import (
	"slices"
	"time"

	"crew/runner/decide/task"
	"crew/sched"
)

// pool is the set of slots, with what runs there.
type pool struct {
	output   *output
	ready    *sched.Dispatcher // the queue's
	places   []*place          // by number
	slots    int
	capacity int       // of all slots together, without what they hold ahead
	running  int       // tasks that hold a slot
	idle     int       // slots without an attempt
	most     int       // attempts that wait at a slot
	lookAt   time.Time // when to look for those that wait for long; zero if there are none
	timeless bool      // the executor ends attempts at their timeouts
	tokens   tokens
	machine  machine
	streams  streams
}

// place is the number of a slot, with what runs under it.
type place struct {
	id     int
	slot   *task.Slot // nil if it has left
	latest *task.Slot // or else the one that has; nil before the first
	stock  *sched.Stock
	list   []*entry // those that hold it, in order, also after it has left
	stream stream
}

// own returns the numbers of this machine's own slots, sorted.
func (p *pool) own() (ids []int) {
	for id, at := range p.places {
		if at.slot != nil && at.slot.Host == "" {
			ids = append(ids, id)
		}
	}
	return ids
}

// join adds n slots like s, with a stock, under the lowest free numbers, which it returns. A
// number that has left is not given to another host while an attempt still runs
// under it.
func (p *pool) join(s task.Slot, stock *sched.Stock, n int) (ids []int) {
	s.Cap, s.Host = max(s.Cap, 1), task.HostName(s.Host)
	slot := sched.Slot{Cap: s.Cap + p.most, Stock: stock}
	if s.Host != "" {
		slot.Host = sched.Place(s.Host)
	}
	for _, l := range s.Labels {
		slot.Labels = append(slot.Labels, sched.Hash(l))
	}
	for s.ID = 1; n > 0; s.ID++ {
		for s.ID >= len(p.places) {
			p.places = append(p.places, &place{id: len(p.places)})
		}
		at := p.places[s.ID]
		if at.slot != nil || len(at.list) > 0 && at.latest.Host != s.Host {
			continue
		}
		added := s
		at.slot, at.latest, at.stock = &added, &added, stock
		p.slots++
		p.capacity += s.Cap
		if len(at.list) == 0 {
			p.idle++
		}
		slot.ID = s.ID
		p.ready.Join(slot)
		ids = append(ids, s.ID)
		n--
	}
	p.resized()
	return ids
}

// leave removes slots. Attempts running there may finish.
func (p *pool) leave(ids ...int) {
	for _, id := range ids {
		at := p.places[id]
		p.slots--
		p.capacity -= at.slot.Cap
		if len(at.list) == 0 {
			p.idle--
		}
		at.slot = nil
		p.ready.Leave(id)
	}
	p.resized()
}

func (p *pool) resized() {
	p.streams.resized = true
	p.output.emit(task.Event{Kind: task.Resized, Slot: p.slots})
}

// may reports whether a slot may have one more attempt, for which it needs a token if it is idle.
func (p *pool) may(slot int) bool {
	at := p.places[slot]
	if len(at.list) > 0 {
		return p.most == 0 || p.output.clock.run.Sub(at.list[0].begun) < brief
	}
	return p.tokens.allow()
}

// begin notes that a task holds a slot from now on.
func (p *pool) begin(slot int, e *entry, now time.Time) *place {
	p.running++
	at := p.places[slot]
	if at.list = append(at.list, e); len(at.list) == 1 {
		p.idle--
		p.tokens.busy++
		p.tokens.stale = p.tokens.own
		if g := p.machine.gauge; g != nil {
			g.Started(now)
		}
	}
	return at
}

// end notes that a task holds its slot no more.
func (p *pool) end(e *entry) *place {
	p.running--
	at := p.places[e.slot.ID]
	i := slices.Index(at.list, e)
	if at.list = slices.Delete(at.list, i, i+1); len(at.list) == 0 {
		if at.slot != nil {
			p.idle++
		}
		p.tokens.busy--
		if g := p.machine.gauge; g != nil {
			g.Ended()
		}
	}
	return at
}

// resize sets the number of this machine's own slots, at least 1. The highest
// numbers leave first; attempts running there may finish.
func (p *pool) resize(n, window int) {
	own := p.own()
	n = max(n, 1)
	if n > len(own) {
		p.join(task.Slot{Cap: window}, nil, n-len(own))
	} else if n < len(own) {
		p.leave(own[n:]...)
	}
}

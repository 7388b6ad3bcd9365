package core

import (
	"slices"
	"time"

	"crew/runner/decide/task"
	"crew/sched"
)

// pool holds the slots and the attempts in them.
type pool struct {
	output    *output
	ready     *sched.Dispatcher // of the queue
	slots     []*slot           // by ID
	joined    int               // slots that are in
	capacity  int               // attempts that may run at once in all slots; those sent ahead are not counted
	running   int               // tasks that hold a slot
	idle      int               // slots without attempts
	aheadMax  int               // attempts that may wait at each slot
	recheckAt time.Time         // when to look for long attempts with others behind them; zero for never
	tokens    tokens
	machine   machine
	streams   streams
}

// slot is the state of one slot ID.
type slot struct {
	id       int
	current  *task.Slot // nil if the slot has left
	latest   *task.Slot // current or, if the slot has left, its last value; nil before the first
	attempts []*entry   // tasks that hold the slot, in order, even after it has left
	stream   stream
}

// ownSlots returns the IDs of the slots of this machine, sorted.
func (p *pool) ownSlots() (ids []int) {
	for id, at := range p.slots {
		if at.current != nil && at.current.Host == "" {
			ids = append(ids, id)
		}
	}
	return ids
}

// join adds n slots like s, under the lowest free IDs, and returns these. An ID is not
// given to another host while an attempt still runs under it.
func (p *pool) join(s task.Slot, n int) (ids []int) {
	s.Cap, s.Host = max(s.Cap, 1), task.HostName(s.Host)
	joining := sched.Slot{Places: s.Cap + p.aheadMax, Offers: s.Offers}
	if s.Host != "" {
		joining.Host = sched.StableHash(s.Host)
	}
	for _, l := range s.Labels {
		joining.Labels = append(joining.Labels, sched.Hash(l))
	}
	for s.ID = 1; n > 0; s.ID++ {
		for s.ID >= len(p.slots) {
			p.slots = append(p.slots, &slot{id: len(p.slots)})
		}
		at := p.slots[s.ID]
		if at.current != nil || len(at.attempts) > 0 && at.latest.Host != s.Host {
			continue
		}
		added := s
		at.current, at.latest = &added, &added
		p.joined++
		p.capacity += s.Cap
		if len(at.attempts) == 0 {
			p.idle++
		}
		joining.ID = s.ID
		p.ready.Join(joining)
		ids = append(ids, s.ID)
		n--
	}
	p.resized()
	return ids
}

// leave removes slots. Attempts running there may finish.
func (p *pool) leave(ids ...int) {
	for _, id := range slices.Backward(ids) { // the last ones are the quickest to remove
		at := p.slots[id]
		p.joined--
		p.capacity -= at.current.Cap
		if len(at.attempts) == 0 {
			p.idle--
		}
		at.current = nil
		p.ready.Leave(id)
	}
	p.resized()
}

func (p *pool) resized() {
	p.streams.resized = true
	p.output.emit(task.Event{Kind: task.Resized, Slot: p.joined})
}

// mayStart reports whether a slot may take one more attempt. An idle slot needs a token for it.
func (p *pool) mayStart(slot int) bool {
	at := p.slots[slot]
	if len(at.attempts) > 0 {
		return p.aheadMax == 0 || p.output.clock.run.Sub(at.attempts[0].begunRun) < longAfter
	}
	return p.tokens.allow()
}

// occupy notes that a task holds a slot.
func (p *pool) occupy(slot int, e *entry, now time.Time) *slot {
	p.running++
	at := p.slots[slot]
	if at.attempts = append(at.attempts, e); len(at.attempts) == 1 {
		p.idle--
		p.tokens.busy++
		p.tokens.needsRecount = p.tokens.own
		p.machine.started(now)
	}
	return at
}

// vacate notes that a task no longer holds its slot.
func (p *pool) vacate(e *entry) *slot {
	p.running--
	at := p.slots[e.slot.ID]
	i := slices.Index(at.attempts, e)
	if at.attempts = slices.Delete(at.attempts, i, i+1); len(at.attempts) == 0 {
		if at.current != nil {
			p.idle++
		}
		p.tokens.busy--
		p.machine.running--
	}
	return at
}

// resize sets the number of slots of this machine to n, but at least 1. The highest IDs leave
// first; attempts that run there may finish.
func (p *pool) resize(n, window int) {
	own := p.ownSlots()
	n = max(n, 1)
	if n > len(own) {
		p.join(task.Slot{Cap: window}, n-len(own))
	} else if n < len(own) {
		p.leave(own[n:]...)
	}
}

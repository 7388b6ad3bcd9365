package sched

import (
	"math"
	"slices"
)

// byTopic dedicates slots to keys: each topic has a team of slots, which share
// its items as a pool. The rank of an item counts within its team. A slot counts as
// one whatever its capacity, and moves to another team only while it holds nothing.
//
// Listed topics get the slots they ask for. If there are more slots, the others
// go to the rest ("*") or, without a rest, to all topics in proportion; if there
// are fewer, each topic gets fewer in proportion, but at least one. Slots are
// dealt in the order of the list, so the first topic has the lowest IDs until
// slots join or leave. Automatic topics have one slot each. The other slots go
// where items wait: at once while they are spare, otherwise at the next Balance.
//
// With fewer slots than topics, the teams share slots: after each item, a slot
// goes to the topic that has waited longest for one, so no topic starves.
// Automatic topics with nothing outstanding are then forgotten.
//
// A topic whose key has been the label of a slot is bound from then on: only slots
// with that label work for it, and while none is in, its items wait. Its slots are
// those that it is due, as far as there are any with its label. Other topics get the
// rest, first the slots without labels of topics, and give such a slot back after
// the item that it holds. A slot with the labels of several topics works for one of
// them at a time; after an item it goes to one that has none and waits.
type byTopic struct {
	slots
	slab                // a node's owner is the ID of its station, 0 in a list of the pool
	stations []*station // by slot
	auto     bool
	topics   map[uint64]*team // by key
	teams    []*team          // in the order of the list, the rest last
	rest     *team            // nil if other keys are refused
	spare    *team            // slots of no team; never has items
	due      int              // the sum of want
	ready    heap[*team]      // teams with an item and a slot for it, in the order of these slots
	needy    []*team          // teams that had a claim to a slot when they were added
	dormant  heap[*team]      // automatic teams with nothing outstanding, the longest dormant first
	unused   spares[team]
	made     int            // how many teams have been made
	tick     int64          // orders dormant
	labels   map[uint64]int // how many slots that are in have a label, for those seen that may name topics; nil without any
}

func newByTopic(topics Topics) *byTopic {
	p := &byTopic{
		slots: newSlots(), slab: newIndexedSlab(), stations: make([]*station, 1),
		auto: topics.Auto, topics: map[uint64]*team{},
	}
	p.spare = p.newTeam()
	for _, c := range topics.List {
		t := p.enrol()
		t.weight = c.Workers
		p.name(t, c.Key)
	}
	if topics.Rest > 0 {
		p.rest = p.enrol()
		p.rest.weight = topics.Rest
	}
	return p
}

func (p *byTopic) newTeam() *team {
	t := p.unused.take()
	if t.order == 0 {
		p.made++
		*t = team{pool: pool{policy: p}, order: p.made, limit: math.MaxInt, most: math.MaxInt}
	}
	return t
}

// enrol makes a team and adds it to teams.
func (p *byTopic) enrol() *team {
	t := p.newTeam()
	t.index = len(p.teams)
	p.teams = append(p.teams, t)
	return t
}

func (p *byTopic) name(t *team, key uint64) {
	t.key, t.named, t.limit = key, true, math.MaxInt
	if t.most, t.bound = p.labels[key]; !t.bound {
		t.most = math.MaxInt
	}
	p.topics[key] = t
}

// team returns the team that has the items of a key, or nil.
func (p *byTopic) team(key uint64) *team {
	if t := p.topics[key]; t != nil {
		return t
	}
	return p.rest
}

// shared reports whether there are fewer slots than teams.
func (p *byTopic) shared() bool { return len(p.ids) < len(p.teams) }

func (p *byTopic) Push(it Item) bool {
	p.update()
	t := p.team(it.Key)
	if t == nil && p.auto {
		t = p.discover(it.Key)
	}
	if t == nil {
		return false
	}
	t.push(&it)
	p.extend(t)
	p.refresh(t)
	p.meetClaims()
	return true
}

func (p *byTopic) Ready() int {
	p.update()
	if p.ready.len() == 0 {
		return 0
	}
	return p.ready.min().idle.min().id
}

func (p *byTopic) Pop(slot int) (Item, bool) {
	p.update()
	if !p.hasRoom(slot) {
		return Item{}, false
	}
	st := p.stations[slot]
	t := st.team
	it, ok := t.pop(st)
	if ok {
		p.refresh(t)
		p.meetClaims()
	}
	return it, ok
}

func (p *byTopic) Choice(it Item) (c Choice) {
	p.update()
	t := p.team(it.Key)
	if t == nil {
		return c
	}
	if t.have() == 1 && !p.shared() {
		c.Slot = t.load.min().id
	}
	c.Key, c.None = t.named, t.most == 0
	c.Idle = t.idle.len() > 0 && p.all[t.idle.min().id].held == 0
	return c
}

func (p *byTopic) Take(slot int, it Item) {
	p.update()
	st := p.stations[slot]
	p.slots.Take(slot, it)
	st.running += weight(&it)
	if t := st.team; t != nil {
		t.held++
		t.pool.refresh(st)
		p.refresh(t)
	}
}

// Done moves the slot to a team with a claim if its own team has more slots than
// it is due. A slot that still holds items becomes spare until they are done.
func (p *byTopic) Done(slot int, it Item, again bool) {
	p.update()
	st := p.stations[slot]
	t := st.team
	p.slots.Done(slot, it, again)
	st.running -= weight(&it)
	if t == nil {
		return
	}
	t.held--
	t.pool.refresh(st)
	p.refresh(t)
	switch {
	case !t.surplus() && (p.labels == nil || !p.sought(st)):
	case p.all[slot].held == 0 && p.grant(st):
	case !p.shared() || p.sought(st):
		p.move(st, p.spare)
	}
	p.forget(t)
	p.meetClaims()
}

func (p *byTopic) Remove(id uint64) bool {
	p.update()
	i := p.where[id]
	if i == 0 {
		return false
	}
	t := p.team(p.nodes[i].Key)
	t.remove(i)
	p.refresh(t)
	p.forget(t)
	p.meetClaims()
	return true
}

func (p *byTopic) Join(s Slot) {
	p.slots.Join(s)
	p.count(s.ID, 1)
	for id := len(p.stations); id <= s.ID; id++ {
		p.stations = append(p.stations, &station{id: id})
	}
	st := p.stations[s.ID]
	st.cap = min(int64(p.all[s.ID].Cap), 1<<31)
	st.team = p.spare
	if len(p.teams) == 1 && !p.auto && p.fits(p.teams[0], s.ID) {
		st.team = p.teams[0] // even with items it has held since before it left
	}
	st.team.join(st)
}

func (p *byTopic) Leave(id int) {
	p.slots.Leave(id)
	p.count(id, -1)
	st := p.stations[id]
	t := st.team
	st.team = nil
	t.leave(st)
	p.refresh(t)
}

// update divides and deals the slots anew if some have joined or left since it
// was last called.
func (p *byTopic) update() {
	if p.changed {
		p.reform()
	}
}

func (p *byTopic) reform() {
	p.changed = false
	p.expel()
	for p.shared() && p.dormant.len() > 0 {
		p.drop(p.dormant.min())
	}
	p.divide()
	p.deal()
}

// meetClaims moves idle slots to the teams that have a claim, as long as there
// are both.
func (p *byTopic) meetClaims() {
	for p.claimed() {
		id := p.takable()
		if id == 0 {
			return
		}
		p.grant(p.stations[id])
	}
}

// claimed reports whether a team has a claim to a slot. If so, the first of the
// needy has one.
func (p *byTopic) claimed() bool {
	for len(p.needy) > 0 && !p.needy[0].needs() {
		p.unclaim(0)
	}
	return len(p.needy) > 0
}

// grant moves a slot that holds nothing to the team that has had a claim for the
// longest time, and reports whether there is one.
func (p *byTopic) grant(st *station) bool {
	i := p.claimant(st)
	if i < 0 {
		return false
	}
	p.move(st, p.unclaim(i))
	return true
}

// unclaim takes a team out of needy.
func (p *byTopic) unclaim(i int) *team {
	t := p.needy[i]
	t.needy = false
	p.needy = slices.Delete(p.needy, i, i+1)
	return t
}

// refresh updates the lists of teams after anything about t has changed.
func (p *byTopic) refresh(t *team) {
	if t.n > 0 && t.idle.len() > 0 {
		first := &t.idle.items[0]
		p.ready.update(t, &t.ready, first.rank, first.tie)
	} else {
		p.ready.remove(&t.ready)
	}
	if t.needs() && !t.needy {
		t.needy = true
		p.needy = append(p.needy, t)
	}
	if !p.auto || t == p.spare {
		return
	}
	if t.n > 0 || t.held > 0 {
		p.dormant.remove(&t.dormant)
	} else if t.dormant == 0 {
		p.tick++
		p.dormant.update(t, &t.dormant, p.tick, 0)
	}
}

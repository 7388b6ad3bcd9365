package sched

import "math"

// byTopic dedicates slots to keys: each topic has a team of slots, and within a
// team an item is placed as under leastBusy. A slot counts as one whatever its
// capacity, and moves to another team only while it holds nothing.
//
// Listed topics get the slots that they ask for. If there are more, the others
// go to the rest ("*") or, without a rest, to all in proportion; if there are
// fewer, each topic gets fewer in proportion, but at least one. Slots are dealt
// in the order of the list, so the first topic has the lowest IDs until slots
// join or leave. Automatic topics have one slot each. The others go where
// something waits: at once while they are spare, else when Balance says so.
//
// With fewer slots than topics, a slot goes after each item to the topic that
// has waited longest for one, so no topic starves. Automatic topics with
// nothing outstanding are then forgotten.
type byTopic struct {
	store
	auto    bool
	topics  map[uint64]*team // by key
	teams   []*team          // in the order of the list, the rest last
	rest    *team            // nil where other keys are refused
	spare   *team            // slots of no team; never has items
	home    []*team          // by slot; nil if it is not in
	shared  bool             // fewer slots than teams
	due     int              // the sum of want
	ready   heap[*team]      // those with an item and a slot for it, in the order of these slots
	needy   ring[*team]      // those that had a claim to a slot when they were put here
	dormant heap[*team]      // automatic ones with nothing outstanding, for the longest time first
	unused  spares[team]
	made    int   // how many teams have been made
	tick    int64 // orders dormant
}

func newByTopic(topics Topics) *byTopic {
	p := &byTopic{
		store:   newStore(),
		auto:    topics.Auto,
		topics:  map[uint64]*team{},
		ready:   newHeap(func(t *team) *int { return &t.ready }),
		dormant: newHeap(func(t *team) *int { return &t.dormant }),
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
		*t = team{pool: newPool(&p.store), order: p.made, limit: math.MaxInt}
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
	p.topics[key] = t
}

// team is the team that has the items of a key, or nil.
func (p *byTopic) team(key uint64) *team {
	if t := p.topics[key]; t != nil {
		return t
	}
	return p.rest
}

func (p *byTopic) Push(it Item) bool {
	p.update()
	t := p.team(it.Key)
	if t == nil && p.auto {
		t = p.discover(it.Key)
	}
	if t == nil {
		return false
	}
	t.push(it)
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
	t := p.home[slot]
	it, ok := t.pop(p.stations[slot])
	if ok {
		p.refresh(t)
		p.meetClaims()
	}
	return it, ok
}

// Done moves the slot to a team with a claim, if its own has more than it is
// due. A slot that still holds items becomes spare until they are done.
func (p *byTopic) Done(slot int, it Item, _ bool) {
	p.update()
	st := p.done(slot, it)
	if !p.in(slot) {
		return
	}
	t := p.home[slot]
	t.done(st)
	p.refresh(t)
	switch {
	case !t.surplus():
	case p.all[slot].held == 0 && p.grant(slot):
	case !p.shared || p.claimed():
		p.move(slot, p.spare)
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

// Longest is the longest queue of a topic, or of the rest together.
func (p *byTopic) Longest() Block {
	p.update()
	most := p.spare
	for _, t := range p.teams {
		if t.n > most.n {
			most = t
		}
	}
	if most.n == 0 {
		return Block{}
	}
	b := Block{N: most.n, ID: p.nodes[most.oldest()].ID, Key: most.key, OneKey: most.named}
	if most.have() == 1 && !p.shared {
		b.Slot = most.load.min().id
	}
	return b
}

func (p *byTopic) Join(s Slot) {
	st := p.join(s)
	for len(p.home) <= s.ID {
		p.home = append(p.home, nil)
	}
	p.home[s.ID] = p.spare
	p.spare.join(st)
}

func (p *byTopic) Leave(id int) {
	p.slots.Leave(id)
	t := p.home[id]
	p.home[id] = nil
	t.leave(p.stations[id])
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
	for len(p.teams) > len(p.ids) && p.dormant.len() > 0 {
		p.drop(p.dormant.min())
	}
	p.divide()
	p.deal()
}

// meetClaims moves idle slots to the teams that have a claim, as long as there
// are both.
func (p *byTopic) meetClaims() {
	for p.claimed() {
		id := p.idle.first()
		for id != 0 && !p.movable(id) {
			id = p.idle.after(id)
		}
		if id == 0 {
			return
		}
		p.grant(id)
	}
}

// claimed reports whether a team has a claim to a slot. If so, the first of the
// needy has one.
func (p *byTopic) claimed() bool {
	for p.needy.n > 0 {
		t := *p.needy.at(0)
		if t.needs() {
			return true
		}
		t.needy = false
		p.needy.pop()
	}
	return false
}

// grant moves a slot that holds nothing to the team that has had a claim for the
// longest time, and reports whether there is one.
func (p *byTopic) grant(id int) bool {
	if !p.claimed() {
		return false
	}
	t := p.needy.pop()
	t.needy = false
	p.move(id, t)
	return true
}

// refresh puts a team where it belongs after anything about it has changed.
func (p *byTopic) refresh(t *team) {
	if t.n > 0 && t.idle.len() > 0 {
		first := &t.idle.items[0]
		p.ready.update(t, first.rank, first.tie)
	} else if t.ready != 0 {
		p.ready.remove(t)
	}
	if t.needs() && !t.needy {
		t.needy = true
		p.needy.push(t)
	}
	if !p.auto || t == p.spare {
		return
	}
	if active := t.n > 0 || t.held > 0; active && t.dormant != 0 {
		p.dormant.remove(t)
	} else if !active && t.dormant == 0 {
		p.tick++
		p.dormant.update(t, p.tick, 0)
	}
}

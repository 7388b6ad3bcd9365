package sched

import "math"

// ByTopic has workers dedicated to keys: each topic has a team of workers, and
// within a team an item goes to a worker as under LeastBusy. Workers change
// their team only while they are idle.
//
// Listed topics get the workers that they ask for. If the pool is larger than
// that, what is over goes to the rest ("*"), or, where there is none, is shared
// in proportion; if it is smaller, all get fewer in proportion, but each has
// one at least. Dealing goes by the order of the list, so that in an unchanged
// pool the first topic has workers 1 and up. Automatic topics have one worker
// each, and the others go where something waits: at once while some are
// nobody's, else when Balance says so.
//
// With fewer workers than topics the workers go from topic to topic: after
// each item to the topic that has waited longest for one, so none starves.
// Automatic topics with nothing outstanding are forgotten then.
type ByTopic struct {
	auto  bool
	slots slots
	store store

	topics map[uint64]*team // by key
	teams  []*team          // in the order of the list, the rest last
	rest   *team            // nil where other keys are refused
	spare  *team            // workers that are nobody's; always without items
	home   []*team          // of worker w at w-1, as many as there are workers

	shared  bool        // fewer workers than teams
	due     int         // the sum of want
	ready   Heap[*team] // those with an item and an idle worker, by the lowest of these
	needy   ring[*team] // those that had a claim to a worker when they were put here
	dormant Heap[*team] // automatic ones with nothing outstanding, for the longest time first
	unused  []*team
	made    int   // how many teams came to be
	tick    int64 // orders dormant
	n       int   // queued items
}

var _ Policy = (*ByTopic)(nil)

// NewByTopic returns an empty ByTopic. The topics must be valid.
func NewByTopic(workers int, topics Topics) *ByTopic {
	p := &ByTopic{
		auto:    topics.Auto,
		store:   store{where: map[uint64]int32{}},
		topics:  map[uint64]*team{},
		ready:   NewHeap(func(t *team) *int { return &t.ready }),
		dormant: NewHeap(func(t *team) *int { return &t.dormant }),
	}
	p.spare = p.newTeam()
	for _, c := range topics.List {
		t := p.newTeam()
		t.key, t.named, t.weight = c.Key, true, c.Workers
		p.topics[c.Key] = t
		p.enrol(t)
	}
	if topics.Rest > 0 {
		p.rest = p.newTeam()
		p.rest.weight = topics.Rest
		p.enrol(p.rest)
	}
	p.Resize(workers)
	return p
}

func (p *ByTopic) newTeam() *team {
	if last := len(p.unused) - 1; last >= 0 {
		t := p.unused[last]
		p.unused = p.unused[:last]
		return t
	}
	p.made++
	return &team{pool: newPool(&p.store), order: p.made, limit: math.MaxInt}
}

func (p *ByTopic) enrol(t *team) {
	t.slot = len(p.teams)
	p.teams = append(p.teams, t)
}

// Accepts says whether there are workers for a key. Of a key that it does not
// accept no item may be pushed.
func (p *ByTopic) Accepts(key uint64) bool {
	return p.auto || p.rest != nil || p.topics[key] != nil
}

// team is where the items of a key go, made where it is automatic and new.
func (p *ByTopic) team(key uint64) *team {
	if t := p.topics[key]; t != nil {
		return t
	}
	if p.auto {
		return p.discover(key)
	}
	if p.rest == nil {
		panic("internal error: an item of a refused topic")
	}
	return p.rest
}

// Push queues an item for its topic, which must be accepted.
func (p *ByTopic) Push(it Item) {
	t := p.team(it.Key)
	t.push(it)
	p.n++
	p.extend(t)
	p.refresh(t)
	p.settle()
}

// Ready is an idle worker whose topic has an item, or 0: the lowest of them.
func (p *ByTopic) Ready() int {
	if p.ready.Len() == 0 {
		return 0
	}
	return p.ready.Min().idle.Min().worker
}

// Pop takes the next item of the worker's topic.
func (p *ByTopic) Pop(worker int) (Item, bool) {
	if !p.slots.idle.has(worker) {
		return Item{}, false
	}
	t := p.home[worker-1]
	it, ok := t.pop(p.store.stations[worker-1])
	if !ok {
		return it, false
	}
	p.n--
	p.slots.take(worker)
	p.refresh(t)
	p.settle()
	return it, true
}

// Done makes the worker idle. Where its topic has more workers than it is due,
// the worker goes to one that has a claim.
func (p *ByTopic) Done(worker int, _ Item, _ bool) {
	st := p.store.stations[worker-1]
	p.slots.free(worker)
	if worker > p.slots.n {
		st.running = 0
		return
	}
	t := p.home[worker-1]
	t.done(st)
	p.refresh(t)
	if t.surplus() && !p.grant(worker) && !p.shared {
		p.move(worker, p.spare)
	}
	p.forget(t)
	p.settle()
}

// Remove finds the item in O(1) and takes it out in O(log N).
func (p *ByTopic) Remove(id uint64) bool {
	i := p.store.where[id]
	if i == 0 {
		return false
	}
	t := p.team(p.store.slab.nodes[i].Key)
	t.remove(i)
	p.n--
	p.refresh(t)
	p.forget(t)
	p.settle()
	return true
}

// Len is the number of queued items.
func (p *ByTopic) Len() int { return p.n }

// Longest is the longest queue of a topic, or of the rest together.
func (p *ByTopic) Longest() Block {
	var most *team
	for _, t := range p.teams {
		if t.n > 0 && (most == nil || t.n > most.n) {
			most = t
		}
	}
	if most == nil {
		return Block{}
	}
	b := Block{N: most.n, Key: most.key, OneKey: most.named}
	if most.apart.n > 0 {
		b.ID = p.store.slab.first(&most.apart).ID
	} else {
		b.ID = p.store.slab.first(&most.backlog.Min().queue).ID
	}
	if most.have() == 1 && !p.shared {
		b.Worker = most.load.Min().worker
	}
	return b
}

// Resize sets the number of workers. What was queued for those that go stays
// with its topic.
func (p *ByTopic) Resize(workers int) {
	old := p.slots.n
	p.slots.resize(workers)
	n := p.slots.n
	p.store.resize(n)
	for w := old; w > n; w-- {
		t := p.home[w-1]
		t.leave(p.store.stations[w-1])
		p.refresh(t)
	}
	p.home = p.home[:min(old, n)]
	for w := old + 1; w <= n; w++ {
		p.home = append(p.home, p.spare)
		p.spare.join(p.store.stations[w-1])
	}
	for len(p.teams) > n && p.dormant.Len() > 0 {
		p.drop(p.dormant.Min())
	}
	p.divide()
	p.deal()
}

// divide says how many workers each team is due.
func (p *ByTopic) divide() {
	n := p.slots.n
	p.due = 0
	p.shared = len(p.teams) > n
	if p.shared {
		for _, t := range p.teams {
			t.want = 0
		}
		return
	}
	sum := 0
	for _, t := range p.teams {
		t.most = t.limit
		if p.auto {
			// More workers than items would only be kept from others.
			t.weight = t.n + t.running()
			t.most = min(t.limit, t.weight)
		}
		sum += t.weight
	}
	if p.rest != nil && n > sum {
		p.due = n
		for _, t := range p.teams {
			t.want = t.weight
		}
		p.rest.want += n - sum
		return
	}
	p.due = n - apportion(p.teams, n)
}

// deal moves idle workers that are too many where they are to nobody, the
// highest first, and those that are nobody's to the teams in their order.
func (p *ByTopic) deal() {
	for w := p.slots.n; w > 0; w-- {
		if p.movable(w) {
			p.move(w, p.spare)
		}
	}
	for _, t := range p.teams {
		for t.have() < t.want && p.spare.idle.Len() > 0 {
			p.move(p.spare.idle.Min().worker, t)
		}
	}
	for _, t := range p.teams {
		p.refresh(t)
	}
	p.settle()
}

// move makes an idle worker one of another team.
func (p *ByTopic) move(worker int, to *team) {
	st, from := p.store.stations[worker-1], p.home[worker-1]
	if from == to {
		return
	}
	p.home[worker-1] = to
	from.leave(st)
	p.refresh(from)
	to.join(st)
	p.refresh(to)
}

// settle moves idle workers to where there is a claim to them, as long as
// there are both. A worker that its team has an item for stays, where workers
// go from topic to topic: it moves after that item.
func (p *ByTopic) settle() {
	for p.claimed() {
		w := p.slots.idle.first()
		for w != 0 && !p.movable(w) {
			w = p.slots.idle.after(w)
		}
		if w == 0 {
			return
		}
		p.grant(w)
	}
}

func (p *ByTopic) movable(w int) bool {
	t := p.home[w-1]
	return p.slots.idle.has(w) && t.surplus() && (!p.shared || t.n == 0)
}

// claimed says whether a team has a claim to a worker. The first of the needy
// is one then.
func (p *ByTopic) claimed() bool {
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

// grant moves an idle worker to the team that has had a claim for the longest
// time, if there is one.
func (p *ByTopic) grant(worker int) bool {
	if !p.claimed() {
		return false
	}
	t := p.needy.pop()
	t.needy = false
	p.move(worker, t)
	return true
}

// list notes that a team has a claim.
func (p *ByTopic) list(t *team) {
	if !t.needy {
		t.needy = true
		p.needy.push(t)
	}
}

// refresh brings a team where it belongs after anything about it has changed.
func (p *ByTopic) refresh(t *team) {
	if t.n > 0 && t.idle.Len() > 0 {
		p.ready.Update(t, int64(t.idle.Min().worker), 0)
	} else {
		p.ready.Remove(t)
	}
	if t.needs() {
		p.list(t)
	}
	if !p.auto || t == p.spare {
		return
	}
	if t.n > 0 || t.running() > 0 {
		p.dormant.Remove(t)
	} else if t.dormant == 0 {
		p.tick++
		p.dormant.Update(t, p.tick, 0)
	}
}

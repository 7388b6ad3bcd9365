package sched

import (
	"cmp"
	"slices"
)

// roundRobin is deterministic: item i belongs to slot (i-1) mod N of the N slots,
// counted from 0 in ascending order of ID, and waits for it even if others are
// idle. A slot takes its items in order of rank and then of Push. A retried item
// goes to the same slot. After slots have joined or left, the queued items are
// dealt anew by the same formula, those of each rank in order of ID.
type roundRobin struct {
	slots
	store
	queues []queue // by slot; queues[0] is used while there are no slots
}

// slotOf returns the slot an item belongs to, or 0 while there are no slots.
func (p *roundRobin) slotOf(id uint64) int {
	if len(p.ids) == 0 {
		return 0
	}
	return p.ids[(id-1)%uint64(len(p.ids))]
}

func (p *roundRobin) enqueue(it *Item) {
	slot := p.slotOf(it.ID)
	p.add(&p.queues[slot], it)
	p.offer(slot, true)
}

// update deals the items anew if slots have joined or left since it was last
// called.
func (p *roundRobin) update() {
	if !p.changed {
		return
	}
	p.changed = false
	items := make([]Item, 0, p.Len())
	for id := range p.queues {
		for q := &p.queues[id]; q.len() > 0; {
			items = append(items, p.cut(q.min()))
		}
	}
	slices.SortFunc(items, func(a, b Item) int { return cmp.Compare(a.ID, b.ID) })
	p.queues = make([]queue, len(p.all))
	for _, id := range p.ids {
		p.offer(id, false)
	}
	for i := range items {
		p.enqueue(&items[i])
	}
}

func (p *roundRobin) Push(it Item) bool {
	p.update()
	p.enqueue(&it)
	return true
}

func (p *roundRobin) Ready() int {
	p.update()
	return p.emptiest()
}

func (p *roundRobin) Pop(slot int) (it Item, ok bool) {
	p.update()
	if !p.hasRoom(slot) {
		return it, false
	}
	q := &p.queues[slot]
	it = p.cut(q.min())
	p.Take(slot, it)
	p.offer(slot, q.len() > 0)
	return it, true
}

func (p *roundRobin) Choice(it Item) Choice {
	p.update()
	return p.only(p.slotOf(it.ID))
}

func (p *roundRobin) Remove(id uint64) bool {
	p.update()
	slot := p.slotOf(id)
	found := p.drop(id)
	p.offer(slot, p.queues[slot].len() > 0)
	return found
}

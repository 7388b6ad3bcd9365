package sched

import (
	"maps"
	"slices"
)

// checkTopics checks the invariants of a topic policy.
func (d *driver) checkTopics(p *byTopic) {
	t := d.t
	d.d.settle()
	held, due, queued, places := map[*group]int{}, 0, 0, 0
	for id, n := range d.w.held {
		if d.w.in(id) {
			n = max(n, d.w.cap(id))
		}
		places += n
	}
	for _, h := range d.running {
		held[p.groups[p.topicOf(h.Item)]]++
	}
	all := slices.Collect(maps.Values(p.groups))
	for _, m := range all {
		holds(t, m.held == held[m], "%d held, not %d", m.held, held[m])
		holds(t, p.auto || m.quota <= p.capacityFor(m.id) && m.quota >= min(1, p.capacityFor(m.id)), "it may have %d of %d", m.quota, p.capacityFor(m.id))
		holds(t, !p.auto || m.queue.len()+m.held > 0, "a topic without items")
		due += m.quota
		queued += m.queue.len()
		for _, id := range d.w.ids {
			fits := !d.bound[m.id] || slices.Contains(d.w.slots[id].Labels, m.id)
			more := m.held < m.quota || p.auto
			holds(t, !fits || !d.w.room(id) || m.queue.len() == 0 || !more || p.peek(id) != nil, "a topic could have a place on slot %d", id)
		}
	}
	holds(t, due <= max(places, len(all)), "%d due", due)
}

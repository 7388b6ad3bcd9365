package sched

import "slices"

// checkTopics checks the invariants of a topic policy.
func (d *driver) checkTopics(p *byTopic) {
	t := d.t
	p.update()
	held, due, queued, places := map[*topic]int{}, 0, 0, 0
	for _, id := range d.w.ids {
		places += max(d.w.cap(id), d.w.held[id])
	}
	for _, h := range d.running {
		if d.w.in(h.slot) {
			held[p.of(h.Key)]++
		}
	}
	for i, m := range p.list {
		holds(t, m.index == i, "index")
		holds(t, m.held == held[m], "%d held, not %d", m.held, held[m])
		holds(t, m.bound == d.bound[m.key], "bound")
		holds(t, m.may <= m.most && m.may >= min(1, m.most), "it may have %d of %d", m.may, m.most)
		holds(t, !p.auto || m.may <= m.queue.len()+m.held && m.queue.len()+m.held > 0, "a topic without items")
		due += m.may
		queued += m.queue.len()
		for _, id := range d.w.ids {
			fits := !m.bound || slices.Contains(d.w.slots[id].Labels, m.key)
			more := m.held < m.may || p.auto && p.due < places && m.may < m.most
			holds(t, !fits || !d.w.room(id) || m.queue.len() == 0 || !more || p.next(id) != nil, "a topic could have a place on slot %d", id)
		}
	}
	holds(t, due == p.due && (due <= places || due <= len(p.list)), "%d due, not %d", p.due, due)
	holds(t, queued == p.Len(), "%d queued, not %d", p.Len(), queued)
}

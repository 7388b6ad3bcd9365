package sched

import "time"

// Delay holds ids that become due at a time. Its user gives the time; it has
// no clock. NewDelay makes one.
type Delay struct {
	heap   Heap[*timer]
	timers map[uint64]*timer
	unused []*timer
	base   time.Time // what the heap counts from
	pushed int64     // orders those due at the same time
}

type timer struct {
	id    uint64
	at    time.Time
	place int
}

// NewDelay returns an empty Delay.
func NewDelay() *Delay {
	return &Delay{
		timers: map[uint64]*timer{},
		heap:   NewHeap(func(t *timer) *int { return &t.place }),
	}
}

// Push makes id due at a time; where it is in already, it is due then instead.
func (d *Delay) Push(id uint64, at time.Time) {
	t := d.timers[id]
	if t == nil {
		if last := len(d.unused) - 1; last >= 0 {
			t, d.unused = d.unused[last], d.unused[:last]
		} else {
			t = &timer{}
		}
		d.timers[id] = t
	}
	if d.pushed == 0 {
		d.base = at
	}
	d.pushed++
	t.id, t.at = id, at
	d.heap.Update(t, int64(at.Sub(d.base)), d.pushed)
}

// Due takes out the id that was due first, if its time has come at now. Ids
// due at the same time come in the order of Push.
func (d *Delay) Due(now time.Time) (uint64, bool) {
	if d.heap.Len() == 0 {
		return 0, false
	}
	t := d.heap.Min()
	if t.at.After(now) {
		return 0, false
	}
	d.drop(t)
	return t.id, true
}

// Next is when the next id is due, if there is one.
func (d *Delay) Next() (time.Time, bool) {
	if d.heap.Len() == 0 {
		return time.Time{}, false
	}
	return d.heap.Min().at, true
}

// Remove takes id out and says whether it was in.
func (d *Delay) Remove(id uint64) bool {
	t := d.timers[id]
	if t != nil {
		d.drop(t)
	}
	return t != nil
}

func (d *Delay) drop(t *timer) {
	d.heap.Remove(t)
	delete(d.timers, t.id)
	d.unused = append(d.unused, t)
}

package sched

import "time"

// Delay holds IDs that become due at given times. It has no clock: the caller
// passes the time. NewDelay makes one.
type Delay struct {
	queue  priorityQueue[time.Time]
	base   time.Time // ranks are nanoseconds since then
	pushed int64     // orders IDs due at the same time
}

// NewDelay returns an empty Delay.
func NewDelay() *Delay { return &Delay{queue: newPriorityQueue[time.Time]()} }

// Push makes id due at a time. If id is in already, this replaces its time.
func (d *Delay) Push(id uint64, at time.Time) {
	if d.pushed == 0 {
		d.base = at
	}
	d.pushed++
	*d.queue.put(id, 0, int64(at.Sub(d.base)), d.pushed) = at
}

// Due removes and returns the ID that is due first, if it is due at now. IDs due
// at the same time come in the order of Push.
func (d *Delay) Due(now time.Time) (uint64, bool) {
	at, ok := d.Next()
	if !ok || at.After(now) {
		return 0, false
	}
	id := d.queue.first().id
	d.queue.remove(id)
	return id, true
}

// Next returns when the next ID is due. It returns false if there is none.
func (d *Delay) Next() (time.Time, bool) {
	if d.queue.len() == 0 {
		return time.Time{}, false
	}
	return d.queue.first().value, true
}

// Remove removes id and reports whether it was in.
func (d *Delay) Remove(id uint64) bool { return d.queue.remove(id) }

package machine

import (
	"sync"
	"time"
)

// Deaths tells which processes the kernel has killed for want of memory. It is safe for
// concurrent use.
type Deaths struct {
	machine *Machine

	mu      sync.Mutex
	known   bool  // count is
	count   int64 // processes that were killed, at the last look
	untold  int64 // of them, those that nobody has asked about
	looked  time.Time
	waiting *time.Timer
}

// A look costs more than the start of a short run may take, so the first one comes later; and
// what was not asked about soon concerns somebody else.
const (
	firstLook = 50 * time.Millisecond
	tellsFor  = time.Second
)

// NewDeaths returns a Deaths that counts from 50 ms later on. Close it.
func NewDeaths(m *Machine) *Deaths {
	d := &Deaths{machine: m}
	d.waiting = time.AfterFunc(firstLook, func() { d.look(time.Now()) })
	return d
}

// Close ends the wait for the first look.
func (d *Deaths) Close() { d.waiting.Stop() }

// Another reports whether one more process was killed than Another has reported, since it was
// asked before. Of processes that are killed together, each is told if they are asked about
// within a second.
func (d *Deaths) Another() bool {
	d.look(time.Now())
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.untold == 0 {
		return false
	}
	d.untold--
	return true
}

func (d *Deaths) look(now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	count, ok := d.machine.deaths()
	if !ok {
		return
	}
	if now.Sub(d.looked) > tellsFor {
		d.untold = 0
	}
	if d.known {
		d.untold += max(0, count-d.count)
	}
	d.known, d.count, d.looked = true, count, now
}

// deaths returns how many processes of this one's control group the kernel has killed for want
// of memory or, without a group that counts them, how many of the machine.
func (m *Machine) deaths() (n int64, ok bool) {
	for g := range m.groups("memory") {
		if n, ok := number([]byte(g.text("memory.events")), "oom_kill"); ok {
			return n, true
		}
		break // the ancestors count those of others, too
	}
	text, _ := m.read("/proc/vmstat")
	return number(text, "oom_kill")
}

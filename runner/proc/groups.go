package proc

import (
	"sync"
	"sync/atomic"
	"syscall"
)

// groups are the live process groups of a run, each in a slot of its own from
// before its leader can have ended until just before its id is free. Whoever
// has to reach all of them at once, to stop them, let them go on or kill them,
// finds them here. It is safe for concurrent use.
type groups struct {
	clock clock
	begin func() // called once, before the first one starts; may be nil

	once     sync.Once
	starting sync.RWMutex // held for reading by who starts a process, for writing from stop to goOn
	mu       sync.Mutex
	live     []*process // by slot; nil where none has started
	free     []int      // the free slots
	table    []int32    // the ids by slot, where the guardian sees them; nil before there is one
}

// reserve gives a process that is about to start its slot, and says where its
// id is to stand then; nil where there is no such place. What follows is add,
// or abandon. It blocks while the groups stand still.
func (g *groups) reserve(p *process) *int32 {
	g.starting.RLock()
	g.once.Do(func() {
		if g.begin != nil {
			g.begin()
		}
	})
	g.mu.Lock()
	defer g.mu.Unlock()
	if n := len(g.free); n > 0 {
		p.slot = g.free[n-1]
		g.free = g.free[:n-1]
	} else {
		p.slot = len(g.live)
		g.live = append(g.live, nil)
	}
	if p.slot < len(g.table) {
		return &g.table[p.slot]
	}
	return nil
}

// add takes in a process that has just started.
func (g *groups) add(p *process) {
	g.mu.Lock()
	g.live[p.slot] = p
	g.publish(p.slot, p.pid)
	g.mu.Unlock()
	g.starting.RUnlock()
}

// abandon gives back the slot of a process that has not started.
func (g *groups) abandon(p *process) {
	g.remove(p)
	g.starting.RUnlock()
}

// remove takes out a process that is about to be reaped.
func (g *groups) remove(p *process) {
	g.mu.Lock()
	g.live[p.slot] = nil
	g.free = append(g.free, p.slot)
	g.publish(p.slot, 0)
	g.mu.Unlock()
}

// publish lets the guardian see what is in a slot: a store into memory that
// both share, so that it costs no system call. It is called with mu held.
func (g *groups) publish(slot, pid int) {
	if slot < len(g.table) {
		atomic.StoreInt32(&g.table[slot], int32(pid))
	}
}

// share publishes all slots in table from now on.
func (g *groups) share(table []int32) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.table = table
	for slot, p := range g.live {
		if p != nil {
			g.publish(slot, p.pid)
		}
	}
}

// each calls f with every live process.
func (g *groups) each(f func(*process)) {
	g.mu.Lock()
	live := append([]*process(nil), g.live...)
	g.mu.Unlock()
	// Not under the lock: a process that is being reaped waits for it while it
	// holds its own, which signal takes.
	for _, p := range live {
		if p != nil {
			f(p)
		}
	}
}

// stop stops every group, and the clock with them. It waits for those that are
// being started: where crew stopped before they are known here, they would run
// on without it.
func (g *groups) stop() {
	g.starting.Lock()
	g.clock.stop()
	g.each(func(p *process) { p.signal(syscall.SIGSTOP) })
}

// goOn is the end of stop.
func (g *groups) goOn() {
	g.each(func(p *process) { p.signal(syscall.SIGCONT) })
	g.clock.goOn()
	g.starting.Unlock()
}

// kill kills every group.
func (g *groups) kill() { g.each(func(p *process) { p.signal(syscall.SIGKILL) }) }

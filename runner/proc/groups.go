package proc

import (
	"sync"
	"sync/atomic"
	"syscall"
)

// groups are the live process groups of a run. Each has a row of its own from
// before its leader can have ended until just before its id is free. Whoever has
// to reach them, to stop them, let them go on or kill them, finds them here. It
// is safe for concurrent use.
type groups struct {
	begin func() // called once, before the first one starts; may be nil

	once     sync.Once
	starting sync.RWMutex // held for reading by whoever starts a process, for writing from stop to goOn
	mu       sync.Mutex
	live     []*process // by row; nil where none has started
	free     []int      // the free rows
	table    []int32    // the ids by row, where the guardian sees them; nil before there is one
}

// reserve gives a process that is about to start its row, and returns where its
// id is to stand then, or nil. What follows is add or abandon. It blocks while
// the groups are stopped.
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
		p.row = g.free[n-1]
		g.free = g.free[:n-1]
	} else {
		p.row = len(g.live)
		g.live = append(g.live, nil)
	}
	if p.row < len(g.table) {
		return &g.table[p.row]
	}
	return nil
}

// add takes in a process that has just started.
func (g *groups) add(p *process) {
	g.mu.Lock()
	g.live[p.row] = p
	g.publish(p.row, p.pid)
	g.mu.Unlock()
	g.starting.RUnlock()
}

// abandon gives back the row of a process that has not started.
func (g *groups) abandon(p *process) {
	g.remove(p)
	g.starting.RUnlock()
}

// remove takes out a process that is about to be reaped.
func (g *groups) remove(p *process) {
	g.mu.Lock()
	g.live[p.row] = nil
	g.free = append(g.free, p.row)
	g.publish(p.row, 0)
	g.mu.Unlock()
}

// publish lets the guardian see what is in a row: a store into memory that both
// share, so that it costs no system call. It is called with mu held.
func (g *groups) publish(row, pid int) {
	if row < len(g.table) {
		atomic.StoreInt32(&g.table[row], int32(pid))
	}
}

// share publishes all rows in table from now on.
func (g *groups) share(table []int32) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.table = table
	for row, p := range g.live {
		if p != nil {
			g.publish(row, p.pid)
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

// stop stops every group. It waits for those that are being started: were crew
// to stop before they are known here, they would run on without it.
func (g *groups) stop() {
	g.starting.Lock()
	g.each(func(p *process) { p.signal(syscall.SIGSTOP) })
}

// goOn is the end of stop.
func (g *groups) goOn() {
	g.each(func(p *process) { p.signal(syscall.SIGCONT) })
	g.starting.Unlock()
}

// kill kills the groups of which ok holds.
func (g *groups) kill(ok func(*process) bool) {
	g.each(func(p *process) {
		if ok(p) {
			p.signal(syscall.SIGKILL)
		}
	})
}

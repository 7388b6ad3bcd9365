package proc

import (
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// groups holds the live process groups of a run. Each has a row of its own from
// before its leader can have ended until just before its ID is free. groups is
// safe for concurrent use.
type groups struct {
	starting sync.RWMutex // read-locked while a process starts, locked from suspend to resume
	mu       sync.Mutex
	live     []*process // by row; nil if none has started
	free     []int      // the free rows
	table    []int32    // the IDs by row, shared with the guardian; nil before there is one
}

// reserve gives a row to a process that is about to start. It returns where the
// kernel has to store the process's ID, or nil. The caller must call add or abandon
// next. reserve blocks while the groups are suspended.
func (g *groups) reserve(p *process) *int32 {
	g.starting.RLock()
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

// add adds a process that has just started.
func (g *groups) add(p *process) {
	g.mu.Lock()
	g.live[p.row] = p
	g.publish(p.row, p.pid)
	g.mu.Unlock()
	g.starting.RUnlock()
}

// abandon frees the row of a process that did not start.
func (g *groups) abandon(p *process) {
	g.remove(p)
	g.starting.RUnlock()
}

// remove removes a process that is about to be reaped.
func (g *groups) remove(p *process) {
	g.mu.Lock()
	g.live[p.row] = nil
	g.free = append(g.free, p.row)
	g.publish(p.row, 0)
	g.mu.Unlock()
}

// publish shows the guardian the ID in a row. The memory is shared, so this takes
// no system call. The caller must hold mu.
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
	live := slices.Clone(g.live)
	g.mu.Unlock()
	// f takes a process's lock, under which reap takes mu, so f must not run
	// under mu.
	for _, p := range live {
		if p != nil {
			f(p)
		}
	}
}

// suspend stops every group. It waits for processes that are being started, which
// would otherwise run on while crew is stopped.
func (g *groups) suspend() {
	locked := make(chan struct{})
	go g.unstick(locked)
	g.starting.Lock()
	close(locked)
	g.each(func(p *process) { p.signal(syscall.SIGSTOP) })
}

// unstick continues processes that are being started, until locked is closed. A
// Ctrl-Z that comes before such a process has left crew's group stops it, and the
// call that starts it would wait for its exec for ever.
func (g *groups) unstick(locked <-chan struct{}) {
	for {
		select {
		case <-locked:
			return
		case <-time.After(10 * time.Millisecond):
		}
		g.mu.Lock()
		for row := range min(len(g.live), len(g.table)) {
			if pid := atomic.LoadInt32(&g.table[row]); g.live[row] == nil && pid > 0 {
				_ = syscall.Kill(int(pid), syscall.SIGCONT)
			}
		}
		g.mu.Unlock()
	}
}

// resume undoes suspend.
func (g *groups) resume() {
	g.each(func(p *process) { p.signal(syscall.SIGCONT) })
	g.starting.Unlock()
}

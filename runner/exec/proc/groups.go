package proc

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"crew/runner/decide/task"
	"crew/runner/exec/kernel"
)

// groups holds the live process groups of a run. Each has a row of its own from
// before its leader can have ended until all of it has been reaped or killed. groups is
// safe for concurrent use.
type groups struct {
	starting sync.RWMutex // read-locked while a process starts, locked from suspend to resume
	halted   atomic.Bool  // from suspend to resume: no group may go on
	mu       sync.Mutex
	live     []*process // by row; nil where it is free
	table    []int32    // the IDs by row, shared with the guardian
	lease    *lease     // behind table
}

// unstarted has the row of a process that is about to start.
var unstarted = new(process)

// reserve gives a row to a process that is about to start. It returns where the
// kernel has to store the process's ID, or nil. The caller must call add or abandon
// next. reserve blocks while the groups are suspended.
func (g *groups) reserve(p *process) *int32 {
	g.starting.RLock()
	g.mu.Lock()
	defer g.mu.Unlock()
	if p.row = slices.Index(g.live, nil); p.row < 0 {
		p.row = len(g.live)
		g.live = append(g.live, nil)
	}
	g.live[p.row] = unstarted
	g.lease.starts.Add(1)
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
	g.started()
}

// started is called when a process has started, or failed to. The caller must hold mu, which
// started releases.
func (g *groups) started() {
	g.lease.starts.Add(-1)
	g.mu.Unlock()
	g.starting.RUnlock()
}

// abandon frees the row of a process that did not start.
func (g *groups) abandon(p *process) {
	g.remove(p)
	g.mu.Lock()
	g.started()
}

// leave is called when the leader of a group is about to be reaped. The guardian still kills
// the group, unless its ID is a process's again.
func (g *groups) leave(p *process) {
	g.mu.Lock()
	g.publish(p.row, -p.pid)
	g.mu.Unlock()
}

// remove removes a process of whose group nothing is left.
func (g *groups) remove(p *process) {
	g.mu.Lock()
	g.live[p.row] = nil
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

// any reports whether anything is listed.
func (g *groups) any() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.ContainsFunc(g.live, func(p *process) bool { return p != nil })
}

// each calls f with every live process.
func (g *groups) each(f func(*process)) {
	g.mu.Lock()
	live := slices.Clone(g.live)
	g.mu.Unlock()
	// f takes a process's lock, under which reap takes mu, so f must not run
	// under mu.
	for _, p := range live {
		if p != nil && p != unstarted {
			f(p)
		}
	}
}

// suspend stops every group. It waits for processes that are being started, which
// would otherwise run on while crew is stopped. A Ctrl-Z that comes before such a process has
// left crew's group stops it, perhaps only later.
func (g *groups) suspend() {
	locked := make(chan struct{})
	var unstick sync.WaitGroup
	unstick.Go(func() { kernel.Unstick(locked) })
	g.starting.Lock()
	close(locked)
	unstick.Wait() // it must continue nothing any more
	g.halted.Store(true)
	g.pass(syscall.SIGSTOP)
}

// resume undoes suspend.
func (g *groups) resume() {
	g.halted.Store(false)
	g.pass(syscall.SIGCONT)
	g.starting.Unlock()
}

// pass sends a signal to every group and all that descends from it.
func (g *groups) pass(sig syscall.Signal) {
	walk := sync.OnceValue(kernel.Processes)
	g.each(func(p *process) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if !p.reaped {
			p.pass(walk, false, sig)
		}
	})
}

// Live returns the output of a running task and the number of the attempt that
// writes it. The caller closes both; one that turned out to be empty is nil. The number is 0 if no
// process of the task runs or its output is not kept. Live is safe for concurrent use.
func (l *Local) Live(id uint64) (stdout, stderr task.Live, attempt int) {
	l.groups.each(func(p *process) {
		if p.Task.ID == id && p.kept[0] != nil && attempt == 0 {
			if stdout, stderr = p.kept[0].Hold(), p.kept[1].Hold(); stdout != nil || stderr != nil { // else it has just ended
				attempt = p.Number
			}
		}
	})
	return stdout, stderr, attempt
}

// PIDs returns the process IDs of the running tasks. It is safe for concurrent use.
func (l *Local) PIDs() map[uint64]int {
	pids := map[uint64]int{}
	l.groups.each(func(p *process) {
		if p.Task.Protocol == task.NoProtocol {
			pids[p.Task.ID] = p.pid
		}
	})
	return pids
}

// reportStopped tells the user about each task that has stopped, once. crew calls it
// once a second, so a task costs neither a thread nor a signal for this.
func (l *Local) reportStopped() {
	if l.terminal != nil || !l.groups.starting.TryRLock() {
		return // the attempt sees to it; or crew itself stops them
	}
	defer l.groups.starting.RUnlock()
	l.groups.each(func(p *process) {
		if sig := p.stop(); sig != 0 && !p.stopped {
			p.stopped = true
			l.notice(p.whyStopped(sig))
		}
	})
}

// stop returns the signal that has stopped the leader since the last call, or 0. That crew
// stops it in order to kill it does not count.
func (p *process) stop() (sig syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.reaped {
		sig = kernel.Stopped(p.pid)
	}
	return sig
}

// whyStopped says that a signal has stopped the task, and the way out.
func (p *process) whyStopped(sig syscall.Signal) string {
	const width = 60
	name := fmt.Sprintf("%s (%s)", nameOfAttempt(p.Attempt), task.Shorten(p.Task.Words(p.Argv()), width))
	if sig == syscall.SIGTTIN || sig == syscall.SIGTTOU {
		return fmt.Sprintf("%s has stopped because it wants the terminal: --tty gives it to tasks; kill -KILL -%d ends it", name, p.pid)
	}
	return fmt.Sprintf("%s was stopped by %s: kill -CONT -%d lets it go on", name, unix.SignalName(sig), p.pid)
}

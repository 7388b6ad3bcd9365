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

// groups holds the live process groups of a run. Each group has a row from before its leader starts
// until all of its processes have been reaped or killed. groups is safe for concurrent use.
type groups struct {
	starting  sync.RWMutex // read-locked while a process starts; locked from suspend to resume
	suspended atomic.Bool  // true from suspend to resume: no group may continue
	mu        sync.Mutex
	live      []*process // by row, from before they start; nil in free rows
	table     []int32    // process group IDs by row, negated once the leader has been reaped; shared with the guardian
	lease     *lease     // follows table in the shared memory
}

// reserve assigns a row to a process that is about to start. It returns the address at which the
// kernel has to store the process's ID, or nil if the table is full. The caller must call add or abandon
// next. reserve blocks while the groups are suspended.
func (g *groups) reserve(p *process) *int32 {
	g.starting.RLock()
	g.mu.Lock()
	defer g.mu.Unlock()
	if p.row = slices.Index(g.live, nil); p.row < 0 {
		p.row = len(g.live)
		g.live = append(g.live, nil)
	}
	g.live[p.row] = p
	g.lease.starts.Add(1)
	if p.row < len(g.table) {
		return &g.table[p.row]
	}
	return nil
}

// add adds a process that has just started.
func (g *groups) add(p *process) {
	g.mu.Lock()
	if p.begun = true; p.killed {
		p.killSoon()
	}
	g.publishLocked(p.row, p.pid)
	g.startedLocked()
}

// startedLocked ends the start that reserve began. The caller must hold mu, and startedLocked
// releases it.
func (g *groups) startedLocked() {
	g.lease.starts.Add(-1)
	g.mu.Unlock()
	g.starting.RUnlock()
}

// abandon frees the row of a process that did not start.
func (g *groups) abandon(p *process) {
	g.remove(p)
	g.mu.Lock()
	g.startedLocked()
}

// leaderReaped must be called just before the leader of a group is reaped. The guardian still kills
// the group, unless another process has its ID by then.
func (g *groups) leaderReaped(p *process) {
	g.mu.Lock()
	g.publishLocked(p.row, -p.pid)
	g.mu.Unlock()
}

// remove frees the row of a process whose group is gone.
func (g *groups) remove(p *process) {
	g.mu.Lock()
	g.live[p.row] = nil
	g.publishLocked(p.row, 0)
	g.mu.Unlock()
}

// publishLocked shows the guardian the ID in a row. The memory is shared, so this takes
// no system call. The caller must hold mu.
func (g *groups) publishLocked(row, pid int) {
	if row < len(g.table) {
		atomic.StoreInt32(&g.table[row], int32(pid))
	}
}

// hasAny reports whether any row is in use.
func (g *groups) hasAny() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.ContainsFunc(g.live, func(p *process) bool { return p != nil })
}

// each calls f for every live process that has been added.
func (g *groups) each(f func(*process)) {
	g.mu.Lock()
	live := slices.DeleteFunc(slices.Clone(g.live), func(p *process) bool { return p == nil || !p.begun })
	g.mu.Unlock()
	// f locks a process, and reap locks mu while it holds that lock. So f must not be called with mu
	// held.
	for _, p := range live {
		f(p)
	}
}

// suspend stops every group. It waits for processes that are being started, because they would
// run while crew is stopped. A Ctrl-Z that arrives before such a process has left crew's group stops
// the process too, but perhaps only later.
func (g *groups) suspend() {
	locked := make(chan struct{})
	var unstick sync.WaitGroup
	unstick.Go(func() { kernel.Unstick(locked) })
	g.starting.Lock()
	close(locked)
	unstick.Wait() // from here on it must not continue any process
	g.suspended.Store(true)
	g.signalAll(syscall.SIGSTOP)
}

// resume undoes suspend.
func (g *groups) resume() {
	g.suspended.Store(false)
	g.signalAll(syscall.SIGCONT)
	g.starting.Unlock()
}

// signalAll sends a signal to every group and to all descendants of its processes.
func (g *groups) signalAll(sig syscall.Signal) {
	walk := sync.OnceValue(kernel.Processes)
	g.each(func(p *process) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if !p.reaped {
			p.signalLocked(walk, false, sig)
		}
	})
}

// Live returns the output of a running task so far, and the number of the attempt that
// writes it. The caller must close both outputs; an empty one may be nil. The number is 0 if no
// process of the task is running or its output is not kept. Live is safe for concurrent use.
func (l *Local) Live(id uint64) (stdout, stderr task.Live, attempt int) {
	l.groups.each(func(p *process) {
		if p.Task.ID == id && p.Out.Kept != nil && attempt == 0 {
			if stdout, stderr = p.Out.Kept.Hold(), p.Err.Kept.Hold(); stdout != nil || stderr != nil { // otherwise it has just ended
				attempt = p.Number
			}
		}
	})
	return stdout, stderr, attempt
}

// Signal sends a signal to the groups of running tasks and all their descendants. It returns the tasks among ids
// that run. It is safe for concurrent use.
func (l *Local) Signal(ids []uint64, sig syscall.Signal) (sent []uint64) {
	walk := sync.OnceValue(kernel.Processes)
	l.groups.each(func(p *process) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.Task.Protocol == task.NoProtocol && !p.reaped && slices.Contains(ids, p.Task.ID) {
			p.signalLocked(walk, false, sig)
			sent = append(sent, p.Task.ID)
		}
	})
	return sent
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

// reportStopped tells the user about each task that has stopped, once. It is called once a second,
// so that tasks need neither a thread nor a signal for this.
func (l *Local) reportStopped() {
	if l.terminal != nil || !l.groups.starting.TryRLock() {
		return // awaitOnTerminal handles it, or crew itself is stopping the tasks
	}
	defer l.groups.starting.RUnlock()
	l.groups.each(func(p *process) {
		if sig := p.stoppedBy(); sig != 0 && !p.stopReported {
			p.stopReported = true
			l.notice(p.stoppedNotice(sig))
		}
	})
}

// stoppedBy returns the signal that has stopped the leader since the last call, or 0. A stop by
// killLocked does not count.
func (p *process) stoppedBy() (sig syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.reaped {
		sig = kernel.Stopped(p.pid)
	}
	return sig
}

// stoppedNotice returns the message that a signal has stopped the task. It says how to continue.
func (p *process) stoppedNotice(sig syscall.Signal) string {
	const width = 60
	name := fmt.Sprintf("%s (%s)", nameOfAttempt(p.Attempt), task.Shorten(p.Task.Words(p.Argv()), width))
	if sig == syscall.SIGTTIN || sig == syscall.SIGTTOU {
		return fmt.Sprintf("%s has stopped because it wants the terminal: --tty gives it to tasks; kill -KILL -%d ends it", name, p.pid)
	}
	return fmt.Sprintf("%s was stopped by %s: kill -CONT -%d continues it", name, unix.SignalName(sig), p.pid)
}

package proc

import (
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"crew/runner/decide/task"
	"crew/runner/exec/kernel"
)

// kin finds and signals the processes of a task, or of all tasks of a run: the processes in its
// process group and their descendants in any group. timeout(1), for example, makes a group of
// its own, and so do shells for their jobs with set -m.
//
// The system only records the parent of a process, and an orphan gets a new parent. So kin looks for
// the processes before it ends any of them, and remembers the groups that they lead. It recognizes an
// orphan that is in none of these groups by its environment. If such an orphan has also made a session of
// its own, it counts as a daemon and is left alone.
//
// With PR_SET_CHILD_SUBREAPER, orphans would become children of crew. But crew would then have to reap
// them, which requires that the main thread stays free (see kernel.Run), and each run would pay for this.
type kin struct {
	crew      int      // the process that runs the tasks
	session   int      // the session of crew and its tasks
	crewStart int64    // when crew began
	marks     []string // variables in the environment of all processes of the task; CREW_PID is the first

	groups  map[int]int64 // the task's groups, with the Start of their leaders; 0 for leaders that have been reaped
	members map[int]int64 // the processes found last, with their Start: they may have left their group since
	daemons map[int]bool  // the sessions of the daemons found last
	ending  bool          // the task was asked to end: no process is a daemon any more, except those in daemons and their descendants
}

// newKin returns a kin without groups. This process must be in the session of crew.
func newKin(crew int, marks []string) *kin {
	session, _ := unix.Getsid(0)
	self, _ := kernel.FindProcess(crew)
	return &kin{crew: crew, session: session, crewStart: self.Start, marks: marks, groups: map[int]int64{}}
}

// addGroup adds a group. Unless its leader has been reaped, no other process can have its ID.
func (k *kin) addGroup(group int, reaped bool) {
	if _, ok := k.groups[group]; ok && !reaped {
		return
	}
	k.groups[group] = 0
	if leader, ok := kernel.FindProcess(group); ok && !reaped && leader.Session == k.session {
		k.groups[group] = leader.Start
	}
}

// find returns the processes of the task among all, and the daemons that it has started. It
// updates the groups.
func (k *kin) find(all []kernel.Process) (own, daemons []kernel.Process) {
	byPID := map[int]kernel.Process{}
	for _, p := range all {
		byPID[p.PID] = p
		if start, ok := k.groups[p.PID]; ok && start != p.Start {
			delete(k.groups, p.PID) // the group has ended, and another process has its ID
		}
	}
	isOwn, checked, isDaemon := map[int]bool{}, map[int]bool{}, map[int]bool{}
	for checkOrphans := false; ; {
		before := len(own)
		for _, p := range all {
			if isOwn[p.PID] || p.PID == k.crew || p.PID == os.Getpid() {
				continue
			}
			_, known := k.groups[p.Group]
			if start, ok := k.members[p.PID]; !known && !isOwn[p.Parent] && (!ok || start != p.Start) {
				if !checkOrphans || p.Start < k.crewStart || checked[p.PID] {
					continue
				}
				checked[p.PID] = true
				if !k.isOrphan(p, byPID) || !k.hasMarks(p.PID) {
					continue
				}
				if isDaemon[p.PID] = k.isDaemon(p, byPID); isDaemon[p.PID] {
					continue
				}
			}
			isOwn[p.PID] = true
			if own = append(own, p); p.Group == p.PID {
				k.groups[p.PID] = p.Start
			}
		}
		if checkOrphans && len(own) == before {
			break
		}
		checkOrphans = true // only once all descendants are known
	}
	if !k.ending {
		k.daemons = map[int]bool{}
	}
	for _, p := range all {
		if !isDaemon[p.PID] || isOwn[p.PID] {
			continue
		}
		if k.daemons[p.Session] = true; !isDaemon[p.Parent] {
			daemons = append(daemons, p)
		}
	}
	k.members = map[int]int64{}
	for _, p := range own {
		k.members[p.PID] = p.Start
	}
	return own, daemons
}

// isOrphan reports whether a process has no ancestor that crew has started, and is not in a group of
// such a process. In the engine, tasks of several submitters may have the same marks.
func (k *kin) isOrphan(p kernel.Process, byPID map[int]kernel.Process) bool {
	if byPID[p.Group].Parent == k.crew {
		return false
	}
	for range len(byPID) {
		if p.Parent == k.crew {
			return false
		}
		p = byPID[p.Parent]
	}
	return true
}

// isDaemon reports whether an orphan is a daemon, or was started by one. Once the task was asked to
// end, what its processes start does not become a daemon. Start times could not tell this: Linux
// counts them in ticks of 10 ms.
func (k *kin) isDaemon(p kernel.Process, byPID map[int]kernel.Process) bool {
	if !k.ending {
		return p.Session != k.session
	}
	for range len(byPID) {
		if k.daemons[p.Session] {
			return true
		}
		p = byPID[p.Parent]
	}
	return false
}

// hasMarks reports whether all marks are in the environment of a process.
func (k *kin) hasMarks(pid int) bool {
	env := environOf(pid)
	for _, mark := range k.marks {
		if !slices.Contains(env, mark) {
			return false
		}
	}
	return true
}

// environOf returns the environment that a process started with, if the system shows it.
func environOf(pid int) []string { return strings.Split(string(kernel.Environ(pid)), "\x00") }

// ofOtherCrew reports whether a process is a task of another crew, which this task runs. That crew
// ends the process.
func (k *kin) ofOtherCrew(pid int) bool {
	return slices.ContainsFunc(environOf(pid), func(v string) bool { return nameOf(v) == nameOf(k.marks[0]) && v != k.marks[0] })
}

// target returns the argument of kill(2) for a process: its group, or only the process if the group
// does not belong to the task.
func (k *kin) target(p kernel.Process) int {
	if _, ok := k.groups[p.Group]; ok {
		return -p.Group
	}
	return p.PID
}

// signal sends signals to each target of the processes in own once, except the targets in done. It
// checks each process just before, since another process may have its ID by then.
func (k *kin) signal(own []kernel.Process, done map[int]bool, sigs ...syscall.Signal) (sent bool) {
	for _, p := range own {
		to := k.target(p)
		if now, ok := kernel.FindProcess(p.PID); done[to] || !ok || now.Start != p.Start || now.Group != p.Group {
			continue
		}
		done[to], sent = true, true
		for _, sig := range sigs {
			_ = syscall.Kill(to, sig)
		}
	}
	return sent
}

// kill kills the task, and returns the processes that were left of it, and its daemons. It first stops all
// processes until it finds no more: a stopped process can neither start another one nor
// lose its ID.
func (k *kin) kill(walk func() []kernel.Process) (own, daemons []kernel.Process) {
	const rounds = 100 // gives up on a task that starts processes faster
	stopped := map[int]bool{}
	for range rounds {
		all := walk()
		if own, daemons = k.find(all); len(all) == 0 { // the system hides them
			for group := range k.groups {
				_ = syscall.Kill(-group, syscall.SIGKILL)
			}
		}
		if !k.signal(own, stopped, syscall.SIGSTOP) {
			break
		}
	}
	for _, p := range own {
		to := k.target(p)
		_ = syscall.Kill(to, syscall.SIGKILL)
		delete(stopped, to)
	}
	for to := range stopped { // processes that turned out not to belong to the task
		_ = syscall.Kill(to, syscall.SIGCONT)
	}
	return slices.DeleteFunc(own, func(p kernel.Process) bool { return p.Ended }), daemons
}

// census lists all processes, for several tasks at once. It is safe for concurrent use.
type census struct {
	mu    sync.Mutex
	begun time.Time
	all   []kernel.Process
}

// walk returns a list of all processes that was begun after the call.
func (c *census) walk() []kernel.Process {
	called := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.begun.After(called) {
		c.begun = time.Now()
		c.all = kernel.Processes()
	}
	return c.all
}

// kinLocked returns the kin of the process. The caller must hold mu.
func (p *process) kinLocked() *kin {
	if p.kin == nil {
		e := p.env
		marks := slices.DeleteFunc(e.forAttempt(p.Attempt), func(kv string) bool {
			return kv == e.pid || !slices.Contains(task.Variables[:], nameOf(kv)) || strings.HasPrefix(kv, "PARALLEL_")
		})
		p.kin = newKin(os.Getpid(), append([]string{e.pid}, marks...))
	}
	p.kin.addGroup(p.pid, p.reaped)
	return p.kin
}

// signalLocked sends signals to the group and all its descendants. If ending is set, it asks the task to
// end, and leaves out tasks of another crew. The caller must hold mu, and the leader must not have been
// reaped.
func (p *process) signalLocked(walk func() []kernel.Process, ending bool, sigs ...syscall.Signal) {
	k := p.kinLocked()
	all := walk()
	found, _ := k.find(all)
	if ending {
		k.ending = k.ending || len(all) > 0
		found = slices.DeleteFunc(found, func(q kernel.Process) bool { return k.ofOtherCrew(q.PID) })
	}
	done := map[int]bool{}
	k.signal(found, done, sigs...)
	for _, sig := range sigs {
		if !done[-p.pid] { // the system hides its processes
			_ = syscall.Kill(-p.pid, sig)
		}
	}
}

// killLocked kills the group and all its descendants. It records daemons and, if the leader has exited by
// itself, the processes that it left behind. The caller must hold mu. If the leader has been reaped,
// the group must still have other processes.
func (p *process) killLocked() {
	left, daemons := p.kinLocked().kill(p.census.walk)
	if p.exited && p.endedBy == 0 {
		p.leftBehind = append(p.leftBehind, processNames(left)...)
	}
	p.daemons = processNames(daemons)
}

func processNames(all []kernel.Process) (names []string) {
	for _, p := range all {
		names = append(names, p.Name)
	}
	return names
}

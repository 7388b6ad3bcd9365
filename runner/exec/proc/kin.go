package proc

import (
	"cmp"
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

// kin finds and signals the processes of a task, or of all tasks of a run: those of its
// process group and their descendants, in whatever groups these are, as timeout(1) and the jobs
// of a shell with set -m make their own.
//
// The system tells only the parent of a process, and an orphan has another one. So the
// processes are looked for before one of them is ended, and the groups that they lead are
// remembered. An orphan that is in no such group is known by its environment. If it has made a
// session of its own as well, it is taken for a daemon and left alone.
//
// PR_SET_CHILD_SUBREAPER would give crew the orphans, but it would have to reap them, for
// which the main thread would have to be kept free (see kernel.Run), and each run would pay.
type kin struct {
	crew    int      // the process that runs the tasks
	session int      // the session that it and its tasks are in
	since   int64    // when crew began
	marks   []string // what is in the environment of all processes of the task; CREW_PID is the first

	groups  map[int]int64 // the groups of the task, with the Start of their leaders; 0 if those have been reaped
	members map[int]int64 // the processes that were found last, with their Start: they may have left their group since
	asked   int64         // when the task was first asked to end: what has begun since is no daemon; 0 if it was not
}

// newKin returns a kin without groups.
func newKin(crew, session int, marks []string) *kin {
	self, _ := kernel.FindProcess(crew)
	return &kin{crew: crew, session: session, since: self.Start, marks: marks, groups: map[int]int64{}}
}

// add adds a group. Unless its leader has been reaped, no other process may have its ID.
func (k *kin) add(group int, reaped bool) {
	if _, ok := k.groups[group]; ok && !reaped {
		return
	}
	k.groups[group] = 0
	if leader, ok := kernel.FindProcess(group); ok && !reaped && leader.Session == k.session {
		k.groups[group] = leader.Start
	}
}

// find returns the processes of the task among all, and the daemons that it has made. It
// adds and drops groups.
func (k *kin) find(all []kernel.Process) (own, daemons []kernel.Process) {
	at := map[int]kernel.Process{}
	for _, p := range all {
		at[p.PID] = p
		if start, ok := k.groups[p.PID]; ok && start != p.Start {
			delete(k.groups, p.PID) // the group has ended, and its ID is another's
		}
	}
	in, asked, apart := map[int]bool{}, map[int]bool{}, map[int]bool{}
	for ask := false; ; {
		before := len(own)
		for _, p := range all {
			if in[p.PID] || p.PID == k.crew || p.PID == os.Getpid() {
				continue
			}
			_, known := k.groups[p.Group]
			if start, ok := k.members[p.PID]; !known && !in[p.Parent] && (!ok || start != p.Start) {
				if !ask || p.Start < k.since || asked[p.PID] {
					continue
				}
				asked[p.PID] = true
				if !k.orphan(p, at) || !k.marked(p.PID) {
					continue
				}
				if apart[p.PID] = p.Session != k.session && (k.asked == 0 || p.Start < k.asked); apart[p.PID] {
					continue
				}
			}
			in[p.PID] = true
			if own = append(own, p); p.Group == p.PID {
				k.groups[p.PID] = p.Start
			}
		}
		if ask && len(own) == before {
			break
		}
		ask = true // once the descendants are known
	}
	for _, p := range all {
		if apart[p.PID] && !in[p.PID] && !apart[p.Parent] {
			daemons = append(daemons, p)
		}
	}
	k.members = map[int]int64{}
	for _, p := range own {
		k.members[p.PID] = p.Start
	}
	return own, daemons
}

// orphan reports whether a process descends from none that crew has started, and is in no group
// of such a one: in the engine, tasks of several submitters may have the same marks.
func (k *kin) orphan(p kernel.Process, at map[int]kernel.Process) bool {
	if at[p.Group].Parent == k.crew {
		return false
	}
	for range len(at) {
		if p.Parent == k.crew {
			return false
		}
		p = at[p.Parent]
	}
	return true
}

// marked reports whether the environment of a process has the marks.
func (k *kin) marked(pid int) bool {
	env := variables(pid)
	return !slices.ContainsFunc(k.marks, func(mark string) bool { return !slices.Contains(env, mark) })
}

// variables returns the environment with which a process began, if that is to be had.
func variables(pid int) []string { return strings.Split(string(kernel.Environ(pid)), "\x00") }

// foreign reports whether a process is a task of another crew, which this task runs and
// which ends it.
func (k *kin) foreign(pid int) bool {
	name, _, _ := strings.Cut(k.marks[0], "=")
	return slices.ContainsFunc(variables(pid), func(v string) bool { return nameOf(v) == name && v != k.marks[0] })
}

// target returns what reaches a process by kill(2): its group, or the process alone if the group
// is not the task's.
func (k *kin) target(p kernel.Process) int {
	if _, ok := k.groups[p.Group]; ok {
		return -p.Group
	}
	return p.PID
}

// signal sends signals to the task: to each of its groups once, unless done has that already.
// A process is looked at again just before, since its ID may be another's by now.
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

// kill ends the task and returns what was left of it, and its daemons. First it stops all
// processes until no other turns up: what stands still can neither start another one nor
// lose its ID.
func (k *kin) kill(walk func() []kernel.Process) (own, daemons []kernel.Process) {
	const rounds = 100 // against a task that is faster
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
	for to := range stopped { // what has turned out to be another's
		_ = syscall.Kill(to, syscall.SIGCONT)
	}
	own = slices.DeleteFunc(own, func(p kernel.Process) bool { return p.Ended })
	return own, daemons
}

// census walks all processes for several tasks at once. It is safe for concurrent use.
type census struct {
	mu    sync.Mutex
	begun time.Time
	all   []kernel.Process
}

// walk returns the processes of a walk that has begun after the call.
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

// kindred returns the kin of the process. The caller must hold mu.
func (p *process) kindred() *kin {
	if p.kin == nil {
		e := p.env
		marks := slices.DeleteFunc(e.of(p.Attempt), func(kv string) bool {
			return kv == e.pid || !slices.Contains(task.Own[:], nameOf(kv)) || strings.HasPrefix(kv, "PARALLEL_")
		})
		session, _ := unix.Getsid(0)
		p.kin = newKin(os.Getpid(), session, append([]string{e.pid}, marks...))
	}
	p.kin.add(p.pid, p.reaped)
	return p.kin
}

// pass sends signals to the group and to all that descends from it, but for tasks of another
// crew if own is true. The caller must hold mu, and the group must not have been reaped.
func (p *process) pass(walk func() []kernel.Process, own bool, sigs ...syscall.Signal) {
	k := p.kindred()
	all := walk()
	found, _ := k.find(all)
	if own {
		if k.asked == 0 && len(all) > 0 {
			k.asked = slices.MaxFunc(all, func(a, b kernel.Process) int { return cmp.Compare(a.Start, b.Start) }).Start
		}
		found = slices.DeleteFunc(found, func(q kernel.Process) bool { return k.foreign(q.PID) })
	}
	done := map[int]bool{}
	k.signal(found, done, sigs...)
	for _, sig := range sigs {
		if !done[-p.pid] { // the system hides it
			_ = syscall.Kill(-p.pid, sig)
		}
	}
}

// kill kills the group and all that descends from it. It notes daemons, and what the leader has
// left behind if that has exited by itself. The caller must hold mu. If the leader has been reaped, something
// must be left of the group.
func (p *process) kill() {
	left, daemons := p.kindred().kill(p.census.walk)
	if p.exited && p.endedBy == 0 {
		p.left = append(p.left, names(left)...)
	}
	p.daemons = names(daemons)
}

// names returns the names of processes.
func names(all []kernel.Process) (names []string) {
	for _, p := range all {
		names = append(names, p.Name)
	}
	return names
}

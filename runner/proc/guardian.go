package proc

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"crew/runner/jobserver"
	"crew/runner/kernel"
)

// No orphans, even if crew is killed by SIGKILL: a guardian, a process in its own
// group, learns of crew's end through its vigil and kills the groups listed in a
// table that both share, with what descends from them (kin). The table costs one store per task.
//
// Nothing simpler would do. PR_SET_PDEATHSIG would never reach a task's children, and make
// orphans of them that nobody can find; so only a task that starts without a guardian has it. PR_SET_CHILD_SUBREAPER gives the tasks of a dead crew to
// nobody. A control group would reach even daemons in their own session, but needs a delegated
// one, which few users have, and two file operations per task. Such daemons are left alone,
// as at the end of any run.

const (
	guardAfter = 3 * time.Millisecond   // when a guardian execs
	guardAgain = 200 * time.Millisecond // when to try again if it cannot be started
	guardLook  = time.Second            // how often to check that it is alive, and to look after the tasks

	guardianName = "task-guardian"

	leaseAgain = 50 * time.Millisecond // how often a guardian kills while the lease has run out
	goneLook   = time.Second           // how often it looks at least whether killed groups are gone

	// tableSize is the number of groups that the table holds, tableLeast if a limit on the
	// size of files allows no more.
	tableSize  = 64 << 10
	tableLeast = 1 << 10
)

// newGuardian prepares a guardian. It gets the descriptors of the table, of its vigil, and of
// what to keep open until the groups are gone, of which the last two are 0 if there is none, and
// what it needs for tokens.
func newGuardian(null, table, vigil, held int, tokens *jobserver.Tokens) *kernel.Helper {
	fds, dir := tokens.Kept()
	return kernel.NewHelper(guardianName, null, append([]int{table, vigil, held}, fds...), dir, guardAfter)
}

func init() {
	if crew, fds, dir, ok := kernel.AsHelper(guardianName, 6); ok {
		watchOver(crew, fds, dir)
		os.Exit(0)
	}
}

// watchOver waits for the end of crew, which is the guardian's parent, and then
// kills the tasks that are left. It also kills them while the lease has run out. It gives back
// tokens all the while.
func watchOver(crew int, fds []int, dir string) {
	signal.Ignore()
	kernel.CloseFrom(slices.Max(fds) + 1) // do not hold open what crew inherited from its caller
	vigil, held, tokens := fds[1], fds[2], jobserver.Keep(fds[3:], dir)
	memory, err := kernel.OpenShared(fds[0])
	if err != nil {
		return
	}
	table, own := asTable(memory)
	session, _ := unix.Getsid(0)
	k := newKin(crew, session, []string{"CREW_PID=" + strconv.Itoa(crew)})
	expired := func() {
		k.killListed(table)
		time.Sleep(leaseAgain) // what crew starts meanwhile is not listed yet, or unknown until it has executed its program
	}
	starts := starts{crew: crew, table: table}
	keepVigil(crew, vigil, own, expired, starts.look)
	expired()
	k.killListed(table)
	tokens.End()
	for pause := time.Millisecond; held > 0 && anyLives(table); pause = min(2*pause, goneLook) {
		time.Sleep(pause)
	}
}

// killListed kills the tasks of the groups in a table, with what is known by its environment.
func (k *kin) killListed(table []int32) {
	for row := range table {
		if id := atomic.LoadInt32(&table[row]); id != 0 && id != starting {
			k.add(int(max(id, -id)), id < 0)
		}
	}
	k.kill(kernel.Processes)
}

// anyLives reports whether a process of the groups in a table is left, and removes groups
// that are gone, whose IDs are free for others from then on. What has ended does not live, even
// if nobody reaps it, as in a container.
func anyLives(table []int32) (any bool) {
	lives := sync.OnceValue(func() map[int]bool {
		groups := map[int]bool{}
		for _, p := range kernel.Processes() {
			groups[p.Group] = groups[p.Group] || !p.Ended
		}
		return groups
	})
	for row, id := range table {
		group := int(max(id, -id))
		if id == 0 || id == starting {
			continue
		}
		if alive, seen := lives()[group]; syscall.Kill(-group, 0) == syscall.ESRCH || seen && !alive {
			table[row] = 0
		} else {
			any = true
		}
	}
	return any
}

// starts continues children of crew that have stopped before they executed their program, as
// kill -STOP of crew's process group makes them. The thread that starts one waits for it, and may
// be the one that would have to continue it, or that all others wait for.
type starts struct {
	crew  int
	table []int32
	seen  map[int]start // at the last look, by row
	next  time.Time     // when to look again
}

// start is what has been seen of a row that is in use.
type start struct {
	id    int32
	begun bool // it has executed its program
}

// look continues what has not begun since the last look.
func (s *starts) look() {
	if time.Now().Before(s.next) {
		return
	}
	s.next = time.Now().Add(guardLook)
	seen := map[int]start{}
	for row := range s.table {
		now, last := start{id: atomic.LoadInt32(&s.table[row])}, s.seen[row]
		switch {
		case now.id == 0:
			continue
		case now.id != last.id || last.begun:
			now.begun = now.id == last.id
		case now.id == starting: // its ID is not known
			for _, p := range kernel.Processes() {
				p.Free(s.crew)
			}
		default:
			p, _ := kernel.Look(int(now.id))
			now.begun = !p.Free(s.crew)
		}
		seen[row] = now
	}
	s.seen = seen
}

// asTable returns the table of groups in a memory, and what of that is the vigil's own.
func asTable(memory []byte) (table []int32, own []byte) {
	n := len(memory) - vigilSize
	return unsafe.Slice((*int32)(unsafe.Pointer(&memory[0])), n/4), memory[n:]
}

// guardian starts the guardian process and replaces it if it ends. It is safe for
// concurrent use.
type guardian struct {
	groups *groups
	null   int
	notice func(string)
	look   func() // called at each look

	mu     sync.Mutex
	timer  *time.Timer // of the next try
	told   bool
	closed bool
	pid    int // 0 if there is none
	table  int // descriptor of the table
	vigil  vigil
	tokens *jobserver.Tokens
	held   int            // descriptor that stays open until all groups are gone; 0 if there is none
	start  *kernel.Helper // must stay reachable until the guardian execs; nil without a table
}

// try starts the guardian unless it is alive. It is called again at intervals,
// sooner after a failure.
func (g *guardian) try() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return
	}
	g.look()
	again := guardLook
	if err := g.ensure(); err != nil {
		again = guardAgain
		if !g.told {
			g.told = true
			g.notice(fmt.Sprintf("no guardian yet, so tasks could outlive a crew that is killed: %v", err))
		}
	}
	g.timer = time.AfterFunc(again, g.try)
}

// ensure starts the guardian if there is none. If it has ended, ensure fails.
func (g *guardian) ensure() (err error) {
	if g.pid != 0 {
		if kernel.Stopped(g.pid) != 0 { // in crew's group, which it had not left
			_ = syscall.Kill(g.pid, syscall.SIGCONT)
		}
		if got, _ := syscall.Wait4(g.pid, nil, syscall.WNOHANG, nil); got != 0 {
			g.pid = 0
			return errors.New("it has ended")
		}
		return nil
	}
	if g.start == nil {
		// The table serves all guardians of the run. It is never unmapped, because the
		// kernel stores the ID of a starting process in its row (groups.reserve), and a
		// start may take any time.
		memory, fd, err := kernel.NewShared("crew-groups", 4*tableSize, 4*tableLeast)
		if err != nil {
			return err
		}
		table, own := asTable(memory)
		vigil, err := g.vigil.begin(own)
		if err != nil {
			return errors.Join(err, syscall.Close(fd))
		}
		g.groups.share(table)
		g.table, g.start = fd, newGuardian(g.null, fd, vigil, g.held, g.tokens)
	}
	g.pid, err = g.start.Start()
	return err
}

// expire sets the time at which the guardian begins to kill; zero is never.
func (g *guardian) expire(at time.Time) (err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil
	}
	if g.start != nil && !g.vigil.leased() {
		panic("internal error: a lease after the first attempt")
	}
	return g.vigil.expire(at)
}

// there reports whether a guardian has been started, which may have ended.
func (g *guardian) there() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.pid != 0
}

// close ends the guardian. Every group must be gone by then, or be meant to live; but with
// a descriptor to keep open, the guardian stays until those that were killed are gone.
func (g *guardian) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return
	}
	g.closed = true
	if g.timer != nil {
		g.timer.Stop()
	}
	if g.start != nil {
		_ = syscall.Close(g.table)
	}
	if g.pid != 0 {
		_ = syscall.Kill(g.pid, syscall.SIGCONT)
		g.tokens.Settle(true)
		if g.held != 0 && anyLives(g.groups.table) {
			return
		}
		_ = syscall.Kill(g.pid, syscall.SIGKILL)
		reap := func() { kernel.Wait(g.pid, nil, nil) }
		if g.tokens.Own() {
			go reap() // nobody has to wait for this: init reaps what crew leaves
		} else {
			reap()
		}
	}
	g.vigil.end()
}

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

	"crew/runner/exec/jobserver"
	"crew/runner/exec/kernel"
)

// No orphans, even if crew is killed by SIGKILL: a guardian, a process in its own
// group, learns of crew's end from a pipe, of which crew has the other end, and kills the groups
// listed in a table that both share, with what descends from them (kin). The table costs one
// store per task.
//
// The pipe ends only when a task that is just being started has been executed. Where the kernel
// does not list such a task (see kernel.Spawner), it is known by its environment: it survives if
// it has changed that by then, or if the system hides it.
//
// On Linux the guardian is there before the first task, and shares crew's memory until it execs:
// a run that is over by then pays for one clone. A timer in crew would leave a gap, since
// PR_SET_PDEATHSIG never reaches a task's children, and makes orphans of them that nobody can
// find; so only a task that starts without a guardian has it. PR_SET_CHILD_SUBREAPER gives the
// tasks of a dead crew to nobody. A control group would reach even daemons in their own session,
// but needs a delegated one, which few users have, and two file operations per task. Such daemons
// are left alone, as at the end of any run.

const (
	guardAfter = 50 * time.Millisecond  // when a guardian execs
	tokenAfter = 3 * time.Millisecond   // the same if crew's end may have to wait for it
	guardAgain = 200 * time.Millisecond // when to try again if it cannot be started
	guardLook  = time.Second            // how often to check that it is alive, and to look after the tasks

	guardianName = "task-guardian"

	leaseLook  = 100 * time.Millisecond // how often a guardian looks whether the lease has run out, but for its end
	leaseAgain = 50 * time.Millisecond  // how often it kills while that is so
	goneLook   = time.Second            // how often it looks at least whether killed groups are gone

	// tableSize is the number of groups that the table holds, tableLeast if a limit on the
	// size of files allows no more.
	tableSize  = 64 << 10
	tableLeast = 1 << 10
)

func init() {
	if crew, fds, dir, ok := kernel.AsHelper(guardianName, 5); ok {
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
	pipe, held, tokens := fds[1], fds[2], jobserver.Keep(fds[3:], dir)
	memory, err := kernel.OpenShared(fds[0])
	if err != nil {
		return
	}
	table, lease := asTable(memory)
	session, _ := unix.Getsid(0)
	k := newKin(crew, session, []string{"CREW_PID=" + strconv.Itoa(crew)})
	expired := func() {
		k.addListed(table)
		k.kill(kernel.Processes)
		time.Sleep(leaseAgain) // what crew starts meanwhile is not listed yet, or unknown until it has executed its program
	}
	for over := false; !over; {
		left := lease.left()
		if left <= 0 {
			expired()
		}
		set := []unix.PollFd{{Fd: int32(pipe), Events: unix.POLLIN}}
		n, err := unix.Poll(set, int((max(left, 0)+time.Millisecond-1)/time.Millisecond))
		if n == 0 {
			over = os.Getppid() != crew // a task that has stopped too early may hold the pipe
			lease.free(crew)
		} else if err == nil {
			n, err = unix.Read(pipe, make([]byte, 64))
			over = n == 0 && err == nil
			for range n {
				tokens.Give()
			}
		}
	}
	expired()
	k.addListed(table)
	left, _ := k.kill(kernel.Processes)
	tokens.End()
	for pause := time.Millisecond; held > 0 && len(left) > 0; pause = min(2*pause, goneLook) {
		time.Sleep(pause)
		left, _ = k.kill(kernel.Processes)
	}
}

// addListed adds the groups in a table.
func (k *kin) addListed(table []int32) {
	for row := range table {
		if id := atomic.LoadInt32(&table[row]); id != 0 {
			k.add(int(max(id, -id)), id < 0)
		}
	}
}

// free continues children of crew that have stopped before they executed their program, as
// kill -STOP of crew's process group makes them. The thread that starts one waits for it, and may
// be the one that would have to continue it, or that all others wait for.
func (l *lease) free(crew int) {
	if l.starts.Load() > 0 {
		kernel.ResumeStuck(crew)
	}
}

// lease is when a lease ends, in nanoseconds by the wall clock and by kernel.SinceBoot, whichever
// comes first: either may stand still or be set back while the machine is suspended. With 0 for
// wall it never ends.
type lease struct {
	wall, boot atomic.Int64
	starts     atomic.Int32 // how many processes crew is about to start
}

// set sets the end; zero is never.
func (l *lease) set(at time.Time) {
	if at.IsZero() {
		l.wall.Store(0)
		return
	}
	// The clock is read first: this process may be stopped at any moment, also here.
	boot := kernel.SinceBoot()
	l.boot.Store(int64(boot + time.Until(at)))
	l.wall.Store(at.UnixNano())
}

// left returns how long the lease still lasts, or when to ask again: the wall clock may be set.
func (l *lease) left() time.Duration {
	wall := l.wall.Load()
	if wall == 0 {
		return guardLook
	}
	return min(time.Duration(wall-time.Now().UnixNano()), time.Duration(l.boot.Load())-kernel.SinceBoot(), leaseLook)
}

// asTable returns the table of groups in a memory, and the lease, which is last in it.
func asTable(memory []byte) (table []int32, l *lease) {
	n := len(memory) - int(unsafe.Sizeof(lease{}))
	return unsafe.Slice((*int32)(unsafe.Pointer(&memory[0])), n/4), (*lease)(unsafe.Pointer(&memory[n]))
}

// guardian starts the guardian process and replaces it if it ends. It is safe for
// concurrent use.
type guardian struct {
	*Local

	mu     sync.Mutex
	timer  *time.Timer // of the next try
	told   bool
	closed bool
	pid    int    // 0 if there is none
	fault  error  // why there can be none
	table  int    // descriptor of the table; -1 if there is none
	pipe   [2]int // what the guardian reads, and what crew writes to ask for tokens to be given back
	tokens *jobserver.Tokens
	held   int // descriptor that stays open until all groups are gone; 0 if there is none
	start  any // must stay reachable until the guardian execs
}

// open makes what the guardian needs. The table serves all guardians of the run. It is never unmapped,
// because the kernel stores the ID of a starting process in its row (groups.reserve), and a start
// may take any time.
func (g *guardian) open() {
	g.pipe = [...]int{-1, -1}
	memory, fd, err := kernel.NewShared("crew-groups", 4*tableSize, 4*tableLeast)
	if err == nil {
		if err = kernel.Pipe(&g.pipe); err == nil {
			err = syscall.SetNonblock(g.pipe[1], true)
		}
	} else {
		memory = make([]byte, 4*tableLeast)
	}
	g.table, g.fault = fd, err
	g.groups.table, g.groups.lease = asTable(memory)
}

// try starts the guardian unless it is alive. It is called again at intervals,
// sooner after a failure.
func (g *guardian) try() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return
	}
	g.reportStopped()
	g.followSize()
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
	if g.fault != nil {
		return g.fault
	}
	fds, dir := g.tokens.Kept()
	after := guardAfter
	if !g.tokens.Own() {
		after = tokenAfter
	}
	fds = append([]int{g.table, g.pipe[0], g.held}, fds...)
	g.start, g.pid, err = kernel.StartHelper(guardianName, g.null, fds, dir, after)
	return err
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
	if g.pid != 0 {
		_ = syscall.Kill(g.pid, syscall.SIGCONT)
		g.tokens.Settle(true)
		if g.held != 0 && g.groups.any() {
			return
		}
		_ = syscall.Kill(g.pid, syscall.SIGKILL)
		go kernel.Wait(g.pid, nil, nil) // nobody has to wait for this: init reaps what crew leaves
	}
	for _, fd := range []*int{&g.table, &g.pipe[0], &g.pipe[1]} {
		kernel.Close(fd)
	}
}

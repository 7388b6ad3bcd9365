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

// A guardian makes sure that no orphans are left even if crew is killed by SIGKILL. It is a process in
// its own group that holds the read end of a pipe whose write end only crew holds. When crew ends, the
// guardian kills the groups listed in a table that both share, and their descendants (see kin). The
// table costs one store per task.
//
// The pipe reaches its end only when a task that is just being started has executed its program. If
// the kernel does not list such a task (see kernel.Spawner), the guardian recognizes it by its
// environment. The task survives if it has changed its environment by then, or if the system hides it.
//
// On Linux, the guardian is cloned before the first task and shares crew's memory until it execs, so
// a short run pays only for one clone. Starting it by a timer in crew would leave a gap, since
// PR_SET_PDEATHSIG does not reach a task's children and makes them orphans that cannot be found. So
// PR_SET_PDEATHSIG is set only for tasks that start without a guardian. PR_SET_CHILD_SUBREAPER does
// not help once crew is dead. A control group would even reach daemons in a session of their
// own, but needs a delegated one, which few users have, and two file operations per task. Such
// daemons are left alone, as they are at the end of any run.

const (
	guardAfter = 50 * time.Millisecond  // time until a guardian execs
	tokenAfter = 3 * time.Millisecond   // the same if crew's end may have to wait for the guardian
	guardRetry = 200 * time.Millisecond // pause before another attempt to start a guardian
	guardCheck = time.Second            // interval of the checks of the guardian and of the tasks

	guardianName = "task-guardian"

	leaseCheck     = 100 * time.Millisecond // longest pause between a guardian's checks of the lease
	leaseKillPause = 50 * time.Millisecond  // shortest pause between kills while the lease has expired
	maxGonePause   = time.Second            // longest pause between such kills, and between checks that killed groups are gone

	// tableSize is the number of groups that the table can hold. If a limit on file sizes forbids that,
	// it holds tableLeast.
	tableSize  = 64 << 10
	tableLeast = 1 << 10
)

func init() {
	if crew, fds, dir, ok := kernel.AsHelper(guardianName, 5); ok {
		watchOver(crew, fds, dir)
		os.Exit(0)
	}
}

// watchOver is the main function of the guardian. It waits for the end of crew, its parent, and then
// kills the remaining tasks. It also kills them while the lease has expired. Meanwhile it returns tokens
// when crew asks for it, and at the end all of them.
func watchOver(crew int, fds []int, dir string) {
	signal.Ignore()
	kernel.CloseFrom(slices.Max(fds) + 1) // close what crew has inherited from its caller
	pipe, held, tokens := fds[1], fds[2], jobserver.NewKeeper(fds[3:], dir)
	memory, err := kernel.OpenShared(fds[0])
	if err != nil {
		return
	}
	table, lease := asTable(memory)
	k := newKin(crew, []string{"CREW_PID=" + strconv.Itoa(crew)})
	kill := func() (left int) {
		k.addListed(table)
		own, _ := k.kill(kernel.Processes)
		return len(own)
	}
	pause := leaseKillPause
	for over := false; !over; {
		lease.killing.Store(true)
		wait := lease.remaining()
		// Processes that crew is starting are not listed yet, or unknown until they have executed their program.
		if pause = min(2*pause, maxGonePause); wait > 0 || kill() > 0 || lease.starts.Load() > 0 {
			pause = leaseKillPause
		}
		lease.killing.Store(false)
		if wait <= 0 {
			wait = pause
		}
		set := []unix.PollFd{{Fd: int32(pipe), Events: unix.POLLIN}}
		n, err := unix.Poll(set, int((wait+time.Millisecond-1)/time.Millisecond))
		if n == 0 {
			over = os.Getppid() != crew // a task that stopped before its exec may hold the pipe open
			lease.continueStarting(crew)
		} else if err == nil {
			n, err = unix.Read(pipe, make([]byte, 64))
			over = n == 0 && err == nil
			for range n {
				tokens.ReturnOne()
			}
		}
	}
	kill()
	time.Sleep(leaseKillPause)
	left := kill()
	tokens.ReturnAll()
	for pause = time.Millisecond; held > 0 && left > 0; pause = min(2*pause, maxGonePause) {
		time.Sleep(pause)
		left = kill()
	}
}

func (k *kin) addListed(table []int32) {
	for row := range table {
		if id := atomic.LoadInt32(&table[row]); id != 0 {
			k.addGroup(int(max(id, -id)), id < 0)
		}
	}
}

// continueStarting continues children of crew that were stopped before they executed their program,
// for example by kill -STOP of crew's process group. The thread that starts such a child waits for
// it. It may be the thread that would have to continue it, or that all others wait for.
func (l *lease) continueStarting(crew int) {
	if l.starts.Load() > 0 {
		kernel.ResumeStuck(crew)
	}
}

// lease is the lease that the guardian enforces, with its end in nanoseconds by the wall clock and by
// kernel.SinceBoot. It ends when the first of the two is reached: while the machine is suspended,
// either clock may stop or be set back. If wall is 0, it never ends.
type lease struct {
	wall, boot atomic.Int64
	starts     atomic.Int32 // number of processes that crew is about to start
	killing    atomic.Bool  // the guardian is looking whether to kill, or kills
}

// set sets the end of the lease, and returns it as kernel.SinceBoot counts. The zero time means never, for
// which set returns 0.
func (l *lease) set(at time.Time) (end time.Duration) {
	if at.IsZero() {
		l.wall.Store(0)
		return 0
	}
	// Read the clock first: this process may be stopped at any moment, even here.
	boot := kernel.SinceBoot()
	end = boot + time.Until(at)
	l.boot.Store(int64(end))
	l.wall.Store(at.UnixNano())
	return end
}

// remaining returns how long the lease still lasts, but at most leaseCheck, because the wall clock may be
// set. It returns guardCheck if the lease never ends.
func (l *lease) remaining() time.Duration {
	wall := l.wall.Load()
	if wall == 0 {
		return guardCheck
	}
	return min(time.Duration(wall-time.Now().UnixNano()), time.Duration(l.boot.Load())-kernel.SinceBoot(), leaseCheck)
}

// asTable returns the table of groups in memory, and the lease, which follows it.
func asTable(memory []byte) (table []int32, l *lease) {
	n := len(memory) - int(unsafe.Sizeof(lease{}))
	return unsafe.Slice((*int32)(unsafe.Pointer(&memory[0])), n/4), (*lease)(unsafe.Pointer(&memory[n]))
}

// guardian starts the guardian process, and starts another if it ends. It is safe for
// concurrent use.
type guardian struct {
	*Local

	mu          sync.Mutex
	timer       *time.Timer // for the next check
	warned      bool
	closed      bool
	pid         int    // 0 if there is no guardian
	unavailable error  // why there can be no guardian, or nil
	table       int    // descriptor of the table; -1 if there is none
	pipe        [2]int // the guardian reads from it; crew writes to it to ask for the return of tokens
	tokens      *jobserver.Tokens
	heldFD      int // descriptor that stays open until all groups are gone; 0 if there is none
	start       any // must stay reachable until the guardian execs
}

// open allocates the table and the pipe. All guardians of the run use the same table. It is never
// unmapped, because the kernel stores the ID of a starting process in its row (groups.reserve), and a
// start may take any time.
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
	g.table, g.unavailable = fd, err
	g.groups.table, g.groups.lease = asTable(memory)
}

// check starts the guardian unless it is alive, and schedules the next check, which is sooner after
// a failure. It also runs the regular checks of the tasks.
func (g *guardian) check() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return
	}
	g.reportStopped()
	g.followSize()
	again := guardCheck
	if err := g.ensure(); err != nil {
		again = guardRetry
		if !g.warned {
			g.warned = true
			g.notice(fmt.Sprintf("the guardian is not running, so tasks may outlive crew if it is killed: %v", err))
		}
	}
	g.timer = time.AfterFunc(again, g.check)
}

// ensure starts the guardian if there is none. If the guardian has ended, ensure fails once.
func (g *guardian) ensure() (err error) {
	if g.pid != 0 {
		if kernel.Stopped(g.pid) != 0 { // stopped with crew's group, before it had left the group
			_ = syscall.Kill(g.pid, syscall.SIGCONT)
		}
		if got, _ := syscall.Wait4(g.pid, nil, syscall.WNOHANG, nil); got != 0 {
			g.pid = 0
			return errors.New("it has ended")
		}
		return nil
	}
	if g.unavailable != nil {
		return g.unavailable
	}
	fds, dir := g.tokens.KeeperArgs()
	after := guardAfter
	if !g.tokens.Own() {
		after = tokenAfter
	}
	fds = append([]int{g.table, g.pipe[0], g.heldFD}, fds...)
	g.start, g.pid, err = kernel.StartHelper(guardianName, g.null, fds, dir, after)
	return err
}

// isStarted reports whether a guardian has been started. It may have ended since.
func (g *guardian) isStarted() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.pid != 0
}

// close ends the guardian. All groups must be gone, except groups that are meant to survive. If there is a
// descriptor to hold open, the guardian stays until the killed groups are gone.
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
		if g.heldFD != 0 && g.groups.hasAny() {
			return
		}
		_ = syscall.Kill(g.pid, syscall.SIGKILL)
		go kernel.Wait(g.pid, nil, nil) // no need to wait for it: init reaps processes that crew leaves behind
	}
	for _, fd := range []*int{&g.table, &g.pipe[0], &g.pipe[1]} {
		kernel.Close(fd)
	}
}

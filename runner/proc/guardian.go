package proc

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"crew/runner/linux"
)

// No orphans, even when crew is killed by SIGKILL and can do nothing any more:
// a guardian, a process of its own group, sees crew's end through a pidfd and
// kills the groups that stand in a table both share. The table costs a store a
// task. The guardian costs a run a clone that shares crew's memory; what it
// becomes is a new program only when the run is not over at once, and then
// beside crew. A task that crew has just started and not yet put into the table
// dies by PR_SET_PDEATHSIG, before it can have children.
//
// PR_SET_PDEATHSIG alone would never reach children; PR_SET_CHILD_SUBREAPER
// gives a dead crew's tasks to nobody; a control group reaches daemons of their
// own session too, but takes a delegated one, which few have, and two file
// operations a task. Such daemons are left alone as at the end of any run.

const (
	// guardAfter is how old a guardian is when it becomes a program of its own.
	guardAfter = 3 * time.Millisecond
	// guardAgain is how long to wait where it cannot be started, and guardLook
	// how often it is looked after.
	guardAgain = 200 * time.Millisecond
	guardLook  = time.Second
	// guardianVariable holds the process to be guarded, and tableVariable the
	// descriptor of the table, in a guardian's environment alone.
	guardianVariable = "CREW_GUARDIAN_OF"
	tableVariable    = "CREW_GUARDIAN_TABLE"
	// tableSize is how many groups the table holds, and tableLeast how many
	// where a limit on the size of files allows no more.
	tableSize  = 64 << 10
	tableLeast = 1 << 10
)

// guardianCommand is what a guardian is run as. Its name is not crew's: who
// kills every crew by name does not mean it.
func guardianCommand(table int) (argv, env []string) {
	pid := strconv.Itoa(os.Getpid())
	return []string{"task-guardian", pid},
		[]string{guardianVariable + "=" + pid, tableVariable + "=" + strconv.Itoa(table), "GOMAXPROCS=1", "GODEBUG=containermaxprocs=0"}
}

// init makes a guardian of a process that was started as one. It stands here,
// and not behind main, so that no other package has to start for it, and so
// that any binary that runs tasks is its own guardian, those of tests too.
func init() {
	if pid, err := strconv.Atoi(os.Getenv(guardianVariable)); err == nil {
		if fd, err := strconv.Atoi(os.Getenv(tableVariable)); err == nil {
			watchOver(pid, fd)
		}
		os.Exit(0)
	}
}

// watchOver is what a guardian does all its life: wait for the end of crew,
// which is its parent, and then kill what is left of the tasks.
func watchOver(pid, fd int) {
	signal.Ignore()
	// What crew was given by its caller is not to be held open by a guardian.
	_ = unix.CloseRange(uint(fd)+1, ^uint(0), 0)
	table, err := mapTable(fd, unix.PROT_READ)
	if err != nil {
		return
	}
	if fd, err := unix.PidfdOpen(pid, 0); err == nil && os.Getppid() == pid {
		set := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		for {
			if n, err := unix.Poll(set, -1); n > 0 || err != unix.EINTR {
				break
			}
		}
	}
	for os.Getppid() == pid { // without a pidfd; else it is over by now, or in a moment
		time.Sleep(10 * time.Millisecond)
	}
	for _, pgid := range table {
		if pgid > 0 {
			_ = syscall.Kill(-int(pgid), syscall.SIGKILL)
		}
	}
}

// mapTable maps the table that stands in a file.
func mapTable(fd, prot int) ([]int32, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, err
	}
	p, err := unix.MmapPtr(fd, 0, nil, uintptr(st.Size), prot, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return unsafe.Slice((*int32)(p), st.Size/4), nil
}

// guardian is crew's side of it. It is safe for concurrent use.
type guardian struct {
	groups *groups
	null   int
	notice func(string)

	mu     sync.Mutex
	timer  *time.Timer // of the next try or look
	told   bool
	closed bool
	pid    int                // 0 while there is none
	table  int                // descriptor of the table
	start  *linux.DelayedExec // starts it, and is what it needs until it is a program of its own; nil without a table
}

// try starts the guardian, now or, where the system has not what it takes,
// later. From time to time it looks whether there still is one.
func (g *guardian) try() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return
	}
	err := g.see()
	if err == nil {
		g.timer = time.AfterFunc(guardLook, g.try)
		return
	}
	g.pid = 0
	g.timer = time.AfterFunc(guardAgain, g.try)
	if !g.told {
		g.told = true
		g.notice(fmt.Sprintf("no guardian yet, so tasks could outlive a crew that is killed: %v", err))
	}
}

// see says whether there is a guardian, which it starts where none was.
func (g *guardian) see() (err error) {
	if g.pid != 0 {
		if got, _ := syscall.Wait4(g.pid, nil, syscall.WNOHANG, nil); got != 0 {
			return errors.New("it has ended")
		}
		return nil
	}
	if g.start == nil {
		if err = g.makeTable(); err != nil {
			return err
		}
	}
	g.pid, err = g.start.Start()
	return err
}

// makeTable makes the table, which stays for all guardians of the run: the
// kernel stores the id of a process that starts in its row (groups.reserve), and
// nobody knows how long a start may take. So it is never unmapped.
func (g *guardian) makeTable() error {
	fd, err := unix.MemfdCreate("crew-groups", unix.MFD_CLOEXEC)
	if err != nil {
		return err
	}
	if err = syscall.Ftruncate(fd, 4*tableSize); err != nil {
		err = syscall.Ftruncate(fd, 4*tableLeast)
	}
	var table []int32
	if err == nil {
		table, err = mapTable(fd, unix.PROT_READ|unix.PROT_WRITE)
	}
	if err != nil {
		_ = syscall.Close(fd)
		return err
	}
	g.groups.share(table)
	argv, env := guardianCommand(fd)
	g.table, g.start = fd, linux.NewDelayedExec("/proc/self/exe", argv, env, g.null, fd, guardAfter)
	return nil
}

// close ends the guardian. Every group must be gone, or be meant to live.
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
	if g.pid == 0 {
		return
	}
	_ = syscall.Kill(g.pid, syscall.SIGKILL)
	// A process that ends now leaves the rest to init.
	go reapNow(g.pid)
}

func reapNow(pid int) {
	for {
		if _, err := syscall.Wait4(pid, nil, 0, nil); err != syscall.EINTR {
			return
		}
	}
}

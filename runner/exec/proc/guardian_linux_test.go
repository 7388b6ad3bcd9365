package proc

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"crew/runner/crewtest"
	"crew/runner/decide/task"
	"crew/runner/exec/kernel"
)

// awaitGuardian waits until a process is the guardian of this one and has closed all descriptors that
// it does not need.
func awaitGuardian(t *testing.T, pid int) {
	t.Helper()
	proc := "/proc/" + strconv.Itoa(pid)
	crewtest.Until(t, func() bool {
		b, _ := os.ReadFile(proc + "/cmdline")
		var links []string
		files, _ := os.ReadDir(proc + "/fd")
		for _, f := range files {
			link, _ := os.Readlink(proc + "/fd/" + f.Name())
			if !strings.HasPrefix(link, "anon_inode:[event") { // the runtime's
				links = append(links, link)
			}
		}
		all := strings.Join(links, " ")
		keeps := len(links) == 5 && strings.Count(all, "/dev/null") == 3 && strings.Contains(all, "pipe:")
		return strings.HasPrefix(string(b), guardianName+"\x00"+strconv.Itoa(os.Getpid())+"\x00") && (keeps || unix.CloseRange(1000, 1000, 0) != nil)
	}, "%d to be the guardian", pid)
}

// without runs the test again in a process of its own, in which a system call fails with ENOSYS. It returns
// true in that process.
func without(t *testing.T, call uint32) bool {
	t.Helper()
	if !alone(t) {
		return false
	}
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}, // the number of the system call
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: call, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	require.NoError(t, unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		t.Skipf("no filter can be set: %v", errno)
	}
	return true
}

// Linux before 5.9 has no close_range(2).
func TestAGuardianWithoutCloseRange(t *testing.T) {
	if !without(t, unix.SYS_CLOSE_RANGE) {
		return
	}
	require.ErrorIs(t, unix.CloseRange(1000, 1000, 0), unix.ENOSYS)

	l := local(t, nil)
	l.guardian.check()
	awaitGuardian(t, l.guardian.pid)
}

// A guardian that ends is replaced. The kernel stores the ID of a starting process in the process's row
// even if the guardian has been replaced since.
func TestAGuardianThatEndsIsReplaced(t *testing.T) {
	t.Parallel()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	told := make(chan string, 10)
	l := local(t, func(c *Config) { c.Notice = func(s string) { told <- s } })
	g := &l.guardian
	g.check()
	first := g.pid
	awaitGuardian(t, first)
	p := &process{Local: l}
	born := l.groups.reserve(p)
	defer l.groups.abandon(p)
	require.NoError(t, syscall.Kill(first, syscall.SIGKILL))
	kernel.Exited(first, 0)
	g.mu.Lock()
	g.timer.Reset(0)
	g.mu.Unlock()
	require.Equal(t, "the guardian is not running, so tasks may outlive crew if it is killed: it has ended", crewtest.Receive(t, told, "the notice"))
	crewtest.Until(t, g.isStarted, "another guardian")
	awaitGuardian(t, g.pid)
	*born = 12345
	require.EqualValues(t, 12345, l.groups.table[p.row], "the new guardian sees it")
	g.close()
	*born = 0
}

// early returns a child that executes its program in an hour, or once it is continued.
func early(t *testing.T) int {
	if kernel.Portable {
		t.Skip("a helper executes its program at once")
	}
	null, err := syscall.Open("/dev/null", syscall.O_RDWR|syscall.O_CLOEXEC, 0)
	require.NoError(t, err)
	helper, pid, err := kernel.StartHelper("early", null, nil, "", time.Hour)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
		kernel.Wait(pid, nil, nil)
		runtime.KeepAlive(helper)
		require.NoError(t, syscall.Close(null))
	})
	return pid
}

func stop(t *testing.T, pid int) {
	require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
	crewtest.Until(t, func() bool { return crewtest.State(pid) == "T" }, "the stop of %d", pid)
}

// While a process starts, a child that is stopped before it executes its program is continued. A child that
// is stopped later is not.
func TestAChildStoppedTooEarlyIsContinued(t *testing.T) {
	pid, late := early(t), crewtest.New(t, exec.Command("sleep", "1000")).Start().Cmd.Process.Pid
	stop(t, pid)
	stop(t, late)
	g := groups{lease: new(lease)}
	g.reserve(&process{})
	g.lease.continueStarting(os.Getpid())
	require.Equal(t, []bool{false, true}, []bool{crewtest.State(pid) == "T", crewtest.State(late) == "T"})
	g.abandon(&process{})
	stop(t, pid)
	g.lease.continueStarting(os.Getpid())
	require.Equal(t, "T", crewtest.State(pid), "nothing starts")
}

// A task that is running before crew knows its ID must stop, too, even if it has been stopped before it
// executed its program.
func TestSuspendWaitsForStarts(t *testing.T) {
	g := groups{lease: new(lease)}
	none := &process{}
	g.reserve(none)
	g.abandon(none) // nothing to wait for
	l := local(t, nil)
	p := &process{Local: l, Attempt: task.Attempt{Task: sh("")}}
	g.reserve(p)
	p.pid = early(t)
	p.startTimer()
	stop(t, p.pid)
	suspended := make(chan struct{})
	go func() { g.suspend(); close(suspended) }()
	crewtest.Until(t, func() bool { return crewtest.State(p.pid) != "T" }, "the process to go on")
	select {
	case <-suspended:
		t.Fatal("suspend did not wait")
	default:
	}
	g.add(p)
	<-suspended
	crewtest.Until(t, func() bool { return crewtest.State(p.pid) == "T" }, "the stop")
	l.groups.suspended.Store(true)
	p.terminate(task.Cancelled, false)
	require.Equal(t, "T", crewtest.State(p.pid), "what asked it to end before has no effect until all go on")
	l.groups.suspended.Store(false)
	g.resume()
}

// A guardian rests once a worker without a lease has no more processes.
func TestAGuardianRestsWithoutALease(t *testing.T) {
	t.Parallel()
	p, guardian, tasks := worker(t, 300*time.Millisecond)
	p.Send(syscall.SIGSTOP)
	crewtest.Gone(t, tasks...)
	pauses := func() (n int) {
		_, after, _ := strings.Cut(crewtest.ReadFile(t, "/proc/"+strconv.Itoa(guardian)+"/status"), "\nvoluntary_ctxt_switches:")
		_, err := fmt.Sscan(after, &n)
		require.NoError(t, err)
		return n
	}
	crewtest.Until(t, func() bool {
		before := pauses()
		time.Sleep(2 * time.Second)
		return pauses()-before <= 8
	}, "the guardian to rest")
}

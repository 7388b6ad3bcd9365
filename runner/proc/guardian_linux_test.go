package proc

import (
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
	"crew/runner/jobserver"
	"crew/runner/kernel"
)

func TestAGuardianStartsDelayedAndAtOnce(t *testing.T) {
	null, err := syscall.Open("/dev/null", syscall.O_RDWR|syscall.O_CLOEXEC, 0)
	require.NoError(t, err)
	defer syscall.Close(null)
	memory, table, err := kernel.NewShared("table", 4*tableLeast)
	require.NoError(t, err)
	defer syscall.Close(table)
	var v vigil
	defer v.end()
	_, own := asTable(memory)
	watched, err := v.begin(own)
	require.NoError(t, err)
	beside := newGuardian(null, table, watched, 0, new(jobserver.Tokens))
	for name, start := range map[string]func() (int, error){
		"delayed": beside.Start,
		"at once": beside.StartNow,
	} {
		t.Run(name, func(t *testing.T) {
			pid, err := start()
			require.NoError(t, err)
			defer func() {
				_ = syscall.Kill(pid, syscall.SIGKILL)
				_, _ = syscall.Wait4(pid, nil, 0, nil)
			}()
			proc := "/proc/" + strconv.Itoa(pid)
			awaitGuardian(t, pid)
			// It is ready once it keeps its vigil, and has closed everything else.
			crewtest.Until(t, func() bool {
				var links []string
				files, _ := os.ReadDir(proc + "/fd")
				for _, f := range files {
					link, _ := os.Readlink(proc + "/fd/" + f.Name())
					links = append(links, link)
				}
				all := strings.Join(links, " ")
				return len(links) == 5 && strings.Count(all, "/dev/null") == 3 && (strings.Contains(all, "pidfd") || strings.Contains(all, "pipe:"))
			}, "the guardian's descriptors")
		})
	}
}

// awaitGuardian waits until a process is the guardian of this one.
func awaitGuardian(t *testing.T, pid int) {
	t.Helper()
	crewtest.Until(t, func() bool {
		b, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
		return strings.HasPrefix(string(b), "task-guardian\x00"+strconv.Itoa(os.Getpid())+"\x00")
	}, "%d to be the guardian", pid)
}

// alone runs the test once more, in a process of its own. It returns true in that
// process.
func alone(t *testing.T) bool {
	t.Helper()
	const variable = "CREW_TEST_ALONE"
	if os.Getenv(variable) != "" {
		return true
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), variable+"=1")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return false
}

// without is alone under a seccomp filter as if there were no such system call.
func without(t *testing.T, call uint32) bool {
	t.Helper()
	if !alone(t) {
		return false
	}
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}, // the number of the call
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
	l.guardian.try()
	awaitGuardian(t, l.guardian.pid)
}

func TestAGuardianThatEndsIsReplaced(t *testing.T) {
	t.Parallel()
	l := local(t, nil)
	told := make(chan string, 10)
	l.guardian.notice = func(s string) { told <- s }
	r := run(l, sh("true"))
	r.Close()
	l.guardian.takeTimer()
	l.guardian.try() // the guardian is alive
	first := l.guardian.kill(t)
	crewtest.Until(t, func() bool {
		l.guardian.mu.Lock()
		defer l.guardian.mu.Unlock()
		return l.guardian.pid > 0 && l.guardian.pid != first
	}, "another guardian")
	require.Equal(t, "no guardian yet, so tasks could outlive a crew that is killed: it has ended", <-told)
}

// The kernel stores the ID of a starting process in the row it was given, even if
// the guardian has been replaced since.
func TestTheTableOfGroupsNeverMoves(t *testing.T) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	l := local(t, nil)
	g := &l.guardian
	g.try()
	p := &process{local: l}
	born := l.groups.reserve(p)
	defer l.groups.abandon(p)
	g.takeTimer()
	first := g.kill(t)
	g.try() // it has ended
	g.takeTimer()
	g.try() // starts another
	require.NotContains(t, []int{0, first}, g.pid)
	*born = 12345
	require.EqualValues(t, 12345, l.groups.table[p.row], "the new guardian sees it")
	g.close()
	*born = 0
}

// takeTimer stops the timer: the test calls try itself.
func (g *guardian) takeTimer() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.timer.Stop()
}

// kill kills the guardian, waits for its exit, and leaves it to be reaped.
func (g *guardian) kill(t *testing.T) (pid int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	require.NoError(t, syscall.Kill(g.pid, syscall.SIGKILL))
	kernel.Exited(g.pid, 0)
	return g.pid
}

// A group whose processes have all ended does not live, even if nobody reaps them. One of
// which a thread is left does.
func TestWhatLives(t *testing.T) {
	t.Parallel()
	for env, alive := range map[string]bool{"": false, endLeader: true} {
		cmd := exec.Command(os.Args[0], "-test.run=^$")
		if !alive {
			cmd = exec.Command("sleep", "1000")
		}
		cmd.Env = append(os.Environ(), env+"=1")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		require.NoError(t, cmd.Start())
		pid := cmd.Process.Pid
		table := []int32{0, int32(pid)}
		require.True(t, anyLives(table))
		if !alive {
			require.NoError(t, cmd.Process.Kill())
		}
		crewtest.Gone(t, pid)
		require.NoError(t, syscall.Kill(-pid, 0), "the first thread is a zombie")
		require.Equal(t, alive, anyLives(table))
		require.Equal(t, alive, table[1] != 0, "its ID may soon be another's")
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
}

// A child that stops before it executes its program is continued at the second look, whether its ID is
// known yet or not, and when crew itself is about to stop. One that stops later is not.
func TestAChildThatStopsTooEarlyGoesOn(t *testing.T) {
	if kernel.Portable {
		t.Skip("a helper executes its program at once")
	}
	null, err := syscall.Open("/dev/null", syscall.O_RDWR|syscall.O_CLOEXEC, 0)
	require.NoError(t, err)
	defer syscall.Close(null)
	early := kernel.NewHelper("early", null, nil, "", time.Hour)
	pid, err := early.Start()
	require.NoError(t, err)
	late := exec.Command("sleep", "1000")
	require.NoError(t, late.Start())
	for _, id := range []int32{int32(pid), starting, int32(late.Process.Pid)} {
		for _, pid := range []int{pid, late.Process.Pid} {
			require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
			crewtest.Until(t, func() bool { return crewtest.State(pid) == "T" }, "the stop")
		}
		s := starts{crew: os.Getpid(), table: []int32{0, id}}
		s.look()
		require.Equal(t, "T", crewtest.State(pid), "it may have begun by the next look")
		s.next = time.Time{}
		s.look()
		require.Equal(t, int(id) == late.Process.Pid, crewtest.State(pid) == "T")
		require.Equal(t, "T", crewtest.State(late.Process.Pid))
	}
	require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
	crewtest.Until(t, func() bool { return crewtest.State(pid) == "T" }, "the stop")
	var g groups
	starting := &process{}
	g.reserve(starting)
	suspended := make(chan struct{})
	go func() { g.suspend(); close(suspended) }() // waits for it
	crewtest.Until(t, func() bool { return crewtest.State(pid) != "T" }, "the process to go on")
	g.abandon(starting)
	<-suspended
	require.Equal(t, "T", crewtest.State(late.Process.Pid))
	for _, pid := range []int{pid, late.Process.Pid} {
		require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
		kernel.Wait(pid, nil, nil)
	}
	runtime.KeepAlive(early)
}

// endLeader has a test binary end its first thread.
const endLeader = "CREW_TEST_END_LEADER"

func init() {
	if os.Getenv(endLeader) != "" {
		_, _, _ = syscall.RawSyscall(syscall.SYS_EXIT, 0, 0, 0)
	}
}

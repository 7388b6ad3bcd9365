package proc

import (
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestBothWaysLeadToAGuardian: as a clone that becomes a program later, and
// where there is none such, as a program at once.
func TestBothWaysLeadToAGuardian(t *testing.T) {
	null, err := syscall.Open("/dev/null", syscall.O_RDWR|syscall.O_CLOEXEC, 0)
	require.NoError(t, err)
	defer syscall.Close(null)
	table, err := unix.MemfdCreate("table", unix.MFD_CLOEXEC)
	require.NoError(t, err)
	defer syscall.Close(table)
	require.NoError(t, syscall.Ftruncate(table, 4*tableLeast))
	beside := newFledgling(null, table)
	for name, start := range map[string]func() (int, error){
		"clone": beside.start,
		"fork":  func() (int, error) { return forkGuardian(null, table) },
	} {
		t.Run(name, func(t *testing.T) {
			pid, err := start()
			require.NoError(t, err)
			defer func() {
				_ = syscall.Kill(pid, syscall.SIGKILL)
				_, _ = syscall.Wait4(pid, nil, 0, nil)
			}()
			proc := "/proc/" + strconv.Itoa(pid)
			require.Eventually(t, func() bool {
				b, _ := os.ReadFile(proc + "/cmdline")
				return string(b) == "task-guardian\x00"+strconv.Itoa(os.Getpid())+"\x00"
			}, patience, 5*time.Millisecond)
			// It is ready once it waits for a pidfd, and has let go all but that.
			require.Eventually(t, func() bool {
				var links []string
				files, _ := os.ReadDir(proc + "/fd")
				for _, f := range files {
					link, _ := os.Readlink(proc + "/fd/" + f.Name())
					links = append(links, link)
				}
				all := strings.Join(links, " ")
				return len(links) == 5 && strings.Count(all, "/dev/null") == 3 && strings.Contains(all, "pidfd")
			}, patience, 5*time.Millisecond)
		})
	}
}

func TestAGuardianIsLookedAfter(t *testing.T) {
	l := local(t, nil)
	told := make(chan string, 10)
	l.guardian.notice = func(s string) { told <- s }
	r := run(l, sh("true"))
	r.Close()
	l.guardian.takeTimer()
	l.guardian.try() // which finds that all is well
	first := l.guardian.kill(t)
	require.Eventually(t, func() bool {
		l.guardian.mu.Lock()
		defer l.guardian.mu.Unlock()
		return l.guardian.pid > 0 && l.guardian.pid != first
	}, patience, 5*time.Millisecond)
	require.Equal(t, "no guardian yet, so tasks could outlive a crew that is killed: it has ended", <-told)
}

// TestTheTableOfGroupsStaysWhereItIs: the kernel stores the id of a process that
// starts where its slot was before, whatever has become of the guardian since.
func TestTheTableOfGroupsStaysWhereItIs(t *testing.T) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	l := local(t, nil)
	g := &l.guardian
	p := &process{local: l}
	born := l.groups.reserve(p)
	defer l.groups.abandon(p)
	g.takeTimer()
	first := g.kill(t)
	g.try() // which sees that it has ended
	g.takeTimer()
	g.try() // which starts another
	require.NotContains(t, []int{0, first}, g.pid)
	*born = 12345
	require.EqualValues(t, 12345, l.groups.table[p.slot], "the new guardian sees it")
	g.close()
	*born = 0
}

// takeTimer leaves the next try to the test.
func (g *guardian) takeTimer() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.timer.Stop()
}

// kill kills the guardian, and leaves it to be seen that it has ended.
func (g *guardian) kill(t *testing.T) (pid int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	require.NoError(t, syscall.Kill(g.pid, syscall.SIGKILL))
	waitExited(g.pid)
	return g.pid
}

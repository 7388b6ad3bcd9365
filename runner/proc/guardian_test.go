package proc

import (
	"os"
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
	l.guardian.mu.Lock()
	first := l.guardian.pid
	l.guardian.mu.Unlock()
	require.NoError(t, syscall.Kill(first, syscall.SIGKILL))
	require.Equal(t, "no guardian yet, so tasks could outlive a crew that is killed: it has ended", <-told)
	require.Eventually(t, func() bool {
		l.guardian.mu.Lock()
		defer l.guardian.mu.Unlock()
		return l.guardian.pid > 0 && l.guardian.pid != first
	}, patience, 5*time.Millisecond)
}

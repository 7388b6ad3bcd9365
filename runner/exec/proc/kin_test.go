package proc

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/decide/task"
	"crew/runner/exec/kernel"
)

// A daemon and the processes that it starts are left alone when its task is asked to end, even if the
// daemon is the newest process of the machine.
func TestADaemonStaysOneWhenItsTaskIsAskedToEnd(t *testing.T) {
	t.Parallel()
	crewtest.Needs(t, "setsid")
	l, dir := local(t, nil), t.TempDir()
	crewtest.WriteFile(t, dir+"/daemon", "echo $$ > pid; until test -e go; do sleep .01; done; sleep 1000 & echo $! > child; wait", 0o644)
	tk := sh("sh -c 'setsid sh daemon >/dev/null 2>&1 &'; echo $$ > ready; exec sleep 1000")
	tk.ID, tk.Dir = 1e6, dir
	ended := make(chan *task.Result)
	go func() { ended <- run(l, tk) }()
	read := func(name string) (pid int) {
		crewtest.Until(t, func() bool {
			text, _ := os.ReadFile(filepath.Join(dir, name))
			pid, _ = strconv.Atoi(strings.TrimSpace(string(text)))
			return pid > 0
		}, "%s", name)
		return pid
	}
	read("ready") // from here on the daemon is an orphan
	daemon := read("pid")
	defer func() { _ = syscall.Kill(-daemon, syscall.SIGKILL) }()
	crewtest.Until(t, func() bool { return len(l.PIDs()) > 0 }, "crew to know the process that it has started")

	var own, daemons []kernel.Process
	l.groups.each(func(p *process) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.signalLocked(func() []kernel.Process {
			newest, _ := kernel.FindProcess(daemon)
			return slices.DeleteFunc(kernel.Processes(), func(q kernel.Process) bool { return q.Start > newest.Start })
		}, true, syscall.SIGURG)
		crewtest.WriteFile(t, dir+"/go", "", 0o644)
		read("child")
		own, daemons = p.kin.find(kernel.Processes())
	})
	l.Kill(tk.ID, 1)
	(<-ended).Close()
	require.Len(t, own, 1, "the task's sleep")
	require.Len(t, daemons, 1)
	require.Equal(t, daemon, daemons[0].PID)
}

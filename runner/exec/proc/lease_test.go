package proc

import (
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"crew/runner/crewtest"
	"crew/runner/decide/task"
)

// worker runs the test again in a process that runs a task with two processes, holds the file "lock" in
// its directory, and has a lease.
func worker(t *testing.T, lease time.Duration) (p *crewtest.Process, guardian int, tasks []int) {
	const variable = "CREW_TEST_WORKER"
	if os.Getenv(variable) != "" {
		lock, err := os.Create("lock")
		require.NoError(t, err)
		require.NoError(t, unix.Flock(int(lock.Fd()), unix.LOCK_EX))
		l := local(t, func(c *Config) { c.Plan.Show = task.ShowRaw })
		l.HoldOpen(int(lock.Fd()))
		l.Lease(time.Now().Add(time.Hour))
		go run(l, sh("trap '' TERM; sleep 1000 & echo $$ $!; touch ready; wait"))
		crewtest.Exists(t, "ready")
		crewtest.Until(t, func() bool { return l.groups.lease.starts.Load() == 0 }, "the end of the start")
		l.Lease(time.Now().Add(lease))
		fmt.Println("guardian", l.guardian.pid)
		time.Sleep(time.Hour)
	}
	p = crewtest.New(t, again(t, variable)).Start()
	tasks = make([]int, 2)
	_, err := fmt.Sscanf(p.Says(p.Stdout, "guardian"), "%d %d\nguardian %d", &tasks[0], &tasks[1], &guardian)
	require.NoError(t, err)
	return p, guardian, tasks
}

// A stopped worker cannot kill its tasks when its lease runs out, so the guardian does.
func TestTasksDieWithTheLease(t *testing.T) {
	t.Parallel()
	p, _, tasks := worker(t, 300*time.Millisecond)
	p.Send(syscall.SIGSTOP)
	crewtest.Gone(t, tasks...)
	require.Equal(t, "T", crewtest.State(p.Cmd.Process.Pid), "the worker still stands still")
}

func TestALeaseIsRenewed(t *testing.T) {
	l := local(t, nil)
	soon := time.Now().Add(300 * time.Millisecond)
	l.Lease(soon)
	l.Lease(time.Time{})
	done := make(chan *task.Result)
	go func() { done <- run(l, sh("sleep 1000")) }()
	select {
	case r := <-done:
		require.Fail(t, "the task has ended", "%v", r.Outcome)
	case <-time.After(time.Until(soon) + 100*time.Millisecond):
	}
	l.Lease(time.Now().Add(time.Hour))
	l.Lease(time.Now().Add(-time.Hour))
	require.Equal(t, 9, (<-done).Signal)
	require.Equal(t, task.Lost, run(l, sh("sleep 1000")).Outcome, "nothing starts until the lease is renewed")
	l.Lease(time.Now().Add(time.Hour))
	require.Equal(t, task.OK, run(l, sh("true")).Outcome)
}

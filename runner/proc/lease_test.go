package proc

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"crew/runner/crewtest"
	"crew/runner/task"
)

// leaseOfTest makes a test binary the worker of TestTasksDieWithTheLease.
const leaseOfTest = "CREW_TEST_LEASE"

// What the guardian takes for groups is nothing of the lease, whose numbers could be theirs.
func TestLeaseIsNoGroup(t *testing.T) {
	t.Parallel()
	memory := make([]byte, 4*tableLeast)
	table, own := asTable(memory)
	var v vigil
	require.NoError(t, v.expire(time.Now().Add(time.Hour)))
	_, err := v.begin(own)
	require.NoError(t, err)
	defer v.end()
	require.NoError(t, v.expire(time.Now().Add(2*time.Hour)))
	require.Equal(t, len(memory), 4*len(table)+len(own))
	for _, row := range table {
		require.Zero(t, row)
	}
}

// A worker that is stopped cannot kill its tasks when its lease runs out.
func TestTasksDieWithTheLease(t *testing.T) {
	if os.Getenv(leaseOfTest) != "" {
		l := local(t, func(c *Config) { c.Plan.Show = task.ShowRaw })
		l.Lease(time.Now().Add(time.Hour))
		go run(l, sh("sleep 1000 & echo $$ $!; wait"))
		_, _ = os.Stdin.Read(make([]byte, 1))
		l.Lease(time.Now().Add(300 * time.Millisecond))
		fmt.Println("leased")
		time.Sleep(time.Hour)
	}
	t.Parallel()
	worker := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	worker.Env = append(os.Environ(), leaseOfTest+"=1")
	in, err := worker.StdinPipe()
	require.NoError(t, err)
	out, err := worker.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, worker.Start())
	defer func() {
		require.NoError(t, worker.Process.Kill())
		_ = worker.Wait()
	}()
	from := bufio.NewReader(out)
	line, err := from.ReadString('\n')
	require.NoError(t, err)
	_, err = in.Write([]byte{'\n'})
	require.NoError(t, err)
	leased, err := from.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "leased\n", leased)
	require.NoError(t, worker.Process.Signal(syscall.SIGSTOP))
	for _, pid := range strings.Fields(line) {
		n, err := strconv.Atoi(pid)
		require.NoError(t, err)
		crewtest.Gone(t, n)
	}
	require.Equal(t, "T", crewtest.State(worker.Process.Pid), "the worker still stands still")
}

func TestALeaseIsRenewed(t *testing.T) {
	t.Parallel()
	l := local(t, nil)
	done := make(chan *task.Result)
	waits := sh("read x <" + fifo(t) + "; exit 3")
	var soon time.Time
	for late := true; late; {
		soon = time.Now().Add(time.Second)
		l.Lease(soon)
		go func() { done <- run(l, waits) }()
		l.Lease(time.Time{})
		if late = !time.Now().Before(soon); late { // this process stood still
			l.Lease(time.Now().Add(-time.Hour))
			<-done
		}
	}
	select {
	case r := <-done:
		require.Fail(t, "the task has ended", "%v", r.Outcome)
	case <-time.After(time.Until(soon) + 100*time.Millisecond):
	}
	l.Lease(time.Now().Add(time.Hour))
	l.Lease(time.Now().Add(-time.Hour))
	require.Equal(t, 9, (<-done).Signal)
	require.Equal(t, 9, run(l, sh("sleep 1000")).Signal, "nothing runs until the lease is renewed")
	l.Lease(time.Now().Add(time.Hour))
	require.Equal(t, task.OK, run(l, sh("true")).Outcome)
}

// fifo returns the path of a FIFO that nobody writes to.
func fifo(t *testing.T) string {
	path := t.TempDir() + "/fifo"
	require.NoError(t, unix.Mkfifo(path, 0o600))
	return path
}

package engine

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
)

// TestLoad measures a hub, workers and a submitter as processes of this machine, and
// logs figures. It runs with CREW_SOAK.
func TestLoad(t *testing.T) {
	bin := soakPrograms(t)
	for _, l := range []load{
		{name: "no-op tasks", workers: 3, slots: 16, tasks: 20_000, command: []string{"true"}},
		{name: "sleep 0.1", workers: 8, slots: 8, tasks: 6400, takes: 100 * time.Millisecond, command: []string{"sleep", "0.1"}},
		{name: "a crowd that changes", workers: 100, slots: 4, tasks: 20_000, takes: 500 * time.Millisecond, changes: true,
			command: []string{"sleep", "0.5"}},
		{name: "1,000 outputs of 1 MB", workers: 3, slots: 2, tasks: 1000, command: []string{"head", "-c1000000", "/dev/zero"}, size: 1_000_000},
		{name: "4 outputs of 200 MB", workers: 2, slots: 1, tasks: 4, command: []string{"head", "-c200000000", "/dev/zero"}, size: 200_000_000},
	} {
		t.Run(l.name, func(t *testing.T) { l.run(newChaos(t, bin, 0)) })
	}
}

// load is a run whose figures are taken.
type load struct {
	name           string
	workers, slots int
	tasks          int
	takes          time.Duration // each task
	changes        bool          // a worker leaves and another one joins every second
	size           int64         // of a task's output
	command        []string
}

func (l *load) run(c *chaos) {
	var workers []*exec.Cmd
	join := func() {
		w := c.start(append([]string{
			"worker", "--engine", filepath.Join(c.dir, "hub", "worker.json"), "-j", strconv.Itoa(l.slots), "-q",
			"--name", "host" + strconv.Itoa(len(workers)), "-n0", "--"}, l.command...)...)
		workers = append(workers, w)
	}
	c.t.Cleanup(func() {
		for _, w := range workers {
			_ = w.Process.Kill()
			_ = w.Wait()
		}
	})
	for range l.workers {
		join()
	}
	crewtest.Until(c.t, func() bool {
		out, _ := c.command("engine", "status", "--engine", filepath.Join(c.dir, "hub", "submitter.json")).Output()
		return bytes.Count(out, []byte(" ready ")) == l.workers
	}, "%d workers", l.workers)
	sub := c.command(append([]string{"--engine", filepath.Join(c.dir, "hub", "submitter.json"), "-n0"}, l.command...)...)
	sub.Stdin = strings.NewReader(strings.Repeat("x\n", l.tasks))
	sub.Stderr = c
	out, err := sub.StdoutPipe()
	require.NoError(c.t, err)
	begin, hub := time.Now(), cpuOf(c.broker.Process.Pid)
	require.NoError(c.t, sub.Start())
	over := make(chan struct{})
	if l.changes {
		go func() {
			for i := 0; ; i++ {
				select {
				case <-over:
					return
				case <-time.After(time.Second):
					_ = workers[i].Process.Signal(syscall.SIGINT)
					join()
				}
			}
		}()
	}
	n, err := io.Copy(io.Discard, out)
	require.NoError(c.t, err)
	require.NoError(c.t, sub.Wait())
	took := time.Since(begin)
	close(over)
	require.EqualValues(c.t, l.size*int64(l.tasks), n)
	text := fmt.Sprintf("%d tasks in %.1f s, %.0f/s", l.tasks, took.Seconds(), float64(l.tasks)/took.Seconds())
	if l.takes > 0 {
		text += fmt.Sprintf(", %.0f %% busy", 100*float64(l.tasks)*l.takes.Seconds()/(took.Seconds()*float64(l.workers*l.slots)))
	}
	use := sub.ProcessState.SysUsage().(*syscall.Rusage)
	c.t.Logf("%s; submitter %.1f s of CPU, %d MB; hub %.1f s, %d MB; a worker %d MB", text,
		(sub.ProcessState.UserTime() + sub.ProcessState.SystemTime()).Seconds(), use.Maxrss>>10,
		(cpuOf(c.broker.Process.Pid) - hub).Seconds(), peakOf(c.broker.Process.Pid), peakOf(workers[len(workers)-1].Process.Pid))
}

// peakOf returns the most memory that a process has had, in MB.
func peakOf(pid int) (mb int) {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if _, rest, ok := bytes.Cut(b, []byte("VmHWM:")); ok {
		_, _ = fmt.Sscan(string(rest), &mb)
	}
	return mb >> 10
}

// cpuOf returns how much CPU time a process has had.
func cpuOf(pid int) time.Duration {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(f) < 13 {
		return 0
	}
	user, _ := strconv.Atoi(f[11])
	system, _ := strconv.Atoi(f[12])
	return time.Duration(user+system) * 10 * time.Millisecond
}

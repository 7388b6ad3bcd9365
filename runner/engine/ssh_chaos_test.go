package engine

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
)

// TestSSHChaos is TestChaos with hosts over ssh, which join and leave, and whose connections
// and workers are killed and stopped.
func TestSSHChaos(t *testing.T) {
	rounds, err := strconv.Atoi(os.Getenv("CREW_SOAK"))
	if err != nil {
		t.Skip("CREW_SOAK is how many rounds to run")
	}
	seed := uint64(time.Now().UnixNano())
	if n, err := strconv.ParseUint(os.Getenv("CREW_SOAK_SEED"), 10, 64); err == nil {
		rounds, seed = 1, n
	}
	for i := range uint64(rounds) {
		t.Run(fmt.Sprintf("seed=%d", seed+i), func(t *testing.T) {
			c := &sshChaos{chaos: chaosAt(t, seed+i), sshd: crewtest.StartSSHD(t)}
			t.Log(c.round(), "attempts were run again")
		})
	}
}

type sshChaos struct {
	*chaos
	sshd crewtest.SSHD
}

func (c *sshChaos) round() int {
	c.t.Cleanup(func() { // one that was stopped, on a host that has left, would stay
		for _, pid := range c.remote() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	c.hosts("4/web1\n4/web2\n")
	args := []string{"-S", c.dir + "/hosts", "--worker-ttl", "5s", "-k", "--sched", "keyed", "-C", " ", "--key", "{2}"}
	args = append(append(args, c.words...), ":::")
	for i := range chaosTasks {
		args = append(args, fmt.Sprintf("%d %d", i, i%chaosKeys))
	}
	c.sub = crewIn(c.t, c.sshd.Path, args...)
	crewtest.Until(c.t, func() bool { _, err := os.Stat(c.dir + "/log"); return err == nil || c.sub.Ended() }, "tasks to begin")
	for range 4 {
		time.Sleep(time.Duration(500+c.rand.IntN(2500)) * time.Millisecond)
		if !c.sub.Ended() {
			c.fault()
		}
	}
	c.hosts("4/web1\n4/web3\n")
	c.sub.Exits(0)
	return c.account()
}

func (c *sshChaos) hosts(text string) {
	require.NoError(c.t, os.WriteFile(c.dir+"/hosts.new", []byte(text), 0o666))
	require.NoError(c.t, os.Rename(c.dir+"/hosts.new", c.dir+"/hosts"))
}

func (c *sshChaos) fault() {
	what := []string{"kill ssh", "kill workers", "stop workers, kill ssh", "stop ssh", "hosts"}[c.rand.IntN(5)]
	c.t.Log(what)
	c.mayRun += 4 * chaosAtOnce
	switch what {
	case "kill ssh":
		c.send(syscall.SIGKILL, c.ssh())
	case "kill workers":
		c.send(syscall.SIGKILL, c.remote())
	case "stop workers, kill ssh":
		c.send(syscall.SIGSTOP, c.remote())
		c.send(syscall.SIGKILL, c.ssh())
	case "stop ssh":
		list := c.ssh()
		c.send(syscall.SIGSTOP, list)
		time.Sleep(time.Duration(c.rand.IntN(8000)) * time.Millisecond)
		for _, pid := range list {
			_ = syscall.Kill(pid, syscall.SIGCONT)
		}
	case "hosts":
		c.hosts([]string{"4/web1\n", "4/web2\n2/web3\n", "2/web1\n6/web2\n4/web3\n"}[c.rand.IntN(3)])
	}
}

// send sends a signal to some of the processes, or to all.
func (c *sshChaos) send(sig syscall.Signal, list []int) {
	if len(list) > 0 && c.rand.IntN(2) == 0 {
		list = list[:1]
	}
	for _, pid := range list {
		_ = syscall.Kill(pid, sig)
	}
}

// ssh returns the processes of ssh here.
func (c *sshChaos) ssh() []int {
	return processes(func(line, stat string) bool {
		return strings.Contains(line, "\x00exec /bin/sh") && strings.Contains(stat, fmt.Sprintf(") S %d ", c.sub.Cmd.Process.Pid))
	})
}

// remote returns the workers.
func (c *sshChaos) remote() []int {
	return processes(func(line, _ string) bool {
		return strings.HasPrefix(line, c.sshd.Home) && strings.Contains(line, "\x00"+stdioURL)
	})
}

// processes returns those whose command line and status are such.
func processes(such func(line, stat string) bool) (list []int) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		line, _ := os.ReadFile(dir + "/cmdline")
		stat, _ := os.ReadFile(dir + "/stat")
		if such(string(line), string(stat)) {
			pid, _ := strconv.Atoi(filepath.Base(dir))
			list = append(list, pid)
		}
	}
	return list
}

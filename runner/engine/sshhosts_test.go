package engine

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/cli"
	"crew/runner/crewtest"
)

// fakeSSH returns a PATH with an ssh that reaches the host once until a file forbidden
// exists in dir, never reaches those named bad, and hangs for the one named slow.
func fakeSSH(t *testing.T, dir string) string {
	script := `#!/bin/sh
while [ "$1" != -- ]; do shift; done
case $2 in
bad*) echo "ssh: no such host $2" >&2; exit 255 ;;
slow) exec sleep 1000 ;;
once) ! [ -e '%[1]s/forbidden' ] || { echo 'ssh: no more' >&2; exit 255; } ;;
esac
HOME='%[1]s' exec /bin/sh -c "$3"
`
	crewtest.WriteFile(t, filepath.Join(dir, "ssh"), fmt.Sprintf(script, dir), 0o755)
	return dir + ":" + os.Getenv("PATH")
}

// TestSSHNobody has no host that can be reached: the run ends.
func TestSSHNobody(t *testing.T) {
	t.Parallel()
	p := crewIn(t, fakeSSH(t, t.TempDir()), "-S", "bad1,slow", "--connect-timeout", "100ms", "printf", "%s\n", ":::", "a", "b")
	p.Exits(1)
	require.Empty(t, p.Stdout())
	require.Regexp(t, `(?m)^crew: 0 of 2 tasks done in .*; 2 not started$`, p.Stderr())
	require.Regexp(t, `(?m)^crew: hosts that were never reached: bad1, slow$`, p.Stderr())
	require.Regexp(t, `(?m)^crew: no host was reached for 100ms: bad1, slow: --connect-timeout DUR waits longer$`, p.Stderr())
}

// TestSSHMissing has hosts that are not there until the end, while another one runs all.
func TestSSHMissing(t *testing.T) {
	t.Parallel()
	p := crewIn(t, fakeSSH(t, t.TempDir()), "-S", "slow,:,bad1", "-k", "printf", "%s\n", ":::", "a", "b")
	p.Exits(0)
	require.Equal(t, "a\nb\n", p.Stdout())
	require.Regexp(t, `(?m)^crew: hosts that were never reached: slow, bad1$`, p.Stderr())
}

// TestSSHLost loses a host for ever.
func TestSSHLost(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := crewIn(t, fakeSSH(t, dir), "-S", "1/once,bad1", "--connect-timeout", "0", "--worker-ttl", "1s", fmt.Sprintf(waitingTask, dir), ":::", "a", "b")
	first := begun(t, dir, 1)[0]
	require.NoError(t, os.WriteFile(filepath.Join(dir, "forbidden"), nil, 0o666))
	require.NoError(t, syscall.Kill(first.worker, syscall.SIGKILL))
	p.Says(p.Stderr, "once: its worker is gone")
	p.Send(syscall.SIGINT)
	p.Dies(syscall.SIGINT)
	require.Regexp(t, `(?m)^crew: hosts that were never reached: bad1\ncrew: hosts that were lost: once$`, p.Stderr())
}

// TestDeserted goes through the states of two hosts.
func TestDeserted(t *testing.T) {
	now := time.Now()
	p := &sshHosts{reach: 30 * time.Second, since: now}
	a, b := &host{Host: cli.Host{Target: "a"}, all: p}, &host{all: p}
	p.hosts = []*host{a, b}
	const why = "no host was reached for 30s: a, this machine: --connect-timeout DUR waits longer"
	after := func(d time.Duration) error {
		now = now.Add(d)
		return p.deserted(now, time.Time{})
	}
	require.NoError(t, after(29*time.Second))
	require.EqualError(t, after(time.Second), why)
	require.NoError(t, p.deserted(now, now.Add(-time.Second)), "this process has stood still")
	b.leaves()
	a.arrives(false) // crew-engine is copied
	require.NoError(t, after(time.Hour))
	a.arrives(true)
	require.NoError(t, after(time.Hour))
	require.Equal(t, []string{"hosts that were never reached: this machine"}, p.missing())
	a.leaves()
	b.leaves()
	require.NoError(t, after(29*time.Second))
	require.EqualError(t, after(time.Second), why)
	a.leaves()
	b.arrives(true)
	require.NoError(t, after(time.Hour))
	require.Equal(t, []string{"hosts that were lost: a"}, p.missing())
	a.arrives(true)
	require.Equal(t, []string{"hosts that were lost: a (it came back)"}, p.missing())
	p.reach = 0
	a.leaves()
	b.leaves()
	require.NoError(t, after(time.Hour), "0 is for ever")
}

// TestWhyAWorkerIsGone has what a login says before the worker is there be no reason, nor
// what was said by a process that was killed.
func TestWhyAWorkerIsGone(t *testing.T) {
	t.Parallel()
	h := &host{}
	end := func(script string) error { return exec.Command("sh", "-c", script).Run() }
	require.EqualError(t, h.explain(end("kill -9 $$"), nil, true, "welcome"), "its worker is gone (signal: killed): starting it again")
	require.EqualError(t, h.explain(end("exit 3"), nil, true, "no space"), "its worker is gone (no space): starting it again")

	s := &stderrLines{show: func(string) {}}
	_, _ = s.Write([]byte("welcome\n"))
	require.Equal(t, "welcome", s.last())
	s.forget()
	require.Empty(t, s.last())
}

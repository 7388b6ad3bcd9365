package engine

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/wiring"
)

// waiting is a task that tells who it is and who runs it, and waits.
type waiting struct{ pid, worker int }

const waitingTask = `echo $$ $PPID >> %[1]s/begun; while ! [ -e %[1]s/go ]; do sleep 0.05; done; echo done {}`

// begun waits until n waiting tasks have begun, and returns them.
func begun(t *testing.T, dir string, n int) (list []waiting) {
	t.Helper()
	crewtest.Until(t, func() bool {
		text, _ := os.ReadFile(filepath.Join(dir, "begun"))
		list = nil
		for line := range strings.Lines(string(text)) {
			var w waiting
			if _, err := fmt.Sscan(line, &w.pid, &w.worker); err == nil {
				list = append(list, w)
			}
		}
		return len(list) >= n
	}, "%d tasks to begin", n)
	return list
}

// sshOf returns the ssh that a process has started.
func sshOf(t *testing.T, pid int) (ssh int) {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	require.NoError(t, err)
	for _, name := range stats {
		text, _ := os.ReadFile(name)
		id, rest, _ := strings.Cut(string(text), " ")
		if fields := strings.Fields(strings.TrimPrefix(rest, "(ssh) ")); len(fields) > 1 && strings.HasPrefix(rest, "(ssh) ") && fields[1] == strconv.Itoa(pid) {
			require.Zero(t, ssh, "one")
			ssh, err = strconv.Atoi(id)
			require.NoError(t, err)
		}
	}
	require.NotZero(t, ssh)
	return ssh
}

func TestSSHRun(t *testing.T) {
	t.Parallel()
	s := crewtest.StartSSHD(t)
	here := t.TempDir()
	for _, name := range []string{"a b", "c'\"$"} {
		require.NoError(t, os.WriteFile(filepath.Join(here, name), []byte(name+" is here\n"), 0o666))
	}
	hosts := filepath.Join(here, "hosts")
	require.NoError(t, os.WriteFile(hosts, []byte("2/web1 # the best\nclosed\n"), 0o666))
	p := crewIn(t, s.Path, "-S", hosts, "-k", "--tag", "--transfer-file", here+"/{}", "--return", here+"/{}.out", "--workdir", "new dir",
		"cat "+here+"/{} | tr a-z A-Z > "+here+"/{}.out; echo {host} $CREW_HOST $PWD {%}", ":::", "a b", "c'\"$")
	p.Exits(0)
	require.Regexp(t, "^a b\tweb1 web1 "+regexp.QuoteMeta(s.Home)+"/new dir [12]\nc'\"\\$\tweb1 web1 .*/new dir [12]\n$", p.Stdout())
	require.Equal(t, "A B IS HERE\n", read(t, filepath.Join(here, "a b.out")))
	require.Equal(t, "C'\"$ IS HERE\n", read(t, filepath.Join(here, "c'\"$.out")))
}

// TestSSHCrewKilled kills crew itself. No process is left anywhere.
func TestSSHCrewKilled(t *testing.T) {
	t.Parallel()
	s, dir := crewtest.StartSSHD(t), t.TempDir()
	p := crewIn(t, s.Path, "-S", "1/web1,1/:", fmt.Sprintf(waitingTask, dir), ":::", "a", "b")
	tasks := begun(t, dir, 2)
	require.NotEqual(t, tasks[0].worker, tasks[1].worker)
	ssh := sshOf(t, p.Cmd.Process.Pid)
	p.Kill()
	for _, pid := range []int{tasks[0].pid, tasks[1].pid, tasks[0].worker, tasks[1].worker, ssh} {
		crewtest.Gone(t, pid)
	}
}

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
	require.Regexp(t, `(?m)^crew: no host was reached for 100ms: bad1, slow: --connect-timeout DUR waits longer$`, p.Stderr())
}

// TestSSHHopeless has no host that waiting would help to reach: the run does not begin.
func TestSSHHopeless(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	crewtest.WriteFile(t, filepath.Join(dir, "ssh"), "#!/bin/sh\necho 'ssh: Could not resolve hostname x: Name or service not known' >&2\nexit 255\n", 0o755)
	p := crewIn(t, dir+":"+os.Getenv("PATH"), "-S", "x", "echo", ":::", "a", "b")
	p.Exits(1)
	require.Contains(t, p.Stderr(), "crew: no host can be reached: x: ssh: Could not resolve hostname x: Name or service not known: `ssh HOST true` must work without a prompt\n")
}

// TestSSHMissing has a host that cannot be reached, while another one runs all.
func TestSSHMissing(t *testing.T) {
	t.Parallel()
	dir, tmp := t.TempDir(), t.TempDir()
	p := start(t, []string{"PATH=" + fakeSSH(t, t.TempDir()), "TMPDIR=" + tmp}, "--protocol", strconv.Itoa(wiring.EngineProtocol),
		"-S", ":,bad1", "-k", fmt.Sprintf(waitingTask, dir), ":::", "a", "b")
	p.Says(p.Stderr, "bad1: cannot reach it")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go"), nil, 0o666))
	p.Exits(0)
	require.Equal(t, "done a\ndone b\n", p.Stdout())
	require.Regexp(t, `(?m)^crew: hosts that were never reached: bad1$`, p.Stderr())
	left, err := filepath.Glob(filepath.Join(tmp, "crew-*", "*"))
	require.NoError(t, err)
	require.Empty(t, left, "what is temporary has gone")
}

// TestSSHCopyResumed kills crew while crew-engine is copied to a host, and lets a run end
// before the rest is there.
func TestSSHCopyResumed(t *testing.T) {
	t.Parallel()
	s, dir := crewtest.StartSSHD(t), t.TempDir()
	self, err := os.Stat("/proc/self/exe")
	require.NoError(t, err)
	link := s.Link(t)
	link.Hold(self.Size() / 2)
	hosts := "web1:" + link.Port + ",1/:"
	p := crewIn(t, s.Path, "-S", hosts, fmt.Sprintf(waitingTask, dir), ":::", "a")
	begun(t, dir, 1)
	crewtest.Until(t, link.Held, "a copy")
	p.Kill()
	p = crewIn(t, s.Path, "-S", hosts, "echo", ":::", "b")
	p.Exits(0)
	require.Equal(t, "b\n", p.Stdout())
	link.Hold(0)
	p = crewIn(t, s.Path, "-S", "web1:"+link.Port, "echo", ":::", "c")
	p.Exits(0)
	require.Equal(t, "c\n", p.Stdout())
	require.Regexp(t, `of which [1-9]\d* are there`, p.Stderr())
	require.Less(t, link.Sent(), self.Size()*3/2, "copied once")
}

// TestSSHSilence has the connection of a worker outlive a silence as long as its lease.
func TestSSHSilence(t *testing.T) {
	for _, ttl := range []time.Duration{time.Second, 10 * time.Second, time.Hour} {
		o := nats.Options{PingInterval: 2 * time.Second, MaxPingsOut: 2}
		require.NoError(t, dialStdio(ttl)(&o))
		require.GreaterOrEqual(t, o.PingInterval*time.Duration(o.MaxPingsOut+1), ttl)
	}
}

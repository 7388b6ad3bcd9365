//go:build !crew_portable

package wiring

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/cli"
	"crew/runner/core"
	"crew/runner/crewtest"
	"crew/runner/machine"
)

// behind is a script for under that has crew run with the file meminfo of its directory as
// /proc/meminfo, and stat as /proc/stat, in a mount namespace of its own.
const behind = `exec unshare -Urm /bin/sh -c 'mount --bind "$PWD/meminfo" /proc/meminfo && mount --bind "$PWD/stat" /proc/stat && exec "$@"' sh "$@"`

// newBehind prepares a crew with those two files.
func newBehind(t *testing.T, args ...string) *fault {
	t.Helper()
	if err := exec.Command("unshare", "-Urm", "true").Run(); err != nil {
		t.Skip("the user may make no mount namespace: ", err)
	}
	f := newFault(t, args...).under(behind)
	f.write("stat", "", 0o666)
	f.write("meminfo", "", 0o666)
	f.machine(0, 8)
	return f
}

// machine sets how many processes have something to do, and how many of 16 GiB are free. Both
// files keep their lengths, so no reader sees a part.
func (f *fault) machine(processes int, gib float64) {
	f.t.Helper()
	for name, text := range map[string]string{
		"stat":    fmt.Sprintf("procs_running %6d\nprocs_blocked 0\n", processes+1),
		"meminfo": fmt.Sprintf("MemTotal: 16777216 kB\nMemAvailable: %10d kB\n", int(gib*(1<<20))),
	} {
		file, err := os.OpenFile(filepath.Join(f.dir, name), os.O_WRONLY, 0)
		require.NoError(f.t, err)
		_, err = file.WriteAt([]byte(text), 0)
		require.NoError(f.t, err)
		require.NoError(f.t, file.Close())
	}
}

func TestBoundsOf(t *testing.T) {
	root := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(root, "proc"), 0o700))
	m, n := machine.New(root), machine.New("").Processors()
	bounds := func(args ...string) (core.Machine, error) {
		o, err := cli.Parse(append([]string{"crew"}, args...), func(string) string { return "" })
		require.NoError(t, err)
		return boundsOf(o, m)
	}
	for _, args := range [][]string{{"--load", "2", "true", ":::", "a"}, {"--memfree", "2G", "true", ":::", "a"}} {
		_, err := bounds(args...)
		require.ErrorContains(t, err, args[0]+": no such file or directory")
	}
	crewtest.WriteFile(t, filepath.Join(root, "proc/stat"), "procs_running 1\nprocs_blocked 0\n", 0o600)
	crewtest.WriteFile(t, filepath.Join(root, "proc/meminfo"), "MemTotal: 4194304 kB\nMemAvailable: 4194304 kB\n", 0o600)
	for _, c := range []struct {
		args string
		want core.Machine
	}{
		{"true ::: a", core.Machine{}},
		{"--load 1.5 true ::: a", core.Machine{Load: 1.5}},
		{"--load 150% true ::: a", core.Machine{Load: 1.5 * float64(n)}},
		{"--memfree 2G true ::: a", core.Machine{Memory: 2 << 30}},
		{"--memfree 25% --retries 2 true ::: a", core.Machine{Memory: 1 << 30}},
		{"--memfree 25% --retry-on memory true ::: a", core.Machine{Memory: 1 << 30, End: true}},
	} {
		got, err := bounds(strings.Fields(c.args)...)
		require.NoError(t, err)
		require.Equal(t, c.want, got, c.args)
	}
	_, err := bounds("--memfree", "4G", "true", ":::", "a")
	require.EqualError(t, err, "--memfree: there are only 4.0 GiB of memory in all: write less, or such as 10%")
}

func TestLoadHoldsStartsBack(t *testing.T) {
	t.Parallel()
	f := newBehind(t, "-j4", "--load", "8", "echo {} >> ran; read x < gate", ":::", "1", "2", "3", "4", "5").gate()
	f.machine(20, 8)
	f.start().await("stderr", "crew: 4 tasks wait for the load, 20.0, to fall below the 8 of --load\n")
	f.await("ran", "1\n")
	require.Equal(t, "1\n", f.read("ran"), "one always runs")
	f.machine(0, 8)
	crewtest.Until(t, func() bool { return strings.Count(f.read("ran"), "\n") == 4 }, "four tasks")
	f.machine(20, 8)
	f.open()
	f.Exits(0)
	require.Equal(t, 1, strings.Count(f.Stderr(), "\n"), "it is said once: %s", f.Stderr())
	require.ElementsMatch(t, []string{"1", "2", "3", "4", "5"}, strings.Fields(f.read("ran")))
}

// cage makes a control group whose processes may take so many bytes, and returns a script for
// under that has crew run there.
func cage(t *testing.T, limit int) (script string) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/cgroup")
	require.NoError(t, err)
	dir, file := "", "memory.max"
	for line := range strings.Lines(string(text)) {
		part := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(part) == 3 && part[1] == "memory" {
			dir, file = filepath.Join("/sys/fs/cgroup/memory", part[2]), "memory.limit_in_bytes"
			break
		} else if len(part) == 3 && part[0] == "0" && part[1] == "" {
			dir = filepath.Join("/sys/fs/cgroup", part[2])
		}
	}
	dir = filepath.Join(dir, "crew-test-"+strconv.Itoa(os.Getpid())+"-"+t.Name())
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Skip("no control group can be made: ", err)
	}
	t.Cleanup(func() {
		crewtest.Until(t, func() bool { return os.Remove(dir) == nil || os.IsNotExist(os.Remove(dir)) }, "the control group to be empty")
	})
	if err := os.WriteFile(filepath.Join(dir, file), []byte(strconv.Itoa(limit)), 0o644); err != nil {
		t.Skip("the control group cannot be limited: ", err)
	}
	return "echo $$ > '" + dir + `/cgroup.procs' && exec "$@"`
}

// What the kernel kills for want of memory is told as such.
func TestOutOfMemoryIsTold(t *testing.T) {
	t.Parallel()
	f := newFault(t, "-j1", "--json", "--junit", "junit.xml", "-k",
		`[ {} = 1 ] && sleep 0.3; [ {} = 3 ] && kill -9 $$; [ {} = 2 ] && exec dd if=/dev/zero of=/dev/null bs=300M count=1; exit 0`, ":::", "1", "2", "3").
		under(cage(t, 100<<20))
	f.start().Exits(123)
	lines := strings.Split(f.Stdout(), "\n")
	require.Contains(t, lines[1], `"outcome":"signal","signal":9,"error":"probably out of memory"`)
	require.Contains(t, lines[2], `"outcome":"signal","signal":9,"attempt"`)
	require.Regexp(t, `task 2: killed by SIGKILL after \S+, probably out of memory`, f.Stderr())
	require.NotRegexp(t, `task 3: .*out of memory`, f.Stderr())
	require.Regexp(t, `killed by SIGKILL after \S+, probably out of memory`, f.read("junit.xml"))
}

package engine

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
)

// gatedTask tells that it has begun, and where, and waits until it, or all may go on.
const gatedTask = `echo $$ $PPID $CREW_HOST {} >> %[1]s/begun; until [ -e %[1]s/go -o -e %[1]s/go.$$ ]; do sleep 0.05; done; echo done {}`

// gated is a run of gated tasks on the hosts of a file.
type gated struct {
	*crewtest.Process
	t   *testing.T
	dir string
}

func startGated(t *testing.T, hosts string, tasks int, more ...string) *gated {
	g := &gated{t: t, dir: t.TempDir()}
	g.hosts(hosts)
	args := append(more, "-S", filepath.Join(g.dir, "hosts"), "-k", fmt.Sprintf(gatedTask, g.dir), ":::")
	for i := range tasks {
		args = append(args, strconv.Itoa(i))
	}
	g.Process = crewIn(t, crewtest.StartSSHD(t).Path, args...)
	return g
}

// hosts writes the file of hosts, which is never seen without its text.
func (g *gated) hosts(text string) {
	file := filepath.Join(g.dir, "hosts")
	require.NoError(g.t, os.WriteFile(file+".new", []byte(text), 0o666))
	require.NoError(g.t, os.Rename(file+".new", file))
}

// open lets tasks go on.
func (g *gated) open(tasks ...waiting) {
	for _, w := range tasks {
		require.NoError(g.t, os.WriteFile(filepath.Join(g.dir, "go."+strconv.Itoa(w.pid)), nil, 0o666))
	}
}

// begun waits until n tasks have begun on a host, and returns these.
func (g *gated) begun(host string, n int) (list []waiting) {
	g.t.Helper()
	crewtest.Until(g.t, func() bool {
		text, _ := os.ReadFile(filepath.Join(g.dir, "begun"))
		list = nil
		for line := range strings.Lines(string(text)) {
			var w waiting
			var at string
			if _, err := fmt.Sscan(line, &w.pid, &w.worker, &at); err == nil && at == host {
				list = append(list, w)
			}
		}
		return len(list) >= n
	}, "%d tasks to begin on %s", n, host)
	return list
}

// ends lets all tasks go on and checks that each has run once.
func (g *gated) ends(tasks int) {
	g.t.Helper()
	require.NoError(g.t, os.WriteFile(filepath.Join(g.dir, "go"), nil, 0o666))
	g.Exits(0)
	var want strings.Builder
	for i := range tasks {
		fmt.Fprintln(&want, "done", i)
	}
	require.Equal(g.t, want.String(), g.Stdout())
	var began []string
	for line := range strings.Lines(read(g.t, filepath.Join(g.dir, "begun"))) {
		began = append(began, strings.Fields(line)[3])
	}
	require.Len(g.t, began, tasks, "%s: %s", began, g.Stderr())
	slices.Sort(began)
	require.Len(g.t, slices.Compact(began), tasks)
	require.NotContains(g.t, g.Stderr(), "lost")
}

// TestSSHFile has two hosts join and the first one leave, change its slots and come back
// while it leaves.
func TestSSHFile(t *testing.T) {
	t.Parallel()
	const tasks = 40
	g := startGated(t, "2/web1\n", tasks)
	first := g.begun("web1", 2)
	g.hosts("2/web1\n3/web2\n1/web3\n")
	g.Says(g.Stderr, "web2: joins")
	g.Says(g.Stderr, "web3: joins")
	g.begun("web2", 3)
	g.begun("web3", 1)
	g.hosts("3/web2\n1/web3\n")
	g.Says(g.Stderr, "web1: leaves")
	g.hosts("3/web2\n1/web3\n1/web1\n") // it comes back with fewer slots
	g.open(g.begun("web2", 3)...)
	g.open(g.begun("web2", 6)...)
	g.begun("web2", 9)
	g.open(first[0])
	crewtest.Gone(t, first[0].pid)
	require.NoError(t, syscall.Kill(first[1].pid, 0), "it runs on")
	taken := 0
	crewtest.Until(t, func() bool { // it may have taken more before it was told
		mine := slices.DeleteFunc(g.begun("web1", 2), func(w waiting) bool { return w.worker != first[1].worker })
		taken = len(mine)
		g.open(mine...)
		return !crewtest.Alive(first[1].worker)
	}, "the first worker to end")
	require.LessOrEqual(t, taken, 4)
	g.Says(g.Stderr, "web1: joins")
	g.begun("web1", taken+1)
	g.hosts("1/web3\n")
	g.Says(g.Stderr, "web2: leaves")
	g.ends(tasks)
	require.Equal(t, 2, strings.Count(g.Stderr(), "web1: leaves\n"), g.Stderr())
	require.NotContains(t, g.Stderr(), "hosts that", "they have left")
}

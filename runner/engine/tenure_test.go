package engine

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
)

// stubbornTask is a waiting task whose processes ignore SIGTERM, of which one outlives the
// first. It tells if another attempt at it still runs.
const stubbornTask = `trap '' TERM; exec 9>>%[1]s/lock.{}; flock -n 9 || echo overlap; echo $$ $PPID >> %[1]s/begun
until [ -e %[1]s/go ]; do sleep 0.05; done & wait; echo done {}`

// TestSSHDropped breaks the connection of a host, and kills its worker. Each time the tasks start
// again although the leases last for an hour, and once those before them have ended.
func TestSSHDropped(t *testing.T) {
	t.Parallel()
	s, dir := crewtest.StartSSHD(t), t.TempDir()
	p := crewIn(t, s.Path, "-S", "2/web1", "-k", "--worker-ttl", "1h", fmt.Sprintf(stubbornTask, dir), ":::", "a", "b")
	for i, drop := range []func(worker int){
		func(int) { require.NoError(t, syscall.Kill(sshOf(t, p.Cmd.Process.Pid), syscall.SIGKILL)) },
		func(worker int) { require.NoError(t, syscall.Kill(worker, syscall.SIGKILL)) },
	} {
		last := begun(t, dir, 2*i+2)[2*i:]
		drop(last[0].worker)
		crewtest.Gone(t, last[0].pid, last[1].pid, last[0].worker)
		p.Says(p.Stderr, "worker web1 is lost: it has ended; 2 tasks will start elsewhere")
	}
	begun(t, dir, 6)
	crewtest.WriteFile(t, filepath.Join(dir, "go"), "", 0o666)
	p.Exits(0)
	require.Equal(t, "done a\ndone b\n", p.Stdout())
}

// Of old files in the directory of locks, those go that are locks of workers.
func TestTenureSweep(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"worker.notes": "my notes\n", "worker.empty": "", "worker.longer": "crew worker a-b\nmore\n",
		"worker.old": "crew worker a-b\n", "worker.none": "crew worker \n", "worker.new": "crew worker a-b\n",
	} {
		path := filepath.Join(dir, name)
		crewtest.WriteFile(t, path, text, 0o600)
		if name != "worker.new" {
			require.NoError(t, os.Chtimes(path, time.Time{}, time.Now().Add(-2*tenureKept)))
		}
	}
	sweep(dir)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var left []string
	for _, e := range entries {
		left = append(left, e.Name())
	}
	require.Equal(t, []string{"worker.empty", "worker.longer", "worker.new", "worker.notes"}, left)
}

// A run leaves none of the files that its workers have locked.
func TestTenureEnds(t *testing.T) {
	t.Parallel()
	p := crew(t, "-S", "2/:", "echo", ":::", "a", "b")
	p.Exits(0)
	run := ""
	for _, v := range p.Cmd.Env {
		if dir, ok := strings.CutPrefix(v, "XDG_RUNTIME_DIR="); ok {
			run = dir
		}
	}
	left, err := filepath.Glob(filepath.Join(run, "crew", "*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

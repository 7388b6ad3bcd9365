package engine

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/trust"
)

// inFours answers records once it has four, the latest first.
const inFours = `while read -r a && read -r b && read -r c && read -r d; do
for x in "$d" "$c" "$b" "$a"; do n=${x#*:} v=${x#*'["'}; printf '{"id":%s,"exit":0,"stdout":"%s %s\\n"}\n' "${n%%,*}" "${v%%'"'*}" $$; done; done`

// TestWindow has a process get four records before it answers one.
func TestWindow(t *testing.T) {
	url := startHub(t)
	key := trust.NewKey()
	file := filepath.Join(t.TempDir(), "key")
	require.NoError(t, key.Save(file))
	how := []string{"--worker", inFours, "--worker-protocol", "json"}
	window := []string{"--worker-window", "4"}
	worker := func(args ...string) {
		crew(t, append(append([]string{"worker", "--engine", url, "-j1"}, args...), window...)...)
	}
	worker(append([]string{"--queue", "own"}, how...)...)
	worker("--queue", "any", "--allow-commands", "--trust", key.Line())
	for _, args := range [][]string{
		{"--engine", url, "--queue", "own"},
		{"--engine", url, "--queue", "any", "--sign", file},
		{"-S", "1/:"},
	} {
		// With a delay nothing is sent ahead, which ends where a process does not answer for long.
		args = append(append(append(args, "-k", "--delay", "1ms"), window...), how...)
		for i := range 40 {
			if i == 0 {
				args = append(args, ":::")
			}
			args = append(args, "r"+strconv.Itoa(i))
		}
		c := crew(t, args...)
		c.Exits(0)
		pids := map[string]bool{}
		i := 0
		for line := range strings.Lines(c.Stdout()) {
			record, pid, _ := strings.Cut(line, " ")
			require.Equal(t, fmt.Sprint("r", i), record)
			pids[pid] = true
			i++
		}
		require.Equal(t, 40, i)
		require.Len(t, pids, 1, "a slot has one process")
	}
}

// TestWindowBesideCommands has a worker with one slot take a whole one for a command.
func TestWindowBesideCommands(t *testing.T) {
	url, key, dir := startHub(t), trust.NewKey(), t.TempDir()
	file := filepath.Join(dir, "key")
	require.NoError(t, key.Save(file))
	crew(t, "worker", "--engine", url, "-j1", "--allow-commands", "--trust", key.Line(), "--worker-window", "8")
	alone := "mkdir " + dir + "/one && rmdir " + dir + "/one && echo " // fails beside another
	commands := crew(t, "--engine", url, "--sign", file, "-k", alone+"{}", ":::", "a", "b", "c", "d", "e", "f", "g", "h")
	records := crew(t, "--engine", url, "--sign", file, "-k", "--worker-window", "8", "--worker",
		"while read -r x; do "+alone+"$x; done", ":::", "1", "2", "3", "4", "5", "6", "7", "8", "9")
	commands.Exits(0)
	records.Exits(0)
	require.Equal(t, "a\nb\nc\nd\ne\nf\ng\nh\n", commands.Stdout())
	require.Equal(t, "1\n2\n3\n4\n5\n6\n7\n8\n9\n", records.Stdout())
}

// TestWindowLosesNothing kills a worker, or its process, that stands still with its window
// full.
func TestWindowLosesNothing(t *testing.T) {
	t.Parallel()
	for name, pid := range map[string]string{"worker": "$PPID", "process": "$$"} {
		t.Run(name, func(t *testing.T) {
			url, dir := startHub(t), t.TempDir()
			command := `while read -r x; do [ "$x" -gt 150 ] && [ -z "$tried" ] && tried=1 && mkdir ` + dir + `/stuck 2>/dev/null && { echo ` + pid + ` > ` + dir + `/new
mv ` + dir + `/new ` + dir + `/pid; exec sleep 1000; }; echo "$x"; done`
			for range 2 {
				crew(t, "worker", "--engine", url, "-j2", "--worker-ttl", "8s", "--worker-window", "16", "--worker", command)
			}
			input, want := filepath.Join(dir, "in"), ""
			for i := range 3000 {
				want += strconv.Itoa(i) + "\n"
			}
			require.NoError(t, os.WriteFile(input, []byte(want), 0o600))
			c := crew(t, "--engine", url, "-k", "--retries", "1", "--worker-window", "16", "-a", input, "--worker", command)
			require.NoError(t, syscall.Kill(crewtest.PID(t, filepath.Join(dir, "pid")), syscall.SIGKILL))
			c.Exits(0)
			require.Equal(t, want, c.Stdout())
		})
	}
}

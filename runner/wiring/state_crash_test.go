package wiring

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// crashSizes are how many tasks and kills the crash test has: a few, or with
// CREW_SOAK in the environment as many as that and ten tasks for each.
func crashSizes() (tasks, kills int) {
	if n, err := strconv.Atoi(os.Getenv("CREW_SOAK")); err == nil {
		return max(100, 10*n), n
	}
	return 200, 15
}

// A run that is killed with SIGKILL again and again ends as one that was left
// alone: the same stdout, and nothing done twice but what ran at a kill. Each
// task fails twice before it succeeds, so most of the journal is void soon and
// is compacted, over and over.
func TestCrash(t *testing.T) {
	t.Parallel()
	tasks, kills := crashSizes()
	const jobs = 4
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "done"), 0o777))
	var input, want strings.Builder
	for i := range tasks {
		fmt.Fprintln(&input, i)
		fmt.Fprintf(&want, "result %d\n%s\n", i, strings.Repeat("0", i*7%300+1))
	}
	// The effect is one write(2) of one line.
	const script = `[ $CREW_ATTEMPT = 3 ] || exit 1
echo done >> done/$1; sleep 0.00$(($1 % 7)); echo result $1; printf "%0$(($1 * 7 % 300 + 1))d\n" 0`
	run := func(options ...string) (*exec.Cmd, *bytes.Buffer) {
		args := append([]string{"-q", "-k", "-j" + strconv.Itoa(jobs), "--retries=2", "--retry-delay=1ms", "--state=state"}, options...)
		cmd := crew(append(args, "sh", "-c", script, "sh", "{}")...)
		cmd.Dir, cmd.Stdin = dir, strings.NewReader(input.String())
		var complaint bytes.Buffer
		cmd.Stderr = &complaint
		return cmd, &complaint
	}

	killed := 0
	for n := 0; killed < kills; n++ {
		require.Less(t, n, 20*kills, "the run is over before it can be killed")
		cmd, complaint := run()
		require.NoError(t, cmd.Start())
		kill := time.AfterFunc(time.Duration(5+rand.IntN(60))*time.Millisecond, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait()
		if !kill.Stop() {
			killed++
		}
		require.Empty(t, complaint.String())
		if cmd.ProcessState.Success() {
			break
		}
	}
	t.Logf("%d kills", killed)
	cmd, complaint := run("--replay")
	out, err := cmd.Output()
	require.NoError(t, err, complaint.String())
	require.Empty(t, complaint.String())
	require.Equal(t, want.String(), string(out))

	twice := 0
	for i := range tasks {
		effect, err := os.ReadFile(filepath.Join(dir, "done", strconv.Itoa(i)))
		require.NoError(t, err, "task %d was lost", i)
		twice += strings.Count(string(effect), "done\n") - 1
	}
	require.LessOrEqual(t, twice, killed*jobs)
	t.Logf("%d of %d tasks did their work twice", twice, tasks)

	// Nothing is left to do, and nothing is shown once more.
	cmd, complaint = run()
	out, err = cmd.Output()
	require.NoError(t, err, complaint.String())
	require.Empty(t, string(out))
	journal, err := os.Stat(filepath.Join(dir, "state", "journal.jsonl"))
	require.NoError(t, err)
	require.Less(t, journal.Size(), int64(2*500*tasks+slack), "it is compacted")
}

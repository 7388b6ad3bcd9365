package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
)

// TestKeyedEndToEnd runs rows of many keys with --sched keyed, some failing
// twice before they succeed, while the pool is resized three times by one of
// the tasks themselves. Each key's log must show its rows in input order, each
// once. CREW_SOAK makes it a hundred thousand rows.
func TestKeyedEndToEnd(t *testing.T) {
	t.Parallel()
	rows := 500
	if crewtest.Soaking() {
		rows = 100_000
	}
	keys := max(rows/100, 1)
	dir := t.TempDir()
	var input bytes.Buffer
	for i := range rows {
		fmt.Fprintf(&input, "k%d\t%d\n", i*7919%keys, i)
	}
	jobs := filepath.Join(dir, "jobs")
	require.NoError(t, os.WriteFile(jobs, []byte("4"), 0o600))
	script := fmt.Sprintf(`case {2} in
		%d) echo 9 > jobs.new && mv jobs.new jobs ;;
		%d) kill -USR2 $CREW_PID ;;
		%d) echo 2 > jobs.new && mv jobs.new jobs ;;
	esac
	case {#} in *[02468]0) [ $CREW_ATTEMPT -eq 3 ] || exit 75 ;; esac
	echo {2} >> {1}.log`, rows/5, rows/4, rows/2)
	cmd := crew("-j", "jobs", "--sched", "keyed", "--key", "{1}", "-C", `\t`, "--retries", "2", "--retry-delay", "10ms", "--output", "none", script)
	cmd.Dir, cmd.Stdin = dir, &input
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)

	seen := 0
	for k := range keys {
		text, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("k%d.log", k)))
		require.NoError(t, err)
		last := -1
		for _, line := range strings.Fields(string(text)) {
			n, err := strconv.Atoi(line)
			require.NoError(t, err)
			require.Greater(t, n, last, "key k%d is in order", k)
			require.Equal(t, k, n*7919%keys)
			last = n
			seen++
		}
	}
	require.Equal(t, rows, seen, "each row once")
}

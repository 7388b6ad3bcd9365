package wiring

import (
	"fmt"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
)

// keyedWorker is the script of a persistent worker. A record is "KEY NUMBER", and the answer
// the same. The file saw gets what was read. One record of some ends its worker once, and one
// of twice as many each time.
const keyedWorker = `while read -r key n; do
	echo $key $n >> saw
	[ $((n % 194)) != 0 ] || exit 3
	[ $((n % 97)) != 0 ] || ! mkdir crash.$n 2> /dev/null || kill -9 $$
	echo $key $n
done`

// TestWorkerKeyed sends rows of many keys to workers that fail, while the pool gets smaller
// and larger. Workers see the rows of a key in order, and none again but after a crash; each
// is answered once, in that order, or has failed.
func TestWorkerKeyed(t *testing.T) {
	t.Parallel()
	rows := 50 * crewtest.Rounds(24)
	f := newFault(t, "-j4", "--worker", keyedWorker, "--worker-window", "16", "--sched", "keyed", "--key", "{1}", "-C", " ",
		"--retries", "2", "--retry-delay", "1ms", "--joblog", "log", "-q")
	in := f.input()
	f.start()
	for n := range rows {
		_, err := fmt.Fprintf(in, "k%d %d\n", n*7919%61, n)
		require.NoError(t, err)
		switch n {
		case rows / 3:
			f.await("saw", "\n") // it knows signals by now
			f.Send(syscall.SIGUSR2)
		case rows * 2 / 3:
			f.Send(syscall.SIGUSR1)
		}
	}
	require.NoError(t, in.Close())
	f.Exits(123)
	f.Gone()
	poisoned := (rows + 193) / 194
	require.Equal(t, rows, inOrder(t, f.read("saw"), 97))
	require.Equal(t, rows-poisoned, inOrder(t, f.Stdout(), 0))
	logged := func(status string) int {
		return len(regexp.MustCompile(`(?m)\t`+status+`\t0\t[^\t]*$`).FindAllString(f.read("log"), -1))
	}
	require.Equal(t, []int{rows - poisoned, poisoned}, []int{logged("0"), logged("3")})
}

// inOrder returns how many rows there are, which are in order for each key. Those whose
// numbers again divides come several times.
func inOrder(t *testing.T, text string, again int) (n int) {
	last := map[string]int{}
	for line := range strings.Lines(text) {
		var key string
		var row int
		_, err := fmt.Sscan(line, &key, &row)
		require.NoError(t, err, line)
		before, later := last[key]
		if later && row == before {
			require.True(t, again > 0 && row%again == 0, "row %d is there twice", row)
			continue
		}
		require.True(t, !later || row > before, "row %d of %s comes after %d", row, key, before)
		last[key] = row
		n++
	}
	return n
}

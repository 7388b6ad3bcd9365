package engine

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

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

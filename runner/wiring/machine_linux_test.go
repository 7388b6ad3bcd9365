//go:build !crew_portable

package wiring

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/cli"
	"crew/runner/core"
	"crew/runner/crewtest"
	"crew/runner/machine"
)

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

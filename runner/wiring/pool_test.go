package wiring

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/cli"
	"crew/runner/crewtest"
	"crew/runner/kernel"
)

// parsed returns the Options of a command line, without the program's name.
func parsed(t testing.TB, args ...string) *cli.Options {
	t.Helper()
	o, err := cli.Parse(append([]string{"crew"}, args...), func(string) string { return "" })
	require.NoError(t, err, args)
	return o
}

func TestPool(t *testing.T) {
	type row struct {
		Line, File, Error        string
		Jobs, Buffer, Bytes, Few int
	}
	crewtest.Examples(t, "testdata/pools.jsonl", func(t *testing.T, row row) {
		file := filepath.Join(t.TempDir(), "jobs")
		fill := func(text string) string { return strings.ReplaceAll(text, "$FILE", file) }
		require.NoError(t, os.WriteFile(file, []byte(row.File), 0o600))
		p, err := poolOf(parsed(t, strings.Fields(fill(row.Line))...), "")
		if row.Error != "" {
			require.EqualError(t, err, fill(row.Error))
			return
		}
		require.NoError(t, err)
		require.Equal(t, []int{row.Jobs, row.Buffer, row.Bytes, row.Few}, []int{p.jobs, p.queue.Buffer, p.queue.Bytes, p.queue.Few})
		require.Equal(t, row.File != "", p.file == file)
	})
	p, err := poolOf(parsed(t, "cat"), "")
	require.NoError(t, err)
	require.Equal(t, hereProcessors(), p.jobs)
}

func TestJobs(t *testing.T) {
	type row struct {
		N    string
		Asks bool
		Jobs *int
	}
	crewtest.Examples(t, "testdata/jobs.jsonl", func(t *testing.T, row row) {
		asks := false
		n, ok := parseJobs(row.N, func() int { asks = true; return 8 })
		require.Equal(t, []bool{row.Jobs != nil, row.Asks}, []bool{ok, asks})
		require.True(t, !ok || n == *row.Jobs, "%d", n)
	})
}

// TestMostTasks: however many jobs are asked for, descriptors and processes bound them.
func TestMostTasks(t *testing.T) {
	for _, c := range []struct{ files, processes, want int }{
		{1024, math.MaxInt64, 248}, {math.MaxInt64, math.MaxInt64, mostJobs}, {1 << 20, 100 + kernel.SignalThreads, 44}, {1 << 20, 50 + kernel.SignalThreads, 19}, {10, 100, 1}, {36, 1, 1}, {40, 1, 1},
	} {
		require.Equal(t, c.want, mostTasks(uint64(c.files), int64(c.processes)))
	}
	for flags, jobs := range map[string]int{" -j7": 7, " -j99999999": mostJobs, " -j-7": 0} {
		var p pool
		p.findJobserver(parsed(t), flags+" --jobserver-auth=-2,-2") // of make
		require.Equal(t, jobs, p.jobs, flags)
	}
}

package wiring

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/exec/kernel"
	"crew/runner/exec/machine"
	"crew/runner/front/cli"
)

// parsed returns the Options of a command line, without the program's name.
func parsed(t testing.TB, args ...string) *cli.Options {
	t.Helper()
	o, err := cli.Parse(append([]string{"crew"}, args...), unset)
	require.NoError(t, err, args)
	return o
}

// TestPlan checks the decisions that are made about a command line before anything is opened.
func TestPlan(t *testing.T) {
	type row struct {
		Line, File, Env, Error   string
		Person                   bool
		Jobs, Buffer, Bytes, Few int
		Decided                  string // the decisions, as text
	}
	crewtest.Examples(t, "testdata/plans.jsonl", func(t *testing.T, row row) {
		file := filepath.Join(t.TempDir(), "jobs")
		fill := func(text string) string { return strings.ReplaceAll(text, "$FILE", file) }
		crewtest.WriteFile(t, file, row.File, 0o600)
		env := func(name string) string {
			_, value, _ := strings.Cut(row.Env, name+"=")
			return value
		}
		p, err := newPlan(parsed(t, strings.Fields(fill(row.Line))...), env, row.Person)
		if row.Error != "" {
			require.EqualError(t, err, fill(row.Error))
			return
		}
		require.NoError(t, err)
		q := p.limits.Queue
		require.Equal(t, []int{row.Jobs, row.Buffer, row.Bytes, row.Few}, []int{p.jobs, q.Buffer, q.Bytes, q.Few})
		require.Equal(t, row.File != "", p.file == file)
		decided := fmt.Sprintf("show %d keeps %t ordered %t progress %d ci %s failures %t announces %t ahead %d open %t", p.Show, p.Keeps(), p.Order, p.progress, p.ci,
			p.tellFailures, p.announces, p.limits.Pool.Ahead, p.limits.Feed.Open)
		for words := range strings.SplitSeq(row.Decided, ", ") {
			require.Contains(t, decided, words)
		}
	})
	p, err := newPlan(parsed(t, "cat"), unset, false)
	require.NoError(t, err)
	require.Equal(t, machine.New("").Processors(), p.jobs)
}

// unset is an environment without variables.
func unset(string) string { return "" }

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

// TestMostTasks checks that the limits on processes and on workers bound the number of tasks.
func TestMostTasks(t *testing.T) {
	for processes, want := range map[int64]int{100 + kernel.SignalThreads: 44, 50 + kernel.SignalThreads: 19, 1: 1} {
		require.Equal(t, want, mostTasks(parsed(t), processes))
	}
	for flags, jobs := range map[string]int{" -j7": 7, " -j99999999": maxJobs, " -j-7": 0} {
		var p plan
		p.findJobserver(parsed(t), flags+" --jobserver-auth=-2,-2") // as make passes it
		require.Equal(t, jobs, p.jobs, flags)
	}
}

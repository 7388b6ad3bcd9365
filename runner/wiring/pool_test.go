package wiring

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/cli"
)

// parsed returns the Options of a command line, without the program's name.
func parsed(t testing.TB, args ...string) *cli.Options {
	t.Helper()
	o, err := cli.Parse(append([]string{"crew"}, args...), func(string) string { return "" })
	require.NoError(t, err, args)
	return o
}

// pooled is the pool of a command line, whose words are split at blanks.
func pooled(t testing.TB, line string) (pool, error) {
	return poolOf(parsed(t, strings.Fields(line)...), "")
}

func TestPool(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "jobs")
	require.NoError(t, os.WriteFile(file, []byte("7\n"), 0o600))
	for line, want := range map[string]pool{
		"-j " + file + " cat":                {jobs: 7, file: file, buffer: 64},
		"-j2 -j9 cat":                        {jobs: 9, buffer: 64},
		"-j100 cat":                          {jobs: 100, buffer: 200},
		"-j4 --worker cat":                   {jobs: 4, buffer: 512, bytes: 16 << 20},
		"-j4 --worker-window 256 --worker x": {jobs: 4, buffer: 2048, bytes: 16 << 20},
		"-j2 --buffer 3 cat":                 {jobs: 2, buffer: 3},
		"-j2 -n 5 cat":                       {jobs: 2, buffer: 16},
		"-j2 -s 500 cat":                     {jobs: 2, buffer: 16},
		"-j3 --pipe cat":                     {jobs: 3, buffer: 64, bytes: 3 << 20, few: 3},
		"--tty cat":                          {jobs: 1, buffer: 64},
		"-j2 serve --max-queued 9 cat":       {jobs: 2, buffer: 64},
		"serve -j2 --max-queued 9 cat":       {jobs: 2, buffer: 9},

		"--sched topic --key {} --topics a=2,*=3 cat":  {jobs: 5, buffer: 4096, bytes: 16 << 20},
		"--sched topic --key {} --topics auto -j4 cat": {jobs: 4, buffer: 4096, bytes: 16 << 20},
	} {
		p, err := pooled(t, line)
		require.NoError(t, err, line)
		want.processes = p.processes
		require.Equal(t, want, p, line)
	}
	p, err := pooled(t, "cat")
	require.NoError(t, err)
	require.Equal(t, hereProcessors(), p.jobs)
}

func TestBadJobs(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "jobs")
	require.NoError(t, os.WriteFile(file, []byte("many\n"), 0o600))
	_, err := pooled(t, "-j "+file+" cat")
	require.EqualError(t, err, fmt.Sprintf("bad value %q for -j: that file must hold N, N%%, +N, -N, or 0 for a pause; N is at most 1048576", file))
	_, err = pooled(t, "-j4x cat")
	require.EqualError(t, err, `bad value "4x" for -j: write N, N%, +N, -N, 0, or a file that holds one of them; N is at most 1048576`)
	require.ErrorAs(t, err, new(*cli.UsageError))
}

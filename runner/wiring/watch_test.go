package wiring

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/task"
)

// TestWatchJobs changes the file of --jobs while crew runs.
func TestWatchJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "jobs")
		write := func(text string) { require.NoError(t, os.WriteFile(file, []byte(text), 0o600)) }
		commands := make(chan task.Command, 16)
		said := make(chan string, 16)
		// look is what a look at the file leads to: workers, 0 for no change, -1 for
		// a pause, and what is said.
		look := func() (int, []string) {
			time.Sleep(watchEvery)
			synctest.Wait()
			n, lines := 0, []string{}
			for len(commands) > 0 {
				switch cmd := <-commands; cmd.Op {
				case task.Resize:
					n = cmd.N
				case task.Pause:
					n = -1
				}
			}
			for len(said) > 0 {
				lines = append(lines, <-said)
			}
			return n, lines
		}
		expect := func(workers int, says ...string) {
			t.Helper()
			n, lines := look()
			require.Equal(t, workers, n)
			require.ElementsMatch(t, says, lines)
			n, lines = look() // and that once
			require.Zero(t, n)
			require.Empty(t, lines)
		}

		write("3") // after 1 was read from it and before it is watched
		defer watchJobs(file, 1, func(cmd task.Command) { commands <- cmd }, func(text string) { said <- text })()
		expect(3)
		write("10\n")
		expect(10)
		write("many")
		expect(0, "--jobs "+file+": that file must hold N, N%, +N, -N, or 0 for a pause; N is at most 1048576: the number of workers stays as it is")
		write("plenty")
		expect(0, "--jobs "+file+": that file must hold N, N%, +N, -N, or 0 for a pause; N is at most 1048576: the number of workers stays as it is")
		write("10")
		expect(0)
		require.NoError(t, os.Remove(file))
		expect(0, "--jobs "+file+": no such file or directory: the number of workers stays as it is")
		write("10")
		expect(0)
		write("2")
		expect(2)
		write("0")
		expect(-1, "paused: --jobs "+file+" says 0")
		write("2")
		expect(2, "going on: --jobs "+file+" says 2")
	})
}

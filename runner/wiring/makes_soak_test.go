package wiring

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
)

// soakWork is a command that makes a file of an input, in two writes, and fails for some
// inputs, depending on SALT, between them.
const soakWork = `read -r n rest < {}; echo $n; printf %s 'VERSION of ' > {out}
[ $((n * 7919 % 1009 % 13)) != "$SALT" ] || exit 1
echo $n $rest >> {out}`

// TestMakesSoak kills runs that make files at random moments, and resumes them with now and
// then another command, new inputs and other failures. A last run leaves each file as the
// last command makes it of its input, and nothing else.
func TestMakesSoak(t *testing.T) {
	crewtest.Soak(t)
	t.Parallel()
	rand, kills := crewtest.Rand(t, 0), crewtest.Rounds(0)
	s := &soaked{Rand: rand, t: t, dir: t.TempDir(), tasks: 50_000, revisions: map[int]int{}}
	for _, name := range []string{"in", "out"} {
		require.NoError(t, os.Mkdir(filepath.Join(s.dir, name), 0o777))
	}
	for n := range s.tasks {
		s.revise(n)
		s.records += fmt.Sprintf("in/%d\n", n)
	}
	version := ""
	for s.kills < kills {
		version = []string{"first", "second", "first"}[s.kills*3/kills]
		some := 10
		if killed := s.run(version, strconv.Itoa(rand.IntN(13)), 1+rand.IntN(1+8*s.tasks/kills)); !killed {
			some = s.tasks / 10
		}
		for range some {
			s.revise(rand.IntN(s.tasks))
		}
	}
	require.False(t, s.run(version, "none", 0))
	t.Logf("%d kills in %d runs, which ran %d tasks", s.kills, s.runs, s.began)
	s.check(version)
	began := s.began
	require.False(t, s.run(version, "none", 0))
	require.Equal(t, began, s.began, "nothing is left to do")
}

// soaked is a list of tasks that is run again and again.
type soaked struct {
	*rand.Rand
	t         *testing.T
	dir       string
	tasks     int
	records   string
	revisions map[int]int // of the inputs

	runs, kills, began int
}

// revise writes an input anew.
func (s *soaked) revise(n int) {
	s.revisions[n]++
	text := fmt.Sprintf("%d revision %d\n", n, s.revisions[n])
	require.NoError(s.t, os.WriteFile(filepath.Join(s.dir, "in", strconv.Itoa(n)), []byte(text), 0o666))
}

// run runs a version of the command. Unless after is 0, it kills the run after so many tasks
// have begun, or sometimes earlier.
func (s *soaked) run(version, salt string, after int) (killed bool) {
	t := s.t
	cmd := crew("-q", "-j4", "--state=state", "--output=line", "--makes=out/{/}",
		strings.ReplaceAll(soakWork, "VERSION", version))
	cmd.Env = append(cmd.Env, "GORACE=atexit_sleep_ms=0", "SALT="+salt)
	cmd.Dir, cmd.Stdin = s.dir, strings.NewReader(s.records)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	if after > 0 && s.IntN(4) == 0 {
		soon := time.Duration(s.IntN(20*s.tasks)) * time.Microsecond
		early := time.AfterFunc(soon, func() { _ = cmd.Process.Kill() })
		defer early.Stop()
	}
	lines := bufio.NewScanner(out)
	for n := 1; lines.Scan(); n++ {
		s.began++
		if n == after {
			_ = cmd.Process.Kill()
			_, _ = io.Copy(io.Discard, out)
			break
		}
	}
	_ = cmd.Wait()
	s.runs++
	switch status := cmd.ProcessState.ExitCode(); {
	case status == -1:
		s.kills++
	case salt == "none":
		require.Zero(t, status, "%.999s", &said)
	default:
		require.Contains(t, []int{0, 123}, status, "%.999s", &said)
	}
	return cmd.ProcessState.ExitCode() == -1
}

// check checks what there is.
func (s *soaked) check(version string) {
	t := s.t
	names, err := os.ReadDir(filepath.Join(s.dir, "out"))
	require.NoError(t, err)
	for _, e := range names {
		n, err := strconv.Atoi(e.Name())
		require.NoError(t, err, "a leftover")
		text, err := os.ReadFile(filepath.Join(s.dir, "out", e.Name()))
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf("%s of %d revision %d\n", version, n, s.revisions[n]), string(text))
	}
	require.Len(t, names, s.tasks)
}

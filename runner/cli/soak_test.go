package cli

import (
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
)

// soakWork is what the tasks of the soak do, by their first argument. All say
// where they begin and end.
const soakWork = `echo "begin $2"
case $1 in
sleeper) sleep 0.0$3 ;;
daemon) sleep 600 >/dev/null 2>&1 & ;;
leaker) sleep 600 & ;;
failer) echo "task $2 fails" >&2; echo "end $2"; exit 3 ;;
talker) i=0; while [ $i -lt $3 ]; do echo "line $2 $i"; i=$((i+1)); done ;;
stubborn) trap "" TERM; sleep 0.2; sleep 0.2 ;;
esac
echo "end $2"
`

// TestSoak runs crew again and again with eight workers, sleepers, daemons,
// failers and talkers, and does something to it at a random moment. Each time
// every record is accounted for, and nothing is left of the run. The same ten rounds
// run each time; CREW_SOAK is how many others run instead, CREW_SOAK_SEED repeats a round
// that failed.
func TestSoak(t *testing.T) {
	t.Parallel()
	rounds, seed := 10, uint64(0)
	if n, err := strconv.Atoi(os.Getenv("CREW_SOAK")); err == nil {
		rounds, seed = n, uint64(time.Now().UnixNano())
	}
	if n, err := strconv.ParseUint(os.Getenv("CREW_SOAK_SEED"), 10, 64); err == nil {
		rounds, seed = 1, n
	}
	for i := range uint64(rounds) {
		t.Run(fmt.Sprintf("seed=%d", seed+i), func(t *testing.T) {
			t.Parallel()
			s := newSoak(t, seed+i)
			s.disturb()
			s.account()
			s.Gone()
			crewtest.Until(s.t, func() bool { return s.guardians() == 0 }, "the guardian's end")
		})
	}
}

// soak is one round.
type soak struct {
	*fault
	rnd   *rand.Rand
	tasks int
	line  bool // output comes by line
	sent  []syscall.Signal
	end   syscall.WaitStatus
}

func newSoak(t *testing.T, seed uint64) *soak {
	s := &soak{rnd: rand.New(rand.NewPCG(seed, 0))}
	s.tasks = 30 + s.rnd.IntN(60)
	kinds := []string{"sleeper", "sleeper", "sleeper", "daemon", "leaker", "failer", "talker", "talker", "stubborn"}
	var input strings.Builder
	for i := range s.tasks {
		fmt.Fprintf(&input, "%s,%d,%d\n", kinds[s.rnd.IntN(len(kinds))], i+1, 10+s.rnd.IntN(90))
	}
	args := []string{"-j8", "--joblog", "log", "--kill-after", "2", "-C", ","}
	for _, option := range [][]string{{"-k"}, {"--line-buffer"}, {"--timeout", "0.3"}, {"--retries", "1", "--retry-delay", "0.1"}} {
		if s.rnd.IntN(3) == 0 {
			args = append(args, option...)
			s.line = s.line || option[0] == "--line-buffer"
		}
	}
	s.fault = newFault(t, append(args, "/bin/sh", "./work", "{1}", "{2}", "{3}")...)
	s.write("work", soakWork, 0o666)
	s.Cmd.Stdin = strings.NewReader(input.String())
	return s
}

// disturb runs crew and does what the round has in store for it.
func (s *soak) disturb() {
	ways := [][]syscall.Signal{
		{},
		{syscall.SIGINT},
		{syscall.SIGINT, syscall.SIGINT},
		{syscall.SIGINT, syscall.SIGINT, syscall.SIGINT},
		{syscall.SIGTERM},
		{syscall.SIGHUP},
		{syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGUSR2},
		{syscall.SIGTSTP, syscall.SIGCONT},
		{syscall.SIGTSTP, syscall.SIGKILL},
		{syscall.SIGKILL},
		{syscall.SIGKILL},
		{syscall.SIGKILL},
	}
	way := ways[s.rnd.IntN(len(ways))]
	s.start()
	go func() {
		for _, sig := range way {
			time.Sleep(time.Duration(s.rnd.IntN(400)) * time.Millisecond) // this is the random moment
			_ = s.Cmd.Process.Signal(sig)
			for sig == syscall.SIGTSTP && !strings.Contains("TZ", crewtest.State(s.Cmd.Process.Pid)) {
				time.Sleep(time.Millisecond) // else it may stop after it was told to go on
			}
		}
	}()
	s.end = s.Wait()
	s.sent = way
}

var (
	soakDigest = regexp.MustCompile(`(?m)^crew: (\d+) of (?:at least )?(\d+) tasks? (failed|done) in .*`)
	soakCount  = regexp.MustCompile(`(\d+) (failed|waiting for a retry|not started)`)
)

// account holds stdout, digest, joblog and exit status against each other.
func (s *soak) account() {
	t := s.t
	blocks := s.blocks()
	rows := s.rows()
	for id, whole := range blocks {
		exit, logged := rows[id]
		// By line, what a task wrote is there before its end. That of an attempt whose retry
		// was never made is shown, too.
		begun := s.line && s.killed() || strings.Contains(s.Stderr(), "waiting for a retry")
		require.True(t, logged || begun, "task %d is on stdout and not in the joblog", id)
		require.True(t, whole || !logged || exit == -1 || s.killed(), "the output of task %d is cut", id)
	}
	if s.killed() {
		return
	}
	ok, failed := 0, 0
	for id, exit := range rows {
		switch exit {
		case 0:
			ok++
		case 3:
			failed++
		default:
			require.Equal(t, -1, exit, "task %d", id)
			continue
		}
		require.True(t, blocks[id], "task %d ended and is not on stdout", id)
	}
	if _, err := os.Stat(s.dir + "/log"); err != nil && s.end.Signaled() {
		require.Empty(t, s.Stderr(), "a signal came before there was a run")
		return
	}
	read, notRun := s.tasks, 0
	if m := soakDigest.FindStringSubmatch(s.Stderr()); m != nil {
		n, _ := strconv.Atoi(m[1])
		read, _ = strconv.Atoi(m[2])
		if m[3] == "done" {
			require.Equal(t, ok, n, "%s", s.Stderr())
			n = 0
		}
		for _, c := range soakCount.FindAllStringSubmatch(m[0], -1) {
			some, _ := strconv.Atoi(c[1])
			if c[2] == "failed" {
				n = some
			} else {
				notRun += some
			}
		}
		require.GreaterOrEqual(t, n, failed, "timeouts are failures, too")
		failed = n
	} else {
		require.Zero(t, failed, "no digest")
		if s.end.Signaled() {
			read = len(rows) // all of which was done when the signal came
		}
		require.Equal(t, read, ok)
	}
	require.Equal(t, read, len(rows)+notRun, "every record that was read has an outcome\n%s", s.Stderr())
	if s.end.Signaled() {
		require.Contains(t, s.sent, s.end.Signal())
		return
	}
	require.Equal(t, s.tasks, read, "nothing stopped the run")
	want := 0
	if failed > 0 {
		want = 123
	}
	require.Equal(t, want, s.end.ExitStatus(), "%s", s.Stderr())
}

// killed says whether crew had no time to show all: by SIGKILL, or as it says.
func (s *soak) killed() bool {
	return s.end.Signaled() && (s.end.Signal() == syscall.SIGKILL || strings.Contains(s.Stderr(), "nobody reads stdout"))
}

// blocks are the tasks that have something on stdout, and whether it is all.
func (s *soak) blocks() map[int]bool {
	t := s.t
	seen := map[int]bool{}
	out, cut := strings.CutSuffix(s.Stdout(), "\n")
	require.True(t, cut || out == "" || s.killed(), "the last line is cut")
	current := 0
	for _, l := range strings.Split(out, "\n") {
		var id, n int
		switch {
		case l == "":
		case match(l, "begin %d", &id):
			_, twice := seen[id]
			require.False(t, twice && !s.line, "task %d is there twice", id)
			seen[id], current = false, id
		case match(l, "end %d", &id):
			require.True(t, id == current || s.line, "task %d ends inside of %d", id, current)
			seen[id] = true
		case match(l, "line %d %d", &id, &n):
			require.True(t, id == current || s.line, "a line of task %d inside of %d", id, current)
		default:
			require.True(t, s.killed(), "a mixed line: %q", l)
		}
	}
	return seen
}

// match says whether l is exactly what the format makes of the numbers in it.
func match(l, format string, into ...any) bool {
	if _, err := fmt.Sscanf(l, format, into...); err != nil {
		return false
	}
	values := make([]any, len(into))
	for i := range into {
		values[i] = *into[i].(*int)
	}
	return fmt.Sprintf(format, values...) == l
}

// rows are the tasks in the joblog and their exit values, 128+N after signal N.
func (f *fault) rows() map[int]int {
	t := f.t
	rows := map[int]int{}
	lines := strings.Split(f.read("log"), "\n")
	require.Empty(t, lines[len(lines)-1], "the last row is cut")
	for _, l := range lines[1:max(1, len(lines)-1)] {
		cell := strings.Split(l, "\t")
		require.Len(t, cell, 9, l)
		id, err := strconv.Atoi(cell[0])
		require.NoError(t, err)
		_, twice := rows[id]
		require.False(t, twice, "task %d is logged twice", id)
		rows[id], err = strconv.Atoi(cell[6])
		require.NoError(t, err)
		signal, err := strconv.Atoi(cell[7])
		require.NoError(t, err)
		if rows[id] == 0 && signal != 0 {
			rows[id] = 128 + signal
		}
	}
	return rows
}

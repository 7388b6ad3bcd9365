package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
)

// served is a crew that others feed. Its tasks write to a log what they do, so what
// crew says can be held against it.
type served struct {
	t    *testing.T
	crew string // the program
	dir  string
	args []string // of crew serve
	cmd  *exec.Cmd
	out  output
}

// servedTask is what the tasks do: they log that they begin and end, and fail in as
// many attempts as the fourth argument says.
const servedTask = `echo "begin $1 $2 $3 $CREW_ATTEMPT" >> log
[ "$CREW_ATTEMPT" -gt "$4" ]
s=$?
echo "end $1 $2 $3 $CREW_ATTEMPT $s" >> log
exit $s
`

// queueName is no other run's, however many of them the user has.
const queueName = "queue-of-serve-test"

func newServed(t *testing.T, crew string, args ...string) *served {
	s := &served{t: t, crew: crew, dir: t.TempDir(), args: args}
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, "task"), []byte(servedTask), 0o666))
	require.NoError(t, os.Mkdir(filepath.Join(s.dir, "runtime"), 0o700))
	t.Cleanup(func() {
		if s.cmd != nil {
			_ = s.cmd.Process.Kill()
			_ = s.cmd.Wait()
		}
		if t.Failed() {
			t.Logf("crew serve said: %s", s.out.String())
		}
	})
	return s
}

// command returns a crew command in the served directory.
func (s *served) command(args ...string) *exec.Cmd {
	cmd := exec.Command(s.crew, args...)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+filepath.Join(s.dir, "runtime"), "CREW_OPTS=")
	return cmd
}

// start starts crew serve.
func (s *served) start() {
	s.cmd = s.command(append([]string{"serve", "--name", queueName}, s.args...)...)
	s.cmd.Stdout, s.cmd.Stderr = &s.out, &s.out
	require.NoError(s.t, s.cmd.Start())
}

// wait returns the exit status of crew serve.
func (s *served) wait() int {
	late := time.AfterFunc(crewtest.Patience, func() { _ = s.cmd.Process.Kill() })
	defer late.Stop()
	err := s.cmd.Wait()
	status := s.cmd.ProcessState.ExitCode()
	s.cmd = nil
	var exit *exec.ExitError
	require.True(s.t, err == nil || errors.As(err, &exit), "%v", err)
	return status
}

// ctl runs crew ctl and returns what it prints, and its error.
func (s *served) ctl(stdin string, args ...string) (string, error) {
	cmd := s.command(append([]string{"ctl"}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if err != nil {
		err = fmt.Errorf("crew ctl %s: %w: %s", strings.Join(args, " "), err, &stderr)
	}
	return stdout.String(), err
}

// await waits until crew serve can be reached.
func (s *served) await() {
	crewtest.Until(s.t, func() bool {
		_, err := s.ctl("", "status", queueName)
		return err == nil
	}, "crew serve")
}

// listen starts a client that watches the run and does not read what it is told.
func (s *served) listen() {
	read, write, err := os.Pipe()
	require.NoError(s.t, err)
	cmd := s.command("ctl", "watch", queueName)
	cmd.Stdout = write
	require.NoError(s.t, cmd.Start())
	write.Close()
	s.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		read.Close()
	})
}

// drain lets crew serve end once all tasks have ended.
func (s *served) drain() {
	for _, verb := range [][]string{{"resume", queueName}, {"drain", "--rest", queueName}} {
		_, err := s.ctl("", verb...)
		require.NoError(s.t, err)
	}
}

// log returns the lines of the tasks' log, split into words.
func (s *served) log() (lines [][]string) {
	text, err := os.ReadFile(filepath.Join(s.dir, "log"))
	require.NoError(s.t, err)
	for l := range strings.Lines(string(text)) {
		lines = append(lines, strings.Fields(l))
	}
	return lines
}

// recorded returns the last outcome of each task in the journal, by its command.
func (s *served) recorded() map[string]string {
	cmd := s.command("state", "--json", "state")
	text, err := cmd.Output()
	require.NoError(s.t, err)
	outcomes := map[string]string{}
	for l := range bytes.Lines(text) {
		var e struct{ Event, Command, Outcome string }
		require.NoError(s.t, json.Unmarshal(l, &e))
		if e.Event == "ended" {
			outcomes[e.Command] = e.Outcome
		}
	}
	return outcomes
}

// TestServeSteered feeds a keyed queue from eight processes, with tasks that fail,
// while it is resized, paused, resumed, and keys are cancelled. Each task then has one
// outcome, in the journal as in the status, and the log of the tasks agrees with it:
// none ran twice, and those of a key one at a time in the order of their adding.
// CREW_SOAK makes it fifty thousand tasks.
func TestServeSteered(t *testing.T) {
	t.Parallel()
	const feeders, retries = 8, 2
	tasks, crew := 240, "crew"
	if crewtest.Soaking() {
		tasks, crew = 50_000, crewtest.Build(t, "crew")
	}
	s := newServed(t, crew, "-j1", "--state", "state", "--output", "none", "--sched", "keyed", "-C", " ", "--key", "{1}",
		"--retries", strconv.Itoa(retries), "--retry-delay", "1ms", "sh", "task", "{1}", "{2}", "{3}", "{4}")
	s.start()
	s.await()
	s.listen()

	var feeding sync.WaitGroup
	for f := range feeders {
		var records strings.Builder
		for n := range tasks / feeders {
			fails := 0
			switch rand.IntN(10) {
			case 0:
				fails = 1 + rand.IntN(retries)
			case 1:
				fails = 9
			}
			fmt.Fprintf(&records, "k%d %d %d %d\n", rand.IntN(tasks/20), f, n, fails)
		}
		feeding.Go(func() {
			if _, err := s.ctl(records.String(), "add", "--to", queueName, "-"); err != nil {
				t.Error(err)
			}
		})
	}
	over := make(chan struct{})
	var steering sync.WaitGroup
	steering.Go(func() {
		for step := 0; ; step++ {
			key := "k" + strconv.Itoa(rand.IntN(tasks/20))
			verb := [][]string{
				{"resize", "1", queueName}, {"cancel", "--key", key, "--run", queueName}, {"resize", "64", queueName},
				{"pause", queueName}, {"cancel", "--key", key, "--run", queueName}, {"resume", queueName},
				{"explain", "1", strconv.Itoa(1 + step%tasks), "--run", queueName}, {"resize", "-62", queueName}, {"resize", "+14", queueName},
			}[step%9]
			if _, err := s.ctl("", verb...); err != nil && verb[0] != "cancel" && verb[0] != "explain" { // there may be no such task
				t.Error(err)
			}
			select {
			case <-over:
				return
			case <-t.Context().Done(): // it has failed
				return
			case <-time.After(time.Duration(rand.IntN(1+tasks/200)) * time.Millisecond):
			}
		}
	})
	feeding.Wait()
	require.False(t, t.Failed())
	finished := s.finished(tasks)
	close(over)
	steering.Wait()
	s.drain()
	require.Equal(t, 123, s.wait())
	outcomes := s.recorded()
	require.Len(t, outcomes, tasks)
	byOutcome := map[string]int{}
	for _, o := range outcomes {
		byOutcome[o]++
	}
	t.Logf("%v", byOutcome)
	require.Equal(t, finished, byOutcome)
	checkSteered(t, s.log(), outcomes, retries)
}

// finished waits until so many tasks have ended, and returns how many did how.
func (s *served) finished(tasks int) (byOutcome map[string]int) {
	crewtest.Until(s.t, func() bool {
		text, err := s.ctl("", "status", "--json", queueName)
		require.NoError(s.t, err)
		var reply struct {
			Run struct {
				Done, Dropped int
				Outcomes      map[string]int
			}
		}
		require.NoError(s.t, json.Unmarshal([]byte(text), &reply), text)
		byOutcome = reply.Run.Outcomes
		maps.DeleteFunc(byOutcome, func(_ string, n int) bool { return n == 0 })
		return reply.Run.Done+reply.Run.Dropped == tasks
	}, "the end of all tasks")
	return byOutcome
}

// checkSteered checks the log of a steered queue. Its outcomes are by command.
func checkSteered(t *testing.T, log [][]string, outcomes map[string]string, retries int) {
	type latest struct {
		task  string
		begun bool // and has not ended
	}
	began, failed := map[string]int{}, map[string]int{} // attempts, by task
	busy := map[string]latest{}                         // by key; it goes on or will be retried
	order := map[string]int{}                           // the last task that began, by key and feeder
	how := map[string]string{}
	for command, o := range outcomes {
		words := strings.Fields(command)
		how[strings.Join(words[2:5], " ")] = o
	}
	for _, l := range log {
		key, id, attempt := l[1], strings.Join(l[1:4], " "), l[4]
		before := busy[key]
		if l[0] == "begin" {
			require.Equal(t, strconv.Itoa(began[id]+1), attempt, "%v", l)
			if before.task != id {
				require.True(t, before.task == "" || how[before.task] == "cancelled", "%v beside %v", l, before)
				n, _ := strconv.Atoi(l[3])
				require.Equal(t, "1", attempt, "%v", l)
				last, later := order[key+" "+l[2]]
				require.True(t, !later || n > last, "%v after %d", l, last)
				order[key+" "+l[2]] = n
			}
			require.False(t, before.task == id && before.begun, "%v twice at once", l)
			began[id]++
			busy[key] = latest{id, true}
			continue
		}
		require.Equal(t, latest{id, true}, before, "%v", l)
		delete(busy, key)
		if l[5] != "0" {
			failed[id]++
			if failed[id] <= retries {
				busy[key] = latest{id, false}
			}
		}
	}
	for command, o := range outcomes {
		id := strings.Join(strings.Fields(command)[2:5], " ")
		fails, err := strconv.Atoi(strings.Fields(command)[5])
		require.NoError(t, err)
		switch o {
		case "ok":
			require.Equal(t, []int{fails + 1, fails}, []int{began[id], failed[id]}, command)
		case "exit":
			require.Equal(t, []int{retries + 1, retries + 1}, []int{began[id], failed[id]}, command)
		default:
			require.Equal(t, "cancelled", o, command)
		}
	}
	require.LessOrEqual(t, len(began), len(outcomes))
}

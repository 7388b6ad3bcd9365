package engine

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/task"
	"crew/runner/wiring"
)

// submits starts a run called nightly, and returns what shows its results: the run itself or, if
// it is handed over, crew engine attach.
func submits(t *testing.T, url string, detached bool, args ...string) *crewtest.Process {
	t.Helper()
	options := []string{"--engine", url, "--name", "nightly"}
	if !detached {
		return crew(t, slices.Concat(options, []string{"--json", "--output", "none"}, args)...)
	}
	crew(t, "engine", "dispatch", "--engine", url)
	crew(t, slices.Concat(options, []string{"--detach"}, args)...).Exits(0)
	return crew(t, "engine", "attach", "--engine", url, "--json", "--output", "none", "nightly")
}

// both calls test with a run that is watched, and with one that is handed over.
func both(t *testing.T, test func(t *testing.T, detached bool)) {
	for _, detached := range []bool{false, true} {
		t.Run(map[bool]string{false: "watched", true: "handed over"}[detached], func(t *testing.T) { test(t, detached) })
	}
}

// shownResult is a line of --json.
type shownResult struct {
	Task           uint64
	Outcome, Error string
	Attempt        int
	Host           string
}

// resultsOf returns the results that a process has printed, by task.
func resultsOf(t *testing.T, p *crewtest.Process) map[uint64]shownResult {
	t.Helper()
	all := map[uint64]shownResult{}
	for line := range strings.Lines(p.Stdout()) {
		var r shownResult
		require.NoError(t, json.Unmarshal([]byte(line), &r), line)
		all[r.Task] = r
	}
	return all
}

func TestCancelTasks(t *testing.T) {
	both(t, func(t *testing.T, detached bool) {
		url, dir := startHub(t), t.TempDir()
		obey := obeys(t)
		crew(t, "worker", "--engine", url, "-j2", obey, "{}")
		p := submits(t, url, detached, "--kill-after", "0.1s", "--key", "{#}", obey, "{}", ":::",
			"trap '' TERM; echo $$ >"+dir+"/one; while :; do sleep 0.05; done",
			"touch "+dir+"/two; until [ -e "+dir+"/go ]; do sleep 0.05; done",
			"touch "+dir+"/three", "touch "+dir+"/four", "true")
		pid := crewtest.PID(t, dir+"/one")
		crewtest.Exists(t, dir+"/two")
		cancel := func(args ...string) *crewtest.Process {
			return crew(t, append([]string{"engine", "cancel", "--engine", url, "nightly"}, args...)...)
		}
		for text, args := range map[string][]string{
			": there is no task 99": {"99"}, ": no task of key \"x\" runs or waits": {"--key", "x"},
		} {
			c := cancel(args...)
			c.Exits(1)
			require.Contains(t, c.Stderr(), text)
			require.Empty(t, c.Stdout())
		}
		c := cancel("--key", "4")
		c.Exits(0)
		require.Equal(t, "1 task cancelled\n", c.Stdout())
		c = cancel("1", "3", "4")
		c.Exits(1)
		require.Equal(t, "2 tasks cancelled\n", c.Stdout())
		require.Contains(t, c.Stderr(), ": task 4 has ended\n")
		crewtest.Gone(t, pid)
		touch(t, dir+"/go")
		p.Exits(123)
		got := resultsOf(t, p)
		for id, want := range map[uint64]string{1: "cancelled", 2: "ok", 3: "cancelled", 4: "cancelled", 5: "ok"} {
			require.Equal(t, want, got[id].Outcome, id)
			if want == "cancelled" {
				require.Equal(t, "cancelled by "+me(), got[id].Error)
			}
		}
		require.NoFileExists(t, dir+"/three")
		require.NoFileExists(t, dir+"/four")
		require.Contains(t, p.Stderr(), "3 cancelled")
		if !detached {
			require.Contains(t, p.Stderr(), "crew: 2 tasks cancelled by "+me())
		}
	})
}

// A task that is cancelled at its worker is cancelled for its run, which goes on.
func TestCancelAtTheWorker(t *testing.T) {
	both(t, func(t *testing.T, detached bool) {
		url, dir := startHub(t), t.TempDir()
		obey := obeys(t)
		crew(t, "worker", "--engine", url, "-j1", "--name", "web", obey, "{}")
		p := submits(t, url, detached, obey, "{}", ":::", "touch "+dir+"/runs; exec sleep 1000", "true")
		crewtest.Exists(t, dir+"/runs")
		crew(t, "ctl", "cancel", "--run", "web", "1").Exits(0)
		p.Exits(123)
		got := resultsOf(t, p)
		require.Equal(t, shownResult{Task: 1, Outcome: "cancelled", Error: "cancelled by crew ctl on web", Attempt: 1, Host: "web"}, got[1])
		require.Equal(t, "ok", got[2].Outcome)
		require.Contains(t, p.Stderr(), "1 cancelled")
	})
}

// Workers that are drained hand back what has not begun, and end once the rest has.
func TestDrain(t *testing.T) {
	url, dir := startHub(t), t.TempDir()
	obey := obeys(t)
	worker := func(name, queue, jobs string) *crewtest.Process {
		w := crew(t, "worker", "--engine", url, jobs, "--name", name, "--queue", queue, obey, "{}")
		w.Says(w.Stderr, "is ready for tasks")
		return w
	}
	drain := func(status int, args ...string) string {
		p := crew(t, append([]string{"engine", "drain", "--engine", url}, args...)...)
		p.Exits(status)
		return p.Stdout() + p.Stderr()
	}
	require.Equal(t, "crew: no worker is there\n", drain(1, "--all"))
	one, twin, other := worker("web", "default", "-j1"), worker("web", "default", "-j1"), worker("other", "fast", "-j1")
	require.Equal(t, "crew: no worker is called nobody: crew engine status lists them\n", drain(1, "web", "nobody"))
	require.Equal(t, "crew: no worker of queue fast is called web: crew engine status lists them\n", drain(1, "web", "--queue", "fast"))
	require.Equal(t, "crew: no worker of queue slow is there\n", drain(1, "--all", "--queue", "slow"))

	args := []string{"--engine", url, "--json", "--output", "none", obey, "{}", ":::"}
	for range 6 {
		args = append(args, "mktemp "+dir+"/XXXXXX; until [ -e "+dir+"/go ]; do sleep 0.05; done")
	}
	begin := func(n int) {
		t.Helper()
		crewtest.Until(t, func() bool { list, err := os.ReadDir(dir); return err == nil && len(list) == n }, "%d tasks to begin", n)
	}
	run := crew(t, args...)
	begin(2)
	require.Equal(t, "2 workers draining\n", drain(0, "web"))
	crewtest.Until(t, func() bool {
		p := crew(t, "engine", "status", "--engine", url)
		p.Exits(0)
		return strings.Count(p.Stdout(), draining) == 2
	}, "status to show two workers draining")
	one.Says(one.Stderr, "draining (drained by "+me()+"): no more tasks start; waiting for 1 running task")
	last := worker("last", "default", "-j4")
	begin(6)
	touch(t, dir+"/go")
	run.Exits(0)
	one.Exits(0)
	twin.Exits(0)
	hosts := map[string]int{}
	for _, r := range resultsOf(t, run) {
		require.Equal(t, "ok", r.Outcome)
		hosts[r.Host]++
	}
	require.Equal(t, map[string]int{"web": 2, "last": 4}, hosts)
	require.Equal(t, "1 worker draining\n", drain(0, "--all", "--queue", "fast"))
	other.Exits(0)
	require.Equal(t, "1 worker draining\n", drain(0, "--all"))
	last.Exits(0)
}

// Tasks of a run that was handed over can be cancelled before a dispatcher reads them, and
// stay so when another one goes on.
func TestCancelStoredTasks(t *testing.T) {
	inTime(t, func(t *testing.T, b *broker) {
		const n = 300
		run := b.handsOver(n, fifoOrders, nil)
		first, going := make(chan struct{}, n), make(chan struct{})
		b.worker("w", 2, func(f *fake, a *Attempt, m jetstream.Msg) {
			select {
			case <-going:
				answer(f, a, m)
			default:
				first <- struct{}{}
			}
		})
		stop := b.dispatches()
		crewtest.Receive(t, first, "a task to begin")
		s := b.connect(nil)
		steer := func(want string, ids ...uint64) {
			t.Helper()
			out, err := os.CreateTemp(t.TempDir(), "")
			require.NoError(t, err)
			defer out.Close()
			err = s.steer(&wiring.EngineCall{Verb: opCancel, Operand: run, Tasks: ids, Out: out})
			text, _ := os.ReadFile(out.Name())
			require.Equal(t, want, fmt.Sprint(string(text), err))
		}
		steer("3 tasks cancelled\n<nil>", 250, 40, 251)
		steer("1 task cancelled\nrun "+run+": task 250 has ended", 250, 252)
		steer("run "+run+": there is no task 301", 301)
		stop()
		close(going)
		b.dispatches()
		_, got, r := b.attach(run)
		e := r.Wait()
		require.NoError(t, e.Err)
		require.Equal(t, int64(n-4), e.Stats.Of(task.OK))
		for _, id := range []uint64{40, 250, 251, 252} {
			require.Equal(t, task.Cancelled, got.results[id].Outcome)
			require.EqualError(t, got.results[id].Err, "cancelled by "+me())
		}
	})
}

package wiring

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/journal"
)

// queueWork is the script of the tasks of a queue: they say that they begin and that they end,
// and write more than a journal may waste.
const queueWork = `echo begin $1 >> effects; printf "%0100000d\n" 0; echo end $1 >> effects`

// queuePlans are ways to run crew serve, by their names.
var queuePlans = map[string][]string{
	"keys in order":      {"-j4", "--sched=keyed"},
	"forgetful":          {"-j4", "--keep=1ms"}, // and so compacted again and again
	"joblog and results": {"-j1", "--joblog=log", "--results=tree"},
	"by hand":            {"-j4", "--keep=1ms", "--name=hand"}, // tasks are held, moved and released
}

// TestQueueKilledAtEachCall kills crew serve at the system calls by which it writes files,
// while commands are added, and starts it again. What was accepted runs, in order for each
// key, and twice only if it ran at a kill; the logs are complete, and the journal is whole.
// With CREW_SOAK set it goes through every call.
func TestQueueKilledAtEachCall(t *testing.T) {
	t.Parallel()
	for name := range queuePlans {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first, last := 40, 0
			if crewtest.Soaking() {
				first, last = 1, 1000
			}
			killed := true
			for at := first; killed && at <= max(first, last); at++ {
				t.Run(strconv.Itoa(at), func(t *testing.T) {
					q := &killedQueue{t: t, dir: t.TempDir(), args: queuePlans[name], jobs: 4}
					if q.logs = slices.Contains(q.args, "--joblog=log"); q.logs {
						q.jobs = 1
					}
					require.NoError(t, os.WriteFile(filepath.Join(q.dir, "work"), []byte(queueWork), 0o666))
					killed = q.serve(at)
					q.serve(at / 2)
					q.serve(0)
					q.check()
				})
			}
		})
	}
}

// killedQueue is a queue that is served several times.
type killedQueue struct {
	t        *testing.T
	dir      string
	args     []string
	jobs     int
	logs     bool
	kills    int
	accepted []string // the IDs of commands: a key and a number
	numbers  []string // of their tasks
	tried    int
}

// serve serves the queue while more commands are added, until they have all ended or, if at
// is not 0, it is killed at a call.
func (q *killedQueue) serve(at int) (killed bool) {
	t := q.t
	name := "q"
	if q.byHand() {
		name = "hand"
	}
	cmd := crew(append([]string{"serve", "--name=q", "-q", "--state=state", "--output=none"}, q.args...)...)
	env := append(cmd.Env, "GORACE=atexit_sleep_ms=0", "XDG_RUNTIME_DIR="+crewtest.ShortDir(t))
	cmd.Dir, cmd.Env = q.dir, slices.Clip(env)
	var said strings.Builder
	cmd.Stderr = &said
	n := 0
	p := startJudged(t, cmd, func(fileCall) verdict {
		if n++; n == at {
			return dies
		}
		return goesOn
	})
	ctl := func(stdin string, words ...string) (printed string, ok bool) {
		c := crew(append([]string{"ctl"}, words...)...)
		c.Dir, c.Env, c.Stdin = q.dir, env, strings.NewReader(stdin)
		out, err := c.Output()
		return string(out), err == nil
	}
	over := func() bool { return !crewtest.Alive(cmd.Process.Pid) }
	crewtest.Until(t, func() bool { _, there := ctl("", "status", name); return there || over() }, "crew serve")
	if q.byHand() && len(q.numbers) > 0 { // what a kill has left held
		ctl("", append([]string{"release", "--run=hand"}, q.numbers...)...)
	}
	for i := 0; i < 4 && !over(); i++ {
		var ids []string
		lines, key := "", strconv.Itoa(i%2)
		for range 1 + i%2 {
			q.tried++
			ids = append(ids, fmt.Sprintf("%s.%d", key, q.tried))
			lines += "sh work " + ids[len(ids)-1] + "\n"
		}
		if numbers, ok := ctl(lines, "add", "--to="+name, "--key="+key, "-"); ok {
			q.accepted = append(q.accepted, ids...)
			for _, n := range strings.Fields(numbers) {
				require.NotContains(t, q.numbers, n, "it was given twice")
				q.numbers = append(q.numbers, n)
			}
			if q.byHand() {
				n := q.numbers[len(q.numbers)-1]
				ctl("", "hold", "--run=hand", n)
				ctl("", "move", "--run=hand", n, "first")
				ctl("", "release", "--run=hand", n)
			}
		}
	}
	crewtest.Until(t, func() bool { _, drains := ctl("", "drain", "--rest", name); return drains || over() }, "crew serve to drain")
	p.wait(t)
	if p.killed {
		q.kills++
	} else {
		require.True(t, cmd.ProcessState.Success(), "%v: %s", cmd.ProcessState, &said)
		t.Log(n, "calls")
	}
	return p.killed
}

func (q *killedQueue) byHand() bool { return slices.Contains(q.args, "--name=hand") }

// check looks at what the tasks have done and what is recorded of them.
func (q *killedQueue) check() {
	t := q.t
	text, err := os.ReadFile(filepath.Join(q.dir, "effects"))
	require.NoError(t, err)
	begun, ended, latest := map[string]int{}, map[string]int{}, map[string]int{}
	for line := range strings.Lines(string(text)) {
		what, id, _ := strings.Cut(strings.TrimSpace(line), " ")
		if what == "end" {
			ended[id]++
			continue
		}
		begun[id]++
		key, number, _ := strings.Cut(id, ".")
		n, err := strconv.Atoi(number)
		require.NoError(t, err)
		require.True(t, !slices.Contains(q.args, "--sched=keyed") || n >= latest[key], "%s after %d", id, latest[key])
		latest[key] = n
	}
	again := 0
	for _, n := range begun {
		again += n - 1
	}
	require.LessOrEqual(t, again, q.kills*q.jobs, "%s", text)
	require.NotEmpty(t, q.accepted)
	for _, id := range q.accepted {
		require.Positive(t, ended[id], "%s is lost", id)
	}
	s, err := journal.Dump(filepath.Join(q.dir, "state"), io.Discard)
	require.NoError(t, err)
	require.True(t, s.Closed)
	require.Equal(t, []int{0, 0, 0}, []int{s.Unshown, s.Running, s.Waiting})
	if q.logs {
		log, err := os.ReadFile(filepath.Join(q.dir, "log"))
		require.NoError(t, err)
		for id := range ended {
			require.Equal(t, 1, strings.Count(string(log), "\tsh work "+id+"\n"), "rows of %s", id)
		}
		results, err := filepath.Glob(filepath.Join(q.dir, "tree", "*", "result.json"))
		require.NoError(t, err)
		require.Len(t, results, len(ended))
	}
}

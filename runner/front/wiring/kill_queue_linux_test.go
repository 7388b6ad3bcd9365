package wiring

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/keep/journal"
)

// queueWork is the script of the tasks of a queue. Tasks record their start and end, and write more than the slack of
// a journal.
const queueWork = `echo begin $1 >> effects; printf "%0100000d\n" 0; echo end $1 >> effects`

// killedQueue is a crew serve, whose clients add commands and start it again. Accepted commands run, in order for each
// key under keyed, and twice only if they ran during a kill. The logs are complete, and the journal is intact.
type killedQueue struct {
	*scene
	accepted []string // the IDs of commands: a key and a number
	numbers  []string // the numbers of their tasks
	tried    int
}

func (q *killedQueue) prepare() { q.write("work", queueWork) }

// run serves the queue while clients add commands, until all have ended.
func (q *killedQueue) run(d *disturbance) {
	t := q.t
	serve := crew(append([]string{"serve", "--name=queue", "-q", "--state=state", "--output=none"}, q.Args...)...)
	env := slices.Clip(append(serve.Env, "XDG_RUNTIME_DIR="+crewtest.ShortDir(t)))
	serve.Env = env
	ctl := func(stdin string, words ...string) (printed string, ok bool) {
		c := crew(append([]string{"ctl"}, words...)...)
		c.Dir, c.Env, c.Stdin = q.dir, env, strings.NewReader(stdin)
		out, err := c.Output()
		return string(out), err == nil
	}
	byHand := func(numbers ...string) {
		ctl("", append([]string{"hold", "--run=queue"}, numbers...)...)
		ctl("", "move", "--run=queue", numbers[0], "first")
		ctl("", append([]string{"release", "--run=queue"}, numbers...)...)
	}
	q.crew(d, 0, func(over func() bool) {
		crewtest.Until(t, func() bool { _, there := ctl("", "status", "queue"); return there || over() }, "crew serve")
		if q.numbers != nil {
			byHand(q.numbers...)
		}
		for i := 0; i < 4 && !over(); i++ {
			var ids []string
			lines, key := "", strconv.Itoa(i%2)
			for range 1 + i%2 {
				q.tried++
				ids = append(ids, fmt.Sprintf("%s.%d", key, q.tried))
				lines += "sh work " + ids[len(ids)-1] + "\n"
			}
			if printed, ok := ctl(lines, "add", "--to=queue", "--key="+key, "-"); ok {
				numbers := strings.Fields(printed)
				for _, n := range numbers {
					require.NotContains(t, q.numbers, n, "it was given twice")
				}
				q.accepted, q.numbers = append(q.accepted, ids...), append(q.numbers, numbers...)
				if !q.has("keyed") { // under keyed, a move could change the order within a key
					byHand(numbers...)
				}
			}
		}
		crewtest.Until(t, func() bool { _, drains := ctl("", "drain", "--rest", "queue"); return drains || over() }, "crew serve to drain")
	}, serve)
}

func (q *killedQueue) holds() {}

// check checks the effects and the records of the tasks.
func (q *killedQueue) check() {
	t := q.t
	begun, ended, latest := map[string]int{}, map[string]int{}, map[string]int{}
	for line := range strings.Lines(q.read("effects")) {
		what, id, _ := strings.Cut(strings.TrimSpace(line), " ")
		if what == "end" {
			ended[id]++
			continue
		}
		begun[id]++
		key, number, _ := strings.Cut(id, ".")
		n, err := strconv.Atoi(number)
		require.NoError(t, err)
		require.True(t, !q.has("keyed") || n >= latest[key] || q.rough && begun[id] > 1, "%s after %d", id, latest[key])
		latest[key] = n
	}
	again := 0
	for _, n := range begun {
		again += n - 1
	}
	require.True(t, q.rough || again <= q.cuts*4, "%d ran again", again)
	require.NotEmpty(t, q.accepted)
	for _, id := range q.accepted {
		require.Positive(t, ended[id], "%s is lost", id)
	}
	s, err := journal.Dump(filepath.Join(q.dir, "state"), io.Discard)
	require.NoError(t, err)
	require.True(t, s.Closed)
	require.Equal(t, []int{0, 0, 0}, []int{s.Unshown, s.Running, s.Waiting})
	for id := range ended {
		rows := strings.Count(q.read("log"), "\tsh work "+id+"\n")
		require.True(t, !q.has("--joblog") || rows == 1 || q.rough && rows > 1, "%d rows of %s", rows, id)
	}
	results, err := filepath.Glob(filepath.Join(q.dir, "tree", "*", "result.json"))
	require.NoError(t, err)
	require.True(t, !q.has("--results") || len(results) == len(ended))
}

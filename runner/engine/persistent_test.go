package engine

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/task"
	"crew/runner/wiring"
)

// persistent is a worker that answers each record with its process, its number and the
// record. Its standard input has to end before it does.
const persistent = `while read -r x; do echo "$$ {%} $x"; done`

// newPersistent starts a worker whose command is that of a persistent worker.
func newPersistent(t *testing.T, url string, options ...string) (*bench, *crewtest.Process, *Presence) {
	t.Helper()
	b := newBench(t, url)
	b.sum, _ = digest(wiring.Template{Words: []string{persistent}, Replace: "{}", Protocol: task.LineProtocol})
	args := append([]string{"worker", "--engine", url, "--worker", persistent}, options...)
	return b, crew(t, args...), b.worker(isReady)
}

// answer gives a persistent worker a record for a slot of a run, and returns what it
// has said: a process, a number and the record.
func (b *bench) answer(p *Presence, run string, slot int, change func(*Attempt)) (pid, number int, record string) {
	b.t.Helper()
	b.last++
	a := b.attempt("r" + strconv.Itoa(slot))
	a.Run, a.Slot, a.Protocol = run, slot, task.LineProtocol
	if change != nil {
		change(a)
	}
	b.give(p.ID, a)
	f, _ := b.final()
	require.Equal(b.t, task.OK, f.Outcome, f.Error)
	_, err := fmt.Sscan(string(f.Stdout), &pid, &number, &record)
	require.NoError(b.t, err, string(f.Stdout))
	require.Equal(b.t, pid, f.PID)
	return pid, number, record
}

func TestPersistentWorkerOfTheWorker(t *testing.T) {
	b, w, p := newPersistent(t, startHub(t), "-j2")
	require.Equal(t, "--worker '"+persistent+"'", p.Command)
	first, n, text := b.answer(p, "a", 7, nil)
	require.Equal(t, 1, n, "its number here")
	require.Equal(t, "r7", text)
	second, n, _ := b.answer(p, "a", 9, nil)
	require.NotEqual(t, first, second)
	require.Equal(t, 2, n)
	again, _, text := b.answer(p, "a", 7, func(a *Attempt) { a.Stdin, a.HasStdin = []byte("what,the,run,read"), true })
	require.Equal(t, first, again)
	require.Equal(t, "what,the,run,read", text)
	b.heartbeat(Heartbeat{Run: "a", Epoch: 1, Over: true})
	pid, _, _ := b.answer(p, "b", 1, nil)
	require.Contains(t, []int{first, second}, pid, "it serves all runs")

	a := b.attempt("x")
	a.Stdin, a.HasStdin = []byte("two\nlines"), true
	b.give(p.ID, a)
	f, _ := b.final()
	require.Equal(t, task.StartFailed, f.Outcome)
	require.Contains(t, f.Error, "--worker-protocol nul")

	w.Send(syscall.SIGTERM)
	w.Dies(syscall.SIGTERM)
	require.False(t, crewtest.Alive(first) || crewtest.Alive(second))
	require.NotContains(t, w.Stderr(), "DATA RACE")
}

// TestPersistentWorkerKnowsTheRunsNumbers has a worker see records as its run does.
func TestPersistentWorkerKnowsTheRunsNumbers(t *testing.T) {
	t.Parallel()
	c := crew(t, "-S", "1/:", "-q", "--retries", "1", "--retry-delay", "0", "--worker-protocol", "json", "--worker",
		`while read -r x; do printf '%s\n' "$x" >&2; case $x in *'"id":3,'*) ;; *) false ;; esac && echo '{"id":3,"exit":0}' || echo no; done`,
		":::", "a", "b", "c")
	c.Exits(123)
	for _, want := range []string{
		`{"id":1,"args":["a"],"fields":{},"attempt":2}`, `{"id":2,"args":["b"],"fields":{},"attempt":2}`, `{"id":3,"args":["c"],"fields":{},"attempt":1}`,
	} {
		require.Contains(t, c.Stderr(), want+"\n")
	}
}

// TestRunBringsPersistentWorkers has a run bring its worker's command to a host, where
// each slot keeps its process.
func TestRunBringsPersistentWorkers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	input := filepath.Join(dir, "in")
	var text strings.Builder
	for i := range 200 {
		fmt.Fprintf(&text, "k%d\n", i%10)
	}
	require.NoError(t, os.WriteFile(input, []byte(text.String()), 0o600))
	c := crew(t, "-S", "3/:", "--sched", "keyed", "--key", "{}", "-a", input, "-k", "--worker-ready", "^ready", "--worker-start-timeout", "1m", "--worker-max", "1000",
		"--worker", `echo hello; echo ready; while read -r x; do eval "n=\$((c_$x+1)); c_$x=\$n"; echo $x {%} $CREW_WORKER {host} $n; done; sleep 0.1
echo over >> `+dir+`/ends`)
	c.Exits(0)
	counts, slots := map[string]int{}, map[string]bool{}
	i := 0
	for line := range strings.Lines(c.Stdout()) {
		f := strings.Fields(line)
		require.Len(t, f, 5, line)
		require.Equal(t, fmt.Sprint("k", i%10), f[0], "in order")
		require.Equal(t, f[1], f[2], "the number in the command and in the environment")
		require.NotContains(t, f[3], "{")
		n, _ := strconv.Atoi(f[4])
		slots[f[1]] = true
		counts[f[0]+f[1]]++
		require.Equal(t, counts[f[0]+f[1]], n, "each slot keeps its process")
		i++
	}
	require.Equal(t, 200, i)
	ends, err := os.ReadFile(filepath.Join(dir, "ends"))
	require.NoError(t, err)
	require.Equal(t, len(slots), strings.Count(string(ends), "over"), "each has the time to end")
}

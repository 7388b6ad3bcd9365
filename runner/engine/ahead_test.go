package engine

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/task"
)

// The task that waits behind another one at its worker goes to a worker that comes.
func TestRecalled(t *testing.T) {
	b := newBroker(t)
	b.ahead = 1
	given := make(chan *Attempt, 10)
	a := b.worker("a", 1, func(f *fake, a *Attempt, m jetstream.Msg) {
		_ = m.Ack()
		given <- a
	})
	r := b.run(2, nil)
	first, second := crewtest.Receive(t, given, "a task"), crewtest.Receive(t, given, "the one behind it")
	require.Equal(t, first.Slot, second.Slot)
	b.worker("b", 1, answer)
	o := crewtest.Receive(t, a.orders, "an order")
	require.Equal(t, Order{Version: Version, Op: opReturn, ID: second.ID}, o)
	a.end(second, func(f *Final) { f.Outcome, f.Exit = task.Lost, nil })
	crewtest.Until(t, func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.results[second.Task] != nil
	}, "it to run elsewhere")
	a.end(first, shows(""))
	e := r.wait()
	require.Equal(t, "b", r.results[second.Task].Host)
	require.EqualValues(t, 2, e.Stats.Of(task.OK))
	require.Zero(t, r.lost)
}

// What a worker holds for a slot runs there in turn, and is given back when that is asked for
// unless it has begun.
func TestWorkerRunsASlotInTurn(t *testing.T) {
	b, _, p := newWorker(t, startHub(t), "-j4")
	dir := t.TempDir()
	in := func(slot int, script string) *Attempt {
		a := b.attempt(script)
		a.Slot = slot
		b.give(p.ID, a)
		return a
	}
	wait := "; until [ -e " + dir + "/go ]; do sleep 0.05; done"
	slow := in(1, "echo > "+dir+"/slow"+wait)
	last := in(1, "test -e "+dir+"/go && echo $CREW_WORKER")
	back := in(1, "echo > "+dir+"/back")
	b.ends(in(2, "true"))
	crewtest.Exists(t, dir+"/slow")
	b.order(p.ID, Order{Op: opReturn, ID: slow.ID})
	b.order(p.ID, Order{Op: opReturn, ID: back.ID})
	require.Equal(t, task.Lost, b.ends(back).Outcome)
	early := b.attempt("echo > " + dir + "/back")
	b.order(p.ID, Order{Op: opReturn, ID: early.ID})
	b.give(p.ID, early)
	require.Equal(t, task.Lost, b.ends(early).Outcome)
	touch(t, dir+"/go")
	require.Equal(t, task.OK, b.ends(slow).Outcome, "it had begun")
	require.Equal(t, "1\n", string(b.ends(last).Stdout))
	require.NoFileExists(t, dir+"/back")
	b.allAcknowledged()
}

// Tasks are held ahead at the first host, of which one runs, when the second one comes.
func TestAheadOfASlowTask(t *testing.T) {
	url := startHub(t)
	dir := t.TempDir()
	obey := obeys(t)
	worker := func(name string) {
		crew(t, "worker", "--engine", url, "-j2", "--name", name, "--", obey, "{}")
	}
	b := newBench(t, url, obey, "{}")
	worker("one")
	b.worker(isReady)
	long := "echo >> " + dir + "/long; until [ -e " + dir + "/go ]; do sleep 0.05; done"
	run := crew(t, "--engine", url, obey, "{}", ":::", long, long, "echo x > "+dir+"/x", "echo y > "+dir+"/y")
	crewtest.Until(t, func() bool { s, _ := os.ReadFile(dir + "/long"); return len(s) == 2 }, "two tasks to run")
	require.NoFileExists(t, dir+"/x")
	worker("two")
	crewtest.Exists(t, dir+"/x")
	crewtest.Exists(t, dir+"/y")
	touch(t, dir+"/go")
	run.Exits(0)
}

// Nothing that waits at a worker begins after the first Ctrl-C.
func TestDrainWithTasksAhead(t *testing.T) {
	url := startHub(t)
	dir := t.TempDir()
	obey := obeys(t)
	crew(t, "worker", "--engine", url, "-j2", "--", obey, "{}")
	b := newBench(t, url, obey, "{}")
	b.worker(isReady)
	script := "echo >> " + dir + "/begun; until [ -e " + dir + "/go ]; do sleep 0.05; done"
	run := crew(t, append([]string{"--engine", url, "--joblog", dir + "/log", obey, "{}", ":::"}, strings.Split(strings.Repeat(script+"\n", 6), "\n")[:6]...)...)
	crewtest.Until(t, func() bool { s, _ := os.ReadFile(dir + "/begun"); return len(s) == 2 }, "two tasks to run")
	run.Send(syscall.SIGINT)
	run.Says(run.Stderr, "draining: no more tasks start; waiting for 2 running tasks")
	run.Says(run.Stderr, "2 running tasks (1, 2)")
	for range 2 { // the others come back
		f, _ := b.final()
		require.Equal(t, task.Lost, f.Outcome)
	}
	touch(t, dir+"/go")
	run.Dies(syscall.SIGINT)
	begun, err := os.ReadFile(dir + "/begun")
	require.NoError(t, err)
	require.Equal(t, "\n\n", string(begun))
	log, err := os.ReadFile(dir + "/log")
	require.NoError(t, err)
	require.Equal(t, 3, strings.Count(string(log), "\n"), "the head and what ran: %s", log)
}

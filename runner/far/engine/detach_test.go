package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/decide/task"
	"crew/runner/exec/spool"
	"crew/runner/far/travel"
	"crew/runner/front/wiring"
	"crew/runner/keep/journal"
)

// dispatcher returns a dispatcher that does not serve yet.
func (b *broker) dispatcher(connect func() (net.Conn, error)) *dispatcher {
	b.runs = b.t.TempDir()
	d, err := newDispatcher(b.t.Context(), b.connect(nil), connect, b.runs, 0, quiet)
	require.NoError(b.t, err)
	b.t.Cleanup(d.wg.Wait)
	return d
}

// noProcess connects no process of a run.
func noProcess() (net.Conn, error) { return nil, errors.New("there is no process") }

// dispatches starts a dispatcher that starts no processes.
func (b *broker) dispatches() {
	d := b.dispatcher(noProcess)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		d.serve()
	}()
	b.t.Cleanup(func() { crewtest.Receive(b.t, ended, "the end of the dispatcher") })
}

// The journal of a run keeps its results, also of tasks that it did not finish: those run again after a
// crash. A task that was cancelled before it began stays so.
func TestStoredResults(t *testing.T) {
	dir := runDir(t.TempDir())
	state := filepath.Join(string(dir), stateDir)
	open := func() *journal.Journal {
		j, err := journal.Open(journal.Config{Dir: state, Output: journal.Output{Plan: task.Plan{Show: task.ShowNothing, Copy: true}, All: true}, Notice: quiet})
		require.NoError(t, err)
		require.NoError(t, j.Begin())
		t.Cleanup(func() { j.Close() })
		return j
	}
	j := open()
	for i, outcome := range []task.Outcome{task.OK, task.Cancelled} {
		id := uint64(i + 1)
		a := task.Attempt{Task: &task.Task{ID: id, Identity: identityOf(id)}, Number: 1}
		j.Started(a, false)
		j.Ended(a, &task.Result{Task: a.Task, Attempt: 1, Outcome: outcome, Stdout: spool.Text("ab\n"), Stderr: spool.Text("c\n")}, true)
	}
	never := &task.Task{ID: 3, Identity: identityOf(3)}
	r := &task.Result{Task: never, Outcome: task.Cancelled, Err: errors.New("why"), Final: true}
	require.NoError(t, j.Commit().Consume([]task.Event{{Kind: task.Finished, Task: never, Result: r}}))
	require.NoError(t, j.Close())
	text := crewtest.ReadFile(t, filepath.Join(state, "journal.jsonl"))
	crewtest.WriteFile(t, filepath.Join(state, "journal.jsonl"), text+"{\n"+text[:strings.Index(text, "\n")-1], 0o600)

	past := dir.ended(4, func(uint64, task.Outcome) bool { return true })
	require.Len(t, past, 3)
	require.EqualValues(t, "why", past[2].Error)
	for i := range 2 {
		b := make([]byte, 2)
		_, err := past[i].Outputs[1].ReadAt(b, 0)
		require.NoError(t, err)
		require.Equal(t, "c\n", string(b))
	}
	source, last := open().Source(identified{}), uint64(0)
	for _, want := range []task.Outcome{task.OK, 0, task.Cancelled, 0} {
		last++
		tk, err := source.Next(func() uint64 { return last })
		require.NoError(t, err)
		if require.Equal(t, want != 0, tk.Done != nil, last); want != 0 {
			require.Equal(t, want, tk.Done.Outcome)
		}
	}
}

// identified is a source of tasks as a detachedRun returns them.
type identified struct{}

func (identified) Next(number func() uint64) (*task.Task, error) {
	t := &task.Task{ID: number()}
	t.Identity = identityOf(t.ID)
	return t, nil
}

// The hub has no room for all tasks that it may hold and a record. A run that was removed leaves nothing
// in memory. A run that is over is removed in time, however often the hub is restarted.
func TestForgotten(t *testing.T) {
	inTime(t, func(t *testing.T, b *broker) {
		d := b.dispatcher(noProcess)
		o := Order{from: "ada", Record: &runRecord{RunInfo: RunInfo{Run: "r", Progress: &Progress{}}}, Tasks: &travel.Blob{Size: maxTasks}}
		_, err := d.addRun(&o)
		require.Equal(t, errFull, err)
		o.Tasks.Size = 0
		h, err := d.addRun(&o)
		require.NoError(t, err)
		require.NoError(t, d.forget(h))
		require.False(t, h.expiry.Stop())
		require.Empty(t, d.all())

		record := runRecord{RunInfo: RunInfo{Run: "r", Queue: "q", Version: Version, State: runDone, Progress: &Progress{}}}
		record.Options.Attempts = encode(kindAttempt, &Attempt{})
		old := runDir(filepath.Join(b.runs, "r"))
		require.NoError(t, os.Mkdir(string(old), 0o700))
		require.NoError(t, old.save(&record))
		require.NoError(t, os.Chtimes(string(old), time.Time{}, time.Now().Add(time.Second-keptFor)))
		d.load()
		require.Len(t, d.all(), 1)
		time.Sleep(2 * time.Second)
		require.Empty(t, d.all())
	})
}

// However many runs of a user have processes, the runs of another get theirs. A run without a process
// can be cancelled.
func TestProcessesOfUsers(t *testing.T) {
	inTime(t, func(t *testing.T, b *broker) {
		var d *dispatcher
		var begun atomic.Int32
		d = b.dispatcher(func() (net.Conn, error) {
			begun.Add(1)
			<-d.ctx.Done()
			return noProcess()
		})
		for i := range maxProcesses + 2 {
			info := RunInfo{Run: fmt.Sprint(i), Queue: "q", User: d.s.user, State: runRunning, Progress: &Progress{}}
			if i == 0 {
				info.User = "ada"
			}
			d.superviseLocked(d.newRun(runRecord{RunInfo: info}), nil)
		}
		synctest.Wait()
		require.EqualValues(t, maxProcesses+1, begun.Load())
		st, err := d.s.queryStatus(t.Context(), "")
		require.NoError(t, err)
		c := testCall()
		for _, r := range st.Runs {
			if r.State == runWaiting {
				c.Ctl.Run = r.Run
			}
		}
		require.NoError(t, d.s.cancel(c))
		require.NotContains(t, d.runs, c.Ctl.Run)
	})
}

func TestHandOverWithdrawn(t *testing.T) {
	inTime(t, func(t *testing.T, b *broker) {
		b.dispatches()
		s := b.connect(nil)
		u, err := newUploader(testCall(), wiring.Orders{}, s, nil)
		require.NoError(t, err)
		long := bytes.Repeat([]byte("x"), maxMessage)
		for id := range uint64(3) {
			require.NoError(t, u.add(&task.Task{ID: id + 1, Argv: []string{"true"}, Stdin: long}))
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		run, err := u.upload(ctx)
		require.NoError(t, err)
		require.Empty(t, run)
		time.Sleep(time.Second) // the hub may hear first that it is withdrawn
		now, err := b.connect(nil).queryStatus(t.Context(), "")
		require.NoError(t, err)
		require.Empty(t, now.Runs)
		left, err := os.ReadDir(b.runs)
		require.NoError(t, err)
		require.Empty(t, left)
	})
}

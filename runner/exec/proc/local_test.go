package proc

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"crew/runner/crewtest"
	"crew/runner/decide/task"
	"crew/runner/exec/kernel"
	"crew/runner/exec/spool"
)

// local returns a Local that keeps output. change may modify its Config.
func local(t *testing.T, change func(*Config)) *Local {
	store := spool.New(1<<20, t.TempDir())
	cfg := Config{Env: os.Environ(), Outputs: spool.Outputs{Store: store}, Limit: task.Limit{KillAfter: time.Hour}}
	if change != nil {
		change(&cfg)
	}
	l, err := New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, l.Close())
		require.NoError(t, store.Close())
	})
	return l
}

// pipesAndPTYs runs a test for tasks that write to pipes and for tasks that write to terminals.
func pipesAndPTYs(t *testing.T, test func(t *testing.T, pty bool)) {
	for _, pty := range []bool{false, true} {
		t.Run(fmt.Sprint("pty=", pty), func(t *testing.T) { test(t, pty) })
	}
}

func sh(script string) *task.Task { return &task.Task{ID: 7, Argv: []string{"/bin/sh", "-c", script}} }

func run(l *Local, t *task.Task) *task.Result {
	return l.Run(context.Background(), task.Attempt{Task: t, Number: 1, Slot: task.Slot{ID: 3}})
}

func text(t *testing.T, o task.Output) string {
	if o == nil {
		return ""
	}
	var b bytes.Buffer
	_, err := o.WriteTo(&b)
	require.NoError(t, err)
	return b.String()
}

// outcome is a command and its expected outcome.
type outcome struct {
	Name, Script  string // script for a shell, if Argv is empty
	In            string
	Argv, Env     []string
	Dir, Key      string
	Bare          bool
	PTY, Unseen   bool
	Outcome       string
	Code, Signal  int
	Bad           bool
	Out, Err, Why string
}

func TestOutcomes(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(dir+"/bin", 0o777))
	crewtest.WriteFile(t, dir+"/plain", "data", 0o644)
	crewtest.WriteFile(t, dir+"/bare", "echo \"bare $1\"\n", 0o755)
	crewtest.WriteFile(t, dir+"/orphan", "#!/no/such/interpreter\n", 0o755)
	crewtest.WriteFile(t, dir+"/bin/mine", "#!/bin/sh\npwd; echo $CREW_SEQ $INHERITED", 0o755)
	fill := strings.NewReplacer("$DIR", dir, "$LONG", strings.Repeat("x", 200_000)).Replace
	crewtest.Examples(t, "testdata/outcomes.txt", func(t *testing.T, want outcome) {
		tk := sh(want.Script)
		if want.Argv != nil {
			tk.Argv = want.Argv
		}
		tk.Env, tk.Dir, tk.Key, tk.Bare = want.Env, fill(want.Dir), want.Key, want.Bare
		for _, list := range [][]string{tk.Argv, tk.Env} {
			for i, s := range list {
				list[i] = fill(s)
			}
		}
		if want.In != "" {
			tk.Stdin = []byte(fill(want.In))
		}
		r := run(local(t, func(c *Config) {
			c.Env, c.PTY = append(c.Env, "INHERITED=1"), want.PTY
			if want.Unseen {
				c.Plan.Show = task.ShowNothing
			}
		}), tk)
		require.LessOrEqual(t, len(r.Tail), 4<<10)
		got := want
		got.Outcome, got.Code, got.Signal, got.Bad = r.Outcome.String(), r.Code, r.Signal, r.BadCommand
		got.Out, got.Err = text(t, r.Stdout), text(t, r.Stderr)+strings.TrimLeft(string(r.Tail), "x")
		want.Out = fill(want.Out)
		require.Equal(t, want, got, "%v", r.Err)
		if want.Why != "" {
			require.ErrorContains(t, r.Err, fill(want.Why))
			require.NotRegexp(t, "^:", r.Err.Error(), "a name is missing")
		}
		require.False(t, r.End.Before(r.Start))
		// Setting the clock back in the middle of a run must not change durations.
		require.Contains(t, r.Start.String(), " m=")
		require.Contains(t, r.End.String(), " m=")
	})
}

func TestEnvironment(t *testing.T) {
	host, err := os.Hostname()
	require.NoError(t, err)
	crewtest.Examples(t, "testdata/environ.txt", func(t *testing.T, c struct {
		Name                 string
		Far, PTY, Bare       bool
		Inherited, Env, Want []string
		Units                map[string][]string
	}) {
		tk := task.Task{ID: 7, Key: "k", Bare: c.Bare, Env: c.Env}
		own := []string{"CREW_SEQ=7", "CREW_ATTEMPT=2", "CREW_WORKER=3", "PARALLEL_SEQ=7", "PARALLEL_JOBSLOT=3", "CREW_HOST=" + host}
		if c.Far {
			tk.Origin = &task.Origin{Task: 70, Number: 20, Slot: 30, Host: "far away", Units: []task.Units{{Name: "db", Held: []string{"7"}}}}
			own = []string{"CREW_SEQ=70", "CREW_ATTEMPT=20", "CREW_WORKER=30", "PARALLEL_SEQ=70", "PARALLEL_JOBSLOT=30", "CREW_HOST=far_away"}
		}
		a := task.Attempt{Task: &tk, Number: 2, Slot: task.Slot{ID: 3}}
		for _, name := range slices.Sorted(maps.Keys(c.Units)) {
			a.Units = append(a.Units, task.Units{Name: name, Held: c.Units[name]})
		}
		want := append(own, append(c.Want, "CREW_KEY=k", "CREW_PID="+strconv.Itoa(os.Getpid()))...)
		require.ElementsMatch(t, want, newEnviron(c.Inherited, c.PTY).forAttempt(a))
	})
}

// TestEnds runs tasks that end or are asked to, and looks for processes that they leave.
func TestEnds(t *testing.T) {
	t.Parallel()
	var last atomic.Uint64 // ID of a task, by which its orphans are recognized
	pipesAndPTYs(t, func(t *testing.T, pty bool) {
		t.Parallel()
		crewtest.Examples(t, "testdata/ends.txt", func(t *testing.T, c struct {
			Name, Script, Kill, Out string
			Asked, Leaked, Daemon   bool
		}) {
			t.Parallel()
			var shown crewtest.Output
			says := func(what string) {
				crewtest.Until(t, func() bool { return strings.Contains(shown.String(), what) }, "%q", what)
			}
			l := local(t, func(cfg *Config) {
				cfg.PTY, cfg.Plan = pty, task.Plan{Show: task.ShowLines, Copy: true}
				cfg.Open = func(task.Attempt) (out, err io.WriteCloser) { return &shown, &shown }
			})
			ctx, cancel := context.WithCancelCause(context.Background())
			defer cancel(nil)
			done, want, begin := make(chan *task.Result), task.OK, time.Now()
			tk := sh(c.Script)
			tk.ID = 100 + last.Add(1)
			go func() { done <- l.Run(ctx, task.Attempt{Task: tk, Number: 1}) }()
			if c.Asked {
				var cause error // leaves it the time to say that it is deaf
				if c.Kill != "deaf" {
					cause = task.ErrMemory
				}
				want = task.OutcomeOf(cause)
				says("ready")
				cancel(cause)
			}
			if c.Kill != "" {
				says(c.Kill)
				l.Kill(tk.ID, 1)
			}
			r := <-done
			out := text(t, r.Stdout)
			require.Equal(t, want, r.Outcome, "the outcome is the leader's")
			gone(t, r.PID)
			if pid, err := strconv.Atoi(strings.TrimSpace(out)); c.Daemon {
				require.NoError(t, err)
				require.NoError(t, syscall.Kill(pid, syscall.SIGKILL), "a daemon in its own session lives on")
			}
			if c.Leaked || time.Since(begin) < linger { // a child that starts slowly may have held this one's pipes
				require.Equal(t, c.Leaked, r.Leaked)
				require.True(t, c.Daemon || c.Out == out, out)
			}
		})
	})
}

// A task has not left processes because crew was stopped for long between its exit and its last output.
func TestLateRead(t *testing.T) {
	l := local(t, nil)
	a := task.Attempt{Task: sh("echo x")}
	p, err := l.start(t.Context(), a, a.Exec())
	require.NoError(t, err)
	crewtest.Until(t, func() bool { return kernel.Exited(p.pid, unix.WNOHANG) }, "the exit")
	p.noteExit()
	p.deadline = p.started
	p.capture()
	r := a.End(0, nil, time.Now())
	p.reap(r)
	p.HandOver(r)
	require.Equal(t, "x\n", text(t, r.Stdout))
	require.False(t, p.leaked)
}

// gone waits until no process of the group is alive.
func gone(t *testing.T, pgid int) {
	t.Helper()
	crewtest.Until(t, func() bool {
		return !slices.ContainsFunc(kernel.Processes(), func(p kernel.Process) bool { return p.Group == pgid && !p.Ended })
	}, "the end of group %d", pgid)
}

// What is killed while it starts does not run on, and after that nothing starts.
func TestKillWhileItStarts(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	ready := t.TempDir() + "/ready"
	var l *Local
	l = local(t, func(c *Config) {
		c.Plan.Show = task.ShowLines
		c.Open = func(task.Attempt) (out, err io.WriteCloser) {
			crewtest.Exists(t, ready)
			cancel()
			l.Kill(7, 1)
			return new(crewtest.Output), new(crewtest.Output)
		}
	})
	for _, signal := range []syscall.Signal{syscall.SIGKILL, 0} {
		r := l.Run(ctx, task.Attempt{Task: sh("trap '' TERM; echo >" + ready + "; sleep 2"), Number: 1})
		require.Equal(t, task.Cancelled, r.Outcome)
		require.Equal(t, int(signal), r.Signal)
	}
}

func TestAFullDiskIsAFaultAndEndsTheTask(t *testing.T) {
	t.Parallel()
	l := local(t, func(c *Config) { c.Store = spool.New(1, filepath.Join(t.TempDir(), "none")) })
	r := run(l, sh("yes"))
	require.Error(t, r.Fault)
	gone(t, r.PID)
}

func TestNoDescriptorOrProcessLeaks(t *testing.T) { pipesAndPTYs(t, noDescriptorOrProcessLeaks) }

func noDescriptorOrProcessLeaks(t *testing.T, pty bool) {
	l := local(t, func(c *Config) { c.PTY = pty })
	run(l, sh("true"))
	count := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		require.NoError(t, err)
		return len(entries)
	}
	before := count()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 6 {
				r := run(l, sh([]string{"echo x", "exit 1", "sleep 0.06", "kill $$"}[i%4]))
				r.Close()
				r = run(l, &task.Task{Argv: []string{"no-such-command"}})
				r.Close()
			}
		})
	}
	wg.Wait()
	require.Equal(t, before, count())
	require.Zero(t, l.live.Load())
	l.guardian.close()
	crewtest.Until(t, func() bool { // the guardian is reaped in the background
		_, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		return err == syscall.ECHILD
	}, "the last zombie to be reaped")
}

func TestAMovedProgramIsFoundAgain(t *testing.T) {
	dirs := []string{t.TempDir(), t.TempDir()}
	for _, dir := range dirs {
		crewtest.WriteFile(t, dir+"/prog", "#!/bin/sh\necho here\n", 0o755)
	}
	l := local(t, func(c *Config) { c.Env = []string{"PATH=" + strings.Join(dirs, ":") + ":/bin"} })
	for _, dir := range dirs {
		require.Equal(t, "here\n", text(t, run(l, &task.Task{Argv: []string{"prog"}}).Stdout))
		require.NoError(t, os.Remove(dir+"/prog"))
	}
}

// TestATaskMayHaveTheMemoryOfCrew checks that a peak that may be this process's own is not reported
// for a task.
func TestATaskMayHaveTheMemoryOfCrew(t *testing.T) {
	var p peak
	require.Zero(t, p.ofTask(1<<20))
	require.Zero(t, p.ofTask(ownPeak()+64<<10))
	more := ownPeak() + 1<<30
	require.Equal(t, more, p.ofTask(more))
}

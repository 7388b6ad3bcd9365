package proc

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/spool"
	"crew/runner/task"
)

// local returns a Local that keeps output. change may change its Config.
func local(t *testing.T, change func(*Config)) *Local {
	store := spool.New(1<<20, t.TempDir())
	cfg := Config{Env: os.Environ(), Outputs: Outputs{Store: store}}
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

// pipesAndPTYs runs a test with a Local whose tasks write to pipes, and with one whose
// tasks write to terminals.
func pipesAndPTYs(t *testing.T, test func(*testing.T, *Local)) {
	for _, pty := range []bool{false, true} {
		t.Run(fmt.Sprint("pty=", pty), func(t *testing.T) {
			test(t, local(t, func(c *Config) { c.PTY = pty }))
		})
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

// outcome is a command, and what becomes of it.
type outcome struct {
	Name, Script  string // the script of a shell, if there is no Argv
	Argv, Env     []string
	Dir, Key      string
	Bare          bool
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
	l := local(t, func(c *Config) { c.Env = append(c.Env, "INHERITED=1") })
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
		r := run(l, tk)
		got := want
		got.Outcome, got.Code, got.Signal, got.Bad = r.Outcome.String(), r.Code, r.Signal, r.BadCommand
		want.Out, got.Out, got.Err = fill(want.Out), text(t, r.Stdout), text(t, r.Stderr)
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

func TestStreamsAreApartAndWhole(t *testing.T) { pipesAndPTYs(t, streamsAreApartAndWhole) }

func streamsAreApartAndWhole(t *testing.T, l *Local) {
	r := run(l, sh(`i=0; while [ $i -lt 5000 ]; do echo "out $i"; echo "err $i" >&2; i=$((i+1)); done`))
	require.Equal(t, task.OK, r.Outcome)
	var out, err strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&out, "out %d\n", i)
		fmt.Fprintf(&err, "err %d\n", i)
	}
	require.Equal(t, out.String(), text(t, r.Stdout))
	require.Equal(t, err.String(), text(t, r.Stderr))
	r.Close()
}

// A task need not read its input.
func TestStdin(t *testing.T) {
	l := local(t, nil)
	big := strings.Repeat("0123456789", 300_000)
	for _, c := range []struct{ in, script, out string }{
		{big, "cat", big}, {big, "exec <&-; echo done", "done\n"}, {big, "echo done", "done\n"}, {"", "wc -c", "0\n"},
	} {
		tk := sh(c.script)
		tk.Stdin = []byte(c.in)
		r := run(l, tk)
		require.Equal(t, task.OK, r.Outcome)
		require.Equal(t, c.out, text(t, r.Stdout))
		r.Close()
	}
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
		require.ElementsMatch(t, want, newEnviron(c.Inherited, c.PTY).of(a))
	})
}

// gone waits until no process of the group is alive.
func gone(t *testing.T, pgid int) {
	t.Helper()
	crewtest.Until(t, func() bool { return errors.Is(syscall.Kill(-pgid, 0), syscall.ESRCH) }, "the end of group %d", pgid)
}

// The run asks an attempt to end, and kills it if that does not help.
func TestEndingReachesTheWholeGroup(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script string
		deaf   bool // the leader ignores TERM
	}{
		"plain":                     {"echo ready; sleep 60", false},
		"children":                  {"sleep 60 & echo ready; sleep 60; wait", false},
		"traps TERM and exits 0":    {"trap 'exit 0' TERM; echo ready; sleep 60 & wait", false},
		"ignores TERM":              {"trap '' TERM; echo ready; sleep 60; sleep 60", true},
		"closes its output":         {"echo ready; exec >&- 2>&-; sleep 60", false},
		"leaves a deaf child there": {"(trap '' TERM; echo ready; sleep 60; sleep 60) & sleep 60", false},
		"is stopped":                {"echo ready; kill -STOP $$", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ready := make(chan struct{})
			l := local(t, func(c *Config) {
				c.Plan = task.Plan{Show: task.ShowLines, Copy: true}
				c.Open = func(task.Attempt) (io.WriteCloser, io.WriteCloser) { return signalling{ready}, nopWriter{} }
			})
			ctx, cancel := context.WithCancelCause(context.Background())
			done := make(chan *task.Result)
			go func() { done <- l.Run(ctx, task.Attempt{Task: sh(c.script), Number: 1}) }()
			<-ready
			cancel(task.ErrTimeout)
			if c.deaf {
				select {
				case r := <-done:
					t.Fatalf("ended by TERM although it ignores it: %v", r.Outcome)
				case <-time.After(100 * time.Millisecond):
				}
				l.Kill(8, 1)
				l.Kill(7, 2)
				l.Kill(7, 1)
			}
			r := <-done
			require.Equal(t, task.Timeout, r.Outcome)
			require.Equal(t, "ready\n", text(t, r.Stdout))
			gone(t, r.PID)
		})
	}
}

func TestNothingStartsOnceItIsCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	r := local(t, nil).Run(ctx, task.Attempt{Task: sh("echo never"), Number: 1})
	require.Equal(t, task.Cancelled, r.Outcome)
	require.Zero(t, r.PID)
}

// TestKillTellsWhy kills attempts right after their contexts are done, before those
// may have had an effect.
func TestKillTellsWhy(t *testing.T) {
	l := local(t, nil)
	for i := range crewtest.Rounds(6) {
		cause, want := task.ErrTimeout, task.Timeout
		if i%2 == 0 {
			cause, want = context.Canceled, task.Cancelled
		}
		ctx, cancel := context.WithCancelCause(context.Background())
		done := make(chan *task.Result)
		go func() { done <- l.Run(ctx, task.Attempt{Task: sh("sleep 60"), Number: 1}) }()
		crewtest.Until(t, func() bool { return l.live.Load() > 0 }, "the task")
		cancel(cause)
		l.Kill(7, 1)
		require.Equal(t, want, (<-done).Outcome)
	}
}

type signalling struct{ ready chan struct{} }

func (s signalling) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("ready")) {
		close(s.ready)
	}
	return len(p), nil
}
func (signalling) Close() error { return nil }

type nopWriter struct{}

func (nopWriter) Write(p []byte) (int, error) { return len(p), nil }
func (nopWriter) Close() error                { return nil }

func TestProcessesLeftBehind(t *testing.T) {
	t.Parallel()
	pipesAndPTYs(t, processesLeftBehind)
}

func processesLeftBehind(t *testing.T, l *Local) {
	t.Parallel()
	// away waits until the daemon has its own session.
	const away = `until [ "$(cut -d ' ' -f 6 /proc/$!/stat)" = $! ]; do sleep 0.05; done`
	for _, c := range []struct {
		name, script string
		leaked, dead bool
		least        time.Duration
	}{
		{"a child in the group with the pipe open", "sleep 60 & echo $!", true, true, linger},
		{"a child in the group without the pipe", "sleep 60 >/dev/null 2>&1 & echo $!", false, true, 0},
		{"a daemon with the pipe open", "setsid sleep 60 & echo $!; " + away, true, false, linger},
		{"a daemon as it should be", "setsid sleep 60 >/dev/null 2>&1 </dev/null & echo $!; " + away, false, false, 0},
		{"a child that is soon done", "(sleep 0.3; echo late) &", false, true, 300 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			begin := time.Now()
			r := run(l, sh(c.script))
			took := time.Since(begin)
			require.Equal(t, task.OK, r.Outcome, "the outcome is the leader's")
			if c.leaked || took < linger { // a slow child may have been taken for a leak
				require.Equal(t, c.leaked, r.Leaked)
			}
			require.GreaterOrEqual(t, took, c.least)
			require.Less(t, took, crewtest.Patience)
			out := strings.TrimSpace(text(t, r.Stdout))
			if c.dead {
				gone(t, r.PID)
			}
			if pid, err := strconv.Atoi(out); err == nil && !c.dead {
				require.NoError(t, syscall.Kill(pid, 0), "a daemon in its own session lives on")
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		})
	}
}

func TestDiscardRemembersTheEndOfStderr(t *testing.T) {
	l := local(t, func(c *Config) { c.Plan = task.Plan{Show: task.ShowNothing} })
	r := run(l, sh(`echo unseen; i=0; while [ $i -lt 5000 ]; do echo "err $i" >&2; i=$((i+1)); done; exit 1`))
	require.Equal(t, task.Exit, r.Outcome)
	require.Nil(t, r.Stdout)
	require.Nil(t, r.Stderr)
	require.LessOrEqual(t, len(r.Tail), 4<<10)
	require.True(t, bytes.HasSuffix(r.Tail, []byte("err 4998\nerr 4999\n")))
}

func TestAFullDiskIsAFaultAndEndsTheTask(t *testing.T) {
	t.Parallel()
	l := local(t, func(c *Config) { c.Store = spool.New(1, filepath.Join(t.TempDir(), "none")) })
	r := run(l, sh("yes"))
	require.Error(t, r.Fault)
	gone(t, r.PID)
}

func TestNoDescriptorOrProcessLeaks(t *testing.T) { pipesAndPTYs(t, noDescriptorOrProcessLeaks) }

func noDescriptorOrProcessLeaks(t *testing.T, l *Local) {
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
	one, two := t.TempDir(), t.TempDir()
	script := []byte("#!/bin/sh\necho here\n")
	crewtest.WriteFile(t, one+"/prog", string(script), 0o755)
	crewtest.WriteFile(t, two+"/prog", string(script), 0o755)
	l := local(t, func(c *Config) { c.Env = []string{"PATH=" + one + ":" + two + ":/bin"} })
	require.Equal(t, "here\n", text(t, run(l, &task.Task{Argv: []string{"prog"}}).Stdout))
	require.NoError(t, os.Remove(one+"/prog"))
	require.Equal(t, "here\n", text(t, run(l, &task.Task{Argv: []string{"prog"}}).Stdout))
}

// Why an attempt was ended says more than how its process took it.
func TestClassify(t *testing.T) {
	for _, c := range []struct {
		ws        syscall.WaitStatus
		alone     task.Outcome
		code, sig int
	}{{0, task.OK, 0, 0}, {2 << 8, task.Exit, 2, 0}, {11, task.Signal, 0, 11}} {
		for _, why := range []task.Outcome{0, task.Timeout, task.Cancelled} {
			o, code, sig := Classify(why, c.ws)
			require.Equal(t, cmp.Or(why, c.alone), o)
			require.Equal(t, []int{c.code, c.sig}, []int{code, sig})
		}
	}
}

// TestATaskMayHaveTheMemoryOfCrew: what the kernel says of it is no task's own
// where it is about as much as this process has had.
func TestATaskMayHaveTheMemoryOfCrew(t *testing.T) {
	var p peak
	require.Zero(t, p.ofTask(1<<20))
	require.Zero(t, p.ofTask(ownPeak()+64<<10))
	more := ownPeak() + 1<<30
	require.Equal(t, more, p.ofTask(more))
}

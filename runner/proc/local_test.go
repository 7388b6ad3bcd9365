package proc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
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

func TestOutcomes(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(content), mode))
		return path
	}
	plain := write("plain", "data", 0o644)
	bare := write("bare", "echo \"bare $1\"\n", 0o755)
	orphan := write("orphan", "#!/no/such/interpreter\n", 0o755)
	for _, c := range []struct {
		name      string
		task      task.Task
		outcome   task.Outcome
		code, sig int
		bad       bool
		out, why  string
	}{
		{name: "success", task: task.Task{Argv: []string{"echo", "hi"}}, outcome: task.OK, out: "hi\n"},
		{name: "status", task: *sh("exit 3"), outcome: task.Exit, code: 3},
		{name: "status 255", task: *sh("exit 255"), outcome: task.Exit, code: 255},
		{name: "signal", task: *sh("kill -9 $$"), outcome: task.Signal, sig: 9},
		{name: "not there", task: task.Task{Argv: []string{"no-such-command-here"}},
			outcome: task.StartFailed, code: 127, bad: true, why: "no-such-command-here: command not found"},
		{name: "no such path", task: task.Task{Argv: []string{"./nothing"}},
			outcome: task.StartFailed, code: 127, bad: true, why: "./nothing: no such file or directory"},
		{name: "not executable", task: task.Task{Argv: []string{plain}},
			outcome: task.StartFailed, code: 126, bad: true, why: "permission denied"},
		{name: "a directory", task: task.Task{Argv: []string{dir}},
			outcome: task.StartFailed, code: 126, bad: true, why: "is a directory"},
		{name: "no interpreter", task: task.Task{Argv: []string{orphan}},
			outcome: task.StartFailed, code: 127, bad: true, why: "interpreter or loader is missing"},
		{name: "script without #!", task: task.Task{Argv: []string{bare, "a b"}}, outcome: task.OK, out: "bare a b\n"},
		{name: "empty command", task: task.Task{Argv: []string{""}}, outcome: task.StartFailed, code: 127, bad: true, why: "the command is empty"},
		{name: "NUL", task: task.Task{Argv: []string{"echo", "a\x00b"}}, outcome: task.StartFailed, code: 126, why: "an argument holds a NUL byte"},
		{name: "NUL in the key", task: task.Task{Argv: []string{"echo"}, Key: "a\x00b"},
			outcome: task.StartFailed, code: 126, why: "the key holds a NUL byte"},
		{name: "NUL in the environment", task: task.Task{Argv: []string{"echo"}, Env: []string{"A=a\x00b"}},
			outcome: task.StartFailed, code: 126, why: "the environment holds a NUL byte"},
		{name: "NUL in the directory", task: task.Task{Argv: []string{"./echo"}, Dir: "/\x00b"},
			outcome: task.StartFailed, code: 126, why: "the directory holds a NUL byte"},
		{name: "too long", task: task.Task{Argv: []string{"echo", strings.Repeat("x", 200_000)}},
			outcome: task.StartFailed, code: 126, why: "argument list too long"},
		{name: "directory", task: task.Task{Argv: []string{"pwd"}, Dir: dir}, outcome: task.OK, out: dir + "\n"},
		{name: "no directory", task: task.Task{Argv: []string{"pwd"}, Dir: dir + "/none"},
			outcome: task.StartFailed, code: 126, why: "change to directory " + dir + "/none: no such file or directory"},
		{name: "found in the task's own PATH", task: task.Task{Argv: []string{"bare", "x"}, Env: []string{"PATH=" + dir + ":/bin"}},
			outcome: task.OK, out: "bare x\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := run(local(t, nil), &c.task)
			require.Equal(t, c.outcome, r.Outcome, "%v", r.Err)
			require.Equal(t, c.code, r.Code)
			require.Equal(t, c.sig, r.Signal)
			require.Equal(t, c.bad, r.BadCommand)
			require.Equal(t, c.out, text(t, r.Stdout))
			if c.why != "" {
				require.ErrorContains(t, r.Err, c.why)
				require.NotRegexp(t, "^:", r.Err.Error(), "a name is missing")
			}
			require.False(t, r.End.Before(r.Start))
		})
	}
}

func TestStreamsAreApartAndWhole(t *testing.T) { pipesAndPTYs(t, streamsAreApartAndWhole) }

func streamsAreApartAndWhole(t *testing.T, l *Local) {
	r := run(l, sh(`i=0; while [ $i -lt 20000 ]; do echo "out $i"; echo "err $i" >&2; i=$((i+1)); done`))
	require.Equal(t, task.OK, r.Outcome)
	var out, err strings.Builder
	for i := range 20000 {
		fmt.Fprintf(&out, "out %d\n", i)
		fmt.Fprintf(&err, "err %d\n", i)
	}
	require.Equal(t, out.String(), text(t, r.Stdout))
	require.Equal(t, err.String(), text(t, r.Stderr))
	r.Close()
}

func TestWritesThroughDevStdoutKeepTheirOrder(t *testing.T) {
	r := run(local(t, nil), sh(`echo one; echo two >/dev/stdout; echo three >/dev/stderr; echo four`))
	require.Equal(t, "one\ntwo\nfour\n", text(t, r.Stdout))
	require.Equal(t, "three\n", text(t, r.Stderr))
}

func TestStdin(t *testing.T) {
	l := local(t, nil)
	require.Equal(t, "0\n", text(t, run(l, sh("wc -c")).Stdout), "nothing by default")

	big := bytes.Repeat([]byte("0123456789"), 300_000)
	echo := sh("cat")
	echo.Stdin = big
	r := run(l, echo)
	require.Equal(t, task.OK, r.Outcome)
	require.Equal(t, string(big), text(t, r.Stdout))
	r.Close()

	deaf := sh("exec <&-; sleep 0.2; echo done")
	deaf.Stdin = big
	r = run(l, deaf)
	require.Equal(t, task.OK, r.Outcome)
	require.Equal(t, "done\n", text(t, r.Stdout))

	lazy := sh("sleep 0.2; echo done")
	lazy.Stdin = big
	require.Equal(t, "done\n", text(t, run(l, lazy).Stdout))

	empty := sh("wc -c")
	empty.Stdin = []byte{}
	require.Equal(t, "0\n", text(t, run(l, empty).Stdout))
}

// The variables of limits by name are those of the attempt, whatever stood there.
func TestUnitsInTheEnvironment(t *testing.T) {
	e := newEnviron([]string{"CREW_GPU=", "CREW_DB=outer", "CREW_NET="}, false)
	for _, tk := range []*task.Task{{}, {Env: []string{"CREW_GPU=own"}}, {Bare: true, Env: []string{"CREW_GPU=", "CREW_NET="}}} {
		a := task.Attempt{Task: tk, Units: []task.Units{{Name: "db", Held: []string{"5"}}, {Name: "Gpu", Held: []string{"0", "GPU-1f"}}}}
		var got []string
		for _, kv := range e.of(a) {
			if name := nameOf(kv); name == "CREW_GPU" || name == "CREW_DB" || name == "CREW_NET" {
				got = append(got, kv)
			}
		}
		require.ElementsMatch(t, []string{"CREW_GPU=0,GPU-1f", "CREW_DB=5", "CREW_NET="}, got)
	}
}

func TestEnvironment(t *testing.T) {
	host, err := os.Hostname()
	require.NoError(t, err)
	far := &task.Origin{Task: 70, Number: 20, Slot: 30, Host: "far away", Units: []task.Units{{Name: "db", Held: []string{"7"}}}}
	for name, c := range map[string]struct {
		inherited []string
		pty       bool
		task      task.Task
		want      []string // apart from crew's own variables
	}{
		"a task's variables replace inherited ones": {
			inherited: []string{"PATH=/bin", "CREW_SEQ=outer", "PARALLEL_JOBSLOT=outer", "CREW_HOST=outer", "KEEP=1", "MINE=inherited"},
			task:      task.Task{Env: []string{"MINE=own"}}, want: []string{"PATH=/bin", "KEEP=1", "MINE=own"}},
		"a task of another machine's run": {inherited: []string{"KEEP=1"}, task: task.Task{Origin: far}, want: []string{"KEEP=1", "CREW_DB=7"}},
		"a bare task inherits nothing": {
			inherited: []string{"INHERITED=1"}, task: task.Task{Bare: true, Env: []string{"PATH=bin", "CREW_SEQ=outer", "BYTES=\xff", "empty"}},
			want: []string{"PATH=bin", "BYTES=\xff", "empty"}},

		// A task can show colours on its terminal, and its pager does not wait.
		"on a terminal":             {pty: true, want: []string{"PAGER=cat", "TERM=xterm"}},
		"on a terminal as it was":   {pty: true, inherited: []string{"TERM=dumb", "PAGER=less"}, want: []string{"TERM=dumb", "PAGER=cat"}},
		"a bare task on a terminal": {pty: true, task: task.Task{Bare: true, Env: []string{"PAGER=less"}}, want: []string{"TERM=xterm", "PAGER=cat"}},
		"on a terminal of the task's": {
			pty: true, inherited: []string{"TERM=dumb"}, task: task.Task{Env: []string{"TERM=vt100", "PAGER=less"}},
			want: []string{"TERM=vt100", "PAGER=less"}},
	} {
		c.task.ID, c.task.Key = 7, "k"
		own := []string{"CREW_SEQ=7", "CREW_ATTEMPT=2", "CREW_WORKER=3", "PARALLEL_SEQ=7", "PARALLEL_JOBSLOT=3", "CREW_HOST=" + host}
		if c.task.Origin != nil {
			own = []string{"CREW_SEQ=70", "CREW_ATTEMPT=20", "CREW_WORKER=30", "PARALLEL_SEQ=70", "PARALLEL_JOBSLOT=30", "CREW_HOST=far_away"}
		}
		want := append(own, append(c.want, "CREW_KEY=k", "CREW_PID="+strconv.Itoa(os.Getpid()))...)
		require.ElementsMatch(t, want, newEnviron(c.inherited, c.pty).of(task.Attempt{Task: &c.task, Number: 2, Slot: task.Slot{ID: 3}}), name)
	}
}

// The program of a bare task is found in its own PATH, seen from its own directory.
func TestABareTask(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(dir+"/bin", 0o777))
	crewtest.WriteFile(t, dir+"/bin/mine", "#!/bin/sh\npwd; echo $CREW_SEQ $INHERITED", 0o777)
	l := local(t, func(c *Config) { c.Env = []string{"PATH=" + os.Getenv("PATH"), "INHERITED=1"} })
	for _, env := range [][]string{{"PATH=bin"}, {"PATH=/nowhere"}, {}, nil} {
		r := run(l, &task.Task{ID: 7, Argv: []string{"mine"}, Env: env, Bare: true, Dir: dir})
		if slices.Contains(env, "PATH=bin") {
			require.Equal(t, dir+"\n7\n", text(t, r.Stdout))
			continue
		}
		require.Equal(t, task.StartFailed, r.Outcome)
		require.Equal(t, 127, r.Code, "the PATH of crew does not count")
	}
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
	for i := range 50 {
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
			for i := range 20 {
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

func TestClassify(t *testing.T) {
	exit := func(n int) syscall.WaitStatus { return syscall.WaitStatus(n << 8) }
	sig := func(n int) syscall.WaitStatus { return syscall.WaitStatus(n) }
	for _, c := range []struct {
		why       task.Outcome
		ws        syscall.WaitStatus
		want      task.Outcome
		code, sig int
	}{
		{0, exit(0), task.OK, 0, 0},
		{0, exit(2), task.Exit, 2, 0},
		{0, sig(11), task.Signal, 0, 11},
		{0, sig(15), task.Signal, 0, 15},
		{task.Timeout, exit(0), task.Timeout, 0, 0},
		{task.Timeout, sig(15), task.Timeout, 0, 15},
		{task.Cancelled, exit(0), task.Cancelled, 0, 0},
		{task.Cancelled, exit(1), task.Cancelled, 1, 0},
		{task.Cancelled, sig(9), task.Cancelled, 0, 9},
	} {
		o, code, s := Classify(c.why, c.ws)
		require.Equal(t, c.want, o, "%v %v", c.why, c.ws)
		require.Equal(t, c.code, code)
		require.Equal(t, c.sig, s)
	}
}

// Setting the clock back in the middle of a run must not change durations.
func TestTimesCarryTheMonotonicClock(t *testing.T) {
	r := run(local(t, nil), sh("true"))
	for _, at := range []time.Time{r.Start, r.End} {
		require.Contains(t, at.String(), " m=")
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

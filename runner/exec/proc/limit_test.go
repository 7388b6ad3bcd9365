package proc

import (
	"context"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/decide/task"
)

// talker is an attempt that runs a script.
type talker struct {
	t     *testing.T
	l     *Local
	lines *os.File // read by the script
	a     task.Attempt
	over  chan *task.Result
}

// talk starts a talker. If a file is given, it is the stdout of the attempt.
func talk(t *testing.T, l *Local, script string, files ...string) *talker {
	fifo := t.TempDir() + "/lines"
	require.NoError(t, syscall.Mkfifo(fifo, 0o600))
	lines, err := os.OpenFile(fifo, os.O_RDWR, 0)
	require.NoError(t, err)
	t.Cleanup(func() { lines.Close() })
	k := &talker{t: t, l: l, lines: lines, over: make(chan *task.Result)}
	k.a = task.Attempt{Task: sh("exec <" + fifo + "; " + script), Number: 1}
	for _, file := range files {
		k.a.Task.Makes = &task.Making{Targets: []task.Target{{Path: file}}, Stdout: true}
	}
	go func() { k.over <- l.Run(context.Background(), k.a) }()
	crewtest.Until(t, func() bool { return len(l.PIDs()) == 1 }, "the task")
	return k
}

// silence returns how long the attempt has written nothing. It may be too long already.
func (k *talker) silence() (d time.Duration) {
	k.l.groups.each(func(p *process) {
		p.mu.Lock()
		defer p.mu.Unlock()
		d = p.silenceLocked()
	})
	return d
}

// heard waits until output has been read in the last hour.
func (k *talker) heard() {
	k.t.Helper()
	crewtest.Until(k.t, func() bool { s := k.silence(); return 0 < s && s < time.Hour }, "the output to be read")
}

// end waits until the attempt has ended because of its silence.
func (k *talker) end() *task.Result {
	k.l.groups.each((*process).checkLimits)
	require.Len(k.t, k.l.PIDs(), 1)
	hours(k.l, 1)
	k.l.groups.each((*process).checkLimits)
	r := <-k.over
	r.Close()
	return r
}

// hours advances the run's clock.
func hours(l *Local, n time.Duration) {
	l.Clock.Change(func(k *task.Clock, _ time.Time) { k.Lost -= n * time.Hour })
}

func TestSilence(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"kept":    func(*Config) {},
		"pty":     onPTYs,
		"nothing": func(c *Config) { c.Plan.Show = task.ShowNothing },
		"a file":  func(*Config) {},
	} {
		t.Run(name, func(t *testing.T) {
			l := local(t, func(c *Config) { c.Limit.Idle = time.Hour; change(c) })
			var files []string
			if name == "a file" {
				files = []string{t.TempDir() + "/out"}
			}
			k := talk(t, l, "read x; echo out; read x; echo err >&2; exec sleep 1000", files...)
			for range 2 {
				hours(l, 1)
				require.GreaterOrEqual(t, k.silence(), time.Hour)
				k.lines.WriteString("\n")
				k.heard()
			}
			l.Suspend()
			require.Equal(t, k.silence(), k.silence(), "the time stands still")
			l.Resume()
			_, _, attempt := l.Live(7)
			require.Equal(t, name != "nothing", attempt == 1, "its output can be read meanwhile")
			r := k.end()
			require.Equal(t, task.Timeout, r.Outcome)
			require.True(t, strings.HasPrefix(r.Verdict(), "silent for 1h0m0s, ended after "), r.Verdict())
			facts := r.Facts()
			require.Equal(t, r.Verdict(), facts.Verdict())
		})
	}
}

// Output counts as soon as the task has written it, even if crew has not read it.
func TestUnreadOutputIsNoSilence(t *testing.T) {
	taken, here := io.Pipe()
	l := local(t, func(c *Config) {
		c.Limit.Idle, c.Plan.Show = time.Hour, task.ShowLines
		c.Open = func(task.Attempt) (out, err io.WriteCloser) { return here, new(crewtest.Output) }
	})
	k := talk(t, l, "echo a; read x; echo b; exec sleep 1000")
	_, err := taken.Read(make([]byte, 1))
	require.NoError(t, err)
	k.lines.WriteString("\n")
	crewtest.Until(t, func() bool { return k.silence() == 0 }, "the output")
	hours(l, 2)
	require.Zero(t, k.silence())
	go io.Copy(io.Discard, taken)
	k.heard()
	k.end()
}

// An attempt that ignores SIGTERM at its timeout is killed. The timeout is the reason even if it was silent, too.
func TestTimeout(t *testing.T) {
	l := local(t, func(c *Config) {
		c.Limit = task.Limit{Timeout: time.Hour, Idle: 300 * time.Millisecond, KillAfter: 20 * time.Millisecond}
	})
	ignores := sh("trap '' TERM; while :; do sleep 1000; done")
	ignores.Timeout = 300 * time.Millisecond
	r := run(l, ignores)
	require.Equal(t, task.Timeout, r.Outcome)
	require.Equal(t, int(syscall.SIGKILL), r.Signal)
	require.NoError(t, r.Err)
	require.GreaterOrEqual(t, r.Duration(), ignores.Timeout+20*time.Millisecond)
	ignores.KillAfter = 10 * time.Second
	time.AfterFunc(2*ignores.Timeout, func() {
		l.groups.each(func(p *process) { p.terminate(task.Memory, false) })
	})
	require.Less(t, run(l, ignores).Duration(), ignores.KillAfter, "it takes memory that others lack")
}

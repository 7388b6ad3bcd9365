package runner

import (
	"context"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/core"
	"crew/runner/task"
)

func TestSignalsAreCommands(t *testing.T) {
	for _, c := range []struct {
		sent []syscall.Signal
		last task.Command
	}{
		{[]syscall.Signal{syscall.SIGINT}, task.Command{Op: task.Drain, Signal: 2}},
		{[]syscall.Signal{syscall.SIGINT, syscall.SIGINT}, task.Command{Op: task.Stop, Signal: 2}},
		{[]syscall.Signal{syscall.SIGINT, syscall.SIGINT, syscall.SIGINT, syscall.SIGINT}, task.Command{Op: task.Kill, Signal: 2}},
		{[]syscall.Signal{syscall.SIGHUP, syscall.SIGHUP}, task.Command{Op: task.Drain, Signal: 1}},
		{[]syscall.Signal{syscall.SIGHUP, syscall.SIGINT}, task.Command{Op: task.Stop, Signal: 2}},
		{[]syscall.Signal{syscall.SIGTERM}, task.Command{Op: task.Stop, Signal: 15}},
		{[]syscall.Signal{syscall.SIGTERM, syscall.SIGHUP}, task.Command{Op: task.Stop, Signal: 1}},
		{[]syscall.Signal{syscall.SIGTERM, syscall.SIGTERM}, task.Command{Op: task.Kill, Signal: 15}},
		{[]syscall.Signal{syscall.SIGQUIT}, task.Command{Op: task.Look}},
		{[]syscall.Signal{syscall.SIGQUIT, syscall.SIGINT}, task.Command{Op: task.Drain, Signal: 2}},
		{[]syscall.Signal{syscall.SIGQUIT, syscall.SIGQUIT}, task.Command{Op: task.Kill, Signal: 3}},
		{[]syscall.Signal{syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR1, syscall.SIGQUIT}, task.Command{Op: task.Look}},
		{[]syscall.Signal{syscall.SIGINT, syscall.SIGUSR1}, task.Command{Op: task.Grow, N: 1}},
		{[]syscall.Signal{syscall.SIGUSR2}, task.Command{Op: task.Grow, N: -1}},
	} {
		var l ladder
		var last task.Command
		for i, s := range c.sent { // a second apart
			last = l.command(s, time.Unix(int64(i), 0))
		}
		require.Equal(t, c.last, last, "%v", c.sent)
	}
	gentle := ladder{gentle: true}
	for _, want := range []task.Op{task.Drain, task.Stop, task.Kill} {
		require.Equal(t, task.Command{Op: want, Signal: 15}, gentle.command(syscall.SIGTERM, time.Unix(0, 0)))
	}
}

// suspensions is an Executor whose attempts end once it has been resumed.
type suspensions struct {
	instant
	suspended int
	resumed   chan struct{}
	asked     bool // they also wait to be asked to end
}

func (x *suspensions) Run(ctx context.Context, a task.Attempt) *task.Result {
	<-x.resumed
	if x.asked {
		<-ctx.Done()
	}
	return answer(a)
}

func (x *suspensions) Suspend() { x.suspended++ }
func (x *suspensions) Resume()  { close(x.resumed) }

// The last signal counts: crew does not stop itself if another one has come since
// SIGTSTP that continues the run.
func TestSignalsBehindSuspend(t *testing.T) {
	for _, c := range []struct {
		behind syscall.Signal
		why    core.Reason
	}{{syscall.SIGCONT, core.Completed}, {syscall.SIGTERM, core.Told}} {
		synctest.Test(t, func(t *testing.T) {
			x := &suspensions{resumed: make(chan struct{}), asked: c.why == core.Told}
			r, err := New(config(1), &tasks{n: 1}, x, nil, nil)
			require.NoError(t, err)
			s := newSignals()
			s.ends, s.halt = []syscall.Signal{syscall.SIGTERM}, func() { t.Errorf("%v: crew is stopped", c.behind) }
			for _, sig := range []syscall.Signal{syscall.SIGTSTP, syscall.SIGUSR1, c.behind} {
				s.in <- sig
			}
			s.Serve(r, nil, func() {})
			require.Equal(t, c.why, r.Wait().Reason)
			require.Equal(t, 1, x.suspended)
			close(s.quit)
			<-s.done
		})
	}
}

// A signal that does not continue the run does not keep crew from being stopped.
func TestSuspendStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := &suspensions{resumed: make(chan struct{})}
		r, err := New(config(1), &tasks{n: 1}, x, nil, nil)
		require.NoError(t, err)
		s := newSignals()
		stopped := 0
		s.halt = func() { stopped++ }
		for _, sig := range []syscall.Signal{syscall.SIGTSTP, syscall.SIGTSTP, syscall.SIGUSR1} {
			s.in <- sig
		}
		s.Serve(r, nil, func() {
			for len(s.in) < cap(s.in) { // more come than there is room for
				s.in <- syscall.SIGUSR1
			}
		})
		synctest.Wait()
		require.Equal(t, 1, stopped)
		s.in <- syscall.SIGTSTP // the SIGCONT before it is lost
		synctest.Wait()
		require.Equal(t, 2, stopped)
		require.Equal(t, 1, x.suspended)
		s.in <- syscall.SIGCONT
		require.Equal(t, core.Completed, r.Wait().Reason)
		close(s.quit)
		<-s.done
	})
}

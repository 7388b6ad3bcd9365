package runner

import (
	"context"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/decide/core"
	"crew/runner/decide/task"
)

// TestSignalsAreCommands sends signals a second apart. The last one gives the command.
func TestSignalsAreCommands(t *testing.T) {
	type row struct {
		Sent   []syscall.Signal
		Gentle bool
		Op     task.Op
		N      int
		Signal int
	}
	crewtest.Examples(t, "testdata/signals.txt", func(t *testing.T, c row) {
		l, last := ladder{TermDrains: c.Gentle}, task.Command{}
		for i, s := range c.Sent {
			last = l.command(s, time.Unix(int64(i), 0))
		}
		require.Equal(t, task.Command{Op: c.Op, N: c.N, Signal: c.Signal}, last)
	})
}

// suspensions is an Executor whose attempts end once it was resumed.
type suspensions struct {
	instant
	suspended int
	resumed   chan struct{}
	asked     bool // they also wait until they are asked to end
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

// TestSignalsBehindSuspend checks that crew does not stop itself if a signal has come since SIGTSTP
// that continues the run.
func TestSignalsBehindSuspend(t *testing.T) {
	for _, c := range []struct {
		behind syscall.Signal
		why    core.Reason
	}{{syscall.SIGCONT, core.Completed}, {syscall.SIGTERM, core.Requested}} {
		synctest.Test(t, func(t *testing.T) {
			x := &suspensions{resumed: make(chan struct{}), asked: c.why == core.Requested}
			r := New(config(1), &tasks{n: 1}, x, nil, nil)
			s := newSignals()
			s.ending, s.stopSelf = []syscall.Signal{syscall.SIGTERM}, func() { t.Errorf("%v: crew is stopped", c.behind) }
			s.sendFence = func() { s.caught <- fence }
			for _, sig := range []syscall.Signal{syscall.SIGTSTP, syscall.SIGUSR1, c.behind} {
				s.caught <- sig
			}
			s.Serve(r, nil, func() {})
			require.Equal(t, c.why, r.Wait().Reason)
			require.Equal(t, 1, x.suspended)
			close(s.quit)
			<-s.done
		})
	}
}

// TestSuspendStops checks that crew stops itself although signals come that do not continue the
// run.
func TestSuspendStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := &suspensions{resumed: make(chan struct{})}
		r := New(config(1), &tasks{n: 1}, x, nil, nil)
		s := newSignals()
		stopped := 0
		s.stopSelf, s.sendFence = func() { stopped++ }, func() { s.caught <- fence }
		for _, sig := range []syscall.Signal{syscall.SIGTSTP, syscall.SIGTSTP, syscall.SIGUSR1} {
			s.caught <- sig
		}
		s.Serve(r, nil, func() {
			for len(s.caught) < cap(s.caught) { // more signals than there is room for
				s.caught <- syscall.SIGUSR1
			}
		})
		synctest.Wait()
		require.Equal(t, 1, stopped)
		s.caught <- syscall.SIGTSTP // the SIGCONT before it is lost
		synctest.Wait()
		require.Equal(t, 2, stopped)
		require.Equal(t, 1, x.suspended)
		s.caught <- syscall.SIGCONT
		require.Equal(t, core.Completed, r.Wait().Reason)
		close(s.quit)
		<-s.done
	})
}

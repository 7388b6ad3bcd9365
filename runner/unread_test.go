package runner

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/core"
	"crew/runner/task"
)

// TestUnread has stdout lose its reader when the second task is admitted, a minute
// before the running tasks end.
func TestUnread(t *testing.T) {
	const ms = time.Millisecond
	drain, stop := task.Command{Op: task.Drain, Signal: 2}, task.Command{Op: task.Stop, Signal: 15}
	for _, c := range []struct {
		name   string
		before bool // the command comes before the reader goes
		cmd    task.Command
		after  time.Duration // between both
		reason core.Reason
		want   task.Outcome // of the running tasks
		events []task.Kind  // of the end
	}{
		{"alone", false, task.Command{}, 0, core.Unread, task.Cancelled, []task.Kind{task.Draining, task.Stopping}},
		{"Ctrl-C a little later", false, drain, 5 * ms, core.Told, task.OK, []task.Kind{task.Draining, task.Draining}},
		{"Ctrl-C later on a busy machine", false, drain, 290 * ms, core.Told, task.OK, []task.Kind{task.Draining, task.Draining}},
		{"Ctrl-C too late", false, drain, 350 * ms, core.Told, task.Cancelled, []task.Kind{task.Draining, task.Stopping}},
		{"SIGTERM a little later", false, stop, 5 * ms, core.Told, task.Cancelled, []task.Kind{task.Draining, task.Stopping}},
		{"while draining", true, drain, 5 * ms, core.Told, task.OK, []task.Kind{task.Draining}},
		{"while stopping", true, stop, 5 * ms, core.Told, task.Cancelled, []task.Kind{task.Stopping}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				exec := &fake{grace: time.Second, do: func(task.Attempt) (time.Duration, task.Outcome) { return time.Minute, task.OK }}
				gone := make(chan struct{})
				sink := &unreadSink{gone: gone}
				inbox := make(chan task.Command)
				begin := time.Now()
				go func() {
					time.Sleep(time.Second)
					if c.before {
						inbox <- c.cmd
						time.Sleep(c.after)
					}
					close(gone)
					if !c.before && c.cmd.Op != 0 {
						time.Sleep(c.after)
						inbox <- c.cmd
					}
				}()
				cfg := config(2)
				cfg.Tick = ms
				end, err := run(cfg, &tasks{n: 1000}, exec, []Sink{sink}, inbox)
				require.NoError(t, err)
				require.Equal(t, c.reason, end.Reason)
				require.Equal(t, c.cmd.Signal, end.Signal)
				require.Equal(t, 2, sink.count(c.want), fmt.Sprint(sink.finished))
				require.Equal(t, c.want == task.OK, time.Since(begin) >= time.Minute)
				var events []task.Kind
				for _, k := range sink.kinds {
					if k == task.Draining || k == task.Stopping {
						events = append(events, k)
					}
				}
				require.Equal(t, c.events, events)
			})
		})
	}
}

// unreadSink is a sink that finds its reader gone once gone is closed.
type unreadSink struct {
	seen
	gone <-chan struct{}
}

func (s *unreadSink) Consume(batch []task.Event) error {
	if err := s.seen.Consume(batch); err != nil {
		return err
	}
	select {
	case <-s.gone:
		return fmt.Errorf("write stdout: %w", syscall.EPIPE)
	default:
		return nil
	}
}

// TestUnreadAtTheEnd has the reader go when only the last results are left to show.
func TestUnreadAtTheEnd(t *testing.T) {
	for _, c := range []struct {
		signal bool
		want   core.Reason
	}{{false, core.Unread}, {true, core.Told}} {
		synctest.Test(t, func(t *testing.T) {
			inbox := make(chan task.Command)
			sink := &seen{fail: func(e task.Event) error {
				if e.Kind != task.Released {
					return nil
				}
				if c.signal {
					go func() { time.Sleep(time.Millisecond); inbox <- task.Command{Op: task.Drain, Signal: 2} }()
				}
				return syscall.EPIPE
			}}
			end, err := run(config(1), &tasks{n: 1}, &fake{}, []Sink{sink}, inbox)
			require.NoError(t, err)
			require.Equal(t, c.want, end.Reason)
			require.Equal(t, 1, sink.count(task.OK))
		})
	}
}

// interrupted is an executor whose second task the user interrupts at the terminal.
type interrupted struct{ fake }

func (f *interrupted) Run(ctx context.Context, a task.Attempt) *task.Result {
	r := f.fake.Run(ctx, a)
	if a.Task.ID == 2 {
		r.Outcome, r.Signal, r.Interrupted = task.Signal, int(syscall.SIGINT), true
	}
	return r
}

// TestInterruptedTaskEndsTheRun has nothing start after it, not even its retry.
func TestInterruptedTaskEndsTheRun(t *testing.T) {
	for _, retries := range []int{0, 3} {
		synctest.Test(t, func(t *testing.T) {
			sink, rec := &seen{}, &told{}
			cfg := config(1)
			cfg.Retry = core.Retry{Max: retries, Jitter: func() float64 { return 0 }}
			r, err := New(cfg, &tasks{n: 5}, &interrupted{}, rec, []Sink{sink})
			require.NoError(t, err)
			end := r.Wait()
			synctest.Wait()
			require.Equal(t, core.Told, end.Reason)
			require.True(t, end.Interrupted)
			require.Equal(t, int(syscall.SIGINT), end.Signal)
			waits := min(retries, 1) // for its retry, in a resumed run
			require.Equal(t, []int{1, 1 - waits, 3 + waits}, []int{sink.count(task.OK), sink.count(task.Signal), sink.count(task.NotRun)})
			require.Equal(t, waits, sink.retried)
		})
	}
}

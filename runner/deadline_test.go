package runner

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/core"
	"crew/runner/task"
)

func TestDeadlineOfARunThatEndsBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config(2)
		cfg.Limit.Run = 10 * time.Second
		unread := make(chan struct{})
		time.AfterFunc(time.Minute, func() { close(unread) })
		end, err := run(cfg, &tasks{n: 4}, &fake{}, []Sink{&seen{block: unread}}, nil) // the reader is late, not the tasks
		require.NoError(t, err)
		require.Equal(t, core.Completed, end.Reason)
	})
}

func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config(2)
		cfg.Limit.Idle = 10 * time.Second
		exec, sink := &fake{since: time.Now().Add(time.Minute)}, &seen{}
		exec.do = func(task.Attempt) (time.Duration, task.Outcome) { return time.Hour, task.OK }
		_, err := run(cfg, &tasks{n: 2}, exec, []Sink{sink}, nil)
		require.NoError(t, err)
		require.Equal(t, map[uint64]task.Outcome{1: task.Timeout, 2: task.Timeout}, sink.finished)
		require.Equal(t, time.Minute+10*time.Second, time.Since(exec.since.Add(-time.Minute)))
	})
}

package runner

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/core"
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

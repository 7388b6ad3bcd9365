package proc

import (
	"context"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/task"
)

// TestLive: the output of a running attempt can be read by others, and by those who
// began in time also after its end.
func TestLive(t *testing.T) {
	l := local(t, nil)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	over := make(chan *task.Result)
	go func() {
		over <- l.Run(ctx, task.Attempt{Task: sh("trap 'echo last; exit' TERM; sleep 100 & echo out; echo err >&2; wait"), Number: 2})
	}()
	read := func(live task.Live) string {
		got, err := io.ReadAll(io.NewSectionReader(live, 0, 1<<20))
		require.NoError(t, err)
		return string(got)
	}
	var stdout, stderr task.Live
	crewtest.Until(t, func() bool {
		out, err, attempt := l.Live(7)
		if attempt == 0 {
			return false
		}
		if read(out) != "" && read(err) != "" {
			require.Equal(t, 2, attempt)
			require.NotZero(t, l.PIDs()[7])
			stdout, stderr = out, err
			return true
		}
		out.Close()
		err.Close()
		return false
	}, "the task's output")
	require.Equal(t, "out\n", read(stdout))
	_, _, attempt := l.Live(8)
	require.Zero(t, attempt)

	cancel()
	r := <-over
	_, _, attempt = l.Live(7)
	require.Zero(t, attempt)
	require.Empty(t, l.PIDs())
	r.Close()
	require.Equal(t, "out\nlast\n", read(stdout))
	require.Equal(t, "err\n", read(stderr))
	require.NoError(t, stdout.Close())
	require.NoError(t, stderr.Close())

	plain := local(t, func(c *Config) { c.Plan.Show = task.ShowNothing })
	ctx, cancel = context.WithCancel(context.Background())
	go func() { over <- plain.Run(ctx, task.Attempt{Task: sh("sleep 100"), Number: 1}) }()
	crewtest.Until(t, func() bool { return len(plain.PIDs()) == 1 }, "the task")
	_, _, attempt = plain.Live(7)
	require.Zero(t, attempt, "its output is not kept")
	cancel()
	<-over
}

package proc

import (
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/decide/task"
)

// TestLive checks that others can read the output of a running attempt. If they opened it before the
// attempt ended, they can also read it afterwards.
func TestLive(t *testing.T) {
	l := local(t, func(c *Config) { c.Limit.Idle = time.Hour })
	k := talk(t, l, "echo out; echo err >&2; read x; echo last; exec sleep 1000")
	require.NotZero(t, l.PIDs()[7])
	stdout, stderr, attempt := l.Live(7)
	require.Equal(t, 1, attempt)
	reads := func(live task.Live, want string) {
		crewtest.Until(t, func() bool {
			got, err := io.ReadAll(io.NewSectionReader(live, 0, 1<<20))
			require.NoError(t, err)
			return string(got) == want
		}, "%q", want)
	}
	reads(stdout, "out\n")
	reads(stderr, "err\n")
	_, _, attempt = l.Live(8)
	require.Zero(t, attempt)
	k.lines.WriteString("\n")
	reads(stdout, "out\nlast\n")
	k.end()
	_, _, attempt = l.Live(7)
	require.Zero(t, attempt)
	require.Empty(t, l.PIDs())
	reads(stdout, "out\nlast\n")
	reads(stderr, "err\n")
	require.NoError(t, stdout.Close())
	require.NoError(t, stderr.Close())
}

func looked(stdout, stderr task.Live, _ int) []task.Live { return []task.Live{stdout, stderr} }

// TestLiveBesideTheEnd reads the output of an attempt that ends at the same time: it is either found or
// not. No buffer remains of an attempt without output.
func TestLiveBesideTheEnd(t *testing.T) {
	l := local(t, nil)
	var looks sync.WaitGroup
	var over atomic.Bool
	looks.Go(func() {
		for !over.Load() {
			for _, out := range looked(l.Live(7)) {
				if out != nil {
					assert.NoError(t, out.Close())
				}
			}
		}
	})
	for range 50 {
		require.Equal(t, task.OK, run(l, sh(":")).Outcome)
	}
	over.Store(true)
	looks.Wait()
}

package coproc

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/decide/task"
)

// minutes advances the run's clock.
func (c *fixture) minutes(n time.Duration) {
	c.Clock.Change(func(k *task.Clock, _ time.Time) { k.Lost -= n * time.Minute })
	c.Wake(1)
}

// until waits until a worker has written a text on stderr for a record.
func (c *fixture) until(t *testing.T, id uint64, stderr string) {
	crewtest.Until(t, func() bool { return string(c.Said()[id]) == stderr }, "stderr of record %d", id)
}

// The idle limit of a record starts when its worker gets it, and again with each output of the worker.
// When it has passed, the worker is ended, and another worker takes the next record.
func TestIdle(t *testing.T) {
	t.Parallel()
	c := newFixture(t, Config{}, "sh", "-c", `exec 3<lines; while read x; do eval "$x"; echo $x; done`)
	c.Limit.Idle = time.Hour
	c.dir = t.TempDir()
	require.NoError(t, mkfifo(c.dir+"/lines"))
	lines, err := os.OpenFile(c.dir+"/lines", os.O_RDWR, 0)
	require.NoError(t, err)
	defer lines.Close()
	c.add("echo a >&2; read y <&3; echo b >&2; read y <&3", "echo c >&2; exec sleep 1000", ":")
	go func() {
		for _, said := range []string{"a\n", "a\nb\n"} {
			c.until(t, 1, said)
			c.minutes(40)
			_, _ = lines.WriteString("\n")
		}
		c.until(t, 2, "c\n")
		c.minutes(61)
	}()
	c.run()
	require.Contains(t, c.show(t, 1), "ok|")
	require.Equal(t, "timeout signal 15||c\n|silent for 1h0m0s", c.show(t, 2))
	require.Equal(t, "ok|:\n|", c.show(t, 3))
}

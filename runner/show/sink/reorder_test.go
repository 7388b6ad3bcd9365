package sink

import (
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/decide/task"
	"crew/runner/exec/spool"
)

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// behind finishes tasks 2 to n, each with text, while task 1 still runs.
func behind(t testing.TB, s *Stdout, store *spool.Store, n int, text string) {
	for id := 2; id <= n; id++ {
		consume(t, s, spoken(t, store, uint64(id), text, ""))
	}
}

func TestHeldResultsStaySmall(t *testing.T) {
	for _, c := range []struct {
		name string
		n    int
		text string
	}{
		{"small", 100_000, strings.Repeat("a line of a small task\n", 10)},
		{"large", 20, strings.Repeat("x", 2<<20)},
	} {
		store := spool.New(16<<20, t.TempDir())
		before := heap()
		var out counter
		s := NewStdout(NewScreen(&out, io.Discard), StdoutConfig{Plan: task.Plan{Order: true}, Store: store})
		behind(t, s, store, c.n, c.text)
		held := heap()
		require.Less(t, held, before+(12<<20), c.name)
		for id := 1; id <= c.n; id++ {
			consume(t, s, released(uint64(id))...)
		}
		require.EqualValues(t, (c.n-1)*len(c.text), out, c.name)
		require.Less(t, heap(), before+(2<<20), c.name)
		require.NoError(t, s.Close(task.Stats{}))
		require.NoError(t, store.Close())
	}
}

// counter counts the bytes written to it.
type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

package sink

import (
	"io"
	"math/rand"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/spool"
	"crew/runner/task"
)

// drawn takes a task's result and returns its outputs.
func drawn(t *testing.T, h *reorderBuffer, id uint64) (out, err string) {
	p, n, l, failed := h.take(id, nil)
	require.NoError(t, failed)
	if l == nil {
		return string(p[:n]), string(p[n:])
	}
	defer l.result.Close()
	var text [2]strings.Builder
	for i, o := range []task.Output{l.result.Stdout, l.result.Stderr} {
		if o != nil {
			o.WriteTo(&text[i])
		}
	}
	return text[0].String(), text[1].String()
}

func TestReorderBufferAgainstMap(t *testing.T) {
	for seed := range int64(6) {
		rnd := rand.New(rand.NewSource(seed))
		store := newStore(t, []int64{0, 300_000, 64 << 20}[seed%3])
		h := newReorderBuffer(store)
		want := map[uint64][2]string{}
		head := uint64(1)
		for range 30_000 {
			id := head + uint64(rnd.Intn(1<<rnd.Intn(13)))
			if _, ok := want[id]; !ok && rnd.Intn(5) > 0 {
				out, err := randomText(rnd, rnd.Intn(1<<rnd.Intn(9))), randomText(rnd, rnd.Intn(20))
				if rnd.Intn(200) == 0 {
					h.putLarge(id, &large{result: task.Result{Stdout: kept(t, store, out+"!")}})
					want[id] = [2]string{out + "!", ""}
					continue
				}
				require.NoError(t, h.put(id, []byte(out), []byte(err)))
				want[id] = [2]string{out, err}
				continue
			}
			for range rnd.Intn(3) {
				out, err := drawn(t, h, head)
				require.Equal(t, want[head], [2]string{out, err}, "task %d, seed %d", head, seed)
				delete(want, head)
				head++
			}
		}
		for ; len(want) > 0; head++ {
			out, err := drawn(t, h, head)
			require.Equal(t, want[head], [2]string{out, err})
			delete(want, head)
		}
		require.Zero(t, h.held)
		require.Zero(t, h.filling.live)
		require.LessOrEqual(t, len(h.ring), keepRing)
	}
}

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
		{"200,000 small", 200_000, strings.Repeat("a line of a small task\n", 5)},
		{"200 of 1 MB", 200, strings.Repeat("x", 1<<20)},
	} {
		dir := t.TempDir()
		store := spool.New(16<<20, dir)
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
		require.Zero(t, inFile(t, dir), "an unused file is truncated: %s", c.name)
		require.NoError(t, store.Close())
	}
}

// inFile returns the size of the unnamed file that this process has open in dir.
func inFile(t *testing.T, dir string) int64 {
	fds, err := filepath.Glob("/proc/self/fd/*")
	require.NoError(t, err)
	for _, fd := range fds {
		if name, err := os.Readlink(fd); err == nil && strings.HasPrefix(name, dir+"/") {
			info, err := os.Stat(fd)
			require.NoError(t, err)
			return info.Size()
		}
	}
	t.Skip("no /proc, where the spool's file could be found")
	return 0
}

// counter counts what is written to it.
type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

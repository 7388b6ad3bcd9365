package input

import (
	"math/rand/v2"
	"runtime"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// memory returns the bytes on the heap, and how many were ever allocated.
func memory() (live, total uint64) {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc, m.TotalAlloc
}

// A million names are found, and no others. Growing allocates nothing beyond the table.
func TestNames(t *testing.T) {
	const tasks = 1_000_000
	rnd := rand.New(rand.NewPCG(1, 2))
	ids, first := make([]string, tasks), make(map[string]uint64, tasks)
	for i := range ids {
		ids[i] = strconv.FormatUint(rnd.Uint64N(20*tasks), 36) // some occur again
		if _, double := first[ids[i]]; !double {
			first[ids[i]] = uint64(i) + 1
		}
	}
	live, total := memory()
	var names Names
	wrong := 0
	for i, id := range ids {
		if names.Define(id, uint64(i)+1) != first[id] {
			wrong++
		}
		if n := names.Len(); n >= 1000 && len(names.pages)*4096 > 24*n { // require would allocate
			wrong++
		}
	}
	require.Zero(t, wrong)
	require.Equal(t, len(first), names.Len())
	nowLive, nowTotal := memory()
	t.Logf("%.1f bytes an id, %.1f allocated", float64(nowLive-live)/float64(len(first)), float64(nowTotal-total)/float64(len(first)))
	require.LessOrEqual(t, nowLive-live, uint64(24*len(first)))
	require.LessOrEqual(t, nowTotal-total, uint64(25*len(first)))
	for id, n := range first {
		if names.Lookup(id) != n || names.Lookup(id+"!") != 0 {
			wrong++
		}
	}
	require.Zero(t, wrong)
	runtime.KeepAlive(ids)
}

func TestNoNames(t *testing.T) {
	var names Names
	require.Zero(t, names.Lookup("a"))
	names.Begin()
	names.Undo(0)
	require.Zero(t, names.Len())
	require.Nil(t, names.pages)
	require.EqualValues(t, 7, names.Define("a", 7))
	require.EqualValues(t, 7, names.Define("a", 7), "it has it already")
	names.Undo(6)
	require.Zero(t, names.Len())
	require.Zero(t, names.Lookup("a"))
}

// What was defined before Begin stays, as does what tasks up to the last one have.
func TestNamesUndo(t *testing.T) {
	var names Names
	define := func(name string, number, want uint64) { require.Equal(t, want, names.Define(name, number), name) }
	require.Zero(t, names.Lookup("a"))
	define("later", 9, 9) // of another run
	names.Undo(0)
	names.Begin()
	define("a", 10, 10)
	define("b", 11, 11)
	define("later", 12, 9)
	define("a", 12, 10)
	names.Undo(10)
	define("b", 11, 11)
	names.Undo(11)
	for name, want := range map[string]uint64{"later": 9, "a": 10, "b": 11} {
		require.Equal(t, want, names.Lookup(name), name)
	}
	names.Undo(0)
	for name, want := range map[string]uint64{"later": 9, "a": 0, "b": 0} {
		require.Equal(t, want, names.Lookup(name), name)
	}
	define("a", 10, 10)
	names.Begin()
	names.Undo(0)
	define("a", 11, 10)
	require.Equal(t, 2, names.Len())
}

// Names are defined, undone and removed as in a map, also if their hashes are close to each
// other and their places go round the end of the table.
func TestNamesClose(t *testing.T) {
	for _, spread := range []uint64{1, 1 << 45, 1 << 55, 1<<64/1000 + 1} {
		rnd := rand.New(rand.NewPCG(3, spread))
		var names Names
		want, last := map[uint64]uint64{}, uint64(0)
		for range 60 {
			names.Begin()
			begin, defined := last, []uint64{}
			for range rnd.IntN(60) {
				last++
				h := spread/2 - spread*uint64(rnd.IntN(500))
				if want[h] == 0 {
					want[h] = last
					defined = append(defined, h)
				}
				require.Equal(t, want[h], names.define(h, last))
			}
			last = begin + rnd.Uint64N(last-begin+1)
			names.Undo(last)
			for _, h := range defined {
				if want[h] > last {
					delete(want, h)
				}
			}
			for h := range want {
				if rnd.IntN(100) == 0 {
					names.remove(names.find(h))
					delete(want, h)
				}
				require.Equal(t, want[h], names.at(names.find(h)).number)
			}
			require.Equal(t, len(want), names.Len())
		}
		require.Greater(t, len(names.pages), 1)
	}
}

func BenchmarkNames(b *testing.B) {
	var names Names
	id := make([]byte, 0, 32)
	for i := range b.N {
		id = strconv.AppendInt(id[:0], int64(i), 10)
		names.Define(string(id), uint64(i)+1)
	}
}

package input

import (
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// A hundred thousand names are found, and no others.
func TestNames(t *testing.T) {
	var names Names
	first := map[string]uint64{}
	rnd := rand.New(rand.NewPCG(1, 2))
	for n := range uint64(100_000) {
		id := strconv.FormatUint(rnd.Uint64N(1_000_000), 36) // some occur again
		if first[id] == 0 {
			first[id] = n + 1
		}
		require.Equal(t, first[id], names.Define(id, n+1))
	}
	require.Equal(t, len(first), names.Len())
	for id, n := range first {
		require.Equal(t, n, names.Lookup(id))
		require.Zero(t, names.Lookup(id+"!"))
	}
}

func TestNoNames(t *testing.T) {
	var names Names
	require.Zero(t, names.Lookup("a"))
	names.Begin()
	names.Undo(0)
	require.Zero(t, names.Len())
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

package sched

import (
	"math"
	"strconv"
	"testing"

	"crew/runner/crewtest"

	"github.com/stretchr/testify/require"
)

// TestJumpGolden checks jump against values computed with the C++ function printed in the paper.
func TestJumpGolden(t *testing.T) {
	type row struct {
		Key     uint64
		Buckets map[string]int
	}
	rows, _ := crewtest.Rows[row]("testdata/jump.jsonl")
	for _, row := range rows {
		for n, want := range row.Buckets {
			buckets, err := strconv.Atoi(n)
			require.NoError(t, err)
			require.Equal(t, want, jump(row.Key, buckets), "key %#x of %s", row.Key, n)
		}
	}
	// From the reference vectors of the FNV web page.
	require.Equal(t, uint64(0xcbf29ce484222325), StableHash(""))
	require.Equal(t, uint64(0x85944171f73967e8), StableHash("foobar"))
}

// TestFewStringsMove checks that with more buckets, strings move only to the new ones, and that the
// same holds for keys with more hosts, or more slots of a host.
func TestFewStringsMove(t *testing.T) {
	const keys = 20_000
	hosts := func(n int) func(string) int {
		p := newKeyed(false)
		for id := range n {
			p.Join(Slot{ID: id + 1, Host: uint64(id)})
		}
		return func(s string) int { return p.Choice(&Item{StableKey: StableHash(s)}).Slot - 1 }
	}
	buckets := func(n int) func(string) int { return func(s string) int { return Bucket(s, n) } }
	for _, kind := range []func(int) func(string) int{buckets, hosts} {
		for _, c := range [][2]int{{4, 5}, {5, 4}, {8, 16}, {3, 1}, {1, 2}} {
			n, m := c[0], c[1]
			before, after := kind(n), kind(m)
			moved, load := 0, make([]int, m)
			for k := range keys {
				a, b := before("user"+strconv.Itoa(k)), after("user"+strconv.Itoa(k))
				load[b]++
				if a != b {
					moved++
					require.True(t, b >= n || a >= m, "a string moved between old buckets")
				}
			}
			require.InDelta(t, math.Abs(float64(m-n))/float64(max(m, n)), float64(moved)/keys, 0.02, "%d to %d", n, m)
			for _, l := range load {
				require.InEpsilon(t, keys/m, l, 0.15)
			}
		}
	}
}

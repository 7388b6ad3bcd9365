package sched

import (
	"math"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// The table was computed with the C++ function printed in the paper.
func TestJumpGolden(t *testing.T) {
	buckets := []int{1, 2, 3, 8, 57, 64, 666, 1000, 1024, 100000}
	for _, row := range []struct {
		key  uint64
		want []int
	}{
		{0x0, []int{0, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
		{0x1, []int{0, 0, 0, 6, 55, 55, 549, 549, 549, 94075}},
		{0x2, []int{0, 0, 0, 6, 46, 62, 338, 338, 338, 80343}},
		{0x2a, []int{0, 1, 2, 2, 43, 43, 571, 571, 571, 5747}},
		{0x100, []int{0, 1, 2, 3, 16, 16, 520, 520, 520, 86422}},
		{0xdead10cc, []int{0, 1, 1, 5, 13, 13, 361, 361, 361, 6591}},
		{0xcbf29ce484222325, []int{0, 1, 1, 1, 17, 17, 266, 266, 266, 83759}},
		{0xffffffffffffffff, []int{0, 1, 2, 7, 10, 10, 313, 313, 313, 18311}},
	} {
		for i, n := range buckets {
			require.Equal(t, row.want[i], jump(row.key, n), "key %#x of %d", row.key, n)
		}
	}
	require.Equal(t, 0, jump(7, 0))
	require.Equal(t, 0, jump(7, -3))
}

func TestBucketsMoveFewStringsAndSpreadThem(t *testing.T) {
	const keys = 100_000
	for _, c := range [][2]int{{4, 5}, {5, 4}, {8, 16}, {64, 63}, {3, 1}} {
		n, m := c[0], c[1]
		moved, load := 0, make([]int, m)
		for k := range keys {
			s := "user" + strconv.Itoa(k)
			a, b := Bucket(s, n), Bucket(s, m)
			load[b]++
			if a != b {
				moved++
				require.False(t, m > n && b < n, "a string moved between old buckets")
			}
		}
		want := math.Abs(float64(m-n)) / float64(max(m, n))
		require.InDelta(t, want, float64(moved)/keys, 0.02, "%d to %d", n, m)
		for _, l := range load {
			require.InEpsilon(t, keys/m, l, 0.1)
		}
	}
}

func TestPlaceIsFNV1a(t *testing.T) {
	// From the reference vectors of the FNV page.
	for s, want := range map[string]uint64{
		"":       0xcbf29ce484222325,
		"a":      0xaf63dc4c8601ec8c,
		"foobar": 0x85944171f73967e8,
	} {
		require.Equal(t, want, Place(s), s)
	}
}

func TestHostsMoveOnlyTheirOwnKeys(t *testing.T) {
	const keys, slotsOfHost = 20_000, 3
	for _, n := range []int{1, 2, 3, 8} { // hosts before one more joins
		p := newKeyed()
		join := func(host int) {
			for i := range slotsOfHost {
				p.Join(Slot{ID: host + i*20 + 1, Host: uint64(host)})
			}
		}
		for host := range n {
			join(host)
		}
		homes := func() (at []int) {
			p.settle()
			for k := range keys {
				at = append(at, p.hosts.slot(Place("user"+strconv.Itoa(k))))
			}
			return at
		}
		before := homes()
		join(n)
		with := homes()
		moved, load := 0, map[int]int{}
		for k := range keys {
			load[with[k]]++
			if with[k] != before[k] {
				moved++
				require.EqualValues(t, n, p.all[with[k]].Host, "a key moved between old hosts")
			}
		}
		require.InDelta(t, 1/float64(n+1), float64(moved)/keys, 0.02, "%d and one more", n)
		require.Len(t, load, (n+1)*slotsOfHost)
		for slot, l := range load {
			require.InEpsilon(t, float64(keys)/float64(len(load)), l, 0.2, "slot %d of %d", slot, len(load))
		}
		for i := range slotsOfHost {
			p.Leave(n + i*20 + 1)
		}
		require.Equal(t, before, homes(), "a key of another host moved, or one did not move back")
	}
}

// Keys are not taken for one another because they share a place, which strings can be made
// for: the order and the limits of one are not the other's.
func TestKeysThatShareAPlace(t *testing.T) {
	// Two strings with the same 64-bit FNV-1a hash.
	a, b := "8yn0iYCKYHlIj4-BwPqk", "GReLUrM4wMqfg9yzV3KQ"
	require.Equal(t, Place(a), Place(b))
	require.NotEqual(t, Hash(a), Hash(b))
	p := newKeyed()
	p.Join(Slot{ID: 1, Cap: 2})
	p.Push(Item{ID: 1, Key: Hash(a), Place: Place(a)})
	p.Push(Item{ID: 2, Key: Hash(b), Place: Place(b)})
	_, first := p.Pop(1)
	_, second := p.Pop(1)
	require.True(t, first && second, "they run at the same time")
}

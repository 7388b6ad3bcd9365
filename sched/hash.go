package sched

import (
	"cmp"
	"hash/maphash"
	"slices"
)

var seed = maphash.MakeSeed()

// Hash returns the key of a string in this process. Its seed is random, so strings with equal keys
// cannot be prepared.
func Hash(s string) uint64 { return maphash.String(seed, s) }

// StableHash returns the 64-bit FNV-1a hash of a string, the same in every run and on every
// machine. Different strings may have the same hash.
func StableHash(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h ^= uint64(s[i])
		h *= 1099511628211
	}
	return h
}

// jump returns the bucket of a key, from 0 to buckets-1; less than 1 bucket
// counts as 1. When the number of buckets goes from n to m, only about
// |m-n|/max(m,n) of all keys move (Lamping and Veach, "A Fast, Minimal Memory,
// Consistent Hash Algorithm", 2014).
func jump(key uint64, buckets int) int {
	b, j := int64(0), int64(0)
	for j < int64(buckets) {
		b = j
		key = key*2862933555777941757 + 1
		j = int64(float64(b+1) * (float64(int64(1)<<31) / float64((key>>33)+1)))
	}
	return int(b)
}

// Bucket returns the bucket of a string, from 0 to buckets-1, the same in every run and
// on every machine. When there are more buckets, strings move only to the new ones.
func Bucket(s string, buckets int) int { return jump(mix(StableHash(s)), buckets) }

// mix is the finalizer of SplitMix64 (Steele, Lea and Flood, "Fast Splittable
// Pseudorandom Number Generators", 2014): a bijection in which every bit of the
// result depends on every bit of x.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// slotFor returns the slot of a StableHash, or 0 if there are no slots. The host is the one with
// the highest weight for the hash (rendezvous hashing: Thaler and Ravishankar, "Using Name-Based
// Mappings to Increase Hit Rates", 1998): a host that joins takes only the keys it gets, and a host
// that leaves gives up only its own. jump chooses among the slots of the host.
func (s *slots) slotFor(stableKey uint64) int {
	var ids []int
	var most uint64
	for _, h := range s.hosts {
		// Since mix is a bijection, two hosts have the same weight only if they have the same ID, and
		// differ in offers.
		switch w := mix(stableKey ^ mix(h.id)); {
		case ids == nil || w > most:
			ids, most = h.ids, w
		case w == most:
			ids = slices.Concat(ids, h.ids)
		}
	}
	if ids == nil {
		return 0
	}
	return ids[jump(stableKey, len(ids))]
}

// Deal divides costs into shares with similar sums, and returns the share of each cost, from 0 to
// shares-1. The largest cost goes first, and each goes to the share with the lowest sum so far, the
// first of several. With non-negative costs, the largest sum is at most 4/3 of the smallest
// possible (Graham, "Bounds on Multiprocessing Timing Anomalies", 1969).
func Deal(costs []int64, shares int) []int {
	largest := make([]int, len(costs))
	for i := range largest {
		largest[i] = i
	}
	slices.SortStableFunc(largest, func(a, b int) int { return cmp.Compare(costs[b], costs[a]) })
	sums, dealt := make([]int64, min(shares, len(costs))), make([]int, len(costs))
	for _, i := range largest {
		dealt[i] = slices.Index(sums, slices.Min(sums))
		sums[dealt[i]] += costs[i]
	}
	return dealt
}

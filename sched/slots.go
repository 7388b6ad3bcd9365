package sched

import "math/bits"

// bitset is a set of workers. The zero bitset is empty.
type bitset struct {
	words []uint64
	low   int // every word below it is zero
}

func (b *bitset) add(w int) {
	for w>>6 >= len(b.words) {
		b.words = append(b.words, 0)
	}
	b.words[w>>6] |= 1 << (w & 63)
	b.low = min(b.low, w>>6)
}

func (b *bitset) del(w int) {
	if w>>6 < len(b.words) {
		b.words[w>>6] &^= 1 << (w & 63)
	}
}

func (b *bitset) set(w int, on bool) {
	if on {
		b.add(w)
	} else {
		b.del(w)
	}
}

func (b *bitset) has(w int) bool {
	return w>>6 < len(b.words) && b.words[w>>6]&(1<<(w&63)) != 0
}

// first is the lowest member, or 0. Words once found empty are not looked at
// again before something is added there, so it costs O(1) amortised.
func (b *bitset) first() int {
	for ; b.low < len(b.words); b.low++ {
		if x := b.words[b.low]; x != 0 {
			return b.low<<6 + bits.TrailingZeros64(x)
		}
	}
	return 0
}

// after is the lowest member above w, or 0.
func (b *bitset) after(w int) int {
	i := (w + 1) >> 6
	mask := ^uint64(0) << ((w + 1) & 63)
	for ; i < len(b.words); i++ {
		if x := b.words[i] & mask; x != 0 {
			return i<<6 + bits.TrailingZeros64(x)
		}
		mask = ^uint64(0)
	}
	return 0
}

// slots knows which of the workers 1..n are idle. A worker that was busy when
// a shrinking resize took it away is still busy if it comes back before free.
type slots struct {
	n          int
	idle, busy bitset
}

func (s *slots) take(w int) {
	s.idle.del(w)
	s.busy.add(w)
}

func (s *slots) free(w int) {
	s.busy.del(w)
	if w <= s.n {
		s.idle.add(w)
	}
}

func (s *slots) resize(n int) {
	n = max(n, 1)
	for w := n + 1; w <= s.n; w++ {
		s.idle.del(w)
	}
	for w := s.n + 1; w <= n; w++ {
		s.idle.set(w, !s.busy.has(w))
	}
	s.n = n
}

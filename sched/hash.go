package sched

import "slices"

// Hash is the key of a string: 64-bit FNV-1a, the same in every run and on
// every machine.
func Hash(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h ^= uint64(s[i])
		h *= 1099511628211
	}
	return h
}

// jump is the bucket of a key, from 0, of a number of buckets. When the number
// goes from n to m, only about |m-n|/max(m,n) of all keys move. The algorithm is
// that of Lamping and Veach, "A Fast, Minimal Memory, Consistent Hash
// Algorithm", 2014. Less than 1 bucket counts as 1.
func jump(key uint64, buckets int) int {
	b, j := int64(0), int64(0)
	for j < int64(buckets) {
		b = j
		key = key*2862933555777941757 + 1
		j = int64(float64(b+1) * (float64(int64(1)<<31) / float64((key>>33)+1)))
	}
	return int(b)
}

// mix is the finalizer of SplitMix64 (Steele, Lea and Flood, "Fast Splittable
// Pseudorandom Number Generators", 2014): a bijection of which each bit of the
// result depends on all bits of x.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// hosts are the slots of a policy by host.
type hosts []host

type host struct {
	id  uint64
	ids []int // of its slots, ascending
}

func (s *slots) byHost() hosts {
	var h hosts
	for _, id := range s.ids {
		at := s.all[id].Host
		i := slices.IndexFunc(h, func(x host) bool { return x.id == at })
		if i < 0 {
			i = len(h)
			h = append(h, host{id: at})
		}
		h[i].ids = append(h[i].ids, id)
	}
	return h
}

// slot is the slot of a key, or 0 if there is none. The host is the one with
// the highest weight for the key (rendezvous hashing: Thaler and Ravishankar,
// "Using Name-Based Mappings to Increase Hit Rates", 1998), so that a host that
// joins takes only keys for itself and one that leaves loses only its own.
// Among the slots of the host it is the one that jump says.
func (h hosts) slot(key uint64) int {
	if len(h) == 0 {
		return 0
	}
	best := &h[0]
	if len(h) > 1 {
		// No two weights are equal, since mix is a bijection.
		most := mix(key ^ mix(best.id))
		for i := range h[1:] {
			if w := mix(key ^ mix(h[1+i].id)); w > most {
				best, most = &h[1+i], w
			}
		}
	}
	return best.ids[jump(key, len(best.ids))]
}

package sched

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// carousel keeps a policy with 64 workers and 10,000 queued items going: each
// turn pushes an item, starts one and ends one.
type carousel struct {
	p     Policy
	key   func(id uint64) uint64
	id    uint64
	holds [65]Item
}

const (
	benchWorkers = 64
	benchQueued  = 10_000
	benchKeys    = 1000
)

func (c *carousel) push() {
	c.id++
	c.p.Push(Item{ID: c.id, Key: c.key(c.id), Cost: int64(c.id%7) + 1})
}

func (c *carousel) start() int {
	w := c.p.Ready()
	if w == 0 {
		return 0
	}
	c.holds[w], _ = c.p.Pop(w)
	return w
}

func newCarousel(p Policy, key func(id uint64) uint64) *carousel {
	c := &carousel{p: p, key: key}
	for range benchQueued {
		c.push()
	}
	for c.start() != 0 {
	}
	return c
}

// turn is one push, done and pop; i picks the worker that ends.
func (c *carousel) turn(i int) {
	w := i%benchWorkers + 1
	for c.holds[w].ID == 0 {
		w = w%benchWorkers + 1
	}
	c.push()
	c.p.Done(w, c.holds[w], false)
	c.holds[w] = Item{}
	c.start()
}

func carousels(t testing.TB) map[string]func() *carousel {
	keyed := make([]uint64, benchKeys)
	for i := range keyed {
		keyed[i] = Hash(string(rune('0' + i)))
	}
	many := func(id uint64) uint64 { return keyed[id%benchKeys] }
	few := func(id uint64) uint64 { return keyed[id%4] }
	alone := func(id uint64) uint64 { return id * 0x9e3779b97f4a7c15 }
	parsed := func(s string) Topics {
		c, err := ParseTopics(s)
		require.NoError(t, err)
		return c
	}
	return map[string]func() *carousel{
		"fifo":        func() *carousel { return newCarousel(NewFIFO(benchWorkers), many) },
		"round-robin": func() *carousel { return newCarousel(NewRoundRobin(benchWorkers), many) },
		"least-busy":  func() *carousel { return newCarousel(NewLeastBusy(benchWorkers), many) },
		"keyed":       func() *carousel { return newCarousel(NewKeyed(benchWorkers), many) },
		"keyed-alone": func() *carousel { return newCarousel(NewKeyed(benchWorkers), alone) },
		"topic": func() *carousel {
			return newCarousel(NewByTopic(benchWorkers, parsed("0=8,1=8,2=16,*=32")), few)
		},
		"topic-auto":   func() *carousel { return newCarousel(NewByTopic(benchWorkers, parsed("auto")), few) },
		"topic-shared": func() *carousel { return newCarousel(NewByTopic(benchWorkers, parsed("auto")), many) },
		"topic-alone":  func() *carousel { return newCarousel(NewByTopic(benchWorkers, parsed("auto")), alone) },
	}
}

func BenchmarkPolicy(b *testing.B) {
	for name, make := range carousels(b) {
		b.Run(name, func(b *testing.B) {
			c := make()
			for i := range 100_000 {
				c.turn(i)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				c.turn(i)
			}
		})
	}
}

func TestPoliciesAllocateNothingForAnItem(t *testing.T) {
	for name, make := range carousels(t) {
		c := make()
		for i := range 30_000 {
			c.turn(i)
		}
		i := 0
		n := testing.AllocsPerRun(20, func() {
			for range 1000 {
				c.turn(i)
				i++
			}
		})
		require.Less(t, n, 20.0, "%s: allocations in 1000 items", name)
	}
}

func BenchmarkReorder(b *testing.B) {
	r := NewReorder[int](0)
	b.ReportAllocs()
	for seq := uint64(0); b.Loop(); seq++ {
		r.Put(seq^7, 0)
		for _, ok := r.Next(); ok; _, ok = r.Next() {
		}
	}
}

func BenchmarkLimiter(b *testing.B) {
	l := NewLimiter(2)
	for id := range uint64(benchQueued) {
		l.Admit(Item{ID: id, Key: id % benchKeys})
	}
	b.ReportAllocs()
	for id := uint64(benchQueued); b.Loop(); id++ {
		l.Admit(Item{ID: id, Key: id % benchKeys})
		l.Done(id % benchKeys)
	}
}

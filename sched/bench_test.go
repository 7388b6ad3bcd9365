package sched

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// carousel keeps a policy busy with 64 slots and 10,000 queued items: each turn
// pushes an item, ends one and starts one. As core does, it takes only the ID of
// what Pop returns.
type carousel struct {
	p     Policy
	key   func(id uint64) uint64
	id    uint64
	holds [65]uint64
}

const (
	benchSlots  = 64
	benchQueued = 10_000
	benchKeys   = 1000
)

func (c *carousel) item(id uint64) Item {
	key := c.key(id)
	return Item{ID: id, Key: key, Place: key, Cost: int64(id%7) + 1}
}

func (c *carousel) push() {
	c.id++
	c.p.Push(c.item(c.id))
}

func (c *carousel) start() int {
	w := c.p.Ready()
	if w == 0 {
		return 0
	}
	it, _ := c.p.Pop(w)
	c.holds[w] = it.ID
	return w
}

func newCarousel(t testing.TB, name, list string, key func(id uint64) uint64) *carousel {
	p, err := New(Config{Name: name, Topics: topics(t, list)})
	require.NoError(t, err)
	for id := range benchSlots {
		p.Join(Slot{ID: id + 1})
	}
	c := &carousel{p: p, key: key}
	for range benchQueued {
		c.push()
	}
	for c.start() != 0 {
	}
	return c
}

// turn is one push, one Done and one Pop; i picks the slot whose item ends.
func (c *carousel) turn(i int) {
	w := i%benchSlots + 1
	for c.holds[w] == 0 {
		w = w%benchSlots + 1
	}
	c.push()
	c.p.Done(w, c.item(c.holds[w]), false)
	c.holds[w] = 0
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
	return map[string]func() *carousel{
		"fifo":           func() *carousel { return newCarousel(t, "fifo", "auto", many) },
		"longest-first":  func() *carousel { return newCarousel(t, "longest-first", "auto", many) },
		"shortest-first": func() *carousel { return newCarousel(t, "shortest-first", "auto", many) },
		"round-robin":    func() *carousel { return newCarousel(t, "round-robin", "auto", many) },
		"least-busy":     func() *carousel { return newCarousel(t, "least-busy", "auto", many) },
		"keyed":          func() *carousel { return newCarousel(t, "keyed", "auto", many) },
		"keyed-alone":    func() *carousel { return newCarousel(t, "keyed", "auto", alone) },
		"fair":           func() *carousel { return newCarousel(t, "fair", "auto", many) },
		"fair-alone":     func() *carousel { return newCarousel(t, "fair", "auto", alone) },
		"topic":          func() *carousel { return newCarousel(t, "topic", "0=8,1=8,2=16,*=32", few) },
		"topic-auto":     func() *carousel { return newCarousel(t, "topic", "auto", few) },
		"topic-shared":   func() *carousel { return newCarousel(t, "topic", "auto", many) },
		"topic-alone":    func() *carousel { return newCarousel(t, "topic", "auto", alone) },
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

func BenchmarkDispatcher(b *testing.B) {
	p, _ := New(Config{Name: "fifo"})
	d := NewDispatcher(p, Limits{})
	for id := range 8 {
		d.Join(Slot{ID: id + 1, Cap: 8})
	}
	for id := range uint64(64) {
		d.Push(Item{ID: id + 1, Cost: 1})
	}
	now := time.Now()
	for id := uint64(65); b.Loop(); id++ {
		d.Push(Item{ID: id, Cost: 1})
		it, slot, _ := d.Next(now)
		d.Done(slot, it, false)
	}
}

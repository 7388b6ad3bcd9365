package sched

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// carousel keeps a Dispatcher busy: each turn pushes an item, starts what it can and ends the
// oldest item.
type carousel struct {
	d    *Dispatcher
	keys uint64 // number of keys; 0 for a new key for each item
	id   uint64
	now  time.Time
	held []placed
}

func (c *carousel) turn() {
	c.id++
	key := c.id * 0x9e3779b97f4a7c15
	if c.keys > 0 {
		key = StableHash(string(rune('0' + c.id%c.keys)))
	}
	c.now = c.now.Add(time.Millisecond)
	c.d.Push(&Item{ID: c.id, Key: key, StableKey: key, Cost: int64(c.id%7) + 1})
	for it, slot, _ := c.d.Next(c.now); slot != 0; it, slot, _ = c.d.Next(c.now) {
		c.held = append(c.held, placed{it, slot})
	}
	if c.id > 500 || c.keys == 0 {
		c.d.Done(c.held[0].slot, c.held[0].Item, false)
		c.held = c.held[:copy(c.held, c.held[1:])]
	}
}

// carousels calls do with one carousel for each kind of policy, once it has grown.
func carousels(t *testing.T, do func(name string, c *carousel)) {
	for _, c := range []struct {
		name, topics string
		keys         uint64
	}{
		{"fifo", "auto", 100},
		{"longest-first", "auto", 100},
		{"round-robin", "auto", 100},
		{"least-busy", "auto", 100},
		{"keyed", "auto", 100},
		{"keyed", "auto", 0},
		{"fair", "auto", 100},
		{"fair", "auto", 0},
		{"topic", "0=8,1=8,*=16", 4},
		{"topic", "auto", 4},
		{"topic", "auto", 100},
		{"topic", "auto", 0},
	} {
		topics, err := ParseTopics(c.topics)
		require.NoError(t, err)
		k := &carousel{d: NewDispatcher(New(c.name, topics), free), keys: c.keys, now: time.Unix(1e9, 0)}
		for id := range 16 {
			k.d.Join(Slot{ID: id + 1})
		}
		for range 5000 {
			k.turn()
		}
		do(c.name+" "+c.topics, k)
	}
}

func TestMemoryIsBounded(t *testing.T) {
	carousels(t, func(name string, c *carousel) {
		var before, after runtime.MemStats
		for _, m := range [...]*runtime.MemStats{&before, &after} {
			for range 20000 {
				c.turn()
			}
			runtime.GC()
			runtime.ReadMemStats(m)
		}
		require.Less(t, int64(after.HeapAlloc-before.HeapAlloc), int64(32<<10), name)
	})
}

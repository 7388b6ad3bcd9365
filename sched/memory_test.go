package sched

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// carousel keeps a Dispatcher busy: each turn pushes an item, starts what it can and ends the
// oldest item.
type carousel struct {
	d     *Dispatcher
	keys  uint64 // number of keys; 0 for a new key for each item
	id    uint64
	now   time.Time
	held  []placed
	ended FreeList[Item]
}

func (c *carousel) turn() {
	c.id++
	key := c.id * 0x9e3779b97f4a7c15
	if c.keys > 0 {
		key = StableHash(string(rune('0' + c.id%c.keys)))
	}
	c.now = c.now.Add(time.Millisecond)
	it := c.ended.Get()
	*it = Item{ID: c.id, Key: key, StableKey: key, Cost: int64(c.id%7) + 1}
	c.d.Push(it)
	for it, slot, _ := c.d.Next(c.now); slot != 0; it, slot, _ = c.d.Next(c.now) {
		c.held = append(c.held, placed{it, slot})
	}
	if c.id > 500 || c.keys == 0 {
		c.d.Done(c.held[0].slot, c.held[0].Item, false)
		c.ended.Put(c.held[0].Item)
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
		p, err := New(Config{Name: c.name, Topics: topics})
		require.NoError(t, err)
		k := &carousel{d: NewDispatcher(p, Limits{}), keys: c.keys, now: time.Unix(1e9, 0)}
		for id := range 16 {
			k.d.Join(Slot{ID: id + 1})
		}
		for range 5000 {
			k.turn()
		}
		do(c.name+" "+c.topics, k)
	}
}

func TestItemsNeedNoAllocation(t *testing.T) {
	carousels(t, func(name string, c *carousel) {
		require.Less(t, testing.AllocsPerRun(1000, c.turn), 0.02, name)
	})
}

// TestOverdueLinesAreFew checks that lines count as overdue only if something is reserved for them, since each
// start looks at every pair of a line and an overdue one.
func TestOverdueLinesAreFew(t *testing.T) {
	p, err := New(Config{Name: "fifo"})
	require.NoError(t, err)
	d := NewDispatcher(p, Limits{Caps: units(0, []int{1000}), Parked: func(*Item, bool) {}})
	d.Join(Slot{ID: 1, Places: 9})
	take := func(id, n int, rank int64) {
		d.Push(&Item{ID: uint64(id), Rank: rank, Claim: &Claim{Units: []Units{{"0", n}}}})
		_, slot, _ := d.Next(time.Time{})
		require.Equal(t, id == 1, slot > 0)
	}
	take(1, 999, 0)
	for n := range 500 {
		take(n+2, n+2, 0)
	}
	take(1000, 1, 1)
	require.Equal(t, 501, len(d.lines))
	require.Equal(t, 1, len(d.overdue))
}

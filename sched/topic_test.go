package sched

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func topics(t require.TestingT, s string) Topics {
	c, err := ParseTopics(s)
	require.NoError(t, err)
	return c
}

// crowd is a topic policy with slots 1..n of equal capacity, and their items.
type crowd struct {
	*byTopic
	t       *testing.T
	last    uint64
	running map[int][]Item
}

func newCrowd(t *testing.T, list string, n, capacity int) *crowd {
	c := &crowd{byTopic: newByTopic(topics(t, list)), t: t, running: map[int][]Item{}}
	for id := 1; id <= n; id++ {
		c.Join(Slot{ID: id, Cap: capacity})
	}
	return c
}

// fill pushes n items of a key.
func (c *crowd) fill(key string, n int) {
	for range n {
		c.last++
		require.True(c.t, c.Push(Item{ID: c.last, Key: Hash(key), Cost: 1}))
	}
}

// start starts what can start and returns how many of each key then run.
func (c *crowd) start() map[uint64]int {
	for slot := c.Ready(); slot != 0; slot = c.Ready() {
		it, ok := c.Pop(slot)
		require.True(c.t, ok)
		c.running[slot] = append(c.running[slot], it)
	}
	n := map[uint64]int{}
	for _, items := range c.running {
		for _, it := range items {
			n[it.Key]++
		}
	}
	return n
}

// end ends the oldest item of a slot, if it holds any.
func (c *crowd) end(slot int) (it Item) {
	if items := c.running[slot]; len(items) > 0 {
		it, c.running[slot] = items[0], items[1:]
		c.Done(slot, it, false)
	}
	return it
}

func TestTopicShares(t *testing.T) {
	for _, c := range []struct {
		list           string
		slots          int
		mail, db, rest int
	}{
		{"mail=2,db=1,*=5", 8, 2, 1, 5},
		{"mail=2,db=1,*=5", 12, 2, 1, 9}, // the rest gets the surplus
		{"mail=2,db=1,*=5", 4, 1, 1, 2},
		{"mail=2,db=1,*=5", 3, 1, 1, 1},
		{"mail=2,db=1", 6, 4, 2, 0}, // no rest, so in proportion
		{"mail=2,db=1", 3, 2, 1, 0},
		{"mail=6,db=2", 4, 3, 1, 0},
		{"mail=900,db=1", 2, 1, 1, 0},
	} {
		for capacity := 1; capacity <= 3; capacity++ {
			name := fmt.Sprint(c.list, " on ", c.slots, " of ", capacity)
			p := newCrowd(t, c.list, c.slots, capacity)
			p.fill("mail", 40)
			p.fill("db", 40)
			if c.rest > 0 {
				p.fill("other", 40)
			}
			n := p.start()
			require.Equal(t, c.mail*capacity, n[Hash("mail")], name)
			require.Equal(t, c.db*capacity, n[Hash("db")], name)
			require.Equal(t, c.rest*capacity, n[Hash("other")], name)
			for slot, items := range p.running {
				require.Equal(t, slot <= c.mail, items[0].Key == Hash("mail"), "%s: the first topic has the first slots", name)
			}
		}
	}
}

func TestTopicRefusesAKeyOfNoTopic(t *testing.T) {
	p := newCrowd(t, "mail=2,db=1", 3, 1)
	require.False(t, p.Push(Item{ID: 1, Key: Hash("web"), Cost: 1}))
	require.Zero(t, p.Len())
	require.Zero(t, p.Ready())
	require.False(t, p.Remove(1))
	newCrowd(t, "mail=2,*=1", 0, 1).fill("web", 1)
	newCrowd(t, "auto", 0, 1).fill("web", 1)
}

func TestTopicAssignsItemsToTheLeastBusySlot(t *testing.T) {
	p := newCrowd(t, "mail=2", 2, 1)
	for id, cost := range []int64{10, 1, 1, 1} {
		p.Push(Item{ID: uint64(id + 1), Key: Hash("mail"), Cost: cost})
	}
	p.start()
	require.EqualValues(t, 1, p.running[1][0].ID)
	require.EqualValues(t, 2, p.end(2).ID)
	it, _ := p.Pop(2)
	require.EqualValues(t, 3, it.ID, "the light ones wait for the slot without the heavy one")
}

func TestTopicFewerSlotsThanTopicsStarvesNone(t *testing.T) {
	for _, list := range []string{"a=9,b=1,c=3,d=1,*=4", "auto"} {
		for slots := 1; slots <= 4; slots++ {
			for capacity := 1; capacity <= 3; capacity++ {
				p := newCrowd(t, list, slots, capacity)
				for _, k := range []string{"a", "b", "c", "d", "e"} {
					p.fill(k, 1000)
				}
				served, last := map[uint64]int{}, map[uint64]uint64{}
				p.start()
				for round := range 250 * capacity {
					slot := round%slots + 1
					it := p.end(slot)
					served[it.Key]++
					p.start()
					for slot, items := range p.running {
						require.NotEmpty(t, items, "slot %d is idle beside a queue", slot)
					}
					if slots == 1 {
						require.Greater(t, it.ID, last[it.Key], "a key's backlog loses its order")
						last[it.Key] = it.ID
					}
				}
				for key, n := range served {
					require.InDelta(t, 50*capacity, n, 5*float64(capacity), "%s on %d of %d: key %x", list, slots, capacity, key)
				}
				require.Len(t, served, 5)
			}
		}
	}
}

func TestTopicNeverExceedsTheNewShare(t *testing.T) {
	p := newCrowd(t, "mail=4,db=4", 8, 1)
	p.fill("mail", 20)
	p.fill("db", 20)
	p.start()
	for id := 8; id > 2; id-- {
		p.Leave(id)
	}
	require.Zero(t, p.Ready(), "the two that stay are busy with mail")
	p.end(2)
	require.Equal(t, 2, p.Ready())
	p.start()
	require.Equal(t, Hash("db"), p.running[2][0].Key, "the first idle slot goes to the topic without one")
	p.end(1)
	p.start()
	require.Equal(t, Hash("mail"), p.running[1][0].Key)
	for id := 3; id <= 8; id++ {
		p.Join(Slot{ID: id})
	}
	require.Zero(t, p.Ready(), "slots that came back are still busy")
	for slot := 3; slot <= 8; slot++ {
		p.end(slot)
	}
	n := p.start()
	require.Equal(t, 4, n[Hash("mail")])
	require.Equal(t, 4, n[Hash("db")])
}

func TestAutoTopicsGetASlotEachAndShareTheRest(t *testing.T) {
	p := newCrowd(t, "auto", 8, 1)
	p.fill("hot", 100)
	require.Equal(t, 8, p.start()[Hash("hot")], "spare slots go where items wait")

	p.fill("new", 10)
	require.Zero(t, p.Ready(), "only idle slots move")
	p.end(5)
	p.start()
	require.Equal(t, Hash("new"), p.running[5][0].Key, "it gets the first idle slot")
	for p.Len() > 0 {
		for slot := 1; slot <= 8; slot++ {
			p.end(slot)
			require.LessOrEqual(t, p.start()[Hash("new")], 1, "it gets no second slot before Balance")
		}
	}
	for slot := 1; slot <= 8; slot++ {
		p.end(slot)
	}

	p.fill("hot", 30)
	p.fill("new", 90)
	most := math.MaxInt
	balance := func() {
		p.Balance(func(key uint64) int {
			if key == Hash("new") {
				return most
			}
			return math.MaxInt
		})
	}
	balance()
	n := p.start()
	require.Equal(t, 2, n[Hash("hot")])
	require.Equal(t, 6, n[Hash("new")])
	for slot := 1; slot <= 8; slot++ {
		p.end(slot)
	}
	most = 2
	balance()
	n = p.start()
	require.Equal(t, 6, n[Hash("hot")], "it gets the slots that the limited topic may not have")
	require.Equal(t, 2, n[Hash("new")])
	p.fill("new", 50)
	for range 20 {
		for slot := 1; slot <= 8; slot++ {
			p.end(slot)
		}
		require.LessOrEqual(t, p.start()[Hash("new")], 2)
	}
}

func TestTopicKeepsASlotThatNoOtherTopicNeeds(t *testing.T) {
	p := newCrowd(t, "a=1,b=1", 1, 3)
	p.fill("a", 20)
	for range 10 {
		require.Equal(t, 3, p.start()[Hash("a")])
		p.end(1)
	}
}

// A slot that kept taking items would never be empty and could never move.
func TestAutoTopicGetsASlotThatHoldsSeveralItems(t *testing.T) {
	p := newCrowd(t, "auto", 3, 4)
	p.fill("hot", 1000)
	require.Equal(t, 12, p.start()[Hash("hot")])
	p.fill("new", 100)
	for round := range 40 {
		p.end(round%3 + 1)
		p.start()
	}
	n := p.start()
	require.Equal(t, 4, n[Hash("new")])
	require.Equal(t, 8, n[Hash("hot")], "only one slot moved")
}

func TestAutoTopicsAreForgotten(t *testing.T) {
	p := newCrowd(t, "auto", 4, 1)
	for id := uint64(1); id < 10_000; id++ {
		p.Push(Item{ID: id, Key: id, Cost: 1})
		if id%50 != 0 {
			continue
		}
		for slot := p.Ready(); slot != 0; slot = p.Ready() {
			it, _ := p.Pop(slot)
			p.Done(slot, it, false)
		}
		require.Zero(t, p.Len())
		require.LessOrEqual(t, len(p.topics), 4)
		require.LessOrEqual(t, len(p.needy), 60)
	}
	require.LessOrEqual(t, p.made, 60)
}

func TestAutoTopicWithALimitGivesSlotsUp(t *testing.T) {
	for capacity := 1; capacity <= 3; capacity++ {
		p := newCrowd(t, "auto", 8, capacity)
		p.fill("cpu", 200)
		require.Equal(t, 8*capacity, p.start()[Hash("cpu")])
		p.Balance(func(uint64) int { return 2 })
		require.Zero(t, p.Ready())
		for round := range 8 * capacity {
			p.end(round%8 + 1)
			p.start()
		}
		require.Equal(t, 2*capacity, p.start()[Hash("cpu")], "a surplus slot takes no more items")
		p.Balance(func(uint64) int { return math.MaxInt })
		require.Equal(t, 8*capacity, p.start()[Hash("cpu")])
	}
}

// checkTeams checks the invariants of a topic policy.
func checkTeams(d *driver, p *byTopic) {
	t, n := d.t, len(d.w.ids)
	p.update()
	holds(t, p.made <= 60, "%d teams made", p.made)
	var held [61]int // by order of the team
	for _, id := range d.w.ids {
		held[p.stations[id].team.order] += d.w.held[id]
	}
	due, queued := 0, 0
	for i, m := range p.teams {
		holds(t, m.index == i, "index")
		holds(t, m.held == held[m.order], "%d held, not %d", m.held, held[m.order])
		holds(t, m.ready > 0 == (m.n > 0 && m.idle.len() > 0), "ready")
		holds(t, !m.needs() || m.needy, "a claim is not listed")
		due += m.want
		queued += m.n
	}
	holds(t, due == p.due && due <= n, "%d due, not %d", p.due, due)
	holds(t, queued == p.n && p.spare.n == 0, "%d queued, not %d", p.n, queued)
	holds(t, p.spare.held == held[p.spare.order], "%d held by spare slots", p.spare.held)
	holds(t, p.due == 0 || len(p.teams) <= n, "shared")
	holds(t, !p.auto || !p.shared() || p.dormant.len() == 0, "a dormant topic was not forgotten")
	for _, id := range d.w.ids {
		st := p.stations[id]
		m := st.team
		holds(t, m.load.items[st.load-1].x == st, "slot %d is not in its team", id)
		holds(t, st.idle > 0 == d.w.room(id), "slot %d has room: %v", id, d.w.room(id))
		if d.w.held[id] == 0 && m.surplus() && m.n == 0 {
			holds(t, !p.sought(st), "slot %d is idle and another topic has a claim to it", id)
		}
		fits := func(u *team) bool { return !d.bound[u.key] || slices.Contains(d.w.slots[id].Labels, u.key) }
		holds(t, fits(m), "slot %d is in a team whose label it lacks", id)
		for _, u := range p.teams {
			starves := u.n > 0 && u.have() == 0 && fits(u) && (u.bound || m.surplus())
			holds(t, !starves || m.n > 0 || d.w.held[id] > 0, "slot %d is idle and another topic starves", id)
			holds(t, u.bound == d.bound[u.key], "bound")
		}
	}
	for _, h := range d.running {
		if d.w.in(h.slot) && d.w.joins[h.slot] == h.joins {
			m := p.stations[h.slot].team
			holds(t, m == p.team(h.Key) || m == p.spare, "slot %d holds an item of another team", h.slot)
		}
	}
}

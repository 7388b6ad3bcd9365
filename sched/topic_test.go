package sched

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func topics(t require.TestingT, s string) Topics {
	c, err := ParseTopics(s)
	require.NoError(t, err)
	return c
}

// startAll starts what can start and says how many of each key then run.
func startAll(p Policy, running map[int]Item) map[uint64]int {
	for w := p.Ready(); w != 0; w = p.Ready() {
		it, _ := p.Pop(w)
		running[w] = it
	}
	return perKey(running)
}

func perKey(running map[int]Item) map[uint64]int {
	n := map[uint64]int{}
	for _, it := range running {
		n[it.Key]++
	}
	return n
}

// fill pushes n items of a key.
func fill(p Policy, next *uint64, key string, n int) {
	for range n {
		*next++
		p.Push(Item{ID: *next, Key: Hash(key), Cost: 1})
	}
}

func TestTopicShares(t *testing.T) {
	for _, c := range []struct {
		list                  string
		workers               int
		mail, db, rest, spare int
	}{
		{"mail=2,db=1,*=5", 8, 2, 1, 5, 0},
		{"mail=2,db=1,*=5", 12, 2, 1, 9, 0}, // what is over is the rest's
		{"mail=2,db=1,*=5", 4, 1, 1, 2, 0},
		{"mail=2,db=1,*=5", 3, 1, 1, 1, 0},
		{"mail=2,db=1", 6, 4, 2, 0, 0}, // no rest: in proportion
		{"mail=2,db=1", 3, 2, 1, 0, 0},
		{"mail=6,db=2", 4, 3, 1, 0, 0},
		{"mail=900,db=1", 2, 1, 1, 0, 0},
	} {
		name := fmt.Sprint(c.list, " on ", c.workers)
		p := NewByTopic(c.workers, topics(t, c.list))
		var id uint64
		fill(p, &id, "mail", 20)
		fill(p, &id, "db", 20)
		if p.Accepts(Hash("other")) {
			fill(p, &id, "other", 20)
		}
		running := map[int]Item{}
		n := startAll(p, running)
		require.Equal(t, c.mail, n[Hash("mail")], name)
		require.Equal(t, c.db, n[Hash("db")], name)
		require.Equal(t, c.rest, n[Hash("other")], name)
		for w, it := range running {
			require.Equal(t, w <= c.mail, it.Key == Hash("mail"), "%s: the first topic has the first workers", name)
		}
	}
}

func TestTopicRefusesWhatNobodyIsFor(t *testing.T) {
	p := NewByTopic(3, topics(t, "mail=2,db=1"))
	require.True(t, p.Accepts(Hash("mail")))
	require.False(t, p.Accepts(Hash("web")))
	require.Panics(t, func() { p.Push(Item{ID: 1, Key: Hash("web"), Cost: 1}) })
	require.True(t, NewByTopic(3, topics(t, "mail=2,*=1")).Accepts(Hash("web")))
	require.True(t, NewByTopic(3, topics(t, "auto")).Accepts(Hash("web")))
}

func TestTopicIsLeastBusyInside(t *testing.T) {
	p := NewByTopic(2, topics(t, "mail=2"))
	key := Hash("mail")
	for id, cost := range []int64{10, 1, 1, 1} {
		p.Push(Item{ID: uint64(id + 1), Key: key, Cost: cost})
	}
	for _, w := range []int{1, 2} {
		it, ok := p.Pop(w)
		require.True(t, ok)
		require.EqualValues(t, w, it.ID)
	}
	p.Done(2, Item{ID: 2, Key: key, Cost: 1}, false)
	it, _ := p.Pop(2)
	require.EqualValues(t, 3, it.ID, "the light ones wait for the worker without the heavy one")
}

func TestTopicFewerWorkersThanTopicsStarvesNone(t *testing.T) {
	for _, list := range []string{"a=9,b=1,c=3,d=1,*=4", "auto"} {
		for workers := 1; workers <= 4; workers++ {
			p := NewByTopic(workers, topics(t, list))
			var id uint64
			for _, k := range []string{"a", "b", "c", "d", "e"} {
				fill(p, &id, k, 100)
			}
			running, served := map[int]Item{}, map[uint64]int{}
			for range 50 {
				startAll(p, running)
				require.Len(t, running, workers, "an idle worker beside a queue")
				for w := range workers {
					it := running[w+1]
					served[it.Key]++
					delete(running, w+1)
					p.Done(w+1, it, false)
				}
			}
			for key, n := range served {
				require.InDelta(t, 10*workers, n, 2, "%s on %d: key %x", list, workers, key)
			}
			require.Len(t, served, 5)
		}
	}
}

func TestTopicResizeNeverExceedsTheNewShare(t *testing.T) {
	p := NewByTopic(8, topics(t, "mail=4,db=4"))
	var id uint64
	fill(p, &id, "mail", 20)
	fill(p, &id, "db", 20)
	running := map[int]Item{}
	startAll(p, running)
	p.Resize(2)
	require.Zero(t, p.Ready(), "the two that stay are busy with mail")
	p.Done(2, running[2], false)
	delete(running, 2)
	require.Equal(t, 2, p.Ready())
	it, _ := p.Pop(2)
	running[2] = it
	require.Equal(t, Hash("db"), it.Key, "its first idle worker goes to the topic with none")
	p.Done(1, running[1], false)
	it, _ = p.Pop(1)
	require.Equal(t, Hash("mail"), it.Key)
	p.Resize(8)
	require.Zero(t, p.Ready(), "workers that came back are still busy")
	for w := 3; w <= 8; w++ {
		p.Done(w, running[w], false)
		delete(running, w)
	}
	n := startAll(p, running)
	require.Equal(t, 4, n[Hash("mail")])
	require.Equal(t, 4, n[Hash("db")])
}

func TestAutoTopicsGetAWorkerEachAndShareTheRest(t *testing.T) {
	p := NewByTopic(8, topics(t, "auto"))
	var id uint64
	running := map[int]Item{}
	fill(p, &id, "hot", 100)
	require.Equal(t, 8, startAll(p, running)[Hash("hot")], "what is nobody's goes where something waits")

	fill(p, &id, "new", 10)
	require.Zero(t, p.Ready(), "only idle workers move")
	p.Done(5, running[5], false)
	it, ok := p.Pop(5)
	require.True(t, ok)
	require.Equal(t, Hash("new"), it.Key, "the first that is idle")
	running[5] = it
	for range 20 {
		for w := 1; w <= 8; w++ {
			p.Done(w, running[w], false)
			running[w], ok = p.Pop(w)
			if !ok {
				delete(running, w)
			}
		}
		if n := perKey(running); n[Hash("new")] > 0 {
			require.Equal(t, 1, n[Hash("new")], "more comes with Balance")
		}
		if p.Len() == 0 {
			break
		}
	}

	for w, it := range running {
		p.Done(w, it, false)
		delete(running, w)
	}
	fill(p, &id, "hot", 30)
	fill(p, &id, "new", 90)
	p.Balance(2, nil)
	n := startAll(p, running)
	require.Equal(t, 2, n[Hash("hot")])
	require.Equal(t, 6, n[Hash("new")])
	for w, it := range running {
		p.Done(w, it, false)
		delete(running, w)
	}
	p.Balance(2, func(key uint64) bool { return key == Hash("new") })
	n = startAll(p, running)
	require.Equal(t, 6, n[Hash("hot")], "it gets what the one bound by the processors may not have")
	require.Equal(t, 2, n[Hash("new")])
	fill(p, &id, "new", 50)
	for range 20 {
		for w := 1; w <= 8; w++ {
			if it, ok := running[w]; ok {
				p.Done(w, it, false)
				delete(running, w)
			}
		}
		require.LessOrEqual(t, startAll(p, running)[Hash("new")], 2)
	}
}

func TestAutoTopicsAreForgotten(t *testing.T) {
	p := NewByTopic(4, topics(t, "auto"))
	for id := uint64(1); id < 10_000; id++ {
		p.Push(Item{ID: id, Key: id, Cost: 1})
		if id%50 != 0 {
			continue
		}
		for w := p.Ready(); w != 0; w = p.Ready() {
			it, _ := p.Pop(w)
			p.Done(w, it, false)
		}
		require.Zero(t, p.Len())
		require.LessOrEqual(t, len(p.topics), 4)
		require.LessOrEqual(t, p.needy.n, 60)
	}
	require.LessOrEqual(t, p.made, 60)
}

// checkTeams looks at what must hold of a topic policy at any time.
func checkTeams(t require.TestingT, p *ByTopic, running map[int]Item) {
	due, queued := 0, 0
	for i, m := range p.teams {
		holds(t, m.slot == i, "slot")
		holds(t, m.ready > 0 == (m.n > 0 && m.idle.Len() > 0), "ready")
		holds(t, !m.needs() || m.needy, "a claim that is not known")
		due += m.want
		queued += m.n
	}
	holds(t, due == p.due && due <= p.slots.n, "%d due, not %d", p.due, due)
	holds(t, queued == p.n && p.spare.n == 0, "%d queued, not %d", p.n, queued)
	holds(t, p.shared == (len(p.teams) > p.slots.n), "shared")
	for w := 1; w <= p.slots.n; w++ {
		_, busy := running[w]
		holds(t, p.slots.idle.has(w) != busy, "worker %d busy: %v", w, busy)
		if m := p.home[w-1]; !busy && m.surplus() && m.n == 0 {
			holds(t, !p.claimed(), "an idle worker that another topic has a claim to")
		}
	}
	holds(t, !p.auto || !p.shared || p.dormant.Len() == 0, "a topic with nothing to do takes room")
}

// topicStep is a step of the driver, a Balance now and then, and a check.
func topicStep(d *driver, p *ByTopic) {
	if d.n(50) == 0 {
		bound := Hash(string(rune('a' + d.n(d.keys))))
		p.Balance(1+d.n(3), func(key uint64) bool { return key == bound })
	}
	before := make(map[int]bool, len(d.running))
	for w := range d.running {
		before[w] = true
	}
	d.step()
	checkTeams(d.t, p, d.running)
	if p.auto || p.shared {
		return
	}
	for w, it := range d.running {
		if !before[w] && w <= d.workers {
			holds(d.t, p.team(it.Key) == p.home[w-1], "an item on another topic's worker")
		}
	}
}

var topicLists = []string{"a=1,b=2,c=3,d=1,e=1", "a=2,b=1,*=3", "*=4", "auto"}

func TestTopicRandom(t *testing.T) {
	for _, list := range topicLists {
		t.Run(list, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				workers := rapid.IntRange(1, 9).Draw(t, "workers")
				p := NewByTopic(workers, topics(t, list))
				n := func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "n") }
				d := newDriver(t, n, p, nil, workers, 5)
				for range rapid.IntRange(0, 60).Draw(t, "steps") {
					topicStep(d, p)
				}
				d.drain()
			})
		})
	}
}

func TestTopicRandomLong(t *testing.T) {
	for _, list := range topicLists {
		t.Run(list, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(3, 4))
			p := NewByTopic(4, topics(t, list))
			keys := 5
			if list == "auto" {
				keys = 12
			}
			d := newDriver(t, r.IntN, p, nil, 4, keys)
			d.maxIn = 25
			for range steps() {
				topicStep(d, p)
			}
			d.drain()
			require.LessOrEqual(t, p.made, 60)
		})
	}
}

func TestAutoTopicBoundByProcessorsGivesWorkersUp(t *testing.T) {
	p := NewByTopic(8, topics(t, "auto"))
	var id uint64
	fill(p, &id, "cpu", 100)
	running := map[int]Item{}
	startAll(p, running)
	require.Len(t, running, 8)
	p.Balance(2, func(uint64) bool { return true })
	require.Zero(t, p.Ready())
	for w := 1; w <= 8; w++ {
		p.Done(w, running[w], false)
		delete(running, w)
		startAll(p, running)
	}
	require.Len(t, running, 2, "what was too many stops as it gets idle")
	p.Balance(2, nil)
	startAll(p, running)
	require.Len(t, running, 8)
}

func TestTopicBacklogOfOneThatCameLateKeepsItsOrder(t *testing.T) {
	p := NewByTopic(1, topics(t, "a=1,b=1"))
	var id uint64
	fill(p, &id, "a", 5)
	fill(p, &id, "b", 5)
	last := map[uint64]uint64{}
	for range 20 {
		w := p.Ready()
		if w == 0 {
			break
		}
		it, _ := p.Pop(w)
		require.Greater(t, it.ID, last[it.Key])
		last[it.Key] = it.ID
		if id < 16 {
			fill(p, &id, "a", 1)
			fill(p, &id, "b", 1)
		}
		p.Done(w, it, false)
	}
	require.Zero(t, p.Len())
}

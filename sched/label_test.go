package sched

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func labelled(id int, labels ...string) Slot {
	s := Slot{ID: id}
	for _, l := range labels {
		s.Labels = append(s.Labels, Hash(l))
	}
	return s
}

// where returns the slots that run items of a key, sorted.
func (c *crowd) where(key string) []int {
	c.start()
	on := map[int]bool{}
	for slot, items := range c.running {
		for _, it := range items {
			if it.Key == Hash(key) {
				on[slot] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(on))
}

// turn ends what every slot runs.
func (c *crowd) turn() {
	for _, slot := range slices.Sorted(maps.Keys(c.running)) {
		for len(c.running[slot]) > 0 {
			c.end(slot)
		}
	}
}

func TestTopicsRunOnSlotsWithTheirLabel(t *testing.T) {
	for _, list := range []string{"gpu=2,*=2", "gpu=2,x=2"} {
		p := newCrowd(t, list, 2, 1)
		p.Join(labelled(3, "gpu", "gpu"))
		p.Join(labelled(4, "other", "gpu"))
		p.fill("gpu", 100)
		p.fill("x", 100)
		require.Equal(t, []int{3, 4}, p.where("gpu"), list)
		require.Equal(t, []int{1, 2}, p.where("x"))

		// Other topics get what is left of them.
		p.Join(labelled(5, "gpu"))
		p.Leave(2)
		p.turn()
		require.Equal(t, []int{1, 5}, p.where("x"))
		require.Equal(t, []int{3, 4}, p.where("gpu"))

		// And give them back when slots without labels come.
		p.Leave(3)
		p.Join(labelled(6))
		p.turn()
		require.Equal(t, []int{1, 6}, p.where("x"))
		require.Equal(t, []int{4, 5}, p.where("gpu"))

		// While there is none, the topic waits.
		p.Leave(4)
		p.Leave(5)
		p.turn()
		require.Empty(t, p.where("gpu"))
		require.Equal(t, []int{1, 6}, p.where("x"))
		require.Equal(t, Choice{Key: true, None: true}, p.Choice(Item{Key: Hash("gpu")}))
		p.Join(labelled(9, "gpu"))
		require.Equal(t, []int{9}, p.where("gpu"))
	}
}

// Until its label has been seen, a topic runs anywhere, and then ends what it began.
func TestTopicLearnsOfItsLabel(t *testing.T) {
	for _, list := range []string{"gpu=2,*=1", "gpu=2", "auto"} {
		p := newCrowd(t, list, 3, 2)
		p.fill("gpu", 100)
		require.Subset(t, p.where("gpu"), []int{1, 2}, list)
		p.Join(labelled(4, "gpu"))
		p.end(1)
		p.end(2)
		require.Contains(t, p.where("gpu"), 4)
		require.Len(t, p.running[1], 1, "it takes no more")
		p.turn()
		require.Equal(t, []int{4}, p.where("gpu"))
	}
}

// Automatic topics come and go; a label that has been seen binds them all the same.
func TestAutomaticTopicsAreBound(t *testing.T) {
	p := newCrowd(t, "auto", 0, 1)
	p.Join(labelled(1))
	p.Join(labelled(2, "gpu"))
	for range 20 {
		for _, key := range []string{"a", "gpu", "b", "c"} {
			p.fill(key, 2)
		}
		for p.Len() > 0 {
			require.Subset(t, []int{2}, p.where("gpu"))
			p.turn()
		}
	}
}

// Topics that have only one slot between them take turns, whoever else has slots.
func TestASlotWithSeveralLabelsIsShared(t *testing.T) {
	for _, list := range []string{"a=1,b=3,*=1", "a=1,b=1,c=1,d=1,*=1"} {
		p := newCrowd(t, list, 3, 1)
		p.Join(labelled(4, "a", "b"))
		p.fill("a", 20)
		p.fill("b", 20)
		p.fill("x", 100)
		turns := map[string]int{}
		for range 20 {
			if a, b := p.where("a"), p.where("b"); len(a) > 0 {
				require.Equal(t, []int{4}, a)
				turns["a"]++
			} else {
				require.Equal(t, []int{4}, b)
				turns["b"]++
			}
			p.turn()
		}
		require.Equal(t, map[string]int{"a": 10, "b": 10}, turns, list)
	}
}

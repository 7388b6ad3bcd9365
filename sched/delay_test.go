package sched

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestDelayRandom(t *testing.T) {
	type entry struct {
		id, order uint64
		at        time.Time
	}
	start := time.Unix(1_700_000_000, 0)
	rapid.Check(t, func(t *rapid.T) {
		d := NewDelay()
		in := map[uint64]entry{}
		now := start
		first := func() (entry, bool) {
			var e entry
			for _, o := range in {
				if e.id == 0 || o.at.Before(e.at) || o.at.Equal(e.at) && o.order < e.order {
					e = o
				}
			}
			return e, len(in) > 0
		}
		for step := range rapid.IntRange(0, 300).Draw(t, "steps") {
			id := rapid.Uint64Range(1, 40).Draw(t, "id")
			switch rapid.IntRange(0, 3).Draw(t, "op") {
			case 0, 1:
				at := now.Add(time.Duration(rapid.IntRange(-3, 20).Draw(t, "in")) * time.Second)
				d.Push(id, at)
				in[id] = entry{id: id, order: uint64(step), at: at}
			case 2:
				_, had := in[id]
				require.Equal(t, had, d.Remove(id))
				delete(in, id)
			case 3:
				now = now.Add(time.Duration(rapid.IntRange(0, 5).Draw(t, "later")) * time.Second)
				for {
					got, ok := d.Due(now)
					e, any := first()
					require.Equal(t, any && !e.at.After(now), ok)
					if !ok {
						break
					}
					require.Equal(t, e.id, got)
					delete(in, got)
				}
			}
			e, any := first()
			at, ok := d.Next()
			require.Equal(t, any, ok)
			require.True(t, at.Equal(e.at))
			require.Equal(t, len(in), d.queue.len())
		}
	})
}

func TestDelayAllocatesNothingForAnItem(t *testing.T) {
	d := NewDelay()
	now := time.Unix(1_700_000_000, 0)
	id := uint64(0)
	work := func() {
		for range 100 {
			id++
			d.Push(id, now)
		}
		for range 100 {
			_, ok := d.Due(now)
			require.True(t, ok)
		}
	}
	for range 50 {
		work()
	}
	require.Less(t, testing.AllocsPerRun(100, work), 2.0)
}

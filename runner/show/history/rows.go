package history

import (
	"cmp"
	"math"
	"slices"
	"time"
)

const (
	mostGaps = 200                         // in which a row was free, for what comes late
	slack    = int64(2 * time.Millisecond) // by which times may be rounded
)

// Rows are the rows of a chart in which nothing overlaps. The zero Rows has none.
type Rows struct {
	n    int
	gaps []gap // the times in which rows are free, as they begin
}

type gap struct {
	from, to int64
	row      int
}

// Take returns the row, from 0 on, of something that lasts, and from when until when it is shown.
// Of the rows that are free, the one that is free for the shortest time is taken. So there are few
// whether things come as they began or as they ended.
func (r *Rows) Take(from, to int64) (row int, start, end int64) {
	rounded := min((to-from)/4, slack)
	i, _ := slices.BinarySearchFunc(r.gaps, from+rounded+1, gap.compare)
	for i--; i >= 0 && r.gaps[i].to < to-rounded; i-- {
	}
	if i < 0 {
		i = 0
		r.gaps = slices.Insert(r.gaps, 0, gap{math.MinInt64, math.MaxInt64, r.n})
		r.n++
	}
	g := r.gaps[i]
	r.gaps = slices.Delete(r.gaps, i, i+1)
	from = max(from, g.from)
	to = max(from, min(to, g.to))
	r.add(gap{g.from, from, g.row})
	r.add(gap{to, g.to, g.row})
	return g.row, from, to
}

func (g gap) compare(at int64) int { return cmp.Compare(g.from, at) }

// add adds a time in which a row is free. Of those in the past, it forgets the first if there
// are too many.
func (r *Rows) add(g gap) {
	if g.from == g.to {
		return
	}
	i, _ := slices.BinarySearchFunc(r.gaps, g.from, gap.compare)
	r.gaps = slices.Insert(r.gaps, i, g)
	if len(r.gaps) > mostGaps+r.n {
		first := slices.IndexFunc(r.gaps, func(g gap) bool { return g.to < math.MaxInt64 })
		r.gaps = slices.Delete(r.gaps, first, first+1)
	}
}

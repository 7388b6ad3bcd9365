package history

import (
	"cmp"
	"math"
	"slices"
	"time"
)

const (
	mostGaps = 200                         // gaps to remember in the past, for attempts that are reported late
	slack    = int64(2 * time.Millisecond) // how far times may be rounded
)

// Rows places intervals in rows so that those of one row do not overlap. The zero Rows has no rows.
type Rows struct {
	n    int   // number of rows
	gaps []gap // when rows are free, sorted by start
}

type gap struct {
	from, to int64
	row      int
}

// Take places an interval. It returns the row, counted from 0, and the start and end to draw, which
// may be rounded to avoid an overlap. It chooses the free row whose gap began last, which keeps the
// number of rows low whether intervals are added in the order of their starts or of their ends.
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

// add adds a gap. If there are too many in the past, it drops the earliest.
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

package history

import (
	"math"

	"crew/runner/keep/series"
)

// Curves returns the curves until the latest line, with the attempts that still run.
func (f *Fold) Curves() series.Curves {
	c := f.curves.Clone()
	for _, o := range f.open {
		if a := o.current; a != nil {
			c.Spread(series.Running, 1, a.Start, f.until(a))
		}
	}
	begin, end := int64(math.MaxInt64), int64(0)
	for _, r := range f.runs { // in any order, and some at the same time
		if !r.Start.IsZero() {
			begin, end = min(begin, r.Start.UnixNano()), max(end, r.End.UnixNano())
		}
	}
	if n := len(f.runs); n > 0 {
		c.Set(series.Waiting, 0, series.Nanos(f.runs[n-1].End))
	}
	c.Cover(begin, end)
	return c.Curves(0)
}

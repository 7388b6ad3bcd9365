package history

import (
	"maps"
	"math"
	"time"
)

const (
	mostPoints = 1000        // of a curve
	leastWidth = time.Second // of a period
	latest     = 1 << 62     // time, in nanoseconds since 1970; curves leave out later ones, and those before 1970
)

// Curves are figures over time, in periods of equal length. The first one begins at Start.
type Curves struct {
	Start  time.Time
	Width  time.Duration // length of a period
	Points []Point       // at most 1000; nil if nothing has a time
}

// Point has the figures of one period.
type Point struct {
	Ended, Failed    int64   // tasks, by their last result
	Running, Waiting float64 // attempts and tasks, averaged over the part of the period that the runs cover
}

// curves accumulates Curves. If the time grows beyond mostPoints periods, pairs of periods are merged.
type curves struct {
	width       int64            // in nanoseconds
	points      map[int64]*Point // by the start of their period, in widths since 1970; sums until report
	first, last int64            // keys in points

	waiting int   // tasks that wait since
	since   int64 // 0 for never
}

// at returns the point of a time.
func (c *curves) at(t int64) *Point {
	if c.points == nil {
		c.width, c.points = int64(leastWidth), map[int64]*Point{}
		c.first, c.last = t/c.width, t/c.width
	}
	for max(c.last, t/c.width)-min(c.first, t/c.width) >= mostPoints {
		c.widen()
	}
	i := t / c.width
	c.first, c.last = min(c.first, i), max(c.last, i)
	p := c.points[i]
	if p == nil {
		p = &Point{}
		c.points[i] = p
	}
	return p
}

// widen merges pairs of periods.
func (c *curves) widen() {
	old := c.points
	c.width, c.first, c.last, c.points = 2*c.width, c.first/2, c.last/2, make(map[int64]*Point, len(old))
	for i, p := range old {
		if sum := c.points[i/2]; sum != nil {
			sum.Ended, sum.Failed = sum.Ended+p.Ended, sum.Failed+p.Failed
			sum.Running, sum.Waiting = sum.Running+p.Running, sum.Waiting+p.Waiting
		} else {
			c.points[i/2] = p
		}
	}
}

// spread calls add with the part of each period between from and to, in nanoseconds.
func (c *curves) spread(from, to int64, add func(p *Point, part float64)) {
	if from <= 0 || to <= from || to > latest {
		return
	}
	c.at(from)
	c.at(to) // so that the width stays as it is
	for from < to {
		end := min(to, (from/c.width+1)*c.width)
		add(c.at(from), float64(end-from))
		from = end
	}
}

// ran adds an attempt that ran from one time to another.
func (c *curves) ran(from, to int64) {
	c.spread(from, to, func(p *Point, part float64) { p.Running += part })
}

// ended adds a task that ended.
func (c *curves) ended(at time.Time, failed bool) {
	if at.Unix() <= 0 || at.Unix() > latest/int64(time.Second) {
		return
	}
	p := c.at(at.UnixNano())
	p.Ended++
	if failed {
		p.Failed++
	}
}

// wait sets how many tasks wait from a time on.
func (c *curves) wait(n int, at time.Time) {
	if n == c.waiting || at.IsZero() {
		return
	}
	c.flush(at.UnixNano())
	c.waiting = n
}

// flush adds the tasks that have waited until a time.
func (c *curves) flush(at int64) {
	if n := float64(c.waiting); n > 0 {
		c.spread(c.since, at, func(p *Point, part float64) { p.Waiting += n * part })
	}
	c.since = at
}

// clone returns a copy.
func (c curves) clone() curves {
	c.points = maps.Clone(c.points)
	for i, p := range c.points {
		one := *p
		c.points[i] = &one
	}
	return c
}

// report returns the curves of runs, of which the first began at begin and the last ended at end. It
// changes c.
func (c *curves) report(begin, end int64) (out Curves) {
	if c.points == nil {
		return out
	}
	out = Curves{Start: time.Unix(0, c.first*c.width), Width: time.Duration(c.width), Points: make([]Point, c.last-c.first+1)}
	for i, p := range c.points {
		covered := min(end, (i+1)*c.width) - max(begin, i*c.width)
		if covered <= 0 { // end is after 2262
			covered = c.width
		}
		p.Running, p.Waiting = p.Running/float64(covered), p.Waiting/float64(covered)
		out.Points[i-c.first] = *p
	}
	return out
}

// Curves returns the curves until the latest line, with the attempts that still run.
func (f *Fold) Curves() Curves {
	c := f.curves.clone()
	for _, o := range f.open {
		if a := o.current; a != nil {
			c.ran(a.Start, f.until(a))
		}
	}
	begin, end := int64(math.MaxInt64), int64(0)
	for _, r := range f.runs { // in any order, and some at the same time
		if !r.Start.IsZero() {
			begin, end = min(begin, r.Start.UnixNano()), max(end, r.End.UnixNano())
		}
	}
	if n := len(f.runs); n > 0 {
		c.flush(f.runs[n-1].End.UnixNano())
	}
	return c.report(begin, end)
}

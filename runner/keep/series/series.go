// Package series holds figures of runs over time, in periods of equal length.
//
// A Builder adds up the figures of each period, and Curves are the result. A Live builds the curves of a running
// run. For a queue, it also keeps the figures of the last day and the last year in a file.
package series

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"crew/runner/decide/task"
)

// Figure is an index in a Point.
type Figure int

// The figures of a period. Those from Running on are averages over the covered time.
const (
	Covered Figure = iota // seconds that the figures cover
	Ended                 // tasks
	Failed                // part of Ended
	Running               // attempts
	Waiting               // tasks that were read and have not started
	Memory                // bytes in use on the machine, or in its control group; 0 if unknown
	Load                  // processes and threads that run, or wait for a processor or a disk; 0 if unknown
	Figures
)

// Point holds the figures of one period.
type Point [Figures]float64

// Curves are the figures of consecutive periods. The first one begins at Start.
type Curves struct {
	Start  time.Time    `json:"start"`
	Width  task.Seconds `json:"width"` // length of a period
	Points []Point      `json:"points"`
}

// Valid reports whether the values of c, from a file or another program, can be added up and shown.
func (c Curves) Valid() bool {
	return (c.Width > 0 || c.Points == nil) && !slices.ContainsFunc(c.Points, func(p Point) bool {
		return slices.Min(p[:]) < 0 || slices.Max(p[:]) >= latest
	})
}

const (
	mostPoints = 1000        // of curves that grow with a run
	leastWidth = time.Second // of their periods
	latest     = 1 << 62     // time, in nanoseconds since 1970; later ones are left out, and those before 1970
)

// Builder builds Curves of at most 1000 points, or of the latest periods. It is not safe for concurrent use. Its
// zero value is ready for use. Times are in nanoseconds since 1970.
type Builder struct {
	width int64
	most  int64 // If it is 0, pairs of periods are merged once there are too many. Otherwise the oldest ones are dropped.

	points      map[int64]*Point // sums, by the start of the period in widths since 1970
	first, last int64            // keys in points

	levels [Figures]level
}

// level is the value of a figure since a time.
type level struct {
	value float64
	since int64
}

// newLatest returns a Builder for the latest periods.
func newLatest(width time.Duration, most int64) *Builder {
	return &Builder{width: int64(width), most: most}
}

// at returns the point of a time.
func (b *Builder) at(t int64) *Point {
	if b.width == 0 {
		b.width = int64(leastWidth)
	}
	i := t / b.width
	if b.points == nil {
		b.points, b.first, b.last = map[int64]*Point{}, i, i
	}
	switch {
	case b.most == 0:
		for max(b.last, i)-min(b.first, i) >= mostPoints {
			b.widen()
			i = t / b.width
		}
	case i <= b.last-b.most:
		return &Point{} // too old
	case i >= b.first+b.most:
		b.first = i - b.most + 1
		maps.DeleteFunc(b.points, func(key int64, _ *Point) bool { return key < b.first })
	}
	b.first, b.last = min(b.first, i), max(b.last, i)
	p := b.points[i]
	if p == nil {
		p = &Point{}
		b.points[i] = p
	}
	return p
}

// widen merges pairs of periods.
func (b *Builder) widen() {
	old := b.points
	b.width, b.first, b.last, b.points = 2*b.width, b.first/2, b.last/2, make(map[int64]*Point, len(old))
	for i, p := range old {
		if sum := b.points[i/2]; sum != nil {
			for f := range sum {
				sum[f] += p[f]
			}
		} else {
			b.points[i/2] = p
		}
	}
}

// Nanos returns a time in nanoseconds since 1970, or 0 if curves leave it out.
func Nanos(t time.Time) int64 {
	if u := t.Unix(); u <= 0 || u >= latest/int64(time.Second) {
		return 0
	}
	return t.UnixNano()
}

// valid reports whether curves can hold a time.
func valid(t int64) bool { return t > 0 && t < latest }

// Count adds n to a figure at a time.
func (b *Builder) Count(f Figure, n float64, t int64) {
	if n != 0 && valid(t) {
		b.at(t)[f] += n
	}
}

// Spread adds a figure that has a value from one time to another.
func (b *Builder) Spread(f Figure, value float64, from, to int64) {
	if !valid(from) || !valid(to) || to <= from || value == 0 {
		return
	}
	b.at(to - 1) // so that the width stays as it is
	if b.most == 0 {
		b.at(from)
	} else {
		from = max(from, (b.last-b.most+1)*b.width)
	}
	for from < to {
		end := min(to, (from/b.width+1)*b.width)
		b.at(from)[f] += value * time.Duration(end-from).Seconds()
		from = end
	}
}

// Cover says that the figures cover the time from one to another, in the periods that have any figures.
func (b *Builder) Cover(from, to int64) {
	for i, p := range b.points {
		p[Covered] += time.Duration(max(0, min(to, (i+1)*b.width)-max(from, i*b.width))).Seconds()
	}
}

// Set gives a figure a value from a time on. Its earlier value lasted until then.
func (b *Builder) Set(f Figure, value float64, t int64) {
	if l := &b.levels[f]; l.value != value {
		b.Spread(f, l.value, l.since, t)
		*l = level{value, t}
	}
}

// advance adds the figures that were Set, until a time.
func (b *Builder) advance(t int64) {
	for f := range b.levels {
		l := &b.levels[f]
		b.Spread(Figure(f), l.value, l.since, t)
		l.since = t
	}
}

// Clone returns a copy.
func (b *Builder) Clone() *Builder {
	c := *b
	c.points = make(map[int64]*Point, len(b.points))
	for i, p := range b.points {
		one := *p
		c.points[i] = &one
	}
	return &c
}

// Curves returns the curves until a time.
func (b *Builder) Curves(until int64) (out Curves) {
	b.advance(until)
	if b.points == nil {
		return out
	}
	out = Curves{Start: time.Unix(0, b.first*b.width), Width: task.Seconds(b.width), Points: make([]Point, b.last-b.first+1)}
	for i, p := range b.points {
		one := *p
		for f := Running; f < Figures; f++ {
			one[f] /= cmp.Or(one[Covered], time.Duration(b.width).Seconds())
		}
		out.Points[i-b.first] = one
	}
	return out
}

package history

import (
	"maps"
	"math"
	"math/bits"
	"slices"
	"time"

	"crew/runner/decide/task"
)

// bins count durations on a logarithmic scale of 16 bins for each power of two, as
// HdrHistogram does, so the middle of a bin is within 4 % of all that it counts.
type bins map[int]uint32

const perOctave = 16

// binOf returns the bin of a duration in nanoseconds.
func binOf(d time.Duration) int {
	if d < 2*perOctave {
		return int(max(d, 0))
	}
	shift := bits.Len64(uint64(d)) - bits.Len(2*perOctave-1)
	return shift*perOctave + int(d>>shift)
}

// binFrom returns the shortest duration of bin i, and binWidth how many there are.
func binFrom(i int) time.Duration {
	if i < 2*perOctave {
		return time.Duration(i)
	}
	return time.Duration(i%perOctave+perOctave) * binWidth(i)
}

func binWidth(i int) time.Duration { return 1 << max(0, i/perOctave-1) }

func (b *bins) add(d time.Duration) {
	if *b == nil {
		*b = bins{}
	}
	(*b)[binOf(d)]++
}

// tally is what Figures are made of.
type tally struct {
	Figures            // but for the times and what follows from them
	ran                int64
	time, user, system float64 // nanoseconds: of many tasks they are more than a time.Duration holds
	took               bins
}

// end adds a task that ended.
func (t *tally) end(l *Line, flaky bool) {
	t.Tasks++
	f := &l.Facts
	if f.Outcome.Failed() {
		t.Failed++
	}
	if flaky {
		t.Flaky++
	}
	if !hasRun(f) {
		return
	}
	t.ran++
	d := duration(f)
	t.time += float64(d)
	t.user += float64(f.User)
	t.system += float64(f.System)
	t.Most = max(t.Most, d)
	t.MaxRSS = max(t.MaxRSS, f.MaxRSS)
	t.took.add(d)
}

// hasRun reports whether the time of an attempt says something of its task.
func hasRun(f *task.Facts) bool {
	return !f.Start.IsZero() && f.Outcome != task.Cancelled && f.Outcome != task.NotRun && f.Outcome != task.Skipped
}

func duration(f *task.Facts) time.Duration { return max(0, time.Duration(f.Duration)) }

func (t *tally) figures() Figures {
	f := t.Figures
	f.Time, f.User, f.System = inAll(t.time), inAll(t.user), inAll(t.system)
	if t.ran > 0 {
		f.Mean = inAll(t.time / float64(t.ran))
		f.Median, f.P95 = t.rank((t.ran+1)/2), t.rank((t.ran*95+99)/100)
	}
	return f
}

// inAll converts nanoseconds, or as many as there can be.
func inAll(ns float64) time.Duration {
	if ns >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(ns)
}

// rank returns about the duration that comes rank-th, from 1 on; of the last, exactly.
func (t *tally) rank(rank int64) time.Duration {
	if rank < t.ran {
		for _, i := range slices.Sorted(maps.Keys(t.took)) {
			if rank -= int64(t.took[i]); rank <= 0 {
				return min(t.Most, binFrom(i)+(binWidth(i)-1)/2)
			}
		}
	}
	return t.Most
}

// mostBins is how many bins a Report has about at most.
const mostBins = 64

// histogram returns the durations of all, and of those that failed, in a number of bins
// that can be drawn.
func histogram(all, failed bins) (list []Bin) {
	keys := slices.Sorted(maps.Keys(all))
	if keys == nil {
		return nil
	}
	first, last, per := keys[0], keys[len(keys)-1], 1
	for per < perOctave && (last+1-first)/per > mostBins {
		per *= 2
	}
	for i := first - first%per; i <= last; i += per {
		b := Bin{From: binFrom(i)}
		for j := i; j < i+per; j++ {
			b.Tasks += int64(all[j])
			b.Failed += int64(failed[j])
		}
		list = append(list, b)
	}
	return list
}

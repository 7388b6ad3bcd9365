package history

import (
	"maps"
	"math/bits"
	"slices"
	"time"

	"crew/runner/decide/task"
)

// bins counts durations on a logarithmic scale of 16 bins per power of two, as HdrHistogram does. The
// middle of a bin is within 4 % of every duration in it.
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

// binFrom returns the shortest duration of bin i.
func binFrom(i int) time.Duration {
	if i < 2*perOctave {
		return time.Duration(i)
	}
	return time.Duration(i%perOctave+perOctave) * binWidth(i)
}

// binWidth returns the width of bin i.
func binWidth(i int) time.Duration { return 1 << max(0, i/perOctave-1) }

func (b *bins) add(d time.Duration) {
	if *b == nil {
		*b = bins{}
	}
	(*b)[binOf(d)]++
}

// tally accumulates Figures.
type tally struct {
	Figures       // without Mean, Median and P95
	ran     int64 // tasks that ran
	took    bins
}

// count counts a task that ended.
func (t *tally) count(l *Line, flaky bool) {
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
	t.Time += d
	t.User += time.Duration(f.User)
	t.System += time.Duration(f.System)
	t.Most = max(t.Most, d)
	t.MaxRSS = max(t.MaxRSS, f.MaxRSS)
	t.took.add(d)
}

// hasRun reports whether an attempt ran and was not cancelled, so that its duration counts.
func hasRun(f *task.Facts) bool {
	return !f.Start.IsZero() && f.Outcome != task.Cancelled && f.Outcome != task.NotRun && f.Outcome != task.Skipped
}

func duration(f *task.Facts) time.Duration { return max(0, time.Duration(f.Duration)) }

func (t *tally) figures() Figures {
	f := t.Figures
	if t.ran > 0 {
		f.Mean = t.Time / time.Duration(t.ran)
		f.Median, f.P95 = t.rank((t.ran+1)/2), t.rank((t.ran*95+99)/100)
	}
	return f
}

// rank returns the rank-th shortest duration, counted from 1. The longest is exact, the others are
// within 4 %.
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

// mostBins is roughly the most bins of a Report.
const mostBins = 64

// histogram merges bins of all tasks and of the failed ones until there are few enough to draw.
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

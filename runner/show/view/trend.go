package view

import (
	"cmp"
	"math"
	"slices"
	"time"

	"crew/runner/show/history"
)

// trend compares the latest run of a group to the earlier ones.
type trend struct {
	history.Group
	What            string        // "key" or "command"
	Latest, Earlier time.Duration // means
	LatestP95       time.Duration
	Change          string
	Words           []named[string] // what changed: CSS class and word
	weight          float64         // how much it changed, to sort by
}

const (
	mostTrends   = 100
	leastSamples = 3                     // tasks before the latest run; fewer say nothing about times
	slowerFactor = 1.25                  // a mean that grew by this factor
	slowerBy     = 20 * time.Millisecond // and by this much is slower
)

// trends returns the groups that occur in several runs, largest change first.
func trends(r *history.Report) []trend {
	var all []trend
	for _, of := range []named[history.Groups]{{"key", r.Keys}, {"command", r.Commands}} {
		for _, g := range of.Of.List {
			if t, ok := trendOf(g, of.Name); ok {
				all = append(all, t)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b trend) int { return cmp.Compare(b.weight, a.weight) })
	return all[:min(len(all), mostTrends)]
}

func trendOf(g history.Group, what string) (t trend, ok bool) {
	var now, before history.Figures
	for _, f := range g.ByRun {
		if f.Tasks > 0 {
			before.Tasks, before.Failed, before.Time = before.Tasks+now.Tasks, before.Failed+now.Failed, before.Time+now.Mean*time.Duration(now.Tasks)
			now = f
		}
	}
	if before.Tasks == 0 || g.Name == "" {
		return t, false
	}
	compares := before.Tasks >= leastSamples
	t = trend{Group: g, What: what, Latest: now.Mean, LatestP95: now.P95, Earlier: before.Time / time.Duration(before.Tasks)}
	say := func(class, word string, weight float64) {
		t.Words, t.weight = append(t.Words, named[string]{class, word}), t.weight+weight
	}
	if ratio := float64(t.Latest) / float64(max(1, t.Earlier)); compares && t.Earlier > 0 && t.Latest > 0 {
		t.Change = "× " + number(ratio)
		t.weight = math.Abs(math.Log(ratio))
		switch {
		case ratio >= slowerFactor && t.Latest-t.Earlier >= slowerBy:
			say("slow", "got slower", 1)
		case ratio <= 1/slowerFactor && t.Earlier-t.Latest >= slowerBy:
			say("ok", "got faster", 0.5)
		}
	}
	switch {
	case now.Failed > 0 && before.Failed == 0:
		say("fail", "newly failing", 3)
	case now.Failed > 0:
		say("fail", "failing", 1)
	case before.Failed > 0:
		say("ok", "no longer failing", 0.5)
	}
	if g.Flaky > 0 {
		say("lost", "flaky", 0.5)
	}
	return t, compares || len(t.Words) > 0
}

// mostRuns is the number of runs that are listed.
const mostRuns = 200

// lastRuns returns the last runs, the latest first.
func lastRuns(r *history.Report) []history.Run {
	last := slices.Clone(r.Runs[max(0, len(r.Runs)-mostRuns):])
	slices.Reverse(last)
	return last
}

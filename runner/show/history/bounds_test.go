package history

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/decide/task"
)

const (
	manyLines   = 3000
	mostTimes   = 400 // attempts of the timeline
	tenthOfThem = manyLines / 10
)

// crowd makes more lines than a Fold with small bounds keeps.
type crowd struct {
	*testing.T
	runs, most int // names
	lines      []ran
	failed     int
	blocked    []time.Duration
}

// ran returns the line of a task that ended in a run.
type ran struct {
	*Line
	run int
}

var longOutput = bytes.Repeat([]byte("long\n"), 4000)

// TestReportsAreBounded checks that a report lists the right items and counts the rest, is the same for
// the same lines, and does not change when more lines are added.
func TestReportsAreBounded(t *testing.T) {
	require.WithinDuration(t, time.Now(), NewFold().Report().Attempts.Base, time.Hour, "a page takes its time zone from it")
	for round := range crewtest.Rounds(6) {
		r := crewtest.Rand(t, round)
		c := &crowd{T: t, runs: []int{1, 2, 300}[round%3], most: 5 + r.IntN(10)}
		f, twin := newFold(mostTimes, c.most), newFold(mostTimes, c.most)
		var early *Report
		var before []byte
		c.gather(r, func(l *Line) {
			f.Add(l)
			twin.Add(l)
			if len(c.lines) == 50 {
				early = f.Report()
				before, _ = json.Marshal(early)
			}
		})
		after, _ := json.Marshal(early)
		require.JSONEq(t, string(before), string(after))
		report := f.Report()
		require.Equal(t, twin.Report().Commands.List, report.Commands.List)
		c.checkGroups(&report.Keys, func(l ran) string { return string(l.Key) })
		c.checkGroups(&report.Commands, func(l ran) string { return string(l.Command) })
		c.checkTimeline(&report.Attempts)
		c.checkLists(report)
		for id := range uint64(mostTimes + 1) { // whose ends are lost
			f.Add(about("started", 1e6, id+1))
		}
		require.Len(t, f.open, mostTimes)
	}
}

// gather makes random lines and passes them to add.
func (c *crowd) gather(r *rand.Rand, add func(*Line)) {
	base := []time.Duration{time.Second, 1 << 50}[r.IntN(2)] // sums of the second are rounded
	if c.runs > 2 {
		base = time.Second
	}
	keys, words, fails := 1+r.IntN(40), 1+r.IntN(40), []int{2, 100}[r.IntN(2)]
	for run := range c.runs {
		add(beganAt(float64(run*manyLines), ""))
		for i := range manyLines / c.runs {
			at, pause := float64(run*manyLines+i), 1+r.IntN(900)
			c.blocked = append(c.blocked, time.Duration(pause)*time.Millisecond)
			nothing := said("blocked", at)
			nothing.Blocking = &task.Blocking{By: "limit"}
			add(nothing)
			add(said("blocked", at+float64(pause)/1000))
			l := endedAs("finished", task.OK, 1, at, at+0.95, uint64(i+1), 1)
			if r.IntN(fails) == 0 {
				l.Outcome, l.Output = task.Exit, longOutput
				c.failed++
			}
			l.Key = task.Bytes(fmt.Sprint("k", i%keys))
			l.Command = task.Bytes(fmt.Sprintf("do  it\n./%d -x %d", r.IntN(words)%7, r.IntN(words)))
			l.Duration = task.Seconds(base + time.Duration(i%keys)*time.Second + time.Duration(r.IntN(1e6)))
			c.lines = append(c.lines, ran{l, run})
			add(l)
		}
	}
}

// checkGroups checks that the first names are listed, each with the right figures over all runs and for
// the last run.
func (c *crowd) checkGroups(got *Groups, name func(ran) string) {
	sums := map[string]time.Duration{}
	var first []string
	for _, l := range c.lines {
		if sums[name(l)] == 0 {
			first = append(first, name(l))
		}
		sums[name(l)] += time.Duration(l.Duration)
	}
	distinct := len(first)
	first = first[:min(c.most, distinct)]
	require.Len(c, got.List, len(first))
	require.Equal(c, slices.MaxFunc(first, func(a, b string) int { return int(sums[a] - sums[b]) }), got.List[0].Name)
	rest := int64(manyLines)
	for i, g := range got.List {
		require.Contains(c, first, g.Name)
		var want Figures
		ofLast := int64(0)
		for _, l := range c.lines {
			if g.Name != name(l) {
				continue
			}
			if want.Tasks++; l.run == c.runs-1 {
				ofLast++
			}
			if l.Outcome == task.Exit {
				want.Failed++
			}
			want.Most = max(want.Most, time.Duration(l.Duration))
		}
		require.Equal(c, []any{want.Tasks, want.Failed, want.Most}, []any{g.Tasks, g.Failed, g.Most}, g.Name)
		require.True(c, i == 0 || got.List[i-1].Time >= g.Time)
		if rest -= g.Tasks; c.runs > 1 {
			require.Equal(c, ofLast, g.ByRun[c.runs-1].Tasks)
		}
	}
	require.Equal(c, rest, got.Rest)
}

// checkTimeline checks that the timeline has the failures, unless there are too many, the longest
// attempts, and an even sample of the others.
func (c *crowd) checkTimeline(got *Attempts) {
	require.LessOrEqual(c, len(got.List), mostTimes)
	require.GreaterOrEqual(c, len(got.List), mostTimes*3/4, "of so many, few are left out")
	require.Equal(c, int64(manyLines), got.More+int64(len(got.List)))
	there := map[[2]int]bool{}
	failed, parts := 0, [10]int{}
	for _, a := range got.List {
		run, id := int(a.Run), int(a.Task)
		there[[2]int{run, id}] = true
		if a.Outcome == task.Exit {
			failed++
		}
		parts[(run*manyLines/c.runs+id-1)/tenthOfThem]++
	}
	require.GreaterOrEqual(c, failed, min(c.failed, 150))
	require.Greater(c, slices.Min(parts[:]), 5, "%v", parts)
	byLength := slices.Clone(c.lines)
	byLength = slices.DeleteFunc(byLength, func(l ran) bool { return l.Outcome == task.Exit })
	slices.SortFunc(byLength, func(a, b ran) int { return int(b.Duration - a.Duration) })
	for _, l := range byLength[:20] {
		require.True(c, there[[2]int{l.run, int(l.Task)}])
	}
}

// checkLists checks the lists of failures, slowest tasks and stalls.
func (c *crowd) checkLists(got *Report) {
	require.Len(c, got.Failed.List, min(MostFailed, c.failed))
	require.EqualValues(c, c.failed, got.Failed.More+int64(len(got.Failed.List)))
	size, some, ofFirst, whole := 0, 0, 0, 0
	for _, x := range got.Failed.List {
		size += len(x.Output)
		if len(x.Output) == tailBytes {
			whole++
		}
		if x.Output != nil {
			some++
		}
		if x.Run == 0 {
			ofFirst++
		}
		require.True(c, bytes.HasSuffix(longOutput, x.Output))
	}
	require.LessOrEqual(c, size, 2<<20)
	require.Greater(c, whole, 20)
	if c.failed > MostFailed {
		require.Greater(c, some, 300)
		if c.runs == 2 {
			last := func(l ran) bool { return l.run == 1 && l.Outcome == task.Exit }
			ofLast := len(slices.DeleteFunc(slices.Clone(c.lines), func(l ran) bool { return !last(l) }))
			require.Equal(c, MostFailed-min(MostFailed, ofLast), ofFirst)
		}
	}
	var longest, slowest []time.Duration
	for _, l := range c.lines {
		longest = append(longest, time.Duration(l.Duration))
	}
	for _, x := range got.Slowest.List {
		slowest = append(slowest, time.Duration(x.Duration))
	}
	descending := func(a, b time.Duration) int { return int(b - a) }
	slices.SortFunc(longest, descending)
	require.Equal(c, longest[:MostListed], slowest)
	require.EqualValues(c, manyLines-MostListed, got.Slowest.More)

	slices.SortFunc(c.blocked, descending)
	var blocked []time.Duration
	for i, b := range got.Blocked {
		blocked = append(blocked, b.To.Sub(b.From).Round(time.Millisecond))
		require.True(c, i == 0 || got.Blocked[i-1].From.Before(b.From))
	}
	slices.SortFunc(blocked, descending)
	require.Equal(c, c.blocked[:MostBlocked], blocked)
}

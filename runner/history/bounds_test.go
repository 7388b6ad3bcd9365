package history

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/control"
	"crew/runner/task"
)

// many adds attempts one second after the other, each of which takes one, unless change says
// otherwise.
func many(f *Fold, n int, change func(i int, l *Line)) {
	for i := range n {
		l := endedAs("finished", task.OK, 1, float64(i), float64(i)+1, uint64(i+1), 1)
		change(i, l)
		f.Add(l)
	}
}

func TestTimelineHasFailuresAndTheLongest(t *testing.T) {
	f := newFold(1000, 50)
	many(f, 20_000, func(i int, l *Line) {
		switch {
		case i%100 == 7:
			l.Outcome = task.Exit
		case i%1000 == 11:
			l.Duration = task.Seconds(time.Hour)
		}
	})
	c := &f.Report().Attempts
	require.LessOrEqual(t, len(c.Task), 1000)
	require.Greater(t, len(c.Task), 850)
	require.Equal(t, int64(20_000), c.More+int64(len(c.Task)))
	failed, long, parts := 0, 0, [10]int{}
	for i := range c.Task {
		switch {
		case c.Outcome[i] == task.Exit:
			failed++
		case c.Took[i] == 3600e3:
			long++
		default:
			parts[(c.Task[i]-1)/2000]++
		}
	}
	require.Equal(t, []int{200, 20}, []int{failed, long})
	for _, n := range parts {
		require.InDelta(t, 70, n, 30, "%v", parts)
	}
	require.Len(t, c.Lanes, 5, "four of the long ones overlap")
	require.Zero(t, f.Report().Runs[0].Workers, "a sample does not tell")
}

func TestTimelineOfFailuresAlone(t *testing.T) {
	f := newFold(1000, 50)
	many(f, 20_000, func(_ int, l *Line) { l.Outcome = task.Exit })
	c := &f.Report().Attempts
	require.Greater(t, len(c.Task), 400)
	require.Equal(t, int64(20_000), c.More+int64(len(c.Task)))
	f = newFold(1000, 50)
	many(f, 5000, func(_ int, l *Line) { l.Task, l.Start = 1, epoch })
	require.LessOrEqual(t, len(f.Report().Attempts.Task), 1000)
}

func TestGroupsThatAreTooMany(t *testing.T) {
	f := newFold(1000, 10)
	many(f, 300, func(i int, l *Line) {
		l.Key = task.Bytes(fmt.Sprint(i % 30))
		l.Command = task.Bytes(fmt.Sprintf("go  test\n./%d -x %d", i%4, i%30))
		l.Duration += task.Seconds(i % 30)
	})
	r := f.Report()
	require.Len(t, r.Keys.List, 10)
	require.InDelta(t, 20, r.Keys.More, 2)
	require.Equal(t, int64(200), r.Keys.Rest.Tasks)
	for i, g := range r.Keys.List {
		require.Equal(t, fmt.Sprint(9-i), g.Name, "those first that took most")
		require.Equal(t, int64(10), g.Tasks)
		require.Equal(t, time.Second+time.Duration(9-i), g.Most)
	}
	require.Len(t, r.Commands.List, 4)
	for _, g := range r.Commands.List {
		require.Regexp(t, `^go  test\n\./[0-3]$`, g.Name)
		require.InDelta(t, 75, g.Tasks, 5)
	}
	require.Zero(t, r.Commands.More)

	f = newFold(1000, 10)
	f.Add(beganAt(0, ""))
	many(f, 300, func(i int, l *Line) { l.Command = task.Bytes(fmt.Sprint("cc ", i)) })
	f.Add(beganAt(1000, ""))
	many(f, 300, func(i int, l *Line) { l.Command = task.Bytes(fmt.Sprint("cc ", i)) })
	r = f.Report()
	require.Len(t, r.Commands.List, 1)
	require.Equal(t, "cc", r.Commands.List[0].Name)
	require.Equal(t, int64(600), r.Commands.List[0].Tasks)
	require.Equal(t, int64(300), r.Commands.List[0].ByRun[1].Tasks)

	f = newFold(1000, 10)
	many(f, 300, func(i int, l *Line) { l.Command = task.Bytes(fmt.Sprint("./x", i, " y")) })
	r = f.Report()
	require.Len(t, r.Commands.List, 10)
	require.Equal(t, int64(290), r.Commands.Rest.Tasks)
	require.InDelta(t, 290, r.Commands.More, 10)
}

// The same lines give the same figures although sums are rounded.
func TestGroupsThatBecomeCoarserAreTheSame(t *testing.T) {
	var first Groups
	for i := range 20 {
		f := newFold(1000, 50)
		many(f, 51, func(i int, l *Line) {
			l.Command, l.Duration = task.Bytes(fmt.Sprint("cc ", i)), task.Seconds(1<<56+i)
		})
		if got := f.Report().Commands; i == 0 {
			first = got
		} else {
			require.Equal(t, first, got)
		}
	}
}

func TestGroupsOfManyRuns(t *testing.T) {
	f := newFold(1000, 8)
	const runs = 300
	for run := range runs {
		f.Add(beganAt(float64(run*100), ""))
		many(f, 8, func(i int, l *Line) {
			l.Key, l.Command = task.Bytes(fmt.Sprint("k", i)), task.Bytes(fmt.Sprint("do it ", i))
			l.Duration += task.Seconds(i)
		})
	}
	r := f.Report()
	for _, g := range []Groups{r.Keys, r.Commands} {
		require.Len(t, g.List, 1)
		require.Regexp(t, "7$", g.List[0].Name)
		require.Equal(t, int64(runs), g.List[0].Tasks)
		require.Equal(t, int64(1), g.List[0].ByRun[runs-1].Tasks)
		require.Equal(t, int64(7*runs), g.Rest.Tasks)
		require.InDelta(t, 7, g.More, 2)
	}
}

func TestFirstWords(t *testing.T) {
	for _, c := range []struct {
		line, want string
		n          int
	}{{"a b c", "a", 1}, {" a  b c", "a  b", 2}, {"a b", "a b", 3}, {"", "", 1}, {"  ", "", 2}, {"a b ", "a b ", 0}, {"a ", "a", 1}} {
		require.Equal(t, c.want, firstWords(c.line, c.n), "%q", c.line)
	}
}

func TestListsThatAreFull(t *testing.T) {
	f := NewFold()
	whole := bytes.Repeat([]byte("long\n"), 4000)
	for run := range 2 {
		f.Source(fmt.Sprint(run))
		f.Add(beganAt(float64(run)*5000, ""))
		many(f, 1500, func(_ int, l *Line) { l.Outcome, l.Output = task.Exit, whole })
	}
	r := f.Report()
	require.Len(t, r.Failed.List, MostFailed)
	require.Equal(t, int64(3000-MostFailed), r.Failed.More)
	runs, size, full := [2]int{}, 0, [2]int{}
	for _, x := range r.Failed.List {
		runs[x.Run]++
		size += len(x.Output)
		if len(x.Output) == tailSize {
			full[x.Run]++
		}
		require.True(t, bytes.HasSuffix(whole, x.Output))
	}
	require.Equal(t, [2]int{MostFailed / 2, MostFailed / 2}, runs)
	require.LessOrEqual(t, size, MostOutput)
	require.Greater(t, min(full[0], full[1]), 20, "%v", full)
	require.Len(t, r.Slowest.List, MostListed)
	require.Equal(t, int64(3000-MostListed), r.Slowest.More)
}

func TestOutputsOfOneRun(t *testing.T) {
	f := NewFold()
	whole := bytes.Repeat([]byte("x"), tailSize)
	many(f, MostFailed, func(_ int, l *Line) { l.Outcome, l.Output = task.Exit, whole })
	for i, x := range f.Report().Failed.List {
		switch {
		case i < 100:
			require.Len(t, x.Output, tailSize)
		case i < 400:
			require.Greater(t, len(x.Output), 500)
		case x.Output != nil: // it is unknown rather than empty or a few bytes
			require.GreaterOrEqual(t, len(x.Output), leastTail)
		}
	}
}

func TestBlockedTimes(t *testing.T) {
	f := NewFold()
	f.Add(beganAt(0, ""))
	for i := range 5000 {
		l := said("blocked", float64(10*i))
		l.Blocking = &task.Blocking{By: "limit", Shown: fmt.Sprint(i)}
		f.Add(l)
		f.Add(said("blocked", float64(10*i)+float64(1+i%10)/10))
	}
	list := f.Report().Blocked
	require.Len(t, list, MostBlocked)
	for i, b := range list {
		require.GreaterOrEqual(t, b.To.Sub(b.From), 899*time.Millisecond)
		require.True(t, i == 0 || list[i-1].From.Before(b.From))
	}
}

func TestReportsDoNotChange(t *testing.T) {
	f := newFold(100, 10)
	change := func(i int, l *Line) {
		l.Key = task.Bytes(fmt.Sprint(i % 20))
		if i%3 == 0 {
			l.Outcome, l.Output = task.Exit, []byte("no\n")
		}
	}
	f.Add(beganAt(0, ""))
	f.Add(startedOn(1, 0, 1e6, 1))
	many(f, 50, change)
	r := f.Report()
	before, err := json.Marshal(r)
	require.NoError(t, err)
	f.Source("other")
	f.Add(beganAt(-100, ""))
	f.Report()
	many(f, 3000, change)
	after, err := json.Marshal(r)
	require.NoError(t, err)
	require.JSONEq(t, string(before), string(after))
}

func TestTimesOfMoreThanAreKnown(t *testing.T) {
	never := &Line{Event: control.Event{Name: "finished"}, Facts: task.Facts{Task: 1, Outcome: task.NotRun}}
	f := fold(never)
	require.Equal(t, int64(1), f.Report().Attempts.More)
	for i := range 100 {
		l := endedAs("finished", task.OK, 1, 0, 1, uint64(i), 1)
		l.Duration = task.Seconds(200 * 365 * 24 * time.Hour)
		f.Add(l)
	}
	f.Add(never)
	r := f.Report()
	require.Equal(t, time.Duration(math.MaxInt64), r.Total.Time)
	require.InEpsilon(t, 200*365*24*time.Hour, r.Total.Mean, 1e-9)
	require.Equal(t, []int64{102, 2}, []int64{r.Total.Tasks, r.Outcomes[task.NotRun]})
}

func TestNamesOfReports(t *testing.T) {
	f := NewFold()
	require.Equal(t, "", f.Report().Title)
	for i := range 7 {
		f.Source(fmt.Sprint("log ", i))
		f.Add(beganAt(float64(i), "crew x"))
	}
	require.Equal(t, "log 0, log 1, log 2, log 3, log 4, and 2 more", f.Report().Title)
	require.Len(t, f.Report().Runs, 7)
}

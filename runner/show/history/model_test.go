package history

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"crew/runner/decide/task"
)

// model makes random runs and keeps every line that it passes to a Fold.
type model struct {
	*rapid.T
	f     *Fold
	runs  []*modelRun
	tries []modelTry
}

type modelRun struct {
	Run
	killed float64 // when, in seconds
	lines  []*Line
}

const never = 1e6 // seconds

// modelTry is an attempt.
type modelTry struct {
	run, worker, number      int
	id                       uint64
	host, key                string
	from, took, waited, end  float64 // in seconds; took is -1 if it was killed
	outcome                  task.Outcome
	final, flaky, everFailed bool
}

// modelTask is a task that has not ended.
type modelTask struct {
	id         uint64
	key        string
	ready      float64 // since when it waits, or -1 if unknown
	number     int     // of attempts so far
	everFailed bool
}

func (m *model) n(what string, least, most int) int {
	return rapid.IntRange(least, most).Draw(m.T, what)
}

func (m *model) source(name string, at float64) float64 {
	told, resumes := rapid.Bool().Draw(m.T, "told"), rapid.Bool().Draw(m.T, "resumes")
	m.f.Source(name)
	var left []modelTask
	for range m.n("runs", 1, 3) {
		if !resumes {
			left = nil
		}
		first := uint64(100 * len(m.runs) * m.n("others", 0, 1))
		for i := range m.n("tasks", 0, 12) {
			left = append(left, modelTask{id: first + uint64(i) + 1, key: []string{"", "a", "b"}[m.n("key", 0, 2)], ready: -1})
		}
		seen := map[uint64]bool{}
		left = slices.DeleteFunc(left, func(t modelTask) bool { was := seen[t.id]; seen[t.id] = true; return was })
		at, left = m.run(name, told, at, left)
	}
	return at
}

// run makes a random run and returns when it ended and the tasks that are left.
func (m *model) run(source string, told bool, at float64, todo []modelTask) (float64, []modelTask) {
	command := fmt.Sprint("run ", len(m.runs))
	r := &modelRun{Run: Run{Source: source, Command: command, Start: sec(at), End: sec(at)}, killed: never}
	m.runs = append(m.runs, r)
	r.lines = append(r.lines, beganAt(at, command))
	if m.n("killed", 0, 2) == 0 {
		r.killed = at + float64(m.n("when", 1, 20))
	}
	free := make([]float64, m.n("workers", 1, 3))
	for i := range free {
		free[i] = at
	}
	if told {
		for i := range todo {
			todo[i].ready = at
			r.lines = append(r.lines, about("admitted", at, todo[i].id))
		}
	}
	var left []modelTask
	for len(todo) > 0 {
		t := todo[0]
		todo = todo[1:]
		w := slices.Index(free, slices.Min(free))
		from := max(free[w], t.ready) + float64(m.n("pause", 0, 1))
		switch again, done := m.try(r, told, w+1, from, &t, &free[w]); {
		case again:
			todo = append(todo, t)
		case !done:
			t.ready = -1
			left = append(left, t)
		}
	}
	end := r.killed
	if end == never {
		end, r.Complete = slices.Max(free), told
		if told {
			r.lines = append(r.lines, said("input-end", end), said(Over, end))
		}
	}
	slices.SortStableFunc(r.lines, func(a, b *Line) int { return a.At.Compare(b.At) })
	r.lines = slices.DeleteFunc(r.lines, func(l *Line) bool { return l.At.After(sec(r.killed)) })
	has := func(name string) bool {
		return slices.ContainsFunc(r.lines, func(l *Line) bool { return l.Name == name })
	}
	r.Ended = has(Over) || !has("admitted") && has("finished")
	if !told {
		r.Workers = 0
	}
	for _, l := range r.lines {
		if l.At.After(r.End) {
			r.End = l.At
		}
		m.f.Add(l)
	}
	return end + 1, left
}

// try makes a random attempt, unless the run is killed first, and reports whether another one follows
// or the task ended.
func (m *model) try(r *modelRun, told bool, worker int, from float64, t *modelTask, free *float64) (again, done bool) {
	outcome := []task.Outcome{task.OK, task.OK, task.Exit, task.Timeout, task.Lost, task.Cancelled, task.NotRun}[m.n("outcome", 0, 6)]
	if outcome == task.NotRun && t.number == 0 {
		l := about("finished", from, t.id)
		l.Key, l.Outcome, l.Attempt = task.Bytes(t.key), outcome, 0
		if from > r.killed {
			return false, false
		}
		r.lines = append(r.lines, l)
		m.tries = append(m.tries, modelTry{run: len(m.runs) - 1, id: t.id, key: t.key, from: from, waited: -1, outcome: outcome, final: true, end: from})
		return false, true
	}
	if from > r.killed {
		return false, false
	}
	host := []string{"", "h"}[worker%2]
	a := modelTry{
		run: len(m.runs) - 1, worker: worker, number: t.number + 1, id: t.id, host: host, key: t.key, from: from,
		took: float64(m.n("took", 0, 10)) / 4, waited: -1, outcome: outcome, everFailed: t.everFailed,
	}
	if t.ready >= 0 {
		a.waited = from - t.ready
	}
	a.end = from + a.took
	again = outcome.Failed() && m.n("again", 0, 1) == 0
	a.final, a.flaky = !again, outcome == task.OK && t.everFailed
	t.number, t.ready = a.number, a.end
	*free = a.end
	start := startedOn(worker, from, t.id, a.number)
	start.Key, start.Host = task.Bytes(t.key), task.Bytes(host)
	end := endedAs(map[bool]string{true: "retried", false: "finished"}[again], outcome, worker, from, a.end, t.id, a.number)
	end.Key, end.Host = task.Bytes(t.key), task.Bytes(host)
	if told {
		r.lines = append(r.lines, start)
	} else {
		end.Worker, a.worker = 0, 0
	}
	r.lines = append(r.lines, end)
	killed := a.end > r.killed
	if killed {
		a.took, a.outcome, a.final, a.flaky = -1, 0, false, false
	} else if again && !outcome.Replaced() {
		t.everFailed = true
	}
	if !killed || told {
		m.tries = append(m.tries, a)
	} else {
		t.number--
	}
	return again && !killed, !killed
}

func TestFoldIsAsTheModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &model{T: t, f: NewFold()}
		at := 0.0
		for i := range m.n("sources", 1, 3) {
			at = m.source(fmt.Sprint("log ", i), at)
		}
		r := m.f.Report()
		m.checkRuns(r)
		m.checkLists(r)
		m.checkAttempts(r)
		m.checkBins(r)
	})
}

// finals returns the last attempts that match, sorted by end.
func (m *model) finals(which func(*modelTry) bool) (list []modelTry) {
	for i := range m.tries {
		if a := &m.tries[i]; a.final && which(a) {
			list = append(list, *a)
		}
	}
	return list
}

// figures returns the figures of the attempts that match.
func (m *model) figures(which func(*modelTry) bool) (f Figures, ran []time.Duration) {
	for i := range m.tries {
		switch a := &m.tries[i]; {
		case !which(a):
		case a.final:
			f.Tasks++
			if a.outcome.Failed() {
				f.Failed++
			}
			if a.flaky {
				f.Flaky++
			}
			if a.outcome != task.Cancelled && a.outcome != task.NotRun {
				ran = append(ran, time.Duration(a.took*1e9))
			}
		case a.outcome != 0 && !a.outcome.Replaced():
			f.Retries++
		}
	}
	slices.Sort(ran)
	for _, d := range ran {
		f.Time += d
		f.Most = max(f.Most, d)
	}
	if n := len(ran); n > 0 {
		f.Mean, f.Median, f.P95 = f.Time/time.Duration(n), ran[(n-1)/2], ran[(n*95+99)/100-1]
	}
	return f, ran
}

func (m *model) same(got Figures, what string, which func(*modelTry) bool) {
	want, _ := m.figures(which)
	for _, p := range [...][2]*time.Duration{{&want.Median, &got.Median}, {&want.P95, &got.P95}} {
		require.InDelta(m, *p[0], *p[1], 0.04*float64(*p[0]), what)
		*p[1] = *p[0]
	}
	require.Equal(m, want, got, what)
}

func (m *model) checkRuns(r *Report) {
	m.same(r.Total, "total", func(*modelTry) bool { return true })
	require.Len(m, r.Runs, len(m.runs))
	for i, got := range r.Runs {
		figures := got.Figures
		m.same(figures, "run", func(a *modelTry) bool { return a.run == i })
		want := m.runs[i].Run
		want.Figures, want.Workers = figures, got.Workers
		require.Equal(m, want, got)
	}
	for _, kind := range [...]struct {
		Groups
		name func(*modelTry) string
		has  func(*modelTry) bool
	}{
		{r.Keys, func(a *modelTry) string { return a.key }, nil},
		{r.Commands, func(a *modelTry) string { return fmt.Sprint("do ", a.id) }, nil},
		{r.Hosts, func(a *modelTry) string { return a.host }, func(a *modelTry) bool { return a.number > 0 }},
	} {
		known := map[string]bool{}
		for _, g := range kind.List {
			in := func(a *modelTry) bool { return kind.name(a) == g.Name && (kind.has == nil || kind.has(a)) }
			m.same(g.Figures, g.Name, in)
			require.False(m, known[g.Name])
			known[g.Name] = true
			for run := range g.ByRun {
				m.same(g.ByRun[run], g.Name, func(a *modelTry) bool { return in(a) && a.run == run })
			}
			require.Equal(m, len(m.runs) > 1, g.ByRun != nil)
		}
		for i := range m.tries {
			a := &m.tries[i]
			require.True(m, known[kind.name(a)] || a.outcome == 0 || a.outcome.Replaced() && !a.final || kind.has != nil && !kind.has(a), kind.name(a))
		}
	}
}

func (m *model) checkLists(r *Report) {
	counts := [task.Outcomes]int64{}
	for _, a := range m.finals(func(*modelTry) bool { return true }) {
		counts[a.outcome]++
	}
	require.Equal(m, counts, r.Outcomes)
	for _, kind := range [...]struct {
		List
		which func(*modelTry) bool
	}{
		{r.Failed, func(a *modelTry) bool { return a.outcome.Failed() }},
		{r.Flaky, func(a *modelTry) bool { return a.flaky }},
	} {
		want := m.finals(kind.which)
		slices.SortStableFunc(want, func(a, b modelTry) int { return cmp.Or(cmp.Compare(a.run, b.run), cmp.Compare(a.end, b.end)) })
		require.Len(m, kind.List.List, len(want))
		for i, x := range kind.List.List {
			require.Equal(m, sec(want[i].end), x.Start.Add(time.Duration(x.Duration)))
			if x.Outcome == task.Exit {
				require.Equal(m, fmt.Sprintf("no %d.%d\n", x.Task, x.Attempt), string(x.Output))
			}
			if x.Outcome == task.OK {
				require.NotEmpty(m, x.Earlier)
			}
			for _, e := range x.Earlier {
				require.Equal(m, x.Task, e.Task)
				require.Less(m, e.Attempt, x.Attempt)
				require.Empty(m, e.Command)
			}
		}
	}
	_, ran := m.figures(func(*modelTry) bool { return true })
	slices.Reverse(ran)
	require.Equal(m, int64(max(0, len(ran)-MostListed)), r.Slowest.More)
	for i, x := range r.Slowest.List {
		require.Equal(m, ran[i], time.Duration(x.Duration))
	}
}

func (m *model) checkAttempts(r *Report) {
	c := &r.Attempts
	require.Zero(m, c.More)
	require.Len(m, c.List, len(m.tries))
	type span struct{ from, to float64 }
	lanes := make([][]span, len(c.Lanes))
	for _, x := range c.List {
		at := slices.IndexFunc(m.tries, func(a modelTry) bool {
			return a.run == int(x.Run) && a.id == x.Task && a.number == int(x.Number)
		})
		require.GreaterOrEqual(m, at, 0)
		a := m.tries[at]
		m.tries[at].number = -1 // each is found once
		require.Equal(m, []any{sec(a.from).UnixNano(), a.outcome, a.final, a.key}, []any{x.Start, x.Outcome, x.Final, x.Key})
		require.Equal(m, []int64{max(-1, int64(math.Round(a.took*1e9))), max(-1, int64(math.Round(a.waited*1e9)))}, []int64{x.Took, x.Waited}, "%+v", a)
		if a.number == 0 {
			require.Equal(m, int32(-1), x.Lane)
			continue
		}
		require.Equal(m, fmt.Sprint("do ", a.id), x.Command)
		require.Equal(m, Lane{Host: a.host, Worker: a.worker}, c.Lanes[x.Lane])
		lanes[x.Lane] = append(lanes[x.Lane], span{a.from, a.from + max(0, a.took)})
	}
	for _, l := range lanes {
		slices.SortFunc(l, func(a, b span) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to)) })
		for i := range len(l) - 1 {
			require.LessOrEqual(m, l[i].to, l[i+1].from+0.002)
		}
	}
	require.True(m, slices.IsSortedFunc(c.List, began))
}

func (m *model) checkBins(r *Report) {
	all, ran := m.figures(func(*modelTry) bool { return true })
	failed := all.Failed
	for i, b := range r.Bins {
		n := 0
		for _, d := range ran {
			if d >= b.From && (i == len(r.Bins)-1 || d < r.Bins[i+1].From) {
				n++
			}
		}
		require.Equal(m, int64(n), b.Tasks)
		failed -= b.Failed
	}
	require.Zero(m, failed)
	require.LessOrEqual(m, len(r.Bins), 2*mostBins)
}

package view

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/decide/task"
	"crew/runner/keep/series"
	"crew/runner/show/history"
	"crew/runner/steer/control"
)

// canary is a global variable that a script in one of these names would set.
const canary = `document.documentElement.dataset.canary=1`

var hostile = []string{
	`<script>` + canary + `</script>`,
	`</script><script>` + canary + `</script>`,
	`</style><img src=x onerror="` + canary + `">`,
	`"><svg onload='` + canary + `'>`,
	`javascript:` + canary,
	"\x1b[31mred\x1b[0m \x00 \x7f \r bell\a",
	"not \xff\xfe UTF-8 \xc3",
	"\u202egnp.exe\u2066 bidi \u200b",
	"🙂 éèê 漢字 {{.}} ${x} `",
	"very-long-word-" + strings.Repeat("w", 3000),
}

var (
	madeHosts = []string{"", "build-1.example.net", "build-2.example.net", "big<b>host"}
	madeKeys  = []string{"core", "net", "db", "ui", "docs", hostile[0]}
	madeBase  = time.Date(2026, 3, 14, 9, 26, 53, 0, time.UTC)
)

const madeWorkers = 16 // on each host

// line returns a line about an attempt, at a time of the run.
func line(name string, at time.Time, f task.Facts) *history.Line {
	return &history.Line{Event: control.Event{Name: name, At: at}, Facts: f}
}

// played emits the lines of a run of n tasks on four hosts on the given day, the same each time: one in
// 200 fails, one in 700 passes at its second attempt, and after every 500 nothing starts for a while.
// Some names are hostile.
func played(n, day int) (lines []*history.Line) {
	rnd := rand.New(rand.NewPCG(1, uint64(day)))
	base := madeBase.AddDate(0, 0, day)
	free := make([]time.Duration, len(madeHosts)*madeWorkers) // when each worker is
	attempt := func(f task.Facts, name string, o task.Outcome) {
		f.Outcome = o
		if code := 2; o == task.Exit {
			f.Exit = &code
		}
		end := line(name, f.Start.Add(time.Duration(f.Duration)), f)
		if end.Output = []byte("file.c:17: \x1b[31merror\x1b[0m: " + hostile[f.Task%10] + "\n"); f.Task%1000 == 18 {
			end.Output = nil
		}
		lines = append(lines, line("started", f.Start, task.Facts{Task: f.Task, Attempt: f.Attempt, Worker: f.Worker, Host: f.Host, Start: f.Start, Key: f.Key, Command: f.Command}), end)
	}
	for i := range n {
		lane := slices.Index(free, slices.Min(free))
		if i%500 == 250 {
			l := line("blocked", base.Add(free[lane]), task.Facts{})
			l.Blocking = &task.Blocking{By: "rate", Shown: "1 task waits for --rate 50/s"}
			lines = append(lines, l)
			free[lane] = slices.Max(free) + time.Second
			for l := range free {
				free[l] = max(free[l], free[lane])
			}
		}
		took := time.Duration((40 + rnd.ExpFloat64()*160) * float64(1+day*(i%6)) * 1e6)
		f := task.Facts{
			Task: uint64(i + 1), Attempt: 1, Key: task.Bytes(madeKeys[i%6]), Command: task.Bytes(fmt.Sprintf("gcc -O2 -c src/module_%03d/file_%02d.c", i/400, i%12)),
			Worker: lane%madeWorkers + 1, Host: task.Bytes(madeHosts[lane/madeWorkers]), Start: base.Add(free[lane]), Duration: task.Seconds(took), Signal: i % 3 * 11,
			User: task.Seconds(took * 3 / 4), MaxRSS: 312 << 20,
		}
		if i%997 < len(hostile) {
			f.Command = task.Bytes(hostile[i%997])
		}
		outcome := task.OK
		if i%200 == 17 {
			outcome = []task.Outcome{task.Exit, task.Signal, task.Timeout, task.Exit, task.Lost}[i/200%5]
		} else if i%700 == 99 {
			attempt(f, "retried", task.Exit)
			f.Attempt, f.Start = 2, f.Start.Add(took)
			free[lane] += took
		}
		attempt(f, "finished", outcome)
		free[lane] += took + time.Duration(rnd.IntN(8e6))
	}
	slices.SortStableFunc(lines, func(a, b *history.Line) int { return a.At.Compare(b.At) })
	began := line(history.Began, base, task.Facts{})
	began.Text = "crew -j64 --retries 2 --key '{1}' 'gcc -O2 -c {}'"
	return append([]*history.Line{began}, lines...)
}

// made returns a report of several runs with n tasks in all.
func made(n, runs int) *history.Report {
	f := history.NewFold()
	for day := range runs {
		f.Source(fmt.Sprintf("night-%d.log", day+1))
		for _, l := range played(n/runs, day) {
			f.Add(l)
		}
		f.Add(line(history.Over, madeBase.AddDate(0, 0, day+1), task.Facts{}))
	}
	r := f.Report()
	r.Made = madeBase.AddDate(0, 0, runs)
	return r
}

// TestYears checks that the axis of a run of several years is in order.
func TestYears(t *testing.T) {
	start := time.Unix(1_500_000_000, 0)
	r := &history.Report{
		Runs:   []history.Run{{Start: start, End: start.AddDate(4, 0, 0)}},
		Curves: series.Curves{Start: start, Width: task.Seconds(36 * time.Hour), Points: make([]series.Point, 1000)},
	}
	for i, m := range overTime(r)[0].Marks {
		require.Equal(t, start.Add(time.Duration(i)*250*36*time.Hour).Local().Format(time.DateOnly), m.Text)
	}
}

package view

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"crew/runner/history"
	"crew/runner/task"
)

// canary is what a script would leave behind if one of these names ran it.
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

// made is a report as a run of n attempts on four hosts makes it, with n/200 failures,
// retries, flaky tasks, waits and hostile names. It is the same each time.
func made(n, runs int) *history.Report {
	rnd := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // not a secret
	base := time.Date(2026, 3, 14, 9, 26, 53, 0, time.UTC)
	r := &history.Report{Title: "crew -j64 --retries 2 --key '{1}' 'gcc -O2 -c {} -o build/{.}.o'", Made: base.Add(time.Duration(runs) * 24 * time.Hour)}
	a := &r.Attempts
	a.Base, a.Names = base, []string{""}
	const workers = 16
	hosts := []string{"", "build-1.example.net", "build-2.example.net", "big<b>host"}
	for _, host := range hosts {
		for w := range workers {
			a.Lanes = append(a.Lanes, history.Lane{Host: host, Worker: w + 1})
		}
	}
	keys := []string{"core", "net", "db", "ui", "docs", hostile[0]}
	for _, k := range keys {
		a.Names = append(a.Names, k)
	}
	free := make([]float64, len(a.Lanes))
	code := 2
	start, stop := 0.0, 0.0
	for run := range runs {
		day := float64(run) * 24 * 3600 * 1000
		for i := range free {
			free[i] = day + rnd.Float64()*20
		}
		start, stop = day, day
		for i := range n / runs {
			lane := i % len(free)
			for l := range free {
				if free[l] < free[lane] {
					lane = l
				}
			}
			took := 40 + rnd.ExpFloat64()*160*(1+0.15*float64(run)*float64(i%6/4))
			if i%500 == 250 {
				for l := range free {
					free[l] += 900
				}
				at := base.Add(time.Duration(free[lane] * 1e6))
				r.Blocked = append(r.Blocked, history.Blocked{Run: run, From: at.Add(-900 * time.Millisecond), To: at, By: "rate", Text: "1 task waits for --rate 50/s, the next in 0.9s"})
			}
			key := i % 6
			name := fmt.Sprintf("gcc -O2 -Wall -c src/module_%03d/file_%06d.c -o build/module_%03d/file_%06d.o", i/400, i, i/400, i)
			if i%997 < len(hostile) {
				name = hostile[i%997]
			}
			a.Names = append(a.Names, name)
			outcome, final := task.OK, true
			switch {
			case i%200 == 17:
				outcome = []task.Outcome{task.Exit, task.Signal, task.Timeout, task.Exit, task.Lost}[i/200%5]
			case i%700 == 99:
				outcome, final = task.Exit, false
			}
			attempt := int32(1)
			push := func(lane int, outcome task.Outcome, final bool, start, took float64) {
				a.Run, a.Task, a.Attempt = append(a.Run, int32(run)), append(a.Task, uint64(i+1)), append(a.Attempt, attempt)
				a.Lane, a.Start, a.Took = append(a.Lane, int32(lane)), append(a.Start, start), append(a.Took, took)
				a.Waited, a.Outcome, a.Final = append(a.Waited, 20+rnd.Float64()*3000), append(a.Outcome, outcome), append(a.Final, final)
				c := 0
				if outcome != task.OK {
					c = code
				}
				a.Code, a.Key, a.Command = append(a.Code, int32(c)), append(a.Key, int32(key+1)), append(a.Command, int32(len(a.Names)-1))
			}
			push(lane, outcome, final, free[lane], took)
			free[lane] += took + rnd.Float64()*8
			facts := task.Facts{
				Task: uint64(i + 1), Key: task.Bytes(keys[key]), Command: task.Bytes(name), Outcome: outcome, Exit: &code, Signal: 11, Attempt: 1,
				Worker: lane%workers + 1, Host: task.Bytes(hosts[lane/workers]), Start: base.Add(time.Duration(free[lane] * 1e6)), Duration: task.Seconds(took * 1e6),
			}
			switch {
			case outcome.Failed() && final:
				e := history.Ended{Facts: facts, Run: run, Output: []byte("src/file.c: In function 'main':\r\nsrc/file.c:17:9: \x1b[31merror\x1b[0m: <script>" + canary + "</script>\n" + hostile[i%len(hostile)] + "\n")}
				if i%1000 == 17 {
					e.Output = nil
				}
				r.Failed.List = append(r.Failed.List, e)
			case !final:
				attempt = 2
				push((lane+5)%len(free), task.OK, true, free[(lane+5)%len(free)]+1000, took)
				free[(lane+5)%len(free)] += 1000 + took
				second := facts
				second.Attempt, second.Outcome, second.Exit = 2, task.OK, nil
				r.Flaky.List = append(r.Flaky.List, history.Ended{Facts: second, Run: run, Earlier: []task.Facts{facts}})
			}
			if took > 1200 && len(r.Slowest.List) < 100 {
				r.Slowest.List = append(r.Slowest.List, history.Ended{Facts: facts, Run: run})
			}
			stop = max(stop, free[lane])
		}
		figures := history.Figures{Tasks: int64(n / runs), Failed: int64(n / runs / 200), Flaky: 3, Retries: 3, Mean: time.Duration(200+10*run) * time.Millisecond, Median: 150 * time.Millisecond, P95: 520 * time.Millisecond, Most: 3 * time.Second, Time: time.Duration(n/runs) * 200 * time.Millisecond}
		r.Runs = append(r.Runs, history.Run{Source: fmt.Sprintf("night-%d.log", run+1), Command: r.Title, Start: base.Add(time.Duration(start * 1e6)), End: base.Add(time.Duration(stop * 1e6)), Ended: true, Workers: len(free), Figures: figures})
	}
	slices.SortFunc(r.Slowest.List, func(a, b history.Ended) int { return cmp.Compare(b.Duration, a.Duration) })
	fold(r, keys, hosts, n, runs)
	return r
}

// fold makes up the figures of a report.
func fold(r *history.Report, keys, hosts []string, n, runs int) {
	failed := int64(len(r.Failed.List))
	r.Total = history.Figures{Tasks: int64(n), Failed: failed, Flaky: int64(len(r.Flaky.List)), Retries: int64(len(r.Flaky.List)), Mean: 200 * time.Millisecond, Median: 151 * time.Millisecond, P95: 519 * time.Millisecond, Most: 3 * time.Second, Time: time.Duration(n) * 200 * time.Millisecond, User: time.Duration(n) * 150 * time.Millisecond, System: time.Duration(n) * 11 * time.Millisecond, MaxRSS: 312 << 20}
	r.Outcomes[task.OK] = int64(n) - failed
	for _, e := range r.Failed.List {
		r.Outcomes[e.Outcome]++
	}
	for i := range 30 {
		from := time.Duration(10*pow(1.25, i)) * time.Millisecond
		tasks := int64(float64(n) / 12 * max(0, 1-float64((i-14)*(i-14))/150))
		r.Bins = append(r.Bins, history.Bin{From: from, Tasks: tasks, Failed: tasks / 100})
	}
	group := func(name string, i int, share int64) history.Group {
		g := history.Group{Name: name, Figures: history.Figures{Tasks: share, Failed: share / 200, Retries: 4, Flaky: int64(i % 2), Mean: 200 * time.Millisecond, Median: 150 * time.Millisecond, P95: 500 * time.Millisecond, Most: 2 * time.Second, Time: time.Duration(share) * 200 * time.Millisecond}}
		for run := range runs {
			if runs > 1 {
				f := history.Figures{Tasks: share / int64(runs), Mean: time.Duration(150+run*i*12) * time.Millisecond, Median: time.Second, P95: time.Second}
				if i == 2 && run == runs-1 {
					f.Failed = 7
				}
				g.ByRun = append(g.ByRun, f)
			}
		}
		return g
	}
	for i, k := range keys {
		r.Keys.List = append(r.Keys.List, group(k, i, int64(n/6)))
	}
	for i := range 40 {
		r.Commands.List = append(r.Commands.List, group(fmt.Sprintf("gcc -O2 -c src/module_%03d", i), i%7, int64(n/40)))
	}
	for i, h := range hosts {
		r.Hosts.List = append(r.Hosts.List, group(h, i, int64(n/4)))
	}
	r.Commands.More = 210
}

func pow(x float64, n int) float64 {
	y := 1.0
	for range n {
		y *= x
	}
	return y
}

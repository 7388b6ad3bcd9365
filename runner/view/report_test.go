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

var (
	madeHosts = []string{"", "build-1.example.net", "build-2.example.net", "big<b>host"}
	madeKeys  = []string{"core", "net", "db", "ui", "docs", hostile[0]}
	madeBase  = time.Date(2026, 3, 14, 9, 26, 53, 0, time.UTC)
)

const madeWorkers = 16 // on each host

// maker makes up a report, a task after the other.
type maker struct {
	*history.Report
	rnd  *rand.Rand
	free []float64 // when each lane is, in milliseconds
	run  int
}

// made is a report of n tasks on four hosts, with n/200 failures, retries, flaky tasks, waits
// and hostile names. It is the same each time.
func made(n, runs int) *history.Report {
	m := &maker{Report: &history.Report{Title: "crew -j64 --retries 2 --key '{1}' 'gcc -O2 -c {} -o build/{.}.o'"}}
	m.rnd = rand.New(rand.NewPCG(1, 2)) //nolint:gosec // not a secret
	m.Made = madeBase.Add(time.Duration(runs) * 24 * time.Hour)
	m.Attempts.Base, m.Attempts.Names = madeBase, append([]string{""}, madeKeys...)
	for _, host := range madeHosts {
		for w := range madeWorkers {
			m.Attempts.Lanes = append(m.Attempts.Lanes, history.Lane{Host: host, Worker: w + 1})
		}
	}
	m.free = make([]float64, len(m.Attempts.Lanes))
	for m.run = range runs {
		day := float64(m.run) * 24 * 3600 * 1000
		for i := range m.free {
			m.free[i] = day + m.rnd.Float64()*20
		}
		for i := range n / runs {
			m.task(i)
		}
		tasks := int64(n / runs)
		m.Runs = append(m.Runs, history.Run{
			Source: fmt.Sprintf("night-%d.log", m.run+1), Command: m.Title, Start: after(day), End: after(slices.Max(m.free)), Ended: true, Workers: len(m.free),
			Figures: figures(tasks, time.Duration(200+10*m.run)*time.Millisecond),
		})
	}
	slices.SortFunc(m.Slowest.List, func(a, b history.Ended) int { return cmp.Compare(b.Duration, a.Duration) })
	m.fold(n, runs)
	return m.Report
}

func after(ms float64) time.Time { return madeBase.Add(time.Duration(ms * 1e6)) }

func figures(tasks int64, mean time.Duration) history.Figures {
	return history.Figures{
		Tasks: tasks, Failed: tasks / 200, Flaky: tasks / 700, Retries: tasks / 700, Mean: mean, Median: mean * 3 / 4, P95: 5 * mean / 2, Most: 15 * mean,
		Time: time.Duration(tasks) * mean,
	}
}

// task adds a task with its attempts, on the lane that is free first.
func (m *maker) task(i int) {
	lane := slices.Index(m.free, slices.Min(m.free))
	if i%500 == 250 { // nothing starts for a while
		at := slices.Max(m.free) + 900
		m.Blocked = append(m.Blocked, history.Blocked{Run: m.run, From: after(m.free[lane]), To: after(at), By: "rate", Text: "1 task waits for --rate 50/s, the next in 0.9s"})
		for l := range m.free {
			m.free[l] = at + m.rnd.Float64()*20
		}
	}
	took := 40 + m.rnd.ExpFloat64()*160
	name := fmt.Sprintf("gcc -O2 -Wall -c src/module_%03d/file_%06d.c -o build/module_%03d/file_%06d.o", i/400, i, i/400, i)
	if i%997 < len(hostile) {
		name = hostile[i%997]
	}
	m.Attempts.Names = append(m.Attempts.Names, name)
	outcome, code := task.OK, 2
	if i%200 == 17 {
		outcome = []task.Outcome{task.Exit, task.Signal, task.Timeout, task.Exit, task.Lost}[i/200%5]
	}
	facts := task.Facts{
		Task: uint64(i + 1), Key: task.Bytes(madeKeys[i%6]), Command: task.Bytes(name), Outcome: outcome, Exit: &code, Signal: 11, Attempt: 1,
		Worker: lane%madeWorkers + 1, Host: task.Bytes(madeHosts[lane/madeWorkers]), Start: after(m.free[lane]), Duration: task.Seconds(took * 1e6),
	}
	switch {
	case outcome.Failed():
		e := history.Ended{Facts: facts, Run: m.run, Output: []byte("src/file.c: In function 'main':\r\nsrc/file.c:17:9: \x1b[31merror\x1b[0m: <script>" + canary + "</script>\n" + hostile[i%len(hostile)] + "\n")}
		if i%1000 == 17 {
			e.Output = nil
		}
		m.Failed.List = append(m.Failed.List, e)
	case i%700 == 99: // it fails, and passes on another lane
		facts.Outcome = task.Exit
		m.attempt(&facts, lane, took, false)
		before := facts
		facts.Outcome, facts.Exit, facts.Attempt = task.OK, nil, 2
		m.Flaky.List = append(m.Flaky.List, history.Ended{Facts: facts, Run: m.run, Earlier: []task.Facts{before}})
		lane = (lane + 5) % len(m.free)
		m.free[lane] += 1000
	}
	m.attempt(&facts, lane, took, true)
	if took > 1200 && len(m.Slowest.List) < history.MostListed {
		m.Slowest.List = append(m.Slowest.List, history.Ended{Facts: facts, Run: m.run})
	}
}

// attempt adds an attempt to the timeline.
func (m *maker) attempt(f *task.Facts, lane int, took float64, final bool) {
	a := &m.Attempts
	a.Run, a.Task, a.Attempt = append(a.Run, int32(m.run)), append(a.Task, f.Task), append(a.Attempt, int32(f.Attempt))
	a.Lane, a.Start, a.Took = append(a.Lane, int32(lane)), append(a.Start, m.free[lane]), append(a.Took, took)
	a.Waited, a.Outcome, a.Final = append(a.Waited, 20+m.rnd.Float64()*3000), append(a.Outcome, f.Outcome), append(a.Final, final)
	code := int32(0)
	if f.Outcome != task.OK {
		code = 2
	}
	a.Code, a.Key, a.Command = append(a.Code, code), append(a.Key, int32((f.Task-1)%6)+1), append(a.Command, int32(len(a.Names)-1))
	m.free[lane] += took + m.rnd.Float64()*8
}

// fold makes up the figures of all tasks.
func (m *maker) fold(n, runs int) {
	failed := int64(len(m.Failed.List))
	m.Total = figures(int64(n), 200*time.Millisecond)
	m.Total.Failed, m.Total.Flaky = failed, int64(len(m.Flaky.List))
	m.Total.User, m.Total.System, m.Total.MaxRSS = m.Total.Time*3/4, m.Total.Time/20, 312<<20
	m.Outcomes[task.OK] = int64(n) - failed
	for _, e := range m.Failed.List {
		m.Outcomes[e.Outcome]++
	}
	from := 10 * time.Millisecond
	for i := range 30 {
		tasks := int64(float64(n) / 12 * max(0, 1-float64((i-14)*(i-14))/150))
		m.Bins = append(m.Bins, history.Bin{From: from, Tasks: tasks, Failed: tasks / 100})
		from = from * 5 / 4
	}
	group := func(name string, i int, tasks int64) history.Group {
		g := history.Group{Name: name, Figures: figures(tasks, 200*time.Millisecond)}
		for run := range runs {
			f := figures(tasks/int64(runs), time.Duration(150+run*i*25)*time.Millisecond)
			f.Failed = 0
			if i == 2 && run == runs-1 {
				f.Failed = 7
			}
			g.ByRun = append(g.ByRun, f)
		}
		return g
	}
	for i, k := range madeKeys {
		m.Keys.List = append(m.Keys.List, group(k, i, int64(n/6)))
	}
	for i := range 40 {
		m.Commands.List = append(m.Commands.List, group(fmt.Sprintf("gcc -O2 -c src/module_%03d", i), i%7, int64(n/40)))
	}
	for i, h := range madeHosts {
		m.Hosts.List = append(m.Hosts.List, group(h, i, int64(n/4)))
	}
	m.Commands.More = 210
}

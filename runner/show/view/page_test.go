package view

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/decide/task"
	"crew/runner/show/history"
	"crew/runner/steer/control"
)

// many is the page of a run with 12,000 tasks.
var many = sync.OnceValue(func() string {
	var b strings.Builder
	_ = Page(&b, made(12_000, 1), "")
	return b.String()
})

// page returns the page of a report.
func page(t *testing.T, r *history.Report, live string) string {
	var b bytes.Buffer
	require.NoError(t, Page(&b, r, live))
	return b.String()
}

// unpacked returns the content of a page: its texts, its charts, and the data of its script.
func unpacked(t *testing.T, html string) string {
	packed := regexp.MustCompile(`id="data">([^<]*)<`).FindStringSubmatch(html)[1]
	z, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, strings.NewReader(packed)))
	require.NoError(t, err)
	data, err := io.ReadAll(z)
	require.NoError(t, err)
	html = regexp.MustCompile(`(?s)<(style|script).*?</(style|script)>`).ReplaceAllString(html, "")
	html = regexp.MustCompile(`</?[a-z0-9]+[^>]*>`).ReplaceAllStringFunc(html, func(tag string) string {
		if regexp.MustCompile(`^<(rect|path|line|polyline|polygon|circle)`).MatchString(tag) {
			return tag
		}
		return "\n"
	})
	text := regexp.MustCompile(`\s*\n\s*`).ReplaceAllString(html, "\n") + "\n" + strings.ReplaceAll(string(data), `,"`, ",\n\"")
	return strings.ReplaceAll(text, strings.Repeat("w", 200), "W")
}

// TestPageTellsWhatHappened compares pages with texts in testdata that people have checked. CREW_UPDATE
// rewrites them.
func TestPageTellsWhatHappened(t *testing.T) {
	local := time.Local
	time.Local = time.UTC
	defer func() { time.Local = local }()
	for name, r := range map[string]*history.Report{"run": made(300, 1), "runs": made(360, 3)} {
		got, file := unpacked(t, page(t, r, "")), "testdata/"+name+".txt"
		if os.Getenv("CREW_UPDATE") != "" {
			require.NoError(t, os.WriteFile(file, []byte(got), 0o600))
		}
		want, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, string(want), got)
	}
}

func TestPageOfNothing(t *testing.T) {
	html := page(t, &history.Report{}, "")
	require.Contains(t, html, "<h1>Nothing to report</h1>")
	require.NotContains(t, html, `id="h-figures"`)
	require.Contains(t, html, "No task has ended.")
	require.NotContains(t, html, `href="#h-timeline"`)
	html = page(t, &history.Report{}, "./")
	require.Contains(t, html, `data-live="./"`)
	require.Contains(t, html, "No task has ended yet.")
	require.Contains(t, html, `id="p-failed" aria-labelledby="h-failed" hidden`)
}

// TestVerdict checks the headline of reports, and the exit status where the report can tell it.
func TestVerdict(t *testing.T) {
	ended := history.Run{Ended: true}
	complete := history.Run{Ended: true, Complete: true}
	for want, r := range map[string]*history.Report{
		`<h1 class="ok">Passed: 1 task <small>exit status 0</small></h1>`:                                    {Runs: []history.Run{complete}, Total: history.Figures{Tasks: 1}},
		`<h1 class="ok">Passed: 2,000 tasks</h1>`:                                                            {Runs: []history.Run{ended}, Total: history.Figures{Tasks: 2000}},
		`<h1 class="ok">Passed: 9 tasks in 2 runs</h1>`:                                                      {Runs: []history.Run{complete, complete}, Total: history.Figures{Tasks: 9}},
		`<h1 class="ok">Passed: 8 tasks</h1>`:                                                                {Runs: []history.Run{complete}, Total: history.Figures{Tasks: 8, Flaky: 1}},
		`<h1 class="fail">Failed: 3 of 9 tasks <small>exit status 123</small></h1>`:                          {Runs: []history.Run{complete}, Total: history.Figures{Tasks: 9, Failed: 3}},
		`<h1 class="fail">Failed: 1 of 9 tasks <small>stopped early: --halt</small></h1>`:                    {Runs: []history.Run{{Ended: true, Stopped: "--halt"}}, Total: history.Figures{Tasks: 9, Failed: 1}},
		`<h1 class="fail">Failed: 1 of 2 tasks <small>stopped early</small></h1>`:                            {Runs: []history.Run{{Ended: true, Stopped: history.UnknownReason}}, Total: history.Figures{Tasks: 2, Failed: 1}},
		`<h1 class="slow">Ended early: 2 tasks passed <small>exit status 124, stopped by --deadline</small>`: {Runs: []history.Run{{Ended: true, Stopped: "--deadline"}}, Total: history.Figures{Tasks: 2}},
		`<h1 class="slow">Did not finish: 7 tasks ended</h1>`:                                                {Runs: []history.Run{{}}, Total: history.Figures{Tasks: 7}},
		`<h1 class="slow">Not finished: 2 of 7 tasks cancelled or not run <small>exit status`:                {Runs: []history.Run{complete}, Total: history.Figures{Tasks: 7}, Outcomes: [task.Outcomes]int64{task.Cancelled: 2}},
	} {
		require.Contains(t, page(t, r, ""), want)
	}
}

// TestFewFailuresAreSeen checks that a few failures are open above the timeline and visible in the bar of
// many tasks, and that many failures are closed.
func TestFewFailuresAreSeen(t *testing.T) {
	r := &history.Report{Runs: []history.Run{{Ended: true}}, Total: history.Figures{Tasks: 50_000, Failed: 3}}
	r.Outcomes[task.OK], r.Outcomes[task.Exit] = 49_997, 3
	for i := range 3 {
		r.Failed.List = append(r.Failed.List, history.Ended{Facts: task.Facts{Task: uint64(i + 1), Outcome: task.Exit}, Output: []byte("the reason\n")})
	}
	html := page(t, r, "")
	require.Contains(t, html, `class="fail" x="99.01" width="0.99"`)
	require.Equal(t, 3, strings.Count(html, `" open><summary>`))
	require.Less(t, strings.Index(html, "the reason"), strings.Index(html, `id="timeline"`))
	r.Failed.List = append(r.Failed.List, history.Ended{Facts: task.Facts{Task: 9, Outcome: task.Exit}})
	require.NotContains(t, page(t, r, ""), `" open><summary>`)
}

// TestTablesThatSayNothing checks that a table of commands is left out if each has one task, that no red
// line shows zero failures, and that times are compared only with enough samples.
func TestTablesThatSayNothing(t *testing.T) {
	group := func(name string, byRun ...history.Figures) history.Group {
		g := history.Group{Name: name, ByRun: byRun}
		for _, f := range byRun {
			g.Tasks, g.Failed = g.Tasks+f.Tasks, g.Failed+f.Failed
		}
		return g
	}
	once, slow, bad := history.Figures{Tasks: 1, Mean: time.Second}, history.Figures{Tasks: 1, Mean: 40 * time.Second}, history.Figures{Tasks: 1, Failed: 1, Mean: time.Second}
	r := &history.Report{Runs: []history.Run{{}}}
	r.Commands.List = []history.Group{group("a", once), group("b", once)}
	require.NotContains(t, page(t, r, ""), `id="h-Command"`)
	r.Commands.List[0].Tasks = 2
	require.Contains(t, page(t, r, ""), `id="h-Command"`)

	r.Runs = make([]history.Run, 4)
	r.Commands.List = []history.Group{group("twice", once, slow), group("often", once, once, once, slow), group("newly", once, bad)}
	html := page(t, r, "")
	all := trends(r)
	require.Len(t, all, 2)
	require.Equal(t, "often", all[0].Name)
	require.Equal(t, "× 40", all[0].Change)
	require.Equal(t, "newly", all[1].Name)
	require.Empty(t, all[1].Change)
	require.Contains(t, html, "newly failing")
	require.Equal(t, 1, strings.Count(html, `class="spark mean"`))
	require.NotContains(t, html, `class="spark failures"`)
}

func TestIndexListsRuns(t *testing.T) {
	total := int64(90)
	var b bytes.Buffer
	left, since := task.Seconds(90*time.Second), time.Date(2026, 3, 14, 9, 0, 0, 0, time.Local)
	require.NoError(t, Index(&b, []Listed{
		{
			Hello:  control.Hello{PID: 4711, Name: "nightly", Command: task.Bytes(hostile[0]), State: "paused", Since: since, Progress: control.Progress{Total: &total, Done: 12, Failed: 3}},
			Status: &control.Status{Snapshot: task.Snapshot{At: since.Add(time.Minute)}, Elapsed: task.Seconds(61 * time.Second), ETA: &left},
		},
		{Hello: control.Hello{PID: 4712, State: control.Ended, Since: since}, Over: since.Add(time.Hour)},
	}))
	for _, want := range []string{
		`href="run/4711/">nightly<`, `class="state slow">paused<`, "12 of 90 done", `class="bad">3 failed<`, `class="fail" x="10.00" width="3.33"`, "for 1m1s", "about 1m30s left, until 09:02",
		"run 4712", `class="state off">ended<`, "for 1h0m0s", "until 10:00:00", "&lt;script&gt;",
	} {
		require.Contains(t, b.String(), want)
	}
	require.NotContains(t, b.String(), `http-equiv="refresh"`)
	require.NotContains(t, b.String(), hostile[0])
	b.Reset()
	require.NoError(t, Index(&b, nil))
	require.Contains(t, b.String(), "crew -j4")
}

// TestPolicyAllowsWhatThePageHas checks that the policy has the hash of each script and style, and
// allows nothing else.
func TestPolicyAllowsWhatThePageHas(t *testing.T) {
	var index bytes.Buffer
	require.NoError(t, Index(&index, nil))
	for _, html := range []string{page(t, made(400, 2), ""), page(t, made(400, 1), "./"), index.String()} {
		csp := regexp.MustCompile(`Content-Security-Policy" content="([^"]*)"`).FindStringSubmatch(html)[1]
		csp = strings.NewReplacer("&#39;", "'", "&#43;", "+").Replace(csp)
		require.True(t, strings.HasPrefix(csp, "default-src 'none';"))
		require.Equal(t, strings.Contains(html, "data-live") || html == index.String(), strings.Contains(csp, "connect-src 'self'"))
		for _, tag := range []string{"style", `script type="module"`} {
			for _, m := range regexp.MustCompile(`(?s)<`+tag+`>(.*?)</`).FindAllStringSubmatch(html, -1) {
				sum := sha256.Sum256([]byte(m[1]))
				require.Contains(t, csp, "'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'")
			}
		}
		require.NotRegexp(t, `<[a-z][^>]*\s(style|on[a-z]+)=`, html)
		require.NotRegexp(t, `(src|href)="?(https?:|//|javascript:)`, html)
	}
}

func TestNamesAreNoMarkup(t *testing.T) {
	r := made(400, 1)
	for i, name := range hostile {
		f := history.Ended{Facts: task.Facts{Task: uint64(i), Command: task.Bytes(name), Key: task.Bytes(name), Host: task.Bytes(name), Error: task.Bytes(name), Outcome: task.StartFailed}, Output: []byte(name)}
		r.Failed.List = append([]history.Ended{f}, r.Failed.List...)
		r.Slowest.List = append([]history.Ended{f}, r.Slowest.List...)
		r.Flaky.List = append([]history.Ended{f}, r.Flaky.List...)
		for _, g := range []*history.Groups{&r.Keys, &r.Commands, &r.Hosts} {
			g.List = append(g.List, history.Group{Name: name})
		}
		r.Runs[0].Source, r.Title = name, name
		html := page(t, r, "")
		require.NotContains(t, html, `<script>document`)
		require.NotContains(t, html, `<img`)
		require.NotContains(t, html, `<svg onload`)
		require.NotRegexp(t, `[\x00-\x08\x0b-\x1f\x7f\x{202a}-\x{202e}\x{2066}-\x{2069}\x{200b}\x{fffd}]`, html)
		require.Less(t, len(html), 5<<20)
	}
}

func TestPageIsSmall(t *testing.T) {
	require.Less(t, len(many()), 5<<20/15)
	r := made(1000, 1)
	long := strings.Repeat("\x01", 1<<20)
	for i := range r.Attempts.List {
		r.Attempts.List[i].Command = long
	}
	require.Less(t, len(page(t, r, "")), 5<<20, "long commands are cut")
}

func TestSpansAreShort(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 300 * time.Microsecond: "300µs", 42 * time.Millisecond: "42ms", 1234 * time.Millisecond: "1.23s", 59940 * time.Millisecond: "59.9s",
		59960 * time.Millisecond: "1m0s", 3*time.Hour + 5*time.Minute: "3h5m0s", 50 * time.Hour: "50h0m0s",
	} {
		require.Equal(t, want, span(d))
	}
	require.Equal(t, "12,345,678", count(12345678))
	require.Equal(t, "-1,000", count(-1000))
}

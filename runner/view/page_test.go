package view

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/control"
	"crew/runner/history"
	"crew/runner/task"
)

// hundredThousand is the page of a run with that many attempts.
var hundredThousand = sync.OnceValue(func() string {
	var b strings.Builder
	_ = Page(&b, made(100_000, 1), "")
	return b.String()
})

// page returns the page of a report.
func page(t *testing.T, r *history.Report, live string) string {
	var b bytes.Buffer
	require.NoError(t, Page(&b, r, live))
	return b.String()
}

func TestPageTellsWhatHappened(t *testing.T) {
	html := page(t, made(4000, 1), "")
	for _, want := range []string{
		"<title>crew -j64", "4,000", "64 workers", "4 hosts", "20 exit", // facts
		"Failures", "Task 218", "killed by SIGSEGV", "error", "Its output is not known.", "key net",
		"Flaky", "Slowest", "Durations", "As a table", "Keys", "Commands", "Hosts", "build-1.example.net",
		"What this page leaves out", "At least 210 more commands are not listed.",
	} {
		require.Contains(t, html, strings.Replace(want, "20 exit", "8 exit", 1))
	}
	require.NotContains(t, html, "Trends")
	require.NotContains(t, html, "Stop", "a file steers nothing")
	require.NotContains(t, html, `"refresh"`)
}

func TestPageOfSeveralRunsTellsTrends(t *testing.T) {
	html := page(t, made(600, 3), "")
	for _, want := range []string{"Trends", "got slower", "newly failing", "flaky", "night-3.log", "× 1."} {
		require.Contains(t, html, want)
	}
	_, runs, _ := strings.Cut(html, `id="h-runs"`)
	require.Regexp(t, `(?s)night-3\.log.*night-2\.log.*night-1\.log`, strings.Split(runs, "</table>")[0], "the latest run is first")
}

func TestPageOfNothing(t *testing.T) {
	html := page(t, &history.Report{}, "")
	require.Contains(t, html, "<h1>Nothing to report</h1>")
	require.Contains(t, html, "No task has ended.")
	require.NotContains(t, html, `href="#h-timeline"`)
	html = page(t, &history.Report{}, "./")
	require.Contains(t, html, `data-live="./"`)
	require.Contains(t, html, "No task has ended yet.")
}

func TestIndexListsRuns(t *testing.T) {
	total := int64(90)
	var b bytes.Buffer
	require.NoError(t, Index(&b, []control.Hello{
		{PID: 4711, Name: "nightly", Command: task.Bytes(hostile[0]), State: "paused", Progress: control.Progress{Total: &total, Done: 12, Failed: 3}},
		{PID: 4712, State: control.Silent},
	}))
	for _, want := range []string{`http-equiv="refresh" content="5"`, `href="run/4711/"`, "nightly", "paused", "of 90", "silent", "&lt;script&gt;"} {
		require.Contains(t, b.String(), want)
	}
	require.NotContains(t, b.String(), hostile[0])
	b.Reset()
	require.NoError(t, Index(&b, nil))
	require.Contains(t, b.String(), "crew -j4")
}

// What may run is what the policy has the hash of, and that is all that there is.
func TestPolicyAllowsWhatThePageHas(t *testing.T) {
	var index bytes.Buffer
	require.NoError(t, Index(&index, nil))
	for _, html := range []string{page(t, made(400, 2), ""), page(t, made(400, 1), "./"), index.String()} {
		csp := regexp.MustCompile(`Content-Security-Policy" content="([^"]*)"`).FindStringSubmatch(html)[1]
		csp = strings.NewReplacer("&#39;", "'", "&#43;", "+").Replace(csp)
		require.True(t, strings.HasPrefix(csp, "default-src 'none';"))
		require.Equal(t, strings.Contains(html, "data-live"), strings.Contains(csp, "connect-src 'self'"))
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
	require.Less(t, len(hundredThousand()), 5<<20/2)
	r := made(1000, 1)
	long := strings.Repeat("\x01", 1<<20)
	for i := range r.Attempts.Names {
		r.Attempts.Names[i] = long
	}
	require.Less(t, len(page(t, r, "")), 5<<20, "long commands are cut")
}

func TestSpansAreShort(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0", 300 * time.Microsecond: "0.3 ms", 42 * time.Millisecond: "42 ms", 1234 * time.Millisecond: "1.23 s", 59940 * time.Millisecond: "59.9 s",
		59960 * time.Millisecond: "1 m 00 s", 3*time.Hour + 5*time.Minute: "3 h 05 m", 50 * time.Hour: "2 d 02 h",
	} {
		require.Equal(t, want, span(d))
	}
	require.Equal(t, "12,345,678", count(12345678))
	require.Equal(t, "-1,000", count(-1000))
	require.Equal(t, "327 MB", size(312<<20))
}

// TestShots writes pictures of pages to the directory CREW_SHOTS, for people to look at.
func TestShots(t *testing.T) {
	dir := os.Getenv("CREW_SHOTS")
	if dir == "" {
		t.Skip("CREW_SHOTS is not set")
	}
	b := open(t)
	if file := filepath.Join(dir, "live.html"); os.Getenv("CREW_FRAGMENT") == "" {
		require.NoError(t, os.WriteFile(file, []byte(page(t, made(400, 1), "./")), 0o600))
		for _, width := range []int{400, 1000} {
			b.size(width, width == 400)
			b.visit("file://" + file)
			b.shot(filepath.Join(dir, fmt.Sprintf("live-%d.png", width)))
		}
		b.errors = nil
	}
	for name, r := range map[string]*history.Report{"big": made(100_000, 1), "trends": made(6000, 6)} {
		file := filepath.Join(dir, name+".html")
		require.NoError(t, os.WriteFile(file, []byte(page(t, r, "")), 0o600))
		for _, width := range []int{400, 1000, 1600} {
			for _, dark := range []bool{false, true} {
				b.size(width, dark)
				t.Log(name, width, b.visit("file://"+file+os.Getenv("CREW_FRAGMENT")), "ms")
				b.shot(filepath.Join(dir, fmt.Sprintf("%s-%d-%t.png", name, width, dark)))
				b.eval(`location.hash = "#t=0.218"; document.querySelector("[data-do=in]").click()`)
				for range 4 {
					b.key("+")
				}
				b.eval(`new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done))).then(() => {
					const box = document.querySelector("#canvas").getBoundingClientRect(), at = {clientX: box.left + box.width / 3, clientY: box.top + 80};
					document.querySelector("#canvas").dispatchEvent(new PointerEvent("pointermove", at));
				})`)
				b.shot(filepath.Join(dir, fmt.Sprintf("%s-%d-%t-picked.png", name, width, dark)))
			}
		}
	}
	require.Empty(t, b.errors)
}

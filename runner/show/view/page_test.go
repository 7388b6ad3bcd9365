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

	"crew/runner/crewtest"
	"crew/runner/decide/task"
	"crew/runner/show/history"
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
	crewtest.UTC(t)
	for name, r := range map[string]*history.Report{"run": made(300, 1), "runs": made(360, 3)} {
		got, file := unpacked(t, page(t, r, "")), "testdata/"+name+".txt"
		if os.Getenv("CREW_UPDATE") != "" {
			crewtest.WriteFile(t, file, got, 0o600)
		}
		require.Equal(t, crewtest.ReadFile(t, file), got)
	}
}

// TestPages checks the pages of testdata/pages.jsonl.
func TestPages(t *testing.T) {
	crewtest.UTC(t)
	crewtest.Examples(t, "testdata/pages.jsonl", func(t *testing.T, row struct {
		It         string
		Report     history.Report
		Outcomes   map[task.Outcome]int64
		Live       string
		Index      bool // a list of runs instead of a report
		Listed     []Listed
		Has, Lacks []string
	}) {
		for o, n := range row.Outcomes {
			row.Report.Outcomes[o] = n
		}
		html := page(t, &row.Report, row.Live)
		if row.Index {
			var b strings.Builder
			require.NoError(t, Index(&b, row.Listed))
			html = b.String()
		}
		for _, has := range row.Has {
			require.Regexp(t, has, html, row.It)
		}
		for _, lacks := range row.Lacks {
			require.NotRegexp(t, lacks, html, row.It)
		}
	})
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
}

func TestSpansAreShort(t *testing.T) {
	crewtest.Examples(t, "testdata/spans.jsonl", func(t *testing.T, row struct {
		Seconds task.Seconds
		Span    string
	}) {
		require.Equal(t, row.Span, span(time.Duration(row.Seconds)))
	})
	require.Equal(t, "12,345,678", count(12345678))
	require.Equal(t, "-1,000", count(-1000))
}

package web

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/control"
	"crew/runner/crewtest"
	"crew/runner/task"
)

// sample is a line of an exposition.
type sample struct {
	name   string
	labels map[string]string
	value  float64
}

var (
	metaForm   = regexp.MustCompile(`^# (TYPE|UNIT|HELP) ([a-zA-Z_:][a-zA-Z0-9_:]*) (.+)$`)
	sampleForm = regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)\{((?:[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*",?)*)\} (\+Inf|[0-9.]+(?:e[+-][0-9]+)?)$`)
	labelForm  = regexp.MustCompile(`([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"`)
	suffixes   = map[string][]string{
		"gauge": {""}, "counter": {"_total"}, "stateset": {""}, "histogram": {"_bucket", "_count", "_sum"},
	}
)

// parseMetrics parses an exposition as section 3 of OpenMetrics 1.0 has it, as far as crew
// web uses that.
func parseMetrics(t *testing.T, text string) (all []sample) {
	t.Helper()
	require.True(t, strings.HasSuffix(text, "\n# EOF\n"))
	require.True(t, slices.Equal([]rune(text), []rune(strings.ToValidUTF8(text, ""))))
	var family, kind string
	families, seen := map[string]bool{}, map[string]bool{}
	for _, line := range strings.Split(strings.TrimSuffix(text, "\n# EOF\n"), "\n") {
		if m := metaForm.FindStringSubmatch(line); m != nil {
			if m[1] == "TYPE" { // begins a family, and each has one
				family, kind = m[2], m[3]
				require.False(t, families[family], line)
				require.Contains(t, suffixes, kind)
				families[family] = true
			}
			require.Equal(t, family, m[2], line)
			require.True(t, m[1] != "UNIT" || strings.HasSuffix(family, "_"+m[3]), line)
			continue
		}
		m := sampleForm.FindStringSubmatch(line)
		require.NotNil(t, m, "%q", line)
		s := sample{m[1], map[string]string{}, 0}
		suffix, ok := strings.CutPrefix(s.name, family)
		require.True(t, ok && slices.Contains(suffixes[kind], suffix), line)
		for _, l := range labelForm.FindAllStringSubmatch(m[2], -1) {
			require.NotContains(t, s.labels, l[1], line)
			s.labels[l[1]] = strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\n`, "\n").Replace(l[2])
		}
		require.True(t, kind != "stateset" || s.labels[family] != "", line)
		require.True(t, (suffix == "_bucket") == (s.labels["le"] != ""), line)
		require.False(t, seen[s.name+"{"+m[2]], line)
		seen[s.name+"{"+m[2]] = true
		var err error
		s.value, err = strconv.ParseFloat(m[3], 64)
		require.NoError(t, err)
		all = append(all, s)
	}
	return all
}

// of returns the value of a sample of a run with a label, which may be "".
func valueOf(t *testing.T, all []sample, run, name, label, value string) float64 {
	t.Helper()
	for _, s := range all {
		if s.name == name && s.labels["run"] == run && (label == "" || s.labels[label] == value) {
			return s.value
		}
	}
	require.Fail(t, "there is no "+name, "%s=%s", label, value)
	return 0
}

func TestMetricsOfARun(t *testing.T) {
	t.Parallel()
	s := startSite(t, Config{})
	p := startCrew(t, "--name", "measured", "-j3", waiting, ":::", "a", "b", "c", "d")
	b := listen(t, s.url+s.open(p.Cmd.Process.Pid)+"events", "")
	release(t, p, "a", 0)
	release(t, p, "b", 7)
	b.status(func(s *control.Status) bool { return s.Done == 2 && s.Progress.Running == 2 })
	resp, err := http.Get(s.url + "metrics")
	require.NoError(t, err)
	resp.Body.Close()
	require.Equal(t, "application/openmetrics-text; version=1.0.0; charset=utf-8", resp.Header.Get("Content-Type"))
	scrape := func() func(name, label, value string) float64 {
		_, text := s.get("metrics")
		all := parseMetrics(t, text)
		return func(metric, label, value string) float64 {
			t.Helper()
			return valueOf(t, all, "measured", metric, label, value)
		}
	}
	var get func(name, label, value string) float64
	// The status may be ahead of the events that the durations are from.
	crewtest.Until(t, func() bool {
		get = scrape()
		return get("crew_up", "", "") == 1 && get("crew_attempt_duration_seconds_count", "", "") == 2
	}, "an answer")
	require.EqualValues(t, 1, get("crew_tasks_total", "outcome", "ok"))
	require.EqualValues(t, 1, get("crew_tasks_total", "outcome", "exit"))
	require.EqualValues(t, 0, get("crew_tasks_total", "outcome", "timeout"))
	require.EqualValues(t, 2, get("crew_running_tasks", "", ""))
	require.EqualValues(t, 3, get("crew_workers", "", ""))
	require.EqualValues(t, 1, get("crew_state", "crew_state", "running"))
	require.EqualValues(t, 0, get("crew_state", "crew_state", "paused"))
	require.EqualValues(t, 2, get("crew_attempt_duration_seconds_bucket", "le", "+Inf"))
	require.EqualValues(t, 2, get("crew_attempt_duration_seconds_count", "", ""))
	require.InDelta(t, time.Now().Unix(), get("crew_start_time_seconds", "", ""), 600)
	get("crew_up", "pid", fmt.Sprint(p.Cmd.Process.Pid))

	release(t, p, "c", 0)
	release(t, p, "d", 0)
	b.until(func(e sse) bool { return e.name == "over" })
	get = scrape()
	require.EqualValues(t, 0, get("crew_up", "", ""))
	require.EqualValues(t, 3, get("crew_tasks_total", "outcome", "ok"))
	require.EqualValues(t, 1, get("crew_state", "crew_state", "done"))
}

// TestExposition: any numbers and names make one that is valid.
func TestExposition(t *testing.T) {
	t.Parallel()
	parseMetrics(t, string(exposition(nil)))
	var took spread
	for _, d := range []time.Duration{0, 10 * time.Millisecond, time.Second, time.Second + 1, 1e6 * time.Hour} {
		took.add(&task.Facts{Start: time.Now(), Duration: task.Seconds(d)})
	}
	took.add(&task.Facts{Duration: 5}) // it never ran
	all := parseMetrics(t, string(exposition([]measured{
		{hello: control.Hello{PID: 1}},
		{hello: control.Hello{PID: 2, Name: "x", Since: time.Now()}, status: &control.Status{Rate: 1e-9, Retried: 1e15}, took: took},
		{hello: control.Hello{PID: 3, Name: "x"}},
		{hello: control.Hello{PID: 4, Name: "a \"b\\c\n\xff"}},
	})))
	require.Zero(t, valueOf(t, all, "a \"b\\c\n\ufffd", "crew_up", "pid", "4"))
	for le, want := range map[string]float64{"0.01": 2, "0.1": 2, "1.0": 3, "5.0": 4, "3600.0": 4, "+Inf": 5} {
		require.Equal(t, want, valueOf(t, all, "x", "crew_attempt_duration_seconds_bucket", "le", le), le)
	}
	require.InEpsilon(t, 1e15, valueOf(t, all, "x", "crew_retries_total", "", ""), 1e-12)
	require.Zero(t, valueOf(t, all, "1", "crew_up", "", ""))
}

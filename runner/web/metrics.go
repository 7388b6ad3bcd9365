package web

import (
	"bytes"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"crew/runner/control"
	"crew/runner/task"
)

// stale is how old the status of a run is at least that does not answer.
const stale = 10 * time.Second

// limits are the upper limits of the histogram of durations, in seconds.
var limits = [...]float64{0.01, 0.1, 0.5, 1, 5, 10, 60, 300, 900, 3600, math.Inf(1)}

// spread is a histogram.
type spread struct {
	count [len(limits)]int64 // up to each limit, and not up to the one before
	sum   float64
}

// add counts an attempt that ran.
func (s *spread) add(f *task.Facts) {
	if f.Start.IsZero() {
		return
	}
	took := time.Duration(f.Duration).Seconds()
	i := 0
	for took > limits[i] {
		i++
	}
	s.count[i]++
	s.sum += took
}

// measured is what metrics tell of a run.
type measured struct {
	hello  control.Hello
	status *control.Status // nil if the run has never told one
	took   spread
	up     bool // it goes on, and has told the status lately
}

func (r *run) measure() measured {
	r.mu.Lock()
	defer r.mu.Unlock()
	return measured{r.hello, r.status, r.past.took, r.over.IsZero() && r.status != nil && time.Since(r.status.At) < stale}
}

// showMetrics answers with what OpenMetrics 1.0 calls an exposition. Runs that are over are in
// it for as long as they are shown.
func (s *server) showMetrics(w http.ResponseWriter, _ *http.Request) {
	var all []measured
	for _, r := range s.list() {
		all = append(all, r.run.measure())
	}
	w.Header().Set("Content-Type", "application/openmetrics-text; version=1.0.0; charset=utf-8")
	_, _ = w.Write(exposition(all))
}

// family is a metric of all runs.
type family struct {
	name, kind, unit, help string
	tell                   func(m *measured, put put)
}

// put writes a number, which may have a label.
type put func(suffix, label, value string, n float64)

var families = [...]family{
	{"crew_up", "gauge", "", "Whether the run answers.", func(m *measured, put put) {
		put("", "", "", number(m.up))
	}},
	{"crew_start_time_seconds", "gauge", "seconds", "When the run began.", func(m *measured, put put) {
		if !m.hello.Since.IsZero() {
			put("", "", "", float64(m.hello.Since.UnixMilli())/1000)
		}
	}},
	{"crew_tasks", "counter", "", "Tasks that have ended, also in earlier runs that this one resumes.", func(m *measured, put put) {
		for o := task.OK; m.status != nil && o < task.Outcomes; o++ {
			put("_total", "outcome", o.String(), float64(m.status.Outcomes[o.String()]))
		}
	}},
	of("crew_retries", "counter", "Tasks that were tried again after a failure.", func(s *control.Status) float64 { return float64(s.Retried) }),
	of("crew_lost_attempts", "counter", "Attempts that were lost with their worker.", func(s *control.Status) float64 { return float64(s.Lost) }),
	of("crew_running_tasks", "gauge", "Tasks that run.", func(s *control.Status) float64 { return float64(s.Progress.Running) }),
	of("crew_waiting_tasks", "gauge", "Tasks that were read and wait.", func(s *control.Status) float64 { return float64(s.Progress.Waiting) }),
	of("crew_workers", "gauge", "Workers.", func(s *control.Status) float64 { return float64(len(s.Slots)) }),
	of("crew_tasks_per_second", "gauge", "How many tasks end.", func(s *control.Status) float64 { return s.Rate }),
	{"crew_state", "stateset", "", "What the run does.", func(m *measured, put put) {
		for _, state := range states {
			if m.status != nil {
				put("", "crew_state", state, number(state == m.status.State))
			}
		}
	}},
	{"crew_attempt_duration_seconds", "histogram", "seconds", "How long attempts took that ended while crew web watched the run.", func(m *measured, put put) {
		sum := int64(0)
		for i, n := range m.took.count {
			sum += n
			put("_bucket", "le", limit(limits[i]), float64(sum))
		}
		put("_count", "", "", float64(sum))
		put("_sum", "", "", m.took.sum)
	}},
}

var states = [...]string{"running", "paused", "draining", "stopping", "done"}

// of returns a family with one number of a status.
func of(name, kind, help string, n func(*control.Status) float64) family {
	suffix := ""
	if kind == "counter" {
		suffix = "_total"
	}
	return family{name, kind, "", help, func(m *measured, put put) {
		if m.status != nil {
			put(suffix, "", "", n(m.status))
		}
	}}
}

func number(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// exposition writes families in the text format of OpenMetrics.
func exposition(runs []measured) []byte {
	var b bytes.Buffer
	for _, f := range families {
		fmt.Fprintf(&b, "# TYPE %s %s\n", f.name, f.kind)
		if f.unit != "" {
			fmt.Fprintf(&b, "# UNIT %s %s\n", f.name, f.unit)
		}
		fmt.Fprintf(&b, "# HELP %s %s\n", f.name, f.help)
		for i := range runs {
			h := &runs[i].hello
			f.tell(&runs[i], func(suffix, label, value string, n float64) {
				fmt.Fprintf(&b, "%s%s{run=\"%s\",pid=\"%d\"", f.name, suffix, escaped(name(h)), h.PID)
				if label != "" {
					fmt.Fprintf(&b, ",%s=\"%s\"", label, escaped(value))
				}
				fmt.Fprintf(&b, "} %s\n", strconv.FormatFloat(n, 'f', -1, 64))
			})
		}
	}
	b.WriteString("# EOF\n")
	return b.Bytes()
}

// escaped returns the value of a label between its quotes.
func escaped(s string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(strings.ToValidUTF8(s, "\ufffd"))
}

// limit returns a limit in its canonical form, which is compared as text.
func limit(n float64) string {
	text := strconv.FormatFloat(n, 'f', -1, 64)
	if !math.IsInf(n, 1) && !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}

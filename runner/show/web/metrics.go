package web

import (
	"cmp"
	_ "embed"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"text/template"
	"time"

	"crew/runner/decide/task"
)

// stale is the age of a status from which on a run counts as not answering.
const stale = 10 * time.Second

// limits are the upper limits of the histogram of durations, in seconds and in their canonical form.
var limits = [...]string{"0.01", "0.1", "0.5", "1.0", "5.0", "10.0", "60.0", "300.0", "900.0", "3600.0", "+Inf"}

// spread is a cumulative histogram of durations.
type spread struct {
	Count [len(limits)]int64 // up to each limit
	Sum   float64
}

// All returns the number of durations.
func (s spread) All() int64 { return s.Count[len(limits)-1] }

// add counts an attempt that ran.
func (s *spread) add(f *task.Facts) {
	if f.Start.IsZero() {
		return
	}
	took := time.Duration(f.Duration).Seconds()
	for i, limit := range limits {
		if most, _ := strconv.ParseFloat(limit, 64); took <= most {
			s.Count[i]++
		}
	}
	s.Sum += took
}

// Labels returns the labels of a run, with the opening brace.
func (s shown) Labels() string {
	text := labelEscapes.Replace(strings.ToValidUTF8(cmp.Or(s.Name, strconv.Itoa(s.PID)), "\ufffd"))
	return fmt.Sprintf(`{run="%s",pid="%d"`, text, s.PID)
}

// Up reports whether the run is not over and has sent its status lately.
func (s shown) Up() bool {
	return s.Over.IsZero() && s.Status != nil && time.Since(s.Status.At) < stale
}

// labelEscapes escapes the value of a label.
var labelEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// number formats a number in its canonical form.
func number(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

//go:embed metrics.tmpl
var metricsText string

// exposition writes a []snapshot in the text format of OpenMetrics 1.0.
var exposition = template.Must(template.New("metrics").Funcs(template.FuncMap{
	"limits":     func() []string { return limits[:] },
	"states":     func() []string { return []string{"running", "paused", "draining", "stopping", "done"} },
	"thousandth": func(n int64) float64 { return float64(n) / 1000 },
	"number":     number,
	"outcomes": func() (all []task.Outcome) {
		for o := task.OK; o < task.Outcomes; o++ {
			all = append(all, o)
		}
		return all
	},
}).Parse(metricsText))

// showMetrics sends an OpenMetrics exposition of all runs in the list, even ended ones.
func (s *server) showMetrics(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/openmetrics-text; version=1.0.0; charset=utf-8")
	_ = exposition.Execute(w, s.list())
}

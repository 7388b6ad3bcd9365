package control

import (
	"cmp"
	_ "embed" // the texts
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"text/template"
	"time"

	"crew/runner/decide/task"
)

const (
	maxTasks    = 100 // running tasks that a status lists
	maxReasons  = 10  // reasons for waiting that a status lists
	commandSize = 200 // bytes of a command that are printed
)

// These texts are for people. SIGQUIT prints the same words. Unprintable characters are not escaped.

// Lines returns the status of a run for a terminal of a width: the totals and the speed, a table of the running
// tasks, the oldest first, why nothing starts, and a table of the reasons why tasks wait. Each list has a limit.
func (s *Status) Lines(width int) []string {
	totals := fmt.Sprintf("%s, up %s: %s", s.State, task.Brief(time.Duration(s.Elapsed)), s.Progress.Text())
	lines := append(wrap(totals, width), wrap(s.Pace(), width)...)
	running := slices.Clone(s.Tasks)
	slices.SortStableFunc(running, func(x, y task.Where) int { return x.Start.Compare(y.Start) })
	running = running[:min(len(running), maxTasks)]
	var rows [][]any
	for i := range running {
		w := &running[i]
		row := []any{task.Brief(time.Duration(w.Duration)), w.Task, "", w.Host, ""}
		if w.Attempt > 1 {
			row[2] = w.Attempt
		}
		if w.Host != "" {
			row[4] = w.Worker
		}
		rows = append(rows, row)
	}
	for i, line := range tasksTable(width, "FOR +TASK +ATTEMPT +HOST +WORKER", running, rows) {
		if lines = append(lines, line); i > 0 && running[i-1].Said != "" {
			lines = append(lines, "  | "+string(running[i-1].Said))
		}
	}
	if n := len(s.Tasks) - len(running); n > 0 {
		lines = append(lines, fmt.Sprintf("… and %d more", n))
	}
	waits := s.Reasons()
	rows = nil
	for _, b := range waits[:min(len(waits), maxReasons)] {
		if why, tasks := b.Why(); tasks {
			rows = append(rows, []any{b.Tasks, b.Key, why})
		} else {
			lines = append(lines, why)
		}
	}
	lines = append(lines, Table(width, "WAITING KEY WHY", rows)...)
	if len(waits) > maxReasons {
		lines = append(lines, "… and more")
	}
	return lines
}

// Explain returns the lines of a table that says where tasks are, for a terminal of a width.
func Explain(list []task.Where, width int) []string {
	var rows [][]any
	for i := range list {
		w := &list[i]
		rows = append(rows, []any{w.Task, strings.Replace(w.State, "held", "ended", 1), w.Key, w.Why()})
	}
	return tasksTable(width, "+TASK STATE +KEY WHY", list, rows)
}

// tasksTable returns the lines of a table of tasks. The rows lack the first column, which tells tasks apart.
func tasksTable(width int, titles string, list []task.Where, rows [][]any) []string {
	first := "*RECORD "
	for i := range rows {
		name, command := list[i].Name()
		if command {
			first = "*COMMAND "
		}
		rows[i] = append([]any{task.Shorten(name, commandSize)}, rows[i]...)
	}
	return Table(width, first+titles, rows)
}

// Text returns a phrase with the counts.
func (p *Progress) Text() string {
	of := fmt.Sprintf("at least %s", task.Count(p.Done+p.Dropped+p.Running+p.Waiting, "task"))
	if p.Total != nil {
		of = task.Count(*p.Total, "task")
	}
	text := fmt.Sprintf("%d of %s finished, %d failed, %d running", p.Done, of, p.Failed, p.Running)
	if p.Skipped > 0 {
		text += fmt.Sprintf(", %d skipped", p.Skipped)
	}
	if p.Dropped > 0 {
		text += fmt.Sprintf(", %d cancelled or not run", p.Dropped)
	}
	return text
}

// Pace returns a phrase with the number of workers, the speed and the remaining time.
func (s *Status) Pace() string {
	hosts := map[string]bool{}
	for _, w := range s.Slots {
		hosts[w.Host] = true
	}
	delete(hosts, "")
	workers := task.Count(int64(len(s.Slots)), "worker")
	if n := len(hosts); n > 0 {
		workers += " on " + task.Count(int64(n), "host")
	}
	parts := []string{workers}
	if s.Lost > 0 {
		parts = append(parts, task.Count(s.Lost, "attempt")+" lost")
	}
	if s.Rate > 0 {
		parts = append(parts, task.Speed(s.Rate))
	}
	if s.ETA != nil {
		parts = append(parts, "eta "+task.Brief(time.Duration(*s.ETA)))
	}
	return strings.Join(parts, ", ")
}

// Reasons returns why no task starts although a worker is idle, and why tasks wait.
func (s *Status) Reasons() (list []task.Blocking) {
	add := func(b task.Blocking) {
		if !slices.ContainsFunc(list, func(x task.Blocking) bool { return x.Shown == b.Shown }) {
			list = append(list, b)
		}
	}
	// The status starts with the state, which may be the reason: paused.
	if s.Blocking != nil && s.Blocking.Shown != s.State && s.Blocking.By != task.BySlots {
		add(*s.Blocking)
	}
	for _, w := range s.Snapshot.Waiting {
		if s.Blocking != nil && s.Blocking.By == task.ByDelay && w.By == task.BySlots {
			continue // a worker is idle, so these tasks wait for --delay
		}
		add(w)
	}
	return list
}

// Runs returns the lines of crew ctl ls for a terminal of a width, or nothing if there is no run.
func Runs(runs []Hello, width int) []string {
	var rows [][]any
	for i := range runs {
		h := &runs[i]
		row := []any{cmp.Or(h.Name, "-"), h.PID, h.silence(), "", "", "", "", ""}
		if h.State != Silent {
			done := fmt.Sprint(h.Done)
			if h.Total != nil {
				done += fmt.Sprintf("/%d", *h.Total)
			}
			row = append(row[:2], h.State, done, h.Failed, h.Running, task.Brief(time.Since(h.Since)), task.Shorten(string(h.Command), commandSize))
		}
		rows = append(rows, row)
	}
	return Table(width, "NAME +PID STATE DONE +FAILED +RUNNING FOR COMMAND", rows)
}

// Label returns the process ID of a run, and its name if it has one.
func (h *Hello) Label() string {
	if h.Name == "" {
		return fmt.Sprint(h.PID)
	}
	return fmt.Sprintf("%d (%s)", h.PID, h.Name)
}

// silence says why there is no more to tell about a Silent run.
func (h *Hello) silence() string {
	if _, crowded := errors.AsType[*Refused](h.Err); crowded {
		return "has too many clients"
	}
	return "does not answer"
}

// eventText has a template for each event.
//
//go:embed events.txt
var eventText string

var eventTexts = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Funcs(template.FuncMap{
		"short":   func(command task.Bytes) string { return task.Shorten(string(command), commandSize) },
		"attempt": task.AttemptSuffix,
		"span":    func(s task.Seconds) string { return task.Span(time.Duration(s)) },
	}).Parse(eventText))
})

// Line returns the line of crew ctl watch for an event.
func (r *Reply) Line() string {
	var text strings.Builder
	if err := eventTexts().ExecuteTemplate(&text, r.Name, r); err != nil {
		return r.Name
	}
	return r.At.Local().Format(time.TimeOnly) + " " + text.String()
}

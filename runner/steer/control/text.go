package control

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"crew/runner/decide/task"
)

const (
	maxTasks    = 100 // running tasks that a status lists
	maxReasons  = 10  // reasons for waiting that a status lists
	commandSize = 200 // bytes of a command that are printed
)

// These texts are for people. SIGQUIT prints the same words. Unprintable characters are not escaped.

// Lines returns the status of a run in at most 215 lines: the totals and the speed, the running tasks, the
// oldest first, and the reasons why others wait. If narrow, a running task comes with its age only.
func (s *Status) Lines(narrow bool) []string {
	lines := []string{
		fmt.Sprintf("%s, %s after the start: %s", s.State, task.Span(time.Duration(s.Elapsed)), s.Progress.Text()),
		s.Pace(),
	}
	running := slices.Clone(s.Tasks)
	slices.SortStableFunc(running, func(x, y task.Where) int { return x.Start.Compare(y.Start) })
	for i := range running[:min(len(running), maxTasks)] {
		lines = append(lines, running[i].Running(narrow))
		if said := running[i].Said; said != "" {
			lines = append(lines, "  | "+string(said))
		}
	}
	if n := len(running) - maxTasks; n > 0 {
		lines = append(lines, fmt.Sprintf("… and %d more", n))
	}
	waits := s.Reasons()
	lines = append(lines, waits[:min(len(waits), maxReasons)]...)
	if len(waits) > maxReasons {
		lines = append(lines, "… and more")
	}
	return lines
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
		parts = append(parts, "eta "+task.Brief(max(time.Duration(*s.ETA), time.Second)))
	}
	return strings.Join(parts, ", ")
}

// Reasons returns why no task starts although a worker is idle, and why tasks wait.
func (s *Status) Reasons() (lines []string) {
	// The status starts with the state, which may be the reason: paused.
	if s.Blocking != nil && s.Blocking.Shown != s.State && s.Blocking.By != task.BySlots {
		lines = append(lines, s.Blocking.Shown)
	}
	for _, w := range s.Snapshot.Waiting {
		if s.Blocking != nil && s.Blocking.By == task.ByDelay && w.By == task.BySlots {
			continue // a worker is idle, so these tasks wait for --delay
		}
		if !slices.Contains(lines, w.Shown) {
			lines = append(lines, w.Shown)
		}
	}
	if s.State == task.StateDone.String() {
		lines = append(lines, "output waits for its reader")
	}
	return lines
}

// Table returns the lines of crew ctl ls: a header and a line for each run, or nothing if there is none.
func Table(runs []Hello) (lines []string) {
	if len(runs) == 0 {
		return nil
	}
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	row := func(cells ...any) {
		line := fmt.Sprintf(strings.Repeat("\t%v", len(cells))[1:], cells...)
		_, _ = fmt.Fprintln(t, strings.ReplaceAll(line, "\n", " "))
	}
	row("NAME", "PID", "STATE", "DONE", "FAILED", "RUNNING", "FOR", "COMMAND")
	for i := range runs {
		h := &runs[i]
		if h.State == Silent {
			row(cmp.Or(h.Name, "-"), h.PID, "does not answer", "", "", "", "", "")
			continue
		}
		done := fmt.Sprint(h.Done)
		if h.Total != nil {
			done += fmt.Sprintf("/%d", *h.Total)
		}
		command := strings.ReplaceAll(task.Shorten(string(h.Command), commandSize), "\t", " ")
		row(cmp.Or(h.Name, "-"), h.PID, h.State, done, h.Failed, h.Running, task.Brief(time.Since(h.Since)), command)
	}
	_ = t.Flush()
	lines = strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return lines
}

// Line describes a run in a line.
func (h *Hello) Line() string {
	who := fmt.Sprint(h.PID)
	if h.Name != "" {
		who += " (" + h.Name + ")"
	}
	if h.State == Silent {
		return who + " does not answer"
	}
	return fmt.Sprintf("%s: %s since %s, %s: %s", who, h.State, task.When(h.Since), h.Progress.Text(), task.Shorten(string(h.Command), commandSize))
}

// Line returns the line of crew ctl watch for an event. r holds the facts of the event's task, if it has one.
func (r *Reply) Line() string {
	e := r.Event
	if e.Name == "lost" {
		return "lost " + task.Count(e.Count, "event")
	}
	return e.At.Local().Format(time.TimeOnly) + " " + e.text(&r.Facts)
}

func (e *Event) text(f *task.Facts) string {
	id, command := fmt.Sprintf("task %d", f.Task), ": "+task.Shorten(string(f.Command), commandSize)
	switch e.Name {
	case "admitted":
		return id + " was read" + command
	case "started":
		return fmt.Sprintf("%s started on %s%s%s", id, f.Place(), task.AttemptSuffix(f.Attempt), command)
	case "retried":
		return fmt.Sprintf("%s: %s; again in %s", id, f.Verdict(), task.Span(time.Duration(e.Wait)))
	case "finished":
		return id + ": " + f.Verdict()
	case "input-end":
		return "the input has been read"
	case "resized":
		return task.Count(int64(e.Workers), "worker")
	case "draining", "stopping":
		if e.Text != "" {
			return e.Name + ": " + e.Text
		}
	case "blocked":
		if e.Blocking == nil {
			return "tasks start again"
		}
		return e.Blocking.Shown
	case "notice":
		return e.Text
	}
	return e.Name
}

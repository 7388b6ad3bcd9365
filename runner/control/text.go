package control

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"crew/runner/task"
)

const (
	mostTasks   = 100 // running tasks in a status
	mostWaits   = 10  // groups of waiting tasks
	commandSize = 200 // bytes of a command
	noteSize    = 100 // bytes of a note
)

// The texts are for people, in the words of the status that SIGQUIT prints. What is
// unprintable in them is not escaped.

// Lines returns the status of a run, in at most 215 lines: the totals and the speed,
// the running tasks, the oldest first, and what the others wait for. If narrow, a
// running task has only its age beside it.
func (s *Status) Lines(narrow bool) []string {
	lines := []string{
		fmt.Sprintf("%s, %s after the start: %s", s.State, task.Span(time.Duration(s.Elapsed)), s.Progress.Text()),
		s.Pace(),
	}
	running := slices.Clone(s.Tasks)
	slices.SortStableFunc(running, func(x, y Where) int { return x.Start.Compare(y.Start) })
	for i := range running[:min(len(running), mostTasks)] {
		lines = append(lines, running[i].text(narrow))
		if said := running[i].Said; said != "" {
			lines = append(lines, "  | "+string(said))
		}
	}
	if n := len(running) - mostTasks; n > 0 {
		lines = append(lines, fmt.Sprintf("… and %d more", n))
	}
	waits := s.Reasons()
	lines = append(lines, waits[:min(len(waits), mostWaits)]...)
	if len(waits) > mostWaits {
		lines = append(lines, "… and more")
	}
	return lines
}

// Text says how far the run is.
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

// Pace says how many workers there are, and how fast they are.
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

// Shown returns what people know the task by, instead of its command if that does not tell, and
// its record if it has to stand beside that.
func (r *Where) Shown() (shown, record string) {
	if only := cmp.Or(r.Tag, r.Apart); only != "" {
		return string(only), ""
	}
	return string(r.Command), string(r.Record)
}

func (r *Where) text(narrow bool) string {
	shown, record := r.Shown()
	name, shown := knownAs(r.Task, record, r.Note), task.Shorten(shown, commandSize)
	age := task.Span(time.Duration(r.Duration))
	if narrow {
		return fmt.Sprintf("%s: %s: %s", name, age, shown)
	}
	return fmt.Sprintf("%s: for %s, since %s, on %s%s: %s", name, age,
		r.Start.Local().Format(time.TimeOnly), r.Place(), task.LaterAttempt(r.Attempt), shown)
}

// knownAs names a task, by its record, too, if its command does not tell that, and by its note.
func knownAs(id uint64, record string, note task.Bytes) string {
	text := fmt.Sprintf("task %d", id)
	if record != "" && record != fmt.Sprint(id) {
		text += " (" + record + ")"
	}
	if note != "" {
		text += " [" + task.Shorten(string(note), noteSize) + "]"
	}
	return text
}

// Reasons says why nothing starts although a worker is idle, and what tasks wait for.
func (s *Status) Reasons() (lines []string) {
	// The status begins with the state, which may say it already: paused.
	if s.Blocking != nil && s.Blocking.Shown != s.State && s.Blocking.By != task.BySlots {
		lines = append(lines, s.Blocking.Shown)
	}
	for _, w := range s.Snapshot.Waiting {
		if s.Blocking != nil && s.Blocking.By == task.ByDelay && w.By == task.BySlots {
			continue // they are those that wait for --delay, as a worker is idle
		}
		if !slices.Contains(lines, w.Shown) {
			lines = append(lines, w.Shown)
		}
	}
	if s.State == task.Done.String() {
		lines = append(lines, "output waits for its reader")
	}
	return lines
}

// Line returns a run as crew ctl ls lists it.
func (h *Hello) Line() string {
	who := fmt.Sprint(h.PID)
	if h.Name != "" {
		who += " (" + h.Name + ")"
	}
	if h.State == Silent {
		return who + " does not answer"
	}
	return fmt.Sprintf("%s: %s since %s, %s: %s", who, h.State, clock(h.Since), h.Progress.Text(), task.Shorten(string(h.Command), commandSize))
}

// clock returns a moment as a time of the day or, if that is long ago, with its date.
func clock(t time.Time) string {
	if time.Since(t) < 20*time.Hour {
		return t.Local().Format(time.TimeOnly)
	}
	return t.Local().Format(time.DateTime)
}

// Line says where a task is and what it waits for.
func (w *Where) Line() string {
	at, command := knownAs(w.Task, string(w.Record), w.Note), ""
	if w.Command != "" {
		command = ": " + task.Shorten(string(w.Command), commandSize)
	}
	switch w.State {
	case "running":
		return w.text(false)
	case "waiting":
		if w.Blocking == nil {
			return at + " waits" + command
		}
		text := strings.Replace(w.Blocking.Shown, "1 task", at, 1)
		if text == w.Blocking.Shown {
			text = at + " waits: " + text
		}
		return strings.Replace(text, ", the next in", ", in", 1) + command
	case "held", "ended":
		at += " has ended" + w.end()
		if w.Held > 0 {
			at += fmt.Sprintf("; its result waits for task %d", w.Held)
		}
		return at + command
	}
	return "there is no " + at + " yet"
}

// end says how a task ended, as far as that is known.
func (w *Where) end() string {
	switch {
	case w.Outcome == 0 && w.Held > 0:
		return ""
	case w.Outcome == 0 && w.Hint != "":
		return ", and no more is known of it: " + w.Hint
	case w.Outcome == 0:
		return ", and no more is known of it"
	case w.Start.IsZero() && w.Error == "":
		return ": " + w.Outcome.String()
	}
	here := w.Facts
	here.Host = "" // it is told with the worker
	text := ": " + here.Verdict()
	if !w.Start.IsZero() && w.Outcome != task.Skipped {
		text += ", begun at " + clock(w.Start)
	}
	if w.Worker > 0 {
		text += " on " + w.Place()
	}
	return text + task.LaterAttempt(w.Attempt)
}

// Line returns an event as crew ctl watch prints it. r has a task if the event is
// about one.
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
		return fmt.Sprintf("%s started on %s%s%s", id, f.Place(), task.LaterAttempt(f.Attempt), command)
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

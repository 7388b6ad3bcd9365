package task

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// Where describes the state of a task. Its facts are about the running attempt or, if the task is
// waiting or has ended, about the latest one, as far as known.
type Where struct {
	EndedTask
	State    string    `json:"state"` // unknown, waiting, running, held (its result waits) or ended
	Tag      Bytes     `json:"tag,omitempty"`
	Said     Bytes     `json:"said,omitempty"`     // the last line of its persistent worker's stderr
	Blocking *Blocking `json:"blocking,omitempty"` // what it waits for, if it is waiting
	Priority int       `json:"priority,omitempty"` // Terms.Priority
	Held     uint64    `json:"held,omitempty"`     // the unfinished task that must be shown before its result
	Hint     string    `json:"hint,omitempty"`     // for an ended task: how the user can learn more
	Of       *Task     `json:"-"`                  // the task, for ForClients; nil if it is no longer in memory
}

// EndedTask describes a task that has ended, as far as that is kept.
type EndedTask struct {
	Facts            // of its last attempt
	Record  Bytes    `json:"record,omitempty"` // identifies the task if the command does not
	Apart   Bytes    `json:"apart,omitempty"`  // Task.LabelApart, unless the task has a tag
	Note    Bytes    `json:"note,omitempty"`   // Terms.Note
	Argv    []string `json:"-"`                // the command as it was run; nil means Task.ArgvOn
	Outputs [2]Live  `json:"-"`                // stdout and stderr; nil for none
	Cut     [2]int64 `json:"-"`                // bytes cut from the beginning of each output
	Kept    bool     `json:"-"`                // outputs are kept, so nil Outputs were empty
}

// NewWhere returns the description of a task in a state. t may be nil.
func NewWhere(state string, t *Task) (w Where) {
	if w.State, w.Of = state, t; t != nil {
		w.Task = t.ID
	}
	return w
}

const (
	commandSize = 200 // most bytes of a command in a line
	noteSize    = 100 // most bytes of a note
)

// maxCommand is the most bytes of a command in Facts. A whole one can be megabytes long.
const maxCommand = 1000

// ForClients returns w with the fields that depend on the task and on the time.
func (w Where) ForClients(now time.Time) Where {
	w.Blocking = w.Blocking.WithText(now)
	if w.State == "running" {
		w.Tag, w.Duration = Bytes(w.Of.TagOn(w.Worker, string(w.Host), w.Units)), Seconds(max(0, now.Sub(w.Start)))
	}
	if t := w.Of; t != nil {
		w.Describe(t, w.Argv)
		w.Record, w.Apart = Bytes(t.LabelBeside(string(w.Command))), Bytes(t.LabelApart())
		w.Note, w.Priority = Bytes(t.Terms().Note), t.Terms().Priority
	}
	return w
}

// Describe sets the facts about a task. argv is its command as it was run; if argv is empty, the
// command of the attempt is used.
func (f *Facts) Describe(t *Task, argv []string) {
	if len(argv) == 0 {
		argv = t.ArgvOn(f.Worker, string(f.Host), f.Units)
	}
	f.Task, f.Key, f.Command = t.ID, Bytes(t.Key), Bytes(t.ShortCommandLine(argv, maxCommand))
}

// Shown returns the text that identifies the task to people: its tag or label, otherwise its command.
// record is set if the command does not identify the task.
func (w *Where) Shown() (shown, record string) {
	if only := cmp.Or(w.Tag, w.Apart); only != "" {
		return string(only), ""
	}
	return string(w.Command), string(w.Record)
}

// Running describes a running attempt: for how long, since when and where it runs. With narrow, only
// for how long.
func (w *Where) Running(narrow bool) string {
	shown, record := w.Shown()
	name, shown := taskName(w.Task, record, w.Note), Shorten(shown, commandSize)
	age := Span(time.Duration(w.Duration))
	if narrow {
		return fmt.Sprintf("%s: %s: %s", name, age, shown)
	}
	return fmt.Sprintf("%s: for %s, since %s, on %s%s: %s", name, age,
		w.Start.Local().Format(time.TimeOnly), w.Place(), AttemptSuffix(w.Attempt), shown)
}

// taskName returns the number of a task, with its record and its note, if they are not empty.
func taskName(id uint64, record string, note Bytes) string {
	text := fmt.Sprintf("task %d", id)
	if record != "" && record != fmt.Sprint(id) {
		text += " (" + record + ")"
	}
	if note != "" {
		text += " [" + Shorten(string(note), noteSize) + "]"
	}
	return text
}

// When formats a time as a time of the day or, if it is long ago, with its date.
func When(t time.Time) string {
	if time.Since(t) < 20*time.Hour {
		return t.Local().Format(time.TimeOnly)
	}
	return t.Local().Format(time.DateTime)
}

// Line describes the state of a task, and what it waits for.
func (w *Where) Line() string {
	at, command := taskName(w.Task, string(w.Record), w.Note), ""
	if w.Command != "" {
		command = ": " + Shorten(string(w.Command), commandSize)
	}
	switch w.State {
	case "running":
		return w.Running(false)
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
		at += " has ended" + w.ended()
		if w.Held > 0 {
			at += fmt.Sprintf("; its result waits for task %d", w.Held)
		}
		return at + command
	}
	return "there is no " + at + " yet"
}

// ended describes how a task ended, as far as known.
func (w *Where) ended() string {
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
	here.Host = "" // Place names it
	text := ": " + here.Verdict()
	if !w.Start.IsZero() && w.Outcome != Skipped {
		text += ", begun at " + When(w.Start)
	}
	if w.Worker > 0 {
		text += " on " + w.Place()
	}
	return text + AttemptSuffix(w.Attempt)
}

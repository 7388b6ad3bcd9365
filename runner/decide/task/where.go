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
	noteSize   = 100  // most bytes of a note
	maxCommand = 1000 // most bytes of a command in Facts; a whole one can be megabytes long
)

// ForClients returns w with the fields that depend on the task and on the time.
func (w Where) ForClients(now time.Time) Where {
	w.Blocking = w.Blocking.WithText(now)
	if w.State == "running" {
		w.Tag = Bytes(w.Of.TagOn(w.Worker, string(w.Host), w.Units))
	}
	if t := w.Of; t != nil {
		w.Describe(t, w.Argv)
		w.Record, w.Apart = Bytes(t.LabelBeside(string(w.Command))), Bytes(t.LabelApart())
		w.Note, w.Priority = t.Terms().Note, t.Terms().Priority
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

// Name returns the text that tells the task from others, after its note: its tag, label or record or, if
// the command tells it, the command. command reports whether it is the command.
func (w *Where) Name() (name string, command bool) {
	name = cmp.Or(string(w.Tag), string(w.Apart), string(w.Record))
	if command = name == "" && w.Command != ""; command {
		name = string(w.Command)
	}
	name = cmp.Or(name, fmt.Sprintf("task %d", w.Task))
	if w.Note != "" {
		name = "[" + Shorten(string(w.Note), noteSize) + "] " + name
	}
	return name, command
}

// Why says more about the state of the task: its age, the reason for waiting, or the outcome.
func (w *Where) Why() string {
	switch w.State {
	case "running":
		text := "for " + Span(time.Duration(w.Duration))
		if w.Host != "" {
			text += " on " + string(w.Host)
		}
		return text + AttemptSuffix(w.Attempt)
	case "waiting":
		if w.Blocking == nil { // in the reply of another program
			return ""
		}
		why, _ := w.Blocking.Why()
		return strings.Replace(why, ", the next in", ", in", 1)
	case "held", "ended":
		return w.ended()
	}
	return "there is no such task yet"
}

// When formats a time as a time of the day or, if it is long ago, with its date.
func When(t time.Time) string {
	if time.Since(t) < 20*time.Hour {
		return t.Local().Format(time.TimeOnly)
	}
	return Moment(t)
}

// ended describes how a task ended, as far as known, and what its result waits for.
func (w *Where) ended() string {
	text, result := "", ""
	if w.Held > 0 {
		result = fmt.Sprintf("its result waits for task %d", w.Held)
	}
	switch {
	case w.Outcome == 0 && w.Held > 0:
		return result
	case w.Outcome == 0 && w.Hint != "":
		return "no more is known of it: " + w.Hint
	case w.Outcome == 0:
		return "no more is known of it"
	case w.Start.IsZero() && w.Error == "":
		text = w.Outcome.String()
	default:
		switch text = w.Verdict(); {
		case w.Start.IsZero(), w.Outcome == Skipped:
		case w.Outcome == StartFailed:
			text += ", at " + When(w.Start)
		default:
			text += ", begun at " + When(w.Start)
		}
		text += AttemptSuffix(w.Attempt)
	}
	if result != "" {
		text += "; " + result
	}
	return text
}

package task

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// Where says where a task is. Its facts are of the attempt that runs or, if it waits or
// has ended, of the latest one as far as that is known.
type Where struct {
	EndedTask
	State    string    `json:"state"` // unknown, waiting, running, held (its result is) or ended
	Tag      Bytes     `json:"tag,omitempty"`
	Said     Bytes     `json:"said,omitempty"`     // the last line of its persistent worker's stderr
	Blocking *Blocking `json:"blocking,omitempty"` // if it waits
	Held     uint64    `json:"held,omitempty"`     // the unfinished task that its result waits for
	Hint     string    `json:"hint,omitempty"`     // if it has ended: how more would be known
	Of       *Task     `json:"-"`                  // the task, for Told; nil if it is forgotten
}

// Past describes a task that has ended, as far as that is kept.
type EndedTask struct {
	Facts            // of its last attempt
	Record  Bytes    `json:"record,omitempty"` // by which to recognize the task, if the command does not tell
	Apart   Bytes    `json:"apart,omitempty"`  // Task.Apart, unless the task has a tag
	Note    Bytes    `json:"note,omitempty"`   // Terms.Note
	Argv    []string `json:"-"`                // as it was run; nil for what Task.ArgvOn says
	Outputs [2]Live  `json:"-"`                // stdout and stderr; nil for none
	Cut     [2]int64 `json:"-"`                // how many bytes came before what is kept of these
	Kept    bool     `json:"-"`                // without Outputs there was none
}

// WhereOf returns that a task, which may be nil, is in a state.
func NewWhere(state string, t *Task) (w Where) {
	if w.State, w.Of = state, t; t != nil {
		w.Task = t.ID
	}
	return w
}

const (
	commandSize = 200 // bytes of a command in a line
	noteSize    = 100 // bytes of a note
)

// longest is how many bytes of a command are shown. Whole ones can be megabytes.
const maxCommand = 1000

// Told returns w for clients: with what people know the task by, and with what follows from the time.
func (w Where) ForClients(now time.Time) Where {
	w.Blocking = w.Blocking.WithText(now)
	if w.State == "running" {
		w.Tag, w.Duration = Bytes(w.Of.TagOn(w.Worker, string(w.Host), w.Units)), Seconds(max(0, now.Sub(w.Start)))
	}
	if t := w.Of; t != nil {
		w.Describe(t, w.Argv)
		w.Record, w.Apart, w.Note = Bytes(t.LabelBeside(string(w.Command))), Bytes(t.LabelApart()), Bytes(t.Terms().Note)
	}
	return w
}

// Describe adds the facts of a task, whose words are argv or, if that is empty, what the attempt would run.
func (f *Facts) Describe(t *Task, argv []string) {
	if len(argv) == 0 {
		argv = t.ArgvOn(f.Worker, string(f.Host), f.Units)
	}
	f.Task, f.Key, f.Command = t.ID, Bytes(t.Key), Bytes(t.ShortCommandLine(argv, maxCommand))
}

// Shown returns what people know the task by, instead of its command if that does not tell, and
// its record if it has to stand beside that.
func (w *Where) Shown() (shown, record string) {
	if only := cmp.Or(w.Tag, w.Apart); only != "" {
		return string(only), ""
	}
	return string(w.Command), string(w.Record)
}

// Running says where an attempt runs. If narrow, only since when.
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

// knownAs names a task, by its record, too, if its command does not tell that, and by its note.
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

// When returns a moment as a time of the day or, if that is long ago, with its date.
func When(t time.Time) string {
	if time.Since(t) < 20*time.Hour {
		return t.Local().Format(time.TimeOnly)
	}
	return t.Local().Format(time.DateTime)
}

// Line says where a task is and what it waits for.
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

// end says how a task ended, as far as that is known.
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
	here.Host = "" // it is told with the worker
	text := ": " + here.Verdict()
	if !w.Start.IsZero() && w.Outcome != Skipped {
		text += ", begun at " + When(w.Start)
	}
	if w.Worker > 0 {
		text += " on " + w.Place()
	}
	return text + AttemptSuffix(w.Attempt)
}

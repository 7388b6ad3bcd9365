package history

import (
	"iter"
	"strings"
	"time"

	"crew/runner/decide/task"
	"crew/runner/keep/journal"
)

// Times says how long commands took in earlier runs. It knows a command by its whole line
// and, from directories of --state, by what its task does. The zero Times knows none.
type Times struct {
	took map[string]took
	was  map[string]string // the command in took that is this one as crew writes it in a joblog
	dirs bool              // some are known by what their tasks do
	n    int               // how many sources there are
}

// took is how long a command took, by the source with a number.
type took struct {
	time.Duration
	source int
}

// leastTime is the time of commands that took less. Joblogs tell no shorter ones, and a
// start costs about as much.
const leastTime = time.Millisecond

// Add adds what a source holds; see Read. The last time of a command counts, and of several
// sources the last one that has it. A command that took no time, as if it had been skipped,
// counts only where there is no other time of it.
func (t *Times) Add(path string) error {
	if t.took == nil {
		t.took, t.was = map[string]took{}, map[string]string{}
	}
	t.n++
	if times, _ := journal.Times(path); times != nil {
		t.dirs = true
		for id, d := range times {
			t.note(keyOf(id), d)
		}
		return nil
	}
	r := newReader(path, nil) // a queue or a file, or it says what is wrong
	r.each = func(l *Line) error {
		cut := r.form != resultsForm && strings.Contains(string(l.Command), "…") // it may be another's, too
		if l.Name == "finished" && !cut {
			t.note(string(l.Command), time.Duration(l.Duration))
			if was := unescaped(string(l.Command)); was != string(l.Command) { // a row of crew's that other programs have changed
				t.was[was] = string(l.Command)
			}
		}
		return nil
	}
	return r.open()
}

// keyOf returns by what a task's identity is known. No command has a NUL.
func keyOf(id journal.Identity) string { return "\x00" + string(id[:]) }

func (t *Times) note(key string, d time.Duration) {
	if _, known := t.took[key]; d > 0 || !known {
		t.took[key] = took{max(d, leastTime), t.n}
	}
}

// Len returns of how many commands the times are known.
func (t *Times) Len() int { return len(t.took) }

// All iterates over the times, each with what the command is known by.
func (t *Times) All() iter.Seq2[string, time.Duration] {
	return func(yield func(string, time.Duration) bool) {
		for key, d := range t.took {
			if !yield(key, d.Duration) {
				return
			}
		}
	}
}

// Of returns how long a task's command took, and what it is known by. It is safe for
// concurrent use.
func (t *Times) Of(tk *task.Task) (key string, d time.Duration, ok bool) {
	key = tk.CommandLine(tk.Argv)
	latest, ok := t.took[key]
	if was, known := t.was[key]; known && !ok {
		key = was
		latest, ok = t.took[key]
	}
	if t.dirs {
		same := keyOf(journal.IdentityOf(tk))
		if other, known := t.took[same]; known && other.source > latest.source {
			key, latest, ok = same, other, true
		}
	}
	return key, latest.Duration, ok
}

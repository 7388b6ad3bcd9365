package history

import (
	"iter"
	"strings"
	"time"

	"crew/runner/decide/task"
	"crew/runner/keep/journal"
)

// Times holds how long commands took in earlier runs. A command is known by its whole line or, from
// --state directories, by the identity of its task. The zero Times is empty.
type Times struct {
	took map[string]took
	dirs bool // took has identities of tasks
	n    int  // number of sources
}

// took is how long a command took, and the number of the source that says so.
type took struct {
	time.Duration
	source int
}

// leastTime is the shortest time of a command. Joblogs have no shorter times, and starting a process
// takes about as long.
const leastTime = time.Millisecond

// Add adds the times of a source; see Read. Of several times of a command, the last one of the last
// source counts. A time of zero, as of a skipped task, counts only if there is no other.
func (t *Times) Add(path string) error {
	if t.took == nil {
		t.took = map[string]took{}
	}
	t.n++
	if times, _ := journal.Times(path); times != nil {
		t.dirs = true
		for id, d := range times {
			t.note(keyOf(id), d)
		}
		return nil
	}
	r := newReader(path, nil) // a queue, a file, or an error that says what is wrong
	r.each = func(l *Line) {
		cut := r.form != resultsForm && strings.Contains(string(l.Command), "…") // then it may stand for several commands
		if l.Name == "finished" && !cut {
			t.note(string(l.Command), time.Duration(l.Duration))
		}
	}
	return r.open()
}

// keyOf returns the key of an identity in Times.took. It begins with a NUL, which no command has.
func keyOf(id journal.Identity) string { return "\x00" + string(id[:]) }

func (t *Times) note(key string, d time.Duration) {
	if _, known := t.took[key]; d > 0 || !known {
		t.took[key] = took{max(d, leastTime), t.n}
	}
}

// Len returns the number of commands with a known time.
func (t *Times) Len() int { return len(t.took) }

// All iterates over the keys of commands and their times.
func (t *Times) All() iter.Seq2[string, time.Duration] {
	return func(yield func(string, time.Duration) bool) {
		for key, d := range t.took {
			if !yield(key, d.Duration) {
				return
			}
		}
	}
}

// Of returns how long the command of a task took, and its key as in All. It is safe for concurrent
// use.
func (t *Times) Of(tk *task.Task) (key string, d time.Duration, ok bool) {
	key = tk.CommandLine(tk.Argv)
	latest, ok := t.took[key]
	if t.dirs {
		same := keyOf(journal.IdentityOf(tk))
		if other, known := t.took[same]; known && other.source > latest.source {
			key, latest, ok = same, other, true
		}
	}
	return key, latest.Duration, ok
}

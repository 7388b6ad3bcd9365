package journal

import (
	"slices"

	"crew/runner/task"
)

// tries are the attempts of a task that failed or, once begun, were lost since it was
// last done, if it is not done.
type tries struct {
	lines   []span // of those that are kept; see task.KeepAttempt
	omitted int    // the others
}

// span holds the offset and the length of a line.
type span struct{ off, n int64 }

// tried notes an attempt. Its line is needed until the task is done.
func (l *loaded) tried(id identity, ln line) {
	t := l.tries[id]
	if t == nil {
		t = &tries{}
		l.tries[id] = t
	}
	var out span
	var full bool
	l.needed += ln.n
	if t.lines, out, full = task.KeepAttempt(t.lines, span{ln.off, ln.n}); full {
		t.omitted++
		l.needed -= out.n
	}
}

// forgetTries notes that a task is done, or gone.
func (l *loaded) forgetTries(id identity) {
	if t := l.tries[id]; t != nil {
		for _, s := range t.lines {
			l.needed -= s.n
		}
		delete(l.tries, id)
	}
}

// keeps reports whether a line is that of an attempt in tries.
func (l *loaded) keeps(id identity, ln line) bool {
	t := l.tries[id]
	return t != nil && slices.Contains(t.lines, span{ln.off, ln.n})
}

// restoreTries sets what is known of the earlier attempts of t. What they wrote is not.
func (l *loaded) restoreTries(t *task.Task) {
	known := l.tries[t.Identity]
	if known == nil {
		return
	}
	t.Known = &task.Attempts{Omitted: known.omitted}
	for _, s := range known.lines {
		var r *task.Result
		rec, _, err := readRecord(l.file, s.off)
		if err == nil {
			r, err = rec.facts(t)
		}
		if err != nil {
			t.Known.Omitted++
			continue
		}
		r.Earlier = true
		t.Known.Before = append(t.Known.Before, r)
	}
}

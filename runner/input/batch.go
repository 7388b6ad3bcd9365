package input

import (
	"errors"
	"math"
	"strings"

	"crew/runner/expand"
	"crew/runner/task"
)

// batch returns the task of as many records as go into one command. A record that
// cannot be run is a task of its own.
func (t *Tasks) batch(number func() uint64) (*task.Task, error) {
	n, measured := 0, 0 // records of the queue
	joins := t.cfg.Template.Joins()
	var left room
	for most := t.cfg.Limits.Records; most == 0 || n < most; n++ {
		if n == len(t.queue) {
			if err := t.read(); err != nil {
				if n == 0 {
					return nil, err
				}
				break // the reader will return it again
			}
			t.queue = append(t.queue, t.rec[0])
		}
		rec := &t.queue[n]
		if rec.Err != nil {
			break
		}
		size, words := t.cfg.Template.Growth(rec.Columns)
		left.size -= size + pointerSize*words
		if joins {
			left.word -= size
		}
		if left.chars -= size; t.cfg.Stdin {
			left.chars -= len(rec.text()) + len(t.r.delimiter)
		}
		// The second record may change the form of a script. Later ones add at most what
		// has been taken off, but to a script often much less, so it is worth a look. But
		// with {N}, any number of records may add nothing.
		if n < 2 || left.none() && joins && 8*n >= 9*measured && !t.cfg.Template.Counts() {
			left, measured = t.room(t.queue[:n+1]), n
		}
		if left.none() {
			break
		}
	}
	n = max(n, 1)
	id := number()
	tk := t.of(t.queue[:n], id)
	for n > 1 && errors.Is(tk.Err, errTooLong) { // a late record has changed how all are written
		n /= 2
		tk = t.of(t.queue[:n], id)
	}
	t.latest = id
	rest := copy(t.queue, t.queue[n:])
	clear(t.queue[rest:])
	t.queue = t.queue[:rest]
	return tk, nil
}

// room says how many bytes may be added to a command.
type room struct {
	size  int // including NULs and pointers
	word  int // to one word
	chars int // as xargs -s counts them, and what the task reads
}

func (r room) none() bool { return min(r.size, r.word, r.chars) < 0 }

// room returns what may be added to the command of recs, and to what people see of it.
func (t *Tasks) room(recs []Record) room {
	tk := &task.Task{Records: columnsOf(recs)}
	t.cfg.Template.Fill(tk, expand.Values{Records: tk.Records, Seq: t.latest + 1})
	left := t.left(tk, tk.ExecOn(math.MaxInt32, strings.Repeat("h", task.MaxHost)))
	left.word = min(left.word, maxArgument-longest(tk.Argv))
	if t.cfg.Stdin {
		left.chars -= len(t.stdin(recs))
	}
	return left
}

// charsOf returns how long a command is as xargs -s counts it.
func charsOf(argv []string) (n int) {
	for _, w := range argv {
		n += len(w) + 1
	}
	return n
}

// longest returns the length of the longest word.
func longest(argv []string) (n int) {
	for _, w := range argv {
		n = max(n, len(w))
	}
	return n
}

package input

import (
	"crew/runner/expand"
	"crew/runner/task"
)

// batch is the task of as many records as go into one command. A record that
// cannot be run is a task of its own, between those of its neighbours.
func (t *Tasks) batch(number func() uint64) (*task.Task, error) {
	tk := &task.Task{Records: make([][]string, 0, t.last)}
	rec := &t.rec
	var used room
	for n := t.cfg.Limits.Records; n == 0 || len(tk.Records) < n; {
		if err := t.take(); err != nil {
			if len(tk.Records) == 0 {
				return nil, err
			}
			break // the reader returns it again
		}
		err := rec.Err
		if err == nil {
			err = t.measure(rec, &used)
		}
		if len(tk.Records) > 0 && (err != nil || t.full(used)) {
			t.held = true
			break
		}
		if err != nil {
			return t.single(rec, number(), err), nil
		}
		tk.Records = append(tk.Records, rec.Columns)
		if t.cfg.Stdin {
			tk.Stdin = t.appendInput(tk.Stdin, rec)
		}
	}
	t.last = len(tk.Records)
	tk.ID = number()
	v := expand.Values{Records: tk.Records}
	t.fill(tk, &v)
	if tk.Err == nil {
		t.expand(tk, t.cfg.Template, v)
	}
	return tk, nil
}

// take reads the next record unless there is one that was held back.
func (t *Tasks) take() error {
	if t.held {
		t.held = false
		return nil
	}
	return t.r.read(&t.rec)
}

// room is what words occupy in a command.
type room struct {
	size  int // bytes with their NULs and pointers
	chars int // bytes with their NULs, and what the task reads
}

func (r *room) add(o room) {
	r.size += o.size
	r.chars += o.chars
}

// full says whether a command with records of the size used is over a limit.
func (t *Tasks) full(used room) bool {
	used.add(t.empty)
	return t.maxSize > 0 && used.size > t.maxSize ||
		t.cfg.Limits.Chars > 0 && used.chars > t.cfg.Limits.Chars
}

// measure adds a record to what is used. It is an error when the record does
// not even fit alone.
func (t *Tasks) measure(rec *Record, used *room) error {
	r := room{size: t.cfg.Template.RecordSize(rec.Columns)}
	if t.cfg.Limits.Chars > 0 {
		t.countWords(rec.Columns)
		r.chars = r.size - pointerSize*t.words.record
		if t.cfg.Stdin {
			r.chars += len(t.appendInput(nil, rec))
		}
	}
	used.add(r)
	// The sizes are upper bounds, and they do not tell how long one word is:
	// what comes near to a limit is measured as it will be.
	if !t.full(r) && r.size <= maxArgument/2 {
		return nil
	}
	records := [][]string{rec.Columns}
	argv, _ := t.cfg.Template.Argv(expand.Values{Records: records, Seq: t.latest + 1})
	return t.fits(argv, &task.Task{Records: records})
}

// words is how many words a command has without records, and how many more for
// each record of so many columns.
type words struct{ columns, base, record int }

// countWords brings words up to date for a record. The template tells bytes
// with pointers, and xargs -s counts without.
func (t *Tasks) countWords(cols []string) {
	if t.words.columns == len(cols) {
		return
	}
	one, _ := t.cfg.Template.Argv(expand.Values{Records: [][]string{cols}, Seq: 1})
	two, _ := t.cfg.Template.Argv(expand.Values{Records: [][]string{cols, cols}, Seq: 1})
	t.words = words{columns: len(cols), record: len(two) - len(one)}
	t.words.base = len(one) - t.words.record
	t.empty.chars = t.empty.size - pointerSize*t.words.base
}

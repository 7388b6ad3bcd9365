package input

import (
	"crew/runner/expand"
	"crew/runner/task"
)

// batch returns the task of as many records as go into one command. A record that
// cannot be run is a task of its own.
func (t *Tasks) batch(number func() uint64) (*task.Task, error) {
	tk := &task.Task{Records: make([][]string, 0, t.last)}
	rec := &t.rec
	var used room
	for n := t.cfg.Limits.Records; n == 0 || len(tk.Records) < n; {
		if !t.held {
			if err := t.read(); err != nil {
				if len(tk.Records) == 0 {
					return nil, err
				}
				break // the reader will return it again
			}
		}
		t.held = false
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
	t.fill(tk, &v, nil)
	if tk.Err == nil {
		t.expand(tk, v)
	}
	return tk, nil
}

// room is what words take up in a command.
type room struct {
	size  int // bytes including NULs and pointers
	chars int // bytes including NULs, and what the task reads
}

func (r *room) add(o room) {
	r.size += o.size
	r.chars += o.chars
}

// full reports whether a command whose records take up used exceeds a limit.
func (t *Tasks) full(used room) bool {
	used.add(t.empty)
	return t.maxSize > 0 && used.size > t.maxSize ||
		t.cfg.Limits.Chars > 0 && used.chars > t.cfg.Limits.Chars
}

// measure adds a record to used. It returns an error if the record does not even
// fit alone.
func (t *Tasks) measure(rec *Record, used *room) error {
	r := room{size: t.cfg.Template.RecordSize(rec.Columns)}
	if t.cfg.Limits.Chars > 0 {
		t.countWords(rec.Columns)
		r.chars = r.size - pointerSize*t.words
		if t.cfg.Stdin {
			r.chars += len(t.appendInput(nil, rec))
		}
	}
	used.add(r)
	// The size is an upper bound, and does not tell the length of each word. If it
	// is near a limit, measure the real command.
	if !t.full(r) && r.size <= maxArgument/2 {
		return nil
	}
	records := [][]string{rec.Columns}
	argv, _ := t.cfg.Template.Argv(expand.Values{Records: records, Seq: t.latest + 1})
	return t.fits(argv, &task.Task{Records: records})
}

// countWords sets words and empty.chars for records with as many columns as cols.
// The template counts pointers, and xargs -s does not.
func (t *Tasks) countWords(cols []string) {
	if t.columns == len(cols) {
		return
	}
	one, _ := t.cfg.Template.Argv(expand.Values{Records: [][]string{cols}, Seq: 1})
	two, _ := t.cfg.Template.Argv(expand.Values{Records: [][]string{cols, cols}, Seq: 1})
	t.columns, t.words = len(cols), len(two)-len(one)
	t.empty.chars = t.empty.size - pointerSize*(len(one)-t.words)
}

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

// room is the space that words take up in a command.
type room struct {
	size   int // bytes including NULs and pointers
	joined int // those that may be in one word
	chars  int // bytes including NULs, and what the task reads
}

func (r *room) add(o room) {
	r.size += o.size
	r.joined += o.joined
	r.chars += o.chars
}

// full reports whether a command whose records take up used exceeds a limit.
func (t *Tasks) full(used room) bool {
	used.add(t.empty)
	return t.maxSize > 0 && used.size > t.maxSize || used.joined > 0 && t.empty.size+used.joined > maxArgument ||
		t.cfg.Limits.Chars > 0 && used.chars > t.cfg.Limits.Chars
}

// measure adds a record to used. It returns an error if the record does not even
// fit alone.
func (t *Tasks) measure(rec *Record, used *room) error {
	var r room
	r.size, r.joined = t.cfg.Template.RecordSize(rec.Columns)
	if t.cfg.Limits.Chars > 0 {
		t.countWords(rec.Columns)
		if r.chars = r.size - pointerSize*t.words; r.joined > 0 {
			r.chars = r.joined // of a script
		}
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
	tk := &task.Task{Records: [][]string{rec.Columns}}
	t.cfg.Template.Fill(tk, expand.Values{Records: tk.Records, Seq: t.latest + 1})
	return t.fits(tk)
}

// countWords sets words and empty.chars for records with as many columns as cols.
// The template counts pointers, and xargs -s does not.
func (t *Tasks) countWords(cols []string) {
	if t.columns == len(cols) {
		return
	}
	shown := func(records ...[]string) []string {
		var tk task.Task
		t.cfg.Template.Fill(&tk, expand.Values{Records: records, Seq: 1})
		return tk.Argv
	}
	one := shown(cols)
	t.columns, t.words = len(cols), len(shown(cols, cols))-len(one)
	t.empty.chars = t.empty.size - pointerSize*(len(one)-t.words)
	if _, joined := t.cfg.Template.RecordSize(cols); joined > 0 {
		t.empty.chars = charsOf(shown())
	}
}

// charsOf returns how long a command is as xargs -s counts it.
func charsOf(argv []string) (n int) {
	for _, w := range argv {
		n += len(w) + 1
	}
	return n
}

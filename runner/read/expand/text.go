package expand

import (
	"cmp"
	"slices"
	"strings"

	"crew/runner/decide/task"
)

// Text is a text with placeholders, such as a key, a cost or a tag. No shell reads it. It is safe for
// concurrent use.
type Text struct {
	word
	Placeholders
}

// NewText compiles s. It uses only the fields Replace, Names, First, Fields, Insert, Outs and Caps of
// cfg. Its errors have the same form as those of New.
func NewText(s string, cfg Config) (*Text, error) {
	if err := cfg.check(s); err != nil {
		return nil, err
	}
	pieces := scan(s, &cfg)
	return &Text{word{pieces: pieces}, placeholdersOf(pieces)}, nil
}

// NewPath is like NewText, for the name of a file. A value is never more than part
// of one component of the name: / in it becomes \_, a backslash \\, a tab \t and NUL
// \0, as in parallel(1), and a backslash precedes ., .. and an empty value.
func NewPath(s string, cfg Config) (*Text, error) {
	t, err := NewText(s, cfg)
	if err != nil {
		return nil, err
	}
	for i := range t.pieces {
		t.pieces[i].path = t.pieces[i].ofRecord()
	}
	return t, nil
}

// Dir returns the directory part of the text before the first placeholder, which is the same for
// all tasks. It may be "". If the text has no placeholders, it returns all of it and true.
func (t *Text) Dir() (dir string, constant bool) {
	if text, ok := t.fixed(); ok {
		return text, true
	}
	before := textOf(t.pieces[:1], "")
	return before[:strings.LastIndexByte(before, '/')+1], false
}

// OfSlot returns the first placeholder that varies by slot, or "".
func (h Placeholders) OfSlot() string { return h.first(piece.ofSlot) }

// OfTask returns the first placeholder that varies by task, or "".
func (h Placeholders) OfTask() string { return h.first(func(p piece) bool { return !p.ofSlot() }) }

// first returns the first placeholder that satisfies is, or "".
func (h Placeholders) first(is func(piece) bool) string {
	if i := slices.IndexFunc(h, is); i >= 0 {
		return h[i].text
	}
	return ""
}

// OfRecord reports whether the text differs from record to record.
func (h Placeholders) OfRecord() bool { return h.any(piece.ofRecord) }

// Constant reports whether the text is the same for all tasks.
func (t *Text) Constant() bool { return len(t.Placeholders) == 0 }

// Expand returns the text for one task. With several records, a placeholder stands for its
// values in all of them, separated by spaces. If each of several records has one column,
// {N} stands for the Nth record.
func (t *Text) Expand(v Values) string { return v.seal(t.expand(&v), task.InTag) }

// FillTag sets tk.Tag to the text for v. It appends a mark to tk.Marks for each {%}, {host} and
// {gpu}.
func (t *Text) FillTag(tk *task.Task, v Values) {
	tk.Tag = v.seal(t.expand(&v), task.InTag)
	tk.Marks = append(tk.Marks, v.marks...)
}

// target returns the file name for a record, with a mark at the start of its base name.
func (t *Text) target(v *Values, rec []string) string {
	of := Values{Fields: v.Fields, Seq: v.Seq}
	if rec != nil {
		of.Records = [][]string{rec}
	}
	name := TargetName(t.expand(&of))
	i := task.BaseIndex(name)
	return name[:i] + tempMark + name[i:]
}

// TargetName returns a file name without trailing slashes.
func TargetName(text string) string {
	return cmp.Or(strings.TrimRight(text, "/"), text)
}

func (t *Text) expand(v *Values) string {
	v.flat = v.flatten()
	return t.build(v, v.Records)
}

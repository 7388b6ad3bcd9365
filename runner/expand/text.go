package expand

import (
	"slices"

	"crew/runner/task"
)

// Text is a text with placeholders that no shell ever sees: a key, a cost, a
// tag. It is safe for concurrent use.
type Text struct {
	pieces []piece
}

// NewText makes a Text of s. Of cfg, only Replace, Names and Fields count. It
// cannot fail: what is no placeholder stays as it is.
func NewText(s string, cfg Config) *Text {
	return &Text{pieces: scan(s, &cfg)}
}

// UsesWorker says whether the text differs from worker to worker: {%} is in it.
func (t *Text) UsesWorker() bool {
	return slices.ContainsFunc(t.pieces, func(p piece) bool { return p.kind == worker })
}

// Expand is the text for one task. With several records each placeholder stands
// for all of them, with a space between them, but {N} for the Nth record where
// each record has one column.
func (t *Text) Expand(v Values) string { return t.expand(&v) }

// FillTag makes the text for v the tag of a task. Where v has no worker, the
// task's marks say where its number goes.
func (t *Text) FillTag(tk *task.Task, v Values) {
	v.word = task.InTag
	tk.Tag = t.expand(&v)
	tk.Marks = append(tk.Marks, v.marks...)
}

func (t *Text) expand(v *Values) string {
	if len(t.pieces) == 1 && t.pieces[0].kind != worker {
		return t.pieces[0].all(v, v.nth())
	}
	var a [256]byte
	b, nth := a[:0], v.nth()
	for i := range t.pieces {
		from := len(b)
		b = append(b, t.pieces[i].all(v, nth)...)
		v.mark(&t.pieces[i], b, from)
	}
	return string(b)
}

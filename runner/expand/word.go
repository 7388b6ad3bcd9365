package expand

import (
	"slices"
	"strings"
)

// word is one word of a command or a text of its own, such as a key.
type word struct {
	text  string // the word, if it has neither parts nor inner
	parts []part
	inner *script // the word is a script, which takes all records

	whole  bool // it is one word for each record, even if it is {} alone
	joined bool // it is one word, for all records
}

// part is text and then, unless value is nil, a value.
type part struct {
	text  string
	value *piece
	check check
	path  bool // the value is part of a component of a path
}

// newWord returns a word made of pieces, which it keeps.
func newWord(pieces []piece) word {
	var w word
	text := ""
	for i := range pieces {
		if p := &pieces[i]; p.kind == literal {
			text += p.text
		} else {
			w.parts = append(w.parts, part{text: text, value: p})
			text = ""
		}
	}
	if w.parts == nil {
		w.text = text
	} else if text != "" {
		w.parts = append(w.parts, part{text: text})
	}
	return w
}

// constant reports whether w is the same in every command.
func (w *word) constant() bool { return w.parts == nil && w.inner == nil }

// any reports whether a placeholder in w satisfies is.
func (w *word) any(is func(piece) bool) bool {
	return w.inner != nil && w.inner.any(is) ||
		slices.ContainsFunc(w.parts, func(g part) bool { return g.value != nil && is(*g.value) })
}

// fieldNames returns the names of the entries of Values.Fields that placeholders use, given
// what calls a function for each until that returns true.
func fieldNames(any func(func(piece) bool) bool) (names []string) {
	any(func(p piece) bool {
		if p.kind == field && p.n == 0 && !slices.Contains(names, p.name) {
			names = append(names, p.name)
		}
		return false
	})
	return names
}

// lone reports whether w is {} and nothing else, so that a command has it once for
// each column of each record.
func (w *word) lone() bool {
	return len(w.parts) == 1 && w.parts[0].text == "" && w.parts[0].value.kind == record && !w.whole && !w.joined
}

// times returns how often a command has w.
func (w *word) times(v *Values) int {
	n := 1
	switch {
	case w.lone():
		n = 0
		for _, rec := range v.Records {
			n += len(rec)
		}
	case len(v.Records) > 1 && w.inner == nil && !w.joined && w.any(func(p piece) bool { return p.perRecord(v) }):
		n = len(v.Records)
	}
	return max(n, 1)
}

// item returns what w stands for the nth time, counted from 0, as records.
func (w *word) item(v *Values, nth int) [][]string {
	if !w.lone() {
		return v.record(nth)
	}
	for _, rec := range v.Records {
		if nth < len(rec) {
			return [][]string{rec[nth : nth+1]}
		}
		nth -= len(rec)
	}
	return nil
}

// appendTo appends the words that a command has for w.
func (w *word) appendTo(list []string, v *Values) []string {
	switch {
	case w.constant():
		return append(list, w.text)
	case w.inner != nil:
		return append(list, w.inner.fill(v).within())
	case w.lone() && len(v.Records) > 0 && len(v.Records[0]) > 0:
		list = slices.Grow(list, len(v.Records))
		p := &w.parts[0]
		for _, rec := range v.Records {
			for _, c := range rec {
				c = p.value.form.of(c)
				v.verify(p.check, p.value, c)
				list = append(list, hideNUL(c))
			}
		}
		return list
	}
	if w.joined {
		return append(list, w.build(v, v.Records))
	}
	times := w.times(v)
	for nth := range times {
		list = append(list, w.build(v, v.record(nth)))
	}
	return list
}

// build returns w with the values that its placeholders have in recs.
func (w *word) build(v *Values, recs [][]string) string {
	var a [512]byte
	b := a[:0]
	for i := range w.parts {
		g := &w.parts[i]
		b = append(b, g.text...)
		if g.value == nil {
			continue
		}
		s := g.value.value(v, recs)
		v.verify(g.check, g.value, s)
		switch {
		case g.path:
			s = component(s)
		case !g.value.ofSlot():
			s = hideNUL(s)
		}
		if len(w.parts) == 1 && g.text == "" {
			return s
		}
		b = append(b, s...)
	}
	return string(b)
}

var componentEscapes = strings.NewReplacer("/", `\_`, `\`, `\\`, "\t", `\t`, "\x00", `\0`)

// component returns s as a part of a component of a path.
func component(s string) string {
	escaped := componentEscapes.Replace(s)
	if s == "" || s == "." || s == ".." {
		return `\` + escaped
	}
	return escaped
}

// growth returns how many bytes, NULs included, and how many words rec adds to the words
// that a command has for w.
func (w *word) growth(rec []string) (size, words int) {
	switch {
	case w.inner != nil:
		size, _ = w.inner.growth(rec, true)
		return size, 0
	case !w.any(piece.ofRecord):
		return 0, 0
	case w.lone():
		for _, c := range rec {
			size += len(w.parts[0].value.form.of(c)) + 1
		}
		return size, len(rec)
	}
	size = 1
	for _, g := range w.parts {
		size += len(g.text)
		switch p := g.value; {
		case p == nil:
		case !p.ofRecord():
			size += p.room()
		case p.kind == column && len(rec) == 1:
			size += len(p.form.of(rec[0])) // whichever record {N} will stand for
		default:
			size += len(p.in(&Values{}, rec))
		}
	}
	return size, 1
}

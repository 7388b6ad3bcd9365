package expand

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"crew/runner/task"
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

// Fields returns the names of the entries of Values.Fields that the template uses.
func (t *Template) Fields() []string { return namesOf(field, t.any) }

// Caps returns the names of those of Config.Caps that the template uses.
func (t *Template) Caps() []string { return namesOf(units, t.any) }

// namesOf returns the names of the placeholders of a kind that are no columns, given what
// calls a function for each placeholder until that returns true.
func namesOf(k kind, any func(func(piece) bool) bool) (names []string) {
	any(func(p piece) bool {
		if p.kind == k && (k == units || p.n == 0) && !slices.Contains(names, p.name) {
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

// each returns the records for each of which a command has w once. If these are not several,
// it has w once for all of v.
func (w *word) each(v *Values) [][]string {
	switch {
	case w.inner != nil || w.joined:
		return nil
	case w.lone() && slices.ContainsFunc(v.Records, func(rec []string) bool { return len(rec) > 1 }):
		var columns [][]string
		for _, rec := range v.Records {
			for i := range rec {
				columns = append(columns, rec[i:i+1])
			}
		}
		return columns
	case len(v.Records) > 1 && w.any(func(p piece) bool { return p.perRecord(v) }):
		return v.Records
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
	}
	each := w.each(v)
	if len(each) == 0 {
		return append(list, w.build(v, v.Records))
	}
	list = slices.Grow(list, len(each))
	for i := range each {
		list = append(list, w.build(v, each[i:i+1]))
	}
	return list
}

// build returns w with the values that its placeholders have in recs.
func (w *word) build(v *Values, recs [][]string) string {
	if len(w.parts) == 1 && w.parts[0].text == "" {
		return w.parts[0].valueIn(v, recs)
	}
	var a [512]byte
	b := a[:0]
	for i := range w.parts {
		g := &w.parts[i]
		if b = append(b, g.text...); g.value != nil {
			b = append(b, g.valueIn(v, recs)...)
		}
	}
	return string(b)
}

// valueIn returns the part's value in recs, as it stands in a word that is not complete.
func (g *part) valueIn(v *Values, recs [][]string) string {
	s := g.value.value(v, recs)
	v.verify(g.check, g.value, s)
	switch {
	case g.path:
		return component(s)
	case g.value.ofSlot(), g.value.kind == made:
		return s
	}
	return hideNUL(s)
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

// check says what a value must be where it stands.
type check uint8

const (
	anything check = iota
	number         // an integer, which the shell evaluates
	noOption       // no option, which would be evaluated
)

// maxDigits is the number of digits that fit every shell's arithmetic.
const maxDigits = 18

// verify returns an error if s is not what it must be.
func (c check) verify(s string) error {
	switch c {
	case number:
		if strings.Contains(s, tempMark) {
			return errors.New("the name of a file, but only a decimal number can stand there")
		}
		digits := strings.TrimPrefix(s, "-")
		switch {
		case digits == "" || strings.Trim(digits, "0123456789") != "" || len(digits) > 1 && digits[0] == '0':
			return fmt.Errorf("%q, but only a decimal number can stand there", task.Shorten(s, 100))
		case len(digits) > maxDigits:
			return fmt.Errorf("%q, but a number can have %d digits at most there", task.Shorten(s, 100), maxDigits)
		}
	case noOption:
		if strings.HasPrefix(s, "-") || strings.HasPrefix(s, "+") {
			return fmt.Errorf("%q, which would be an option there: write ./ before the name of a file", task.Shorten(s, 100))
		}
	}
	return nil
}

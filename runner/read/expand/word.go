package expand

import (
	"fmt"
	"slices"
	"strings"

	"crew/runner/decide/task"
)

// word is one word of a command or a text of its own, such as a key.
type word struct {
	pieces []piece
	whole  bool // it is one word for each record, even if it is {} alone
	place       // where it stands in a command
}

// fixed returns the text of w. ok is false if it may differ from command to command.
func (w *word) fixed() (text string, ok bool) {
	if slices.ContainsFunc(w.pieces, piece.isHole) {
		return "", false
	}
	return textOf(w.pieces, ""), true
}

// Placeholders are those of a template, or of several.
type Placeholders []piece

// holesOf returns the placeholders among pieces, and those of the scripts among them.
func holesOf(pieces []piece) (list Placeholders) {
	for _, p := range pieces {
		switch {
		case p.inner != nil:
			list = append(list, holesOf(p.inner.values)...)
		case p.kind != literal:
			list = append(list, p)
		}
	}
	return list
}

// any reports whether one of the placeholders satisfies is.
func (h Placeholders) any(is func(piece) bool) bool { return slices.ContainsFunc(h, is) }

// Fields returns the names of the entries of Values.Fields that the template uses.
func (h Placeholders) Fields() []string {
	return h.names(func(p piece) bool { return p.kind == field && p.n == 0 })
}

// Caps returns the names of those of Config.Caps that the template uses.
func (h Placeholders) Caps() []string { return h.names(func(p piece) bool { return p.kind == units }) }

// names returns the names of the placeholders that satisfy is.
func (h Placeholders) names(is func(piece) bool) (names []string) {
	for _, p := range h {
		if is(p) && !slices.Contains(names, p.name) {
			names = append(names, p.name)
		}
	}
	return names
}

// each returns the records for each of which a command has w once. If these are not several,
// it has w once for all of v. If w is {} and nothing else, each column counts as a record.
func (w *word) each(v *Values) [][]string {
	switch {
	case w.joined:
		return nil
	case len(w.pieces) == 1 && w.pieces[0].kind == record && !w.whole && slices.ContainsFunc(v.Records, func(rec []string) bool { return len(rec) > 1 }):
		var columns [][]string
		for _, rec := range v.Records {
			for i := range rec {
				columns = append(columns, rec[i:i+1])
			}
		}
		return columns
	case len(v.Records) > 1 && slices.ContainsFunc(w.pieces, func(p piece) bool { return p.perRecord(v) }):
		return v.Records
	}
	return nil
}

// appendTo appends the words that a command has for w.
func (w *word) appendTo(list []string, v *Values) []string {
	each, n := w.each(v), len(list)
	if len(each) == 0 {
		list = append(list, w.build(v, v.Records))
	}
	list = slices.Grow(list, len(each))
	for i := range each {
		list = append(list, w.build(v, each[i:i+1]))
	}
	for _, s := range list[n:min(n+w.guard, len(list))] {
		v.verify(noOption, join(w.pieces, "", func(p piece) string { return p.text }), s)
	}
	if w.single && len(each) > 1 && v.err == nil {
		v.err = fmt.Errorf("%s would take the second of several arguments for a script: write {} where each column goes", list[0])
	}
	return list
}

// build returns w with the values that its placeholders have in recs.
func (w *word) build(v *Values, recs [][]string) string {
	if len(w.pieces) == 1 {
		return w.pieces[0].valueIn(v, recs)
	}
	var a [512]byte
	b := a[:0]
	for i := range w.pieces {
		b = append(b, w.pieces[i].valueIn(v, recs)...)
	}
	return string(b)
}

// valueIn returns the piece's value in recs, as it stands in a word that is not complete.
func (p *piece) valueIn(v *Values, recs [][]string) string {
	switch p.kind {
	case literal:
		return p.text
	case nested:
		return p.inner.fill(v).within()
	}
	s := p.value(v, recs)
	v.verify(p.check, p.text, s)
	switch {
	case p.path:
		return component(s)
	case p.ofSlot(), p.kind == made:
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

// decimal matches numbers that fit every shell's arithmetic.
var decimal = lazily(`^-?(0|[1-9][0-9]{0,17})$`)

// verify returns an error if s is not what it must be.
func (c check) verify(s string) error {
	switch c {
	case number:
		if !decimal().MatchString(s) {
			return fmt.Errorf("%q, but only a decimal number can stand there, of 18 digits at most", task.Shorten(strings.ReplaceAll(s, tempMark, ""), 100))
		}
	case noOption:
		if strings.HasPrefix(s, "-") || strings.HasPrefix(s, "+") {
			return fmt.Errorf("%q, which would be an option there: write ./ before the name of a file", task.Shorten(s, 100))
		}
	}
	return nil
}

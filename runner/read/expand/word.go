package expand

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"crew/runner/decide/task"
)

// word is one word of a command, or a text of its own such as a key.
type word struct {
	pieces []piece
	whole  bool // it is one word for each record, even if it is only {}
	place       // its place in the command
}

// fixed returns the text of w. ok is false if it has placeholders.
func (w *word) fixed() (text string, ok bool) {
	if slices.ContainsFunc(w.pieces, piece.isPlaceholder) {
		return "", false
	}
	return textOf(w.pieces, ""), true
}

// Placeholders are the placeholders of one or more templates.
type Placeholders []piece

// placeholdersOf returns the placeholders among pieces, and in the scripts among them.
func placeholdersOf(pieces []piece) (list Placeholders) {
	for _, p := range pieces {
		switch {
		case p.inner != nil:
			list = append(list, placeholdersOf(p.inner.values)...)
		case p.kind != literal:
			list = append(list, p)
		}
	}
	return list
}

// any reports whether a placeholder satisfies is.
func (h Placeholders) any(is func(piece) bool) bool { return slices.ContainsFunc(h, is) }

// Fields returns the names of the entries of Values.Fields that the template uses.
func (h Placeholders) Fields() []string {
	return h.names(func(p piece) bool { return p.kind == field && p.n == 0 })
}

// Caps returns the names of the limits in Config.Caps that the template refers to.
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

// each returns the records for which a command repeats w. If it returns fewer than two, the
// command has w once, for all of v. If w is only {}, each column counts as a record.
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
	case slices.ContainsFunc(w.pieces, func(p piece) bool { return p.perRecord(v) }):
		return v.Records
	}
	return nil
}

// appendTo appends the words that w becomes in a command.
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
		v.checkValue(noOption, join(w.pieces, "", func(p piece) string { return p.text }), s)
	}
	if w.single && len(each) > 1 && v.err == nil {
		v.err = fmt.Errorf("%s would take the second of several arguments for a script: write {} where each column goes", list[0])
	}
	return list
}

// build returns the text of w with the values of its placeholders in recs.
func (w *word) build(v *Values, recs [][]string) string {
	if len(w.pieces) == 1 {
		return w.pieces[0].textIn(v, recs)
	}
	var a [512]byte
	b := a[:0]
	for i := range w.pieces {
		b = append(b, w.pieces[i].textIn(v, recs)...)
	}
	return string(b)
}

// textIn returns the value of p in recs, in the form that it has in an incomplete word.
func (p *piece) textIn(v *Values, recs [][]string) string {
	switch p.kind {
	case literal:
		return p.text
	case nested:
		return p.inner.fill(v).embedded()
	}
	s := p.value(v, recs)
	v.checkValue(p.check, p.text, s)
	switch {
	case p.path:
		return escapeComponent(s)
	case p.ofSlot(), p.kind == made:
		return s
	}
	return hideNUL(s)
}

var componentEscapes = strings.NewReplacer("/", `\_`, `\`, `\\`, "\t", `\t`, "\x00", `\0`)

// escapeComponent returns s in a form that is part of a single component of a path.
func escapeComponent(s string) string {
	escaped := componentEscapes.Replace(s)
	if s == "" || s == "." || s == ".." {
		return `\` + escaped
	}
	return escaped
}

// check is a condition on the value of a placeholder.
type check uint8

const (
	anything check = iota
	number         // an integer, which the shell evaluates
	digits         // the digits of an integer after its base
	noOption       // not an option, which a command would act on
)

// conditions say what values satisfy a check, and how the error for any other value continues.
var conditions = [...]struct {
	match func() *regexp.Regexp
	but   string
}{
	number:   {lazily(`^-?(0|[1-9][0-9]{0,17})$`), "but only a decimal number can stand there, of 18 digits at most"}, // fits every shell
	digits:   {lazily(`^[0-9]{1,18}$`), "but only digits can stand there, 18 at most"},
	noOption: {lazily(`^([^-+]|$)`), "which would be an option there: write ./ before the name of a file"},
}

// verify returns an error if s does not satisfy c.
func (c check) verify(s string) error {
	if c == anything || conditions[c].match().MatchString(s) {
		return nil
	}
	return fmt.Errorf("%q, %s", task.Shorten(strings.ReplaceAll(s, tempMark, ""), 100), conditions[c].but)
}

package expand

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// compiler turns a script with placeholders into one in which a value can replace
// each of them without becoming syntax. It parses the script with a mark, a rune
// that is only a letter to every parser, instead of each placeholder. The syntax
// around a mark decides how a value is written there. What is not known to be safe
// is refused.
type compiler struct {
	// configuration

	family family // of the shell that will run the script
	batch  bool   // a command may take several records
	empty  bool   // leave out values of records

	// state

	pieces  []piece // text is hidden
	comment string  // a placeholder in a comment, or ""
	tail    bool    // the only placeholder was added at the script's end
	src     string  // the script with marks
	marks   []mark
	outer   *variables // of the script that this one is part of, which runs in the same shell; may be nil
}

// mark is a placeholder and its offset in the source.
type mark struct {
	at    int
	piece *piece
}

// The source holds printable ASCII, tabs, newlines and runes of the private use area
// only. Every other byte but NUL is hidden in the rune privateUse + byte: the parser accepts
// UTF-8 alone, and takes a carriage return for a blank, which it is to no shell. So
// nothing in a script is taken for the mark, which is privateUse itself.
const (
	privateUse = 0xe000
	markText   = string(rune(privateUse))
)

// hide replaces the bytes that are not printable ASCII, tabs or newlines.
func hide(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	for _, c := range []byte(s) {
		if c >= ' ' && c < 0x7f || c == '\t' || c == '\n' || c == 0 { // the parser skips a NUL; the system will refuse it
			b.WriteByte(c)
		} else {
			b.WriteRune(privateUse + rune(c))
		}
	}
	return b.String()
}

// show undoes hide.
func show(s string) string {
	b := make([]byte, 0, len(s))
	for _, r := range s {
		b = append(b, byte(r))
	}
	return string(b)
}

// compile compiles a script, whose pieces it takes over. If add is set and there
// is no placeholder, the record is appended.
func (c compiler) compile(pieces []piece, add bool) (word, error) {
	c.pieces = pieces
	for i := range pieces {
		if p := &pieces[i]; p.kind == literal {
			p.text = hide(p.text)
		}
	}
	w, err := c.resolve(add)
	w.script, w.text = true, show(w.text)
	for i := range w.segs {
		w.segs[i].text = show(w.segs[i].text)
	}
	return w, err
}

var errBackslash = errors.New("the command ends with a backslash, which shells read differently: leave it out")

// resolve parses the script until every mark has its place. It starts again
// whenever it rewrites the source.
func (c *compiler) resolve(add bool) (word, error) {
	for {
		c.source()
		if len(c.marks) == 0 && !add {
			return word{text: c.src}, nil
		}
		f, err := c.parse(syntax.LangBash)
		switch {
		case err != nil && len(c.marks) > 0 && !slices.ContainsFunc(c.pieces, piece.ofRecord):
			return newWord(c.pieces), nil // without values, errors are the shell's to report
		case err != nil:
			return word{}, c.parseError(err)
		case len(c.marks) == 0:
			c.addTail()
			add = false
			continue
		case odd(c.src):
			return word{}, errBackslash
		}
		if changed, err := c.rewrite(f); err != nil {
			return word{}, err
		} else if changed {
			continue
		}
		places, err := c.places(f)
		if err != nil {
			return word{}, err
		}
		if !c.keepText(places) {
			return word{segs: c.assemble(places)}, nil
		}
	}
}

// rewrite rewrites something that shells read in different ways, or that is easier
// to read in another form, and reports whether there was any of it.
func (c *compiler) rewrite(f *syntax.File) (bool, error) {
	for _, step := range [...]func(*syntax.File) (bool, error){c.joinLine, c.unquoteBackquotes, c.unquoteDocument, c.nest} {
		if changed, err := step(f); changed || err != nil {
			return changed, err
		}
	}
	return false, nil
}

// addTail adds a placeholder for the record's columns at the end of the script.
// Its place is checked like any other.
func (c *compiler) addTail() {
	text := strings.TrimRight(c.src, " \t\n")
	c.pieces = []piece{{text: text + " "}, {text: "{}", kind: record}}
	c.tail = true
}

// noEnd returns the error for a script that a record cannot be appended to.
func (c *compiler) noEnd() error {
	if c.comment != "" {
		return fmt.Errorf("%s stands in a comment, which no shell reads: write it where the record goes", c.comment)
	}
	return errors.New("the command has no {} and none can be added at its end: write {} where the record goes, or -n0 before the command to leave it out")
}

// source makes src and marks from the pieces.
func (c *compiler) source() {
	var b strings.Builder
	c.marks = c.marks[:0]
	for i := range c.pieces {
		p := &c.pieces[i]
		if p.kind == literal {
			b.WriteString(p.text)
			continue
		}
		c.marks = append(c.marks, mark{b.Len(), p})
		b.WriteString(markText)
	}
	c.src = b.String()
}

// resource makes the pieces from src, which has the same marks as the source.
func (c *compiler) resource(src string) {
	holes := make([]piece, len(c.marks))
	for i, m := range c.marks {
		holes[i] = *m.piece
	}
	c.pieces = fill(src, markText, &holes)
}

func (c *compiler) parse(lang syntax.LangVariant) (*syntax.File, error) {
	return syntax.NewParser(syntax.Variant(lang), syntax.KeepComments(true)).Parse(strings.NewReader(c.src), "")
}

// parseError returns err in terms of the script as it was written.
func (c *compiler) parseError(err error) error {
	if c.tail {
		return c.noEnd()
	}
	text := err.Error()
	if pe, ok := errors.AsType[syntax.ParseError](err); ok {
		text = fmt.Sprintf("line %d: %s", pe.Pos.Line(), pe.Text)
	} else if le, ok := errors.AsType[syntax.LangError](err); ok {
		text = fmt.Sprintf("line %d: %s", le.Pos.Line(), le.Feature)
	}
	if len(c.marks) > 0 {
		text = strings.ReplaceAll(text, markText, hide(c.marks[0].piece.text))
	}
	if text = show(text); !utf8.ValidString(text) {
		text = strconv.QuoteToASCII(text)
	}
	return fmt.Errorf("the command is no shell script that can be read (%s): "+
		"correct it, or give the command as separate words", text)
}

// places finds the place of each mark, in every reading of the script. f is the
// script as bash reads it. It refuses what two of them see differently.
func (c *compiler) places(f *syntax.File) ([]place, error) {
	for _, s := range [...]string{"$$(", "$${", "$$["} {
		if strings.Contains(c.src, s) && slices.ContainsFunc(c.pieces, piece.ofRecord) {
			return nil, fmt.Errorf("the command holds %s, which shells read differently: write ${$} for the number of the process", s)
		}
	}
	var places []place
	for i, r := range c.family.readings() {
		if i > 0 {
			g, err := c.parse(r.lang)
			if err != nil && r.optional {
				continue
			} else if err != nil {
				return nil, c.parseError(err)
			}
			f = g
		}
		for j, p := range c.look(f, r.lang) {
			switch {
			case i == 0:
				places = append(places, p)
			case c.marks[j].piece.anyText():
				places[j].agree(p)
			}
		}
	}
	for i, p := range places {
		switch {
		case c.tail && (p.err != nil || !p.last):
			return nil, c.noEnd()
		case p.err == nil && !p.text && c.marks[i].piece.kind == host && p.how.counts():
			return nil, errors.New("{host} cannot stand where only a number can: write {%} for that of the worker")
		case p.err != nil && !p.text:
			return nil, fmt.Errorf("%s %w", c.marks[i].piece.text, p.err)
		}
	}
	return places, nil
}

// keepText turns the marks that are not placeholders where they stand back into
// text, and reports whether there were any.
func (c *compiler) keepText(places []place) bool {
	found := false
	for i, p := range places {
		if !p.text {
			continue
		}
		m := c.marks[i].piece
		if p.comment {
			c.comment = m.text
		}
		m.kind, m.text = literal, hide(m.text)
		found = true
	}
	return found
}

// assemble returns the script as segments, given the place of each mark.
func (c *compiler) assemble(places []place) []seg {
	var segs []seg
	at := 0
	text := func(end, group int) { // appends the source up to end
		if at < end {
			segs = append(segs, seg{text: c.src[at:end], group: group})
			at = end
		}
	}
	groups := c.groups(places)
	cut := func(end int) { // the same, in pieces that are in or outside of one group
		for i, g := range groups {
			text(min(g.from, end), 0)
			text(min(g.to, end), i+1)
		}
		text(end, 0)
	}
	variable := "_crew"
	for strings.Contains(c.src, variable) {
		variable += "_"
	}
	var refs []*piece // the values of the variables
	for i, p := range places {
		m := c.marks[i]
		cut(m.at)
		inGroup := func(g span) bool { return g.from <= m.at && m.at < g.to }
		g := seg{how: p.how, value: m.piece, lone: p.lone, ofSSH: p.ofSSH, group: 1 + slices.IndexFunc(groups, inGroup)}
		switch {
		case c.empty && m.piece.ofRecord():
			g.value, g.text = nil, p.none
		case c.tail:
			g.how = columns
			last := &segs[len(segs)-1]
			last.text = strings.TrimSuffix(last.text, " ")
		case p.ref != "" && m.piece.anyText():
			n := slices.IndexFunc(refs, func(r *piece) bool { return *r == *m.piece })
			if n < 0 {
				n = len(refs)
				refs = append(refs, m.piece)
			}
			g.value, g.text = nil, strings.Replace(p.ref, "v", variable+strconv.Itoa(n+1), 1)
		}
		if p.escaped {
			g.text = `\` + g.text
		}
		segs = append(segs, g)
		at = m.at + len(markText)
	}
	cut(len(c.src))
	var head []seg
	for i, p := range refs {
		head = append(head, seg{text: variable + strconv.Itoa(i+1) + "=", value: p, how: single}, seg{text: "; "})
	}
	return append(head, segs...)
}

// span is a stretch of the source.
type span struct{ from, to int }

// groups returns the words that are repeated for each record, in order. Of nested
// ones it returns the outer word.
func (c *compiler) groups(places []place) []span {
	var all []span
	for i, p := range places {
		if p.list.to > 0 && c.marks[i].piece.ofRecord() && p.ref == "" && !c.tail {
			all = append(all, p.list)
		}
	}
	slices.SortFunc(all, func(a, b span) int { return cmp.Or(a.from-b.from, b.to-a.to) })
	var out []span
	for _, g := range all {
		if len(out) == 0 || g.from >= out[len(out)-1].to {
			out = append(out, g)
		}
	}
	return out
}

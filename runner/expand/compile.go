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

// compiler turns a script with placeholders into one where a value can be put
// at each of them without becoming syntax. The script is parsed with a rune in
// each placeholder's place, and what stands around the rune says how a value
// has to be written there. What is not known to be safe is refused.
type compiler struct {
	// configuration

	family family // of the shell that will run the script
	batch  bool   // several records may come at once
	empty  bool   // values of records are left out

	// state

	pieces  []piece
	comment string // a placeholder that stands in a comment; "" for none
	tail    bool   // the one placeholder was added at the script's end
	mark    string // the rune in the place of a placeholder
	src     string
	marks   []mark
}

// mark is a placeholder's place in the source.
type mark struct {
	at    int
	piece *piece
}

// compile compiles the pieces of a script. With add, the record is appended
// where there is no placeholder.
func (c compiler) compile(pieces []piece, add bool) (*script, error) {
	c.pieces = slices.Clone(pieces)
	if err := cmp.Or(c.hideBytes(), c.chooseMark()); err != nil {
		return nil, err
	}
	s, err := c.settle(add)
	if err != nil {
		return nil, err
	}
	for i := range s.segs {
		g := &s.segs[i]
		g.text = showBytes(g.text)
		if g.value != nil {
			g.value.text = showBytes(g.value.text)
		}
	}
	return s, nil
}

// settle parses the script, again where something in it turned out to be
// written otherwise, until every mark has its place.
func (c *compiler) settle(add bool) (*script, error) {
	for {
		c.source()
		if len(c.marks) == 0 && add {
			if _, err := c.parse(syntax.LangBash); err != nil {
				return nil, c.parseError(err) // as it stands, before anything is added
			}
			c.addTail()
			add = false
			continue
		}
		if len(c.marks) == 0 {
			return &script{segs: []seg{{text: c.src}}}, nil
		}
		f, err := c.parse(syntax.LangBash)
		if err != nil {
			if !slices.ContainsFunc(c.pieces, func(p piece) bool { return p.ofRecord() }) {
				return numbers(c.pieces), nil // a script that is the shell's own matter
			}
			return nil, c.parseError(err)
		}
		if changed, err := c.unquoteBackquotes(f); err != nil {
			return nil, err
		} else if changed {
			continue
		}
		places, err := c.places(f)
		if err != nil {
			return nil, err
		}
		if c.keepText(places) {
			continue
		}
		return c.assemble(places), nil
	}
}

var errPrivate = errors.New("the command holds private use characters that crew needs itself: give it as words of its own")

// The private use area of the basic plane: its beginning for the mark, its end
// for bytes.
const (
	privateFirst = 0xe000
	privateBytes = 0xf700
)

// chooseMark finds a rune that the script does not hold. One of the private use
// area is nothing but a letter of a word to every parser.
func (c *compiler) chooseMark() error {
	for r := rune(privateFirst); r < privateBytes; r++ {
		m := string(r)
		if !slices.ContainsFunc(c.pieces, func(p piece) bool { return strings.Contains(p.text, m) }) {
			c.mark = m
			return nil
		}
	}
	return errPrivate
}

// hideBytes puts a rune in the place of every byte that is not UTF-8, which the
// parser would not read.
func (c *compiler) hideBytes() error {
	for i := range c.pieces {
		p := &c.pieces[i]
		if strings.ContainsFunc(p.text, hidden) {
			return errPrivate
		}
		if utf8.ValidString(p.text) {
			continue
		}
		var b strings.Builder
		for s := p.text; s != ""; {
			r, n := utf8.DecodeRuneInString(s)
			if r == utf8.RuneError && n == 1 {
				r = privateBytes + rune(s[0])
			}
			b.WriteRune(r)
			s = s[n:]
		}
		p.text = b.String()
	}
	return nil
}

// showBytes is s as it was before hideBytes.
func showBytes(s string) string {
	if !strings.ContainsFunc(s, hidden) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if hidden(r) {
			b.WriteByte(byte(r - privateBytes))
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

func hidden(r rune) bool { return r >= privateBytes && r < privateBytes+0x100 }

// addTail adds a placeholder for the record's columns at the end of a script
// that has none. Whether that is the end of a command shows like any other place.
func (c *compiler) addTail() {
	text := strings.TrimRight(c.src, " \t\n")
	c.pieces = []piece{{text: text + " "}, {text: "{}", kind: record}}
	c.tail = true
}

// noEnd is the error where the script's end is no place for a record.
func (c *compiler) noEnd() error {
	if c.comment != "" {
		return fmt.Errorf("%s stands in a comment, which no shell reads: write it where the record goes", c.comment)
	}
	return errors.New("the command has no {} and none can be added at its end: write {} where the record goes")
}

// source makes src and marks of the pieces.
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
		b.WriteString(c.mark)
	}
	c.src = b.String()
}

// resource makes pieces of a source that has the same marks in other text.
func (c *compiler) resource(src string) {
	var pieces []piece
	for i, text := range strings.Split(src, c.mark) {
		if i > 0 {
			pieces = append(pieces, *c.marks[i-1].piece)
		}
		if text != "" {
			pieces = append(pieces, piece{text: text})
		}
	}
	c.pieces = pieces
}

func (c *compiler) parse(lang syntax.LangVariant) (*syntax.File, error) {
	return syntax.NewParser(syntax.Variant(lang), syntax.KeepComments(true)).Parse(strings.NewReader(c.src), "")
}

// parseError is err as it is said to a person, who has never seen a mark.
func (c *compiler) parseError(err error) error {
	if c.tail {
		return c.noEnd()
	}
	text := err.Error()
	var pe syntax.ParseError
	var le syntax.LangError
	if errors.As(err, &pe) {
		text = fmt.Sprintf("line %d: %s", pe.Pos.Line(), pe.Text)
	} else if errors.As(err, &le) {
		text = fmt.Sprintf("line %d: %s", le.Pos.Line(), le.Feature)
	}
	if len(c.marks) > 0 {
		text = strings.ReplaceAll(text, c.mark, c.marks[0].piece.text)
	}
	text = showBytes(text)
	if !utf8.ValidString(text) {
		text = strconv.QuoteToASCII(text)
	}
	return fmt.Errorf("the command is no shell script that can be read (%s): "+
		"mend it, or give the command as words of its own", text)
}

// places finds the place of every mark, in the eyes of bash and, where it can
// read the script, of a POSIX shell. What the two see differently is refused.
func (c *compiler) places(f *syntax.File) ([]place, error) {
	places := c.look(f, true)
	if f, err := c.parse(syntax.LangPOSIX); err == nil {
		for i, p := range c.look(f, false) {
			if c.marks[i].piece.ofRecord() {
				places[i].agree(p)
			}
		}
	}
	for i := range places {
		p, m := &places[i], c.marks[i].piece
		switch {
		case c.tail && (p.err != nil || !p.last):
			return nil, c.noEnd()
		case p.text:
			continue
		case p.err != nil:
			return nil, fmt.Errorf("%s %w", showBytes(m.text), p.err)
		}
	}
	return places, nil
}

// keepText turns back into text what is no placeholder where it stands, and
// says whether there was something.
func (c *compiler) keepText(places []place) bool {
	found := false
	for i, p := range places {
		if p.text {
			m := c.marks[i].piece
			if m.kind = literal; p.comment {
				c.comment = showBytes(m.text)
			}
			found = true
		}
	}
	return found
}

// numbers is a script whose placeholders are all for numbers, which can stand
// anywhere.
func numbers(pieces []piece) *script {
	s := &script{}
	for i := range pieces {
		if p := &pieces[i]; p.kind == literal {
			s.segs = append(s.segs, seg{text: p.text})
		} else {
			s.segs = append(s.segs, seg{value: p, how: raw})
		}
	}
	return s
}

// assemble makes the script of what is known about every mark.
func (c *compiler) assemble(places []place) *script {
	groups := c.groups(places)
	s, at := &script{}, 0
	name := "_crew"
	for strings.Contains(c.src, name) {
		name += "_"
	}
	// text appends the source up to end, cut where groups begin and end.
	text := func(end int) {
		for at < end {
			next := end
			for _, g := range groups {
				if at < g.from {
					next = min(next, g.from)
				} else if at < g.to {
					next = min(next, g.to)
				}
			}
			s.segs = append(s.segs, seg{text: c.src[at:next], group: inside(groups, at)})
			at = next
		}
	}
	var refs []seg
	for i, p := range places {
		m := c.marks[i]
		text(m.at)
		g := seg{how: p.how, value: m.piece, group: inside(groups, m.at)}
		s.counts = s.counts || m.piece.kind == column
		switch {
		case c.empty && m.piece.ofRecord():
			g.value, g.text = nil, p.none
		case c.tail:
			g.how = columns
			s.segs[len(s.segs)-1].text = strings.TrimSuffix(s.segs[len(s.segs)-1].text, " ")
		case p.ref != "" && m.piece.ofRecord():
			n := slices.IndexFunc(refs, func(g seg) bool { return *g.value == *m.piece })
			if n < 0 {
				n = len(refs)
				refs = append(refs, seg{text: "; " + name + strconv.Itoa(n+1) + "=", value: m.piece, how: single})
			}
			v := name + strconv.Itoa(n+1)
			g.value, g.text = nil, strings.Replace(p.ref, "v", v, 1)
		}
		if p.escaped {
			g.text = `\` + g.text
		}
		s.segs = append(s.segs, g)
		at = m.at + len(c.mark)
	}
	text(len(c.src))
	if len(refs) > 0 {
		refs[0].text = strings.TrimPrefix(refs[0].text, "; ")
		s.segs = append(append(refs, seg{text: "; "}), s.segs...)
	}
	return s
}

// span is a stretch of the source.
type span struct{ from, to int }

// groups are the words that are repeated for each record, in order. Of two that
// hold one another the outer one is repeated as a whole.
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

// inside is the number of the group that at is in, from 1; 0 is none.
func inside(groups []span, at int) int {
	for i, g := range groups {
		if g.from <= at && at < g.to {
			return i + 1
		}
	}
	return 0
}

package expand

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// compiler turns a script with placeholders into one with references to variables. It
// parses the script with a mark, a rune that is only a letter to every parser, instead of
// each placeholder. The syntax around a mark decides how a reference is quoted there, and
// whether the value is evaluated.
type compiler struct {
	// configuration

	*Config
	family family // of the shell that will run the script
	prefix string // of variables, for a script that another one evaluates; or ""
	outer  names  // those of that one; or nil

	// state

	script    *script
	tail      bool   // the only placeholder was added at the script's end
	unread    bool   // the script with its placeholders could not be parsed
	src       string // the script with marks
	edits     int    // how often that was set
	marks     []mark // in order
	evaluated int    // how many scripts it evaluates
	names     names
}

func newCompiler(f family, cfg *Config, login bool) *compiler {
	return &compiler{Config: cfg, family: f, script: &script{login: login}}
}

// drops reports whether p stands for nothing.
func (c *Config) drops(p piece) bool { return c.Insert == Nowhere && p.ofRecord() }

// mark is a placeholder, its offset in the source, and what that means for it.
type mark struct {
	at    int
	piece piece
	place
}

// The source holds printable ASCII, tabs, newlines and runes of the private use area
// only. Every other byte is hidden in the rune privateUse + byte: the parser accepts UTF-8
// alone, and takes a carriage return for a blank, which it is to no shell. No command holds
// the NUL of a hole, so nothing else in a script is taken for the mark.
const (
	privateUse = 0xe000
	hole       = "\x00"
	markText   = string(rune(privateUse))
)

// hide replaces the bytes that are not printable ASCII, tabs or newlines.
func hide(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	for _, c := range []byte(s) {
		if c >= ' ' && c < 0x7f || c == '\t' || c == '\n' {
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

// compile compiles a script. If add is set and there is no placeholder, the record is
// appended.
func (c *compiler) compile(pieces []piece, add bool) (*script, error) {
	for _, p := range pieces {
		if p.isHole() {
			c.marks = append(c.marks, mark{piece: p})
		}
	}
	c.set(hide(textOf(pieces, hole)))
	s := c.script
	text := join(pieces, "", func(p piece) string { return p.text })
	for s.name = cmp.Or(c.prefix, "_crew"); strings.Contains(text, s.name); {
		s.name += "_"
	}
	var err error
	if s.segs, err = c.resolve(add); err != nil {
		return nil, err
	}
	for i := range s.segs {
		s.segs[i].text = show(s.segs[i].text)
	}
	s.once = s.head(len(s.values)) + filled{script: s, values: &Values{}}.body(s.name)
	return s, nil
}

// resolve parses the script until every mark has its place. It starts again whenever a
// step rewrites something that shells read in different ways, or that is easier to read
// in another form.
func (c *compiler) resolve(add bool) ([]seg, error) {
	for {
		if len(c.marks) == 0 && !add {
			return []seg{{text: c.src}}, nil
		}
		f, err := syntax.NewParser(syntax.Variant(syntax.LangBash), syntax.KeepComments(true)).Parse(strings.NewReader(c.src), "")
		switch {
		case err != nil:
			c.unread = len(c.marks) > 0 && !c.tail
			return nil, c.parseError(err)
		case len(c.marks) == 0:
			// Its place is checked like any other.
			c.marks = []mark{{piece: appended}}
			c.set(strings.TrimRight(c.src, " \t\n") + " " + markText)
			c.tail, add = true, false
			continue
		case odd(c.src):
			return nil, errors.New("the command ends with a backslash, which shells read differently: leave it out")
		}
		before := c.edits
		for _, step := range [...]func(*syntax.File) error{c.joinLine, c.unquoteDocument, c.nest, c.places, c.keepText} {
			if err := step(f); err != nil {
				return nil, err
			}
			if c.edits != before {
				break
			}
		}
		if c.edits == before {
			return c.assemble(), nil
		}
	}
}

// errNoEnd is the error for a script that a record cannot be appended to.
var errNoEnd = errors.New("the command has no {} that a shell reads, and none can be added at its end: write {} where the record goes, or -n0 before the command to leave it out")

// set sets the source, in which the marks stand in their order.
func (c *compiler) set(src string) {
	c.src = src
	c.edits++
	at := 0
	for i := range c.marks {
		at += strings.Index(src[at:], markText)
		c.marks[i].at = at
		at += len(markText)
	}
}

// parseError returns err in terms of the script as it was written.
func (c *compiler) parseError(err error) error {
	if c.tail {
		return errNoEnd
	}
	place, text, _ := strings.Cut(err.Error(), ": ")
	line, _, _ := strings.Cut(place, ":")
	text = "line " + line + ": " + text
	if len(c.marks) > 0 {
		text = strings.ReplaceAll(text, markText, hide(c.marks[0].piece.text))
	}
	return fmt.Errorf("syntax error in the command (%s): "+
		"correct it, or give the command as separate words", strings.ToValidUTF8(show(text), "?"))
}

// keepText turns the first mark that is not a placeholder where it stands back into text.
func (c *compiler) keepText(*syntax.File) error {
	if i := slices.IndexFunc(c.marks, func(m mark) bool { return m.text }); i >= 0 {
		m := c.marks[i]
		c.marks = slices.Delete(c.marks, i, i+1)
		c.set(c.src[:m.at] + hide(m.piece.text) + c.src[m.at+len(markText):])
	}
	return nil
}

// assemble returns the script as segments.
func (c *compiler) assemble() []seg {
	var segs []seg
	add := func(from, to int, group *word) {
		for _, m := range c.within(from, to) {
			g := seg{text: c.src[from:m.at], how: m.how, group: group}
			if m.escaped {
				g.text += `\`
			}
			if c.drops(m.piece) {
				g.text += m.none
			} else {
				g.value = c.valueOf(m.piece, m.check)
				g.ref = g.value + 1
			}
			segs = append(segs, g)
			from = m.at + len(markText)
		}
		segs = append(segs, seg{text: c.src[from:to], group: group})
	}
	at := 0
	for _, p := range c.groups() {
		add(at, p.from, nil)
		at = p.to
		add(p.from, at, &word{pieces: c.holes(p), whole: at-p.from > len(markText)})
	}
	add(at, len(c.src), nil)
	bare := strings.NewReplacer("'", "", `"`, "", `\`, "").Replace(c.src)
	c.script.own = !mayUseArguments().MatchString(c.src) && !mayUseArguments().MatchString(bare)
	unknown, _ := bashism(c.src)
	c.script.bash = unknown != ""
	return segs
}

// mayUseArguments matches what a script that uses or changes its arguments has, once quotes are gone at the latest.
var mayUseArguments = lazily("[$`]|\\(\\s*\\)|\\.\\s|\\b(set|shift|getopts|source|for|select|function)\\b")

// within returns the marks in a stretch of the source.
func (c *compiler) within(from, to int) []mark {
	before := func(m mark, at int) int { return m.at - at }
	i, _ := slices.BinarySearchFunc(c.marks, from, before)
	j, _ := slices.BinarySearchFunc(c.marks, to, before)
	return c.marks[i:j]
}

// valueOf returns the index of a value of the script, which it adds unless it is there.
func (c *compiler) valueOf(p piece, check check) int {
	values := &c.script.values
	same := func(v piece) bool {
		return p.kind != nested && v.check == check && v.text == p.text && v.kind == p.kind
	}
	if i := slices.IndexFunc(*values, same); i >= 0 {
		return i
	}
	p.check = check
	*values = append(*values, p)
	return len(*values) - 1
}

// span is a stretch of the source.
type span struct{ from, to int }

// holes returns the placeholders in a stretch.
func (c *compiler) holes(s span) (list Placeholders) {
	for _, m := range c.within(s.from, s.to) {
		list = append(list, m.piece)
	}
	return list
}

// groups returns, in order, the words that are repeated for each record. Of nested words it
// takes the outer one.
func (c *compiler) groups() (out []span) {
	for _, m := range c.marks {
		if m.list.to == 0 || !m.piece.ofEach() || c.drops(m.piece) {
			continue
		}
		n := len(out)
		for n > 0 && m.list.from <= out[n-1].from {
			n--
		}
		if out = out[:n]; n == 0 || m.list.from >= out[n-1].to {
			out = append(out, m.list)
		}
	}
	return out
}

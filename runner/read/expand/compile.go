package expand

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// compiler turns a script with placeholders into one with references to variables. It
// replaces each placeholder by a mark, a rune that every parser treats as a letter, and
// parses the result. The syntax around a mark decides how a reference is quoted there, and
// whether the shell evaluates the value.
type compiler struct {
	// configuration

	*Config
	family family      // of the shell that will run the script
	prefix string      // of the names of variables, for a script that an outer script evaluates; otherwise ""
	outer  numericVars // variables of the outer script, or nil

	// state

	script    *script
	tail      bool   // the record was appended, as there was no placeholder
	src       string // the script with marks
	edits     int    // counts the calls of setSource
	marks     []mark // in the order of the source
	evaluated int    // number of scripts that this script evaluates
	numeric   numericVars
}

func newCompiler(f family, cfg *Config, login bool) *compiler {
	return &compiler{Config: cfg, family: f, script: &script{login: login}}
}

// isDropped reports whether p is replaced by nothing.
func (c *Config) isDropped(p piece) bool { return c.Insert == Nowhere && p.ofRecord() }

// mark is a placeholder, its offset in the source, and its place in the syntax.
type mark struct {
	at    int
	piece piece
	place
}

// The source holds only printable ASCII, tabs, newlines and runes of the private use area.
// Every other byte is written as the rune privateUse + byte: the parser accepts only UTF-8,
// and treats a carriage return as a blank, which no shell does. The NUL of a hole becomes the
// mark. No command holds a NUL byte, so nothing else in a script looks like a mark.
const (
	privateUse = 0xe000
	hole       = "\x00"
	markText   = string(rune(privateUse))
)

// hideBytes encodes every byte except printable ASCII, tabs and newlines.
func hideBytes(s string) string {
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

// showBytes undoes hideBytes.
func showBytes(s string) string {
	b := make([]byte, 0, len(s))
	for _, r := range s {
		b = append(b, byte(r))
	}
	return string(b)
}

// compile compiles a script. If add is set and there is no placeholder, it appends the record.
func (c *compiler) compile(pieces []piece, add bool) (*script, error) {
	for _, p := range pieces {
		if p.isPlaceholder() {
			c.marks = append(c.marks, mark{piece: p})
		}
	}
	c.setSource(hideBytes(textOf(pieces, hole)))
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
		s.segs[i].text = showBytes(s.segs[i].text)
	}
	return s, nil
}

// resolve parses the script and finds the place of every mark. It starts again whenever a
// step has rewritten something that shells read in different ways, or that is easier to
// handle in another form.
func (c *compiler) resolve(add bool) ([]seg, error) {
	for {
		if len(c.marks) == 0 && !add {
			return []seg{{text: c.src}}, nil
		}
		f, err := syntax.NewParser(syntax.Variant(syntax.LangBash), syntax.KeepComments(true)).Parse(strings.NewReader(c.src), "")
		switch {
		case err != nil:
			return nil, c.parseError(err)
		case len(c.marks) == 0:
			// The appended placeholder is checked like any other.
			c.marks = []mark{{piece: appended}}
			c.setSource(strings.TrimRight(c.src, " \t\n") + " " + markText)
			c.tail, add = true, false
			continue
		}
		before := c.edits
		for _, step := range [...]func(*syntax.File) error{c.joinLine, c.unquoteDocument, c.nestScript, c.findPlaces, c.restoreText} {
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

// errNoEnd is the error for a script that no record can be appended to.
var errNoEnd = errors.New("the command has no {} that a shell reads, and none can be added at its end: write {} where the record goes, or -n0 before the command to leave it out")

// setSource sets the source and finds the marks in it, which must be in the same order as before.
func (c *compiler) setSource(src string) {
	c.src = src
	c.edits++
	at := 0
	for i := range c.marks {
		at += strings.Index(src[at:], markText)
		c.marks[i].at = at
		at += len(markText)
	}
}

// parseError describes err in terms of the script as the user wrote it.
func (c *compiler) parseError(err error) error {
	if c.tail {
		return errNoEnd
	}
	place, text, _ := strings.Cut(err.Error(), ": ")
	line, _, _ := strings.Cut(place, ":")
	text = strings.ToValidUTF8(strings.ReplaceAll(showBytes(text), hole, "{}"), "?")
	return fmt.Errorf("syntax error in the command (line %s: %s): correct it, or give the command as separate words", line, text)
}

// restoreText turns the first mark that is not a placeholder, as in a comment or after $, back into text.
func (c *compiler) restoreText(*syntax.File) error {
	if i := slices.IndexFunc(c.marks, func(m mark) bool { return m.text }); i >= 0 {
		m := c.marks[i]
		c.marks = slices.Delete(c.marks, i, i+1)
		c.setSource(c.src[:m.at] + hideBytes(m.piece.text) + c.src[m.at+len(markText):])
	}
	return nil
}

// assemble splits the script into segments.
func (c *compiler) assemble() []seg {
	var segs []seg
	add := func(from, to int, group *word) {
		for _, m := range c.marksBetween(from, to) {
			g := seg{text: c.src[from:m.at], how: m.how, group: group}
			if m.escaped {
				g.text += `\`
			}
			if c.isDropped(m.piece) {
				g.text += m.none
			} else {
				m.piece.check = m.check
				c.script.values = append(c.script.values, m.piece)
				g.ref = len(c.script.values)
			}
			segs = append(segs, g)
			from = m.at + len(markText)
		}
		segs = append(segs, seg{text: c.src[from:to], group: group})
	}
	at := 0
	for _, p := range c.repeatedWords() {
		add(at, p.from, nil)
		at = p.to
		add(p.from, at, &word{pieces: c.placeholders(p), whole: at-p.from > len(markText)})
	}
	add(at, len(c.src), nil)
	c.script.argsFree = !mayUseArguments().MatchString(unquoted(c.src))
	unknown, _ := bashism(c.src)
	c.script.bash = unknown != ""
	return segs
}

// unquoted returns a script without its quotes, which can hide the name of a command.
func unquoted(s string) string { return strings.NewReplacer("'", "", `"`, "", `\`, "").Replace(s) }

// mayUseArguments matches scripts, without their quotes, that may use or change their arguments.
var mayUseArguments = lazily("[$`]|\\(\\s*\\)|\\.\\s|\\b(set|shift|getopts|source|for|select|function)\\b")

// marksBetween returns the marks from offset from up to offset to.
func (c *compiler) marksBetween(from, to int) []mark {
	first := func(at int) int { return sort.Search(len(c.marks), func(i int) bool { return c.marks[i].at >= at }) }
	return c.marks[first(from):first(to)]
}

// span is a range of offsets in the source.
type span struct{ from, to int }

// placeholders returns the placeholders in s.
func (c *compiler) placeholders(s span) (list Placeholders) {
	for _, m := range c.marksBetween(s.from, s.to) {
		list = append(list, m.piece)
	}
	return list
}

// repeatedWords returns the words that are repeated for each record, in order. If such words are
// nested, it returns the outer one.
func (c *compiler) repeatedWords() (out []span) {
	for _, m := range c.marks {
		if m.list.to == 0 || !m.piece.ofEach() {
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

package expand

import (
	"cmp"
	"errors"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// place is how a value is written where a mark stands.
type place struct {
	how     quoting
	ref     string // a reference to a variable "v" that is written instead of the value; "" is none
	none    string // what is written where no value is inserted
	escaped bool   // a backslash stands before it that is to stay one
	list    span   // the word to repeat for each record; zero where there is none
	last    bool   // it is a word of its own, behind a command
	text    bool   // it is no placeholder here but text of the script
	comment bool   // that text is a comment
	err     error  // why no value can stand here; the placeholder's text goes before it
}

var errUnknown = errors.New("stands where it is not known how the shell reads it: " +
	`put it into a variable, as in x={}; printf '%s\n' "$x"`)

// agree takes over what a second reading of the script says about the place.
func (p *place) agree(o place) {
	if p.err != nil || o.err != nil {
		p.err = cmp.Or(p.err, o.err)
		return
	}
	if p.how == bare && o.how == single || p.how == single && o.how == bare {
		p.how, o.how = single, single
	}
	if p.list != o.list {
		p.list = span{}
	}
	if p.text != o.text {
		p.text, p.err = false, errUnknown
	}
	if !p.text && (p.how != o.how || p.ref != o.ref || p.escaped != o.escaped) {
		p.err = errUnknown
	}
	p.last = p.last && o.last
}

// look finds the place of every mark in f. bash is whether f was parsed as
// bash's language.
func (c *compiler) look(f *syntax.File, bash bool) []place {
	places := make([]place, len(c.marks))
	for i := range places {
		places[i].err = errUnknown
	}
	integers := declaresIntegers(f)
	var stack []syntax.Node
	syntax.Walk(f, func(n syntax.Node) bool {
		if n == nil {
			stack = stack[:len(stack)-1]
			return true
		}
		stack = append(stack, n)
		text, leaf := "", true
		switch n := n.(type) {
		case *syntax.Lit:
			text = n.Value
		case *syntax.SglQuoted:
			text = n.Value
		case *syntax.Comment:
			text = n.Text
		default:
			leaf = false
		}
		if !leaf || !strings.Contains(text, c.mark) {
			return true
		}
		from, to := int(n.Pos().Offset()), int(n.End().Offset())
		for i, m := range c.marks {
			if m.at < from || m.at+len(c.mark) > to {
				continue
			}
			s := site{c: c, at: m.at, from: from, stack: stack, bash: bash, integers: integers}
			if m.piece.number() {
				places[i] = s.number()
			} else {
				places[i] = s.value()
			}
		}
		return true
	})
	return places
}

// declaresIntegers says whether the script gives variables the integer
// attribute, so that what is assigned to them is evaluated.
func declaresIntegers(f *syntax.File) bool {
	found := false
	syntax.Walk(f, func(n syntax.Node) bool {
		if d, ok := n.(*syntax.DeclClause); ok {
			for _, a := range d.Args {
				if a.Naked && a.Value != nil {
					if t := staticText(a.Value); cluster(t.text, 'i') {
						found = true
					}
				}
			}
		}
		return true
	})
	return found
}

// site is one mark and the nodes that it is in.
type site struct {
	c        *compiler
	at       int           // of the mark
	from     int           // of the leaf that holds it
	stack    []syntax.Node // from the file to the leaf
	bash     bool
	integers bool
}

// refuse is a place where no value can stand: why, and how to write it.
func refuse(why, how string) place { return place{err: errors.New(why + ": " + how)} }

// value is the place of a value that anybody may have written.
func (s *site) value() place {
	leaf := s.stack[len(s.stack)-1]
	if _, ok := leaf.(*syntax.Comment); ok {
		return place{text: true, comment: true}
	}
	first, byRef := s.word()
	if first < 0 {
		return s.refuseNode(s.stack[len(s.stack)-2])
	}
	if p := s.holder(first); p.err != nil {
		return p
	}
	quoted := false
	if r, ok := s.stack[first-1].(*syntax.Redirect); ok && r.Hdoc == s.stack[first] {
		quoted, byRef = true, true
	}
	if s.documents() > 1 {
		return refuse("cannot stand in a here-document within another, where shells differ", "put the inner text into a variable before it")
	}
	p := s.quote(s.stack[first:], quoted, byRef)
	if p.err == nil && !p.text {
		s.inWord(&p, first)
	}
	return p
}

// word finds the outermost word that the mark is in within its own statement,
// -1 where there is none. byRef is whether something around the statement is
// read by the shell in ways that a value must not be exposed to.
func (s *site) word() (first int, byRef bool) {
	first = -1
	for i, n := range s.stack {
		switch n := n.(type) {
		case *syntax.Stmt:
			first = -1
		case *syntax.Word:
			if first < 0 {
				first = i
			}
		case *syntax.ParamExp, *syntax.ArithmExp, *syntax.ArithmCmd, *syntax.LetClause, *syntax.CStyleLoop:
			byRef = byRef || s.statementAfter(i)
		case *syntax.Redirect:
			byRef = byRef || n.Hdoc != nil && s.stack[i+1] == syntax.Node(n.Hdoc)
		}
	}
	return first, byRef
}

// statementAfter says whether a statement stands below stack[i].
func (s *site) statementAfter(i int) bool {
	for _, n := range s.stack[i:] {
		if _, ok := n.(*syntax.Stmt); ok {
			return true
		}
	}
	return false
}

// inWord settles what depends on the whole word, stack[first]: whether it is
// repeated for each record, and whether quotes can be left out.
func (s *site) inWord(p *place, first int) {
	n := len(s.stack)
	for i := n - 1; i >= first; i-- {
		w, ok := s.stack[i].(*syntax.Word)
		if !ok {
			continue
		}
		from, to := int(w.Pos().Offset()), int(w.End().Offset())
		alone := from == s.at && to == s.at+len(s.c.mark)
		mild := false
		switch h := s.stack[i-1].(type) {
		case *syntax.CallExpr:
			p.list = span{from, to}
			mild = h.Args[0] != w && tame(h)
			p.last = alone && h.Args[0] != w && to == len(s.c.src) && s.topLevel(i)
			if alone && len(h.Args) > 1 {
				p.none = ""
			}
		case *syntax.WordIter:
			p.list = span{from, to}
			if alone {
				p.none = ""
			}
		case *syntax.ArrayElem:
			p.list = span{from, to}
		case *syntax.Redirect:
			mild = true
		}
		if p.how == single && p.ref == "" && mild && s.mildWord(w, to) {
			p.how = bare
		}
		return
	}
}

// topLevel says whether the command that holds stack[i] is part of the script
// itself and not of a substitution or a group.
func (s *site) topLevel(i int) bool {
	for _, n := range s.stack[1 : i-1] {
		switch n.(type) {
		case *syntax.Stmt, *syntax.BinaryCmd, *syntax.TimeClause:
		default:
			return false
		}
	}
	return true
}

// mildWord says whether w, which ends at to, is made of marks and harmless bytes
// alone, and what follows cannot join it.
func (s *site) mildWord(w *syntax.Word, to int) bool {
	if strings.Contains(s.c.src, "\r") {
		return false
	}
	for _, p := range w.Parts {
		l, ok := p.(*syntax.Lit)
		if !ok {
			return false
		}
		for _, c := range []byte(strings.ReplaceAll(l.Value, s.c.mark, "")) {
			if !plainByte(c) {
				return false
			}
		}
	}
	return to >= len(s.c.src) || strings.IndexByte(" \t\n;|)", s.c.src[to]) >= 0
}

// number is the place of a number that crew makes. It is never syntax, so that
// it can stand anywhere; all there is to see to is that it stays apart from
// what is beside it.
func (s *site) number() place {
	leaf, ok := s.stack[len(s.stack)-1].(*syntax.Lit)
	if !ok {
		return place{}
	}
	p := s.beside(leaf)
	if p.err != nil || p.text {
		return p
	}
	if p.how == outDouble && s.documents() > 0 {
		return refuse("would join the variable before it", "write braces around the variable, as in ${x}{#}")
	}
	inQuotes := false
	for _, n := range s.stack {
		switch n := n.(type) {
		case *syntax.Stmt:
			inQuotes = false
		case *syntax.DblQuoted:
			inQuotes = true
		case *syntax.ArithmExp, *syntax.ArithmCmd:
			return place{}
		case *syntax.CallExpr:
			if s.bash && len(n.Args) > 0 && int(n.Args[0].End().Offset()) > s.at &&
				int(n.Args[0].Pos().Offset()) <= s.at && strings.Contains(s.c.src[s.at:n.Args[0].End().Offset()], "=") {
				return refuse("cannot be part of a variable's name", hintVariable)
			}
		}
	}
	next := s.c.src[s.at+len(s.c.mark):]
	switch {
	case p.how == outDouble && inQuotes:
		return place{how: outDouble}
	case p.how == outDouble:
		return place{how: single}
	case !inQuotes && next != "" && (next[0] == '<' || next[0] == '>'):
		return place{how: single}
	case p.escaped && !inQuotes:
		return place{text: true}
	}
	return place{}
}

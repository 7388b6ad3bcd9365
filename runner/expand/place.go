package expand

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// place says how a value is written where a mark stands.
type place struct {
	how     quoting
	ref     string // a reference to the variable "v", written instead of the value unless ""
	none    string // written if no value is inserted
	escaped bool   // keep the backslash before it as a backslash
	list    span   // the word to repeat for each record, if any
	lone    bool   // it is a word of its own that may become several
	joined  bool   // it must stay one word, whatever it stands for
	ofSSH   bool   // ssh reads it as the name of a host
	last    bool   // it is an argument of its own at the very end of the script
	text    bool   // it is not a placeholder here but text of the script
	comment bool   // that text is in a comment
	err     error  // why no value can stand here; goes on from the placeholder's text
}

var errUnknown = errors.New("stands where it is not known how the shell reads it: " +
	`put it into a variable, as in x={}; printf '%s\n' "$x"`)

var errDialect = errors.New("stands in what is arithmetic only to some shells: " +
	"use $(( )) or [ ], or name the shell, as in --shell bash")

// refuse returns a place where no value can stand, with the reason and what to
// write instead.
func refuse(why, how string) place { return place{err: errors.New(why + ": " + how)} }

// agree merges what a second reading of the script says about the place.
func (p *place) agree(o place) {
	if p.err != nil || o.err != nil {
		p.err = cmp.Or(p.err, o.err)
		return
	}
	switch {
	case p.how == bare && o.how == single || p.how == single && o.how == bare:
		p.how, o.how = single, single
	case p.how == apart && o.how == number || p.how == number && o.how == apart:
		p.how, o.how = apart, apart
	}
	if (p.how == apart) != (o.how == apart) && !p.text && !o.text {
		p.err = errDialect
		return
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
	p.ofSSH = p.ofSSH || o.ofSSH
	p.last = p.last && o.last
	p.lone = p.lone && o.lone
}

// walk calls visit for each node of f with the nodes from f down to it. The
// slice is reused.
func walk(f *syntax.File, visit func(stack []syntax.Node)) {
	var stack []syntax.Node
	syntax.Walk(f, func(n syntax.Node) bool {
		if n == nil {
			stack = stack[:len(stack)-1]
			return true
		}
		stack = append(stack, n)
		visit(stack)
		return true
	})
}

// inDoubleQuotes reports whether the last node of the stack is in double quotes
// that are part of the same statement.
func inDoubleQuotes(stack []syntax.Node) bool {
	for _, n := range slices.Backward(stack) {
		switch n.(type) {
		case *syntax.Stmt:
			return false
		case *syntax.DblQuoted:
			return true
		}
	}
	return false
}

// documents counts the here-documents that the last node of the stack is in.
func documents(stack []syntax.Node) int {
	n := 0
	for i, node := range stack[:len(stack)-1] {
		if r, ok := node.(*syntax.Redirect); ok && r.Hdoc != nil && stack[i+1] == syntax.Node(r.Hdoc) {
			n++
		}
	}
	return n
}

// look finds the place of every mark in f, which is the script read as lang.
func (c *compiler) look(f *syntax.File, lang syntax.LangVariant) []place {
	places := make([]place, len(c.marks))
	for i := range places {
		places[i].err = errUnknown
	}
	vars := c.variablesOf(f)
	walk(f, func(stack []syntax.Node) {
		leaf, text := stack[len(stack)-1], ""
		switch n := leaf.(type) {
		case *syntax.Lit:
			text = n.Value
		case *syntax.SglQuoted:
			text = n.Value
		case *syntax.Comment:
			text = n.Text
		}
		if !strings.Contains(text, markText) {
			return
		}
		from, to := int(leaf.Pos().Offset()), int(leaf.End().Offset())
		for i, m := range c.marks {
			if m.at < from || m.at+len(markText) > to {
				continue
			}
			s := site{c: c, mark: m, from: from, stack: stack, documents: documents(stack), lang: lang, variables: vars}
			switch p := vars.readAlike(c.family); {
			case p.err != nil && m.piece.anyText() && !isComment(leaf):
				places[i] = p
			case m.piece.kind == nested:
				places[i] = s.nested()
			case m.piece.anyText():
				places[i] = s.value()
			default:
				places[i] = s.number()
			}
		}
	})
	return places
}

func isComment(n syntax.Node) bool {
	_, ok := n.(*syntax.Comment)
	return ok
}

// site is a mark and the nodes that it is in.
type site struct {
	c         *compiler
	mark      mark
	from      int           // offset of the leaf
	stack     []syntax.Node // from the file to the leaf
	documents int           // here-documents in the stack
	lang      syntax.LangVariant
	variables *variables
}

// value returns the place of a value, which may hold any bytes.
func (s *site) value() place {
	n := len(s.stack)
	if isComment(s.stack[n-1]) {
		return place{text: true, comment: true}
	}
	if inArithmetic(s.stack) {
		return s.arithmetic()
	}
	if p := s.around(); p.err != nil {
		return p
	}
	first, byRef := s.word()
	if first < 0 {
		return refuseNode(s.stack[n-2])
	}
	held := s.holder(first)
	if held.err != nil {
		return held
	}
	r, ok := s.stack[first-1].(*syntax.Redirect)
	isDocument := ok && r.Hdoc == s.stack[first]
	p := s.quote(s.stack[first:], isDocument, byRef)
	switch {
	case p.err != nil || p.text:
	case held.how == number || held.how == fraction:
		return place{how: held.how}
	default:
		s.inWord(&p)
		if held.joined {
			p.list, p.lone, p.last = span{}, false, false
		}
		p.ofSSH = held.ofSSH
	}
	return p
}

// nested returns the place of a script that nest has made a word of its own.
func (s *site) nested() place {
	if p := s.around(); p.err != nil {
		return p
	}
	if _, byRef := s.word(); byRef {
		return place{how: single, ref: `"${v}"`}
	}
	return place{how: single}
}

// arithmetic returns the place of a value in arithmetic, where it must be a number
// that stands for itself and does not join what is beside it.
func (s *site) arithmetic() place {
	n := len(s.stack)
	if w, ok := s.stack[n-2].(*syntax.Word); !ok || w.Lit() != markText {
		return refuseArithmetic
	}
	if _, ok := s.stack[n-3].(*syntax.LetClause); ok {
		return place{how: number} // a blank would end the word
	}
	return place{how: apart}
}

// word returns the index of the outermost word that holds the mark within its
// own statement, or -1. If byRef is set, something around the statement is read
// in ways that a value must not be exposed to.
func (s *site) word() (first int, byRef bool) {
	first, byRef = -1, s.documents > 0
	outside := false // of the mark's statement
	for i, n := range slices.Backward(s.stack) {
		switch n.(type) {
		case *syntax.Stmt:
			outside = true
		case *syntax.Word:
			if !outside {
				first = i
			}
		case *syntax.ParamExp, *syntax.ArithmExp, *syntax.ArithmCmd, *syntax.LetClause, *syntax.CStyleLoop:
			byRef = byRef || outside
		}
	}
	return first, byRef
}

// inWord sets what depends on the innermost word around the mark: whether it is
// repeated for each record, and whether quotes can be left out.
func (s *site) inWord(p *place) {
	var w *syntax.Word
	i := len(s.stack)
	for ok := false; !ok; {
		i--
		w, ok = s.stack[i].(*syntax.Word)
	}
	from, to := int(w.Pos().Offset()), int(w.End().Offset())
	alone := from == s.mark.at && to == s.mark.at+len(markText)
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
	p.lone = alone && p.list.to > 0 && s.mark.piece.kind == record && p.ref == ""
	if p.how == single && p.ref == "" && mild && s.mildWord(w, to) {
		p.how = bare
	}
}

// topLevel reports whether the command that holds stack[i] is part of the script
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

// mildWord reports whether w, which ends at to, consists of marks and harmless
// bytes alone, and what follows cannot join it.
func (s *site) mildWord(w *syntax.Word, to int) bool {
	if text := w.Lit(); text == "" || !plainText(text) {
		return false
	}
	return to >= len(s.c.src) || strings.IndexByte(" \t\n;|)", s.c.src[to]) >= 0
}

// number returns the place of a number made by crew. It is never syntax, so it can
// stand anywhere, but it must not merge with what is beside it.
func (s *site) number() place {
	leaf, ok := s.stack[len(s.stack)-1].(*syntax.Lit)
	if !ok {
		return place{}
	}
	p := s.beside(leaf)
	if p.err != nil || p.text {
		return p
	}
	if p.how == outDouble && s.documents > 0 {
		return refuse("would join the variable before it", "write braces around the variable, as in ${x}{#}")
	}
	src, at := s.c.src, s.mark.at
	for _, n := range s.stack {
		switch n := n.(type) {
		case *syntax.ArithmExp, *syntax.ArithmCmd:
			return place{}
		case *syntax.CallExpr:
			if s.lang == syntax.LangPOSIX || len(n.Args) == 0 {
				continue
			}
			from, to := int(n.Args[0].Pos().Offset()), int(n.Args[0].End().Offset())
			if from <= at && at < to && strings.Contains(src[at:to], "=") {
				return refuseName
			}
		}
	}
	quoted, next := inDoubleQuotes(s.stack), src[at+len(markText):]
	switch {
	case p.escaped && !quoted:
		return place{text: true}
	case p.how == outDouble && quoted:
		return place{how: outDouble}
	case p.how == outDouble, !quoted && next != "" && (next[0] == '<' || next[0] == '>'):
		return place{how: single}
	}
	return place{}
}

package expand

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// place says how a value is referred to where a mark stands, and what it must be.
type place struct {
	how     how
	check   check
	none    string // written if no value is inserted
	escaped bool   // the backslash before it is one
	joined  bool   // its word must stay one, whatever it stands for
	single  bool   // its word cannot be several, and what would make it so is an error
	guard   int    // how many words from its word on must not be options
	list    span   // the word to repeat for each record, if any
	last    bool   // it is an argument of its own, and at the very end of a script runs with that
	text    bool   // it is not a placeholder here but text of the script
	err     error  // why no value can stand here; goes on from the placeholder's text
}

// refuse returns a place where no value can stand, with the reason and what to
// write instead.
func refuse(why, how string) place { return place{err: errors.New(why + ": " + how)} }

var (
	refuseName       = refuse("cannot be a name or the number of a descriptor", "write it as it is")
	refuseNumber     = refuse("cannot be part of a number", "write {} alone, as in $(({} + 1)), which then must be a number in every task")
	refuseNested     = refuse(`cannot stand in quotes or behind a backslash within ${…}`, "leave these out")
	refuseDollar     = refuse(`cannot stand in $'…' or $"…"`, "leave out the dollar sign")
	refuseUnknown    = refuse("stands where it is not known how the shell reads it", `put it into a variable, as in x={}, and write "$x" there`)
	refuseHidden     = refuse("stands where it is not known what is run and with which options", "write the words before it as they are")
	refuseBackquotes = refuse("cannot stand in backquotes that hold a backslash, a # or a here-document", "write $(…) instead")
	refuseText       = refuse("cannot be in text for a shell to run", `give it to that shell as an argument, as in sh -c '… "$1"' sh {}`)
)

// stacks yields each node of f as the last of the nodes from f down to it. The slice is
// reused.
func stacks(f syntax.Node) iter.Seq[[]syntax.Node] {
	return func(yield func([]syntax.Node) bool) {
		var stack []syntax.Node
		more := true
		syntax.Walk(f, func(n syntax.Node) bool {
			if n == nil {
				stack = stack[:len(stack)-1]
				return true
			}
			stack = append(stack, n)
			more = more && yield(stack)
			return more
		})
	}
}

// last returns the index of the last of the nodes that is a T, or -1.
func last[T syntax.Node](nodes []syntax.Node) int {
	for i, n := range slices.Backward(nodes) {
		if _, ok := n.(T); ok {
			return i
		}
	}
	return -1
}

// inHereDoc reports whether the last node of the stack is in a here-document.
func inHereDoc(stack []syntax.Node) bool {
	for i, node := range stack[:len(stack)-1] {
		if r, ok := node.(*syntax.Redirect); ok && r.Hdoc != nil && stack[i+1] == syntax.Node(r.Hdoc) {
			return true
		}
	}
	return false
}

// places finds the place of each mark in f, which is the script.
func (c *compiler) places(f *syntax.File) error {
	for _, s := range [...]string{"$$(", "$${", "$$["} {
		if strings.Contains(c.src, s) {
			return fmt.Errorf("the command holds %s, which shells read differently: write ${$} for the number of the process", s)
		}
	}
	for i := range c.marks {
		c.marks[i].place = refuseUnknown
	}
	c.names = c.namesIn(f)
	different := ""
	for stack := range stacks(f) {
		leaf := stack[len(stack)-1]
		different = cmp.Or(different, c.differs(leaf), c.misread(leaf))
		switch leaf.(type) {
		case *syntax.Lit, *syntax.SglQuoted, *syntax.Comment:
			marks := c.marksIn(leaf)
			for i := range marks {
				s := site{c: c, mark: marks[i], from: int(leaf.Pos().Offset()), stack: stack}
				marks[i].place = s.place()
			}
		}
	}
	for i := range c.marks {
		p := &c.marks[i]
		name, kind := p.piece.text, p.piece.kind
		switch {
		case c.tail && (p.err != nil || !p.last || different != ""):
			return errNoEnd
		case p.text:
		case p.err != nil:
			return fmt.Errorf("%s %w", name, p.err)
		case different != "":
			return fmt.Errorf("%s cannot stand in a script with %s, which shells read in different ways: "+
				"leave that out, or name the shell, as in --shell bash", name, different)
		case p.check == number && (kind == seq || kind == worker):
			p.check = anything // crew makes it
		case p.check == number && (kind == host || kind == units):
			return fmt.Errorf("%s cannot stand where only a number can: leave it out", name)
		}
	}
	return nil
}

// marksIn returns the marks in a node.
func (c *compiler) marksIn(n syntax.Node) []mark {
	return c.within(int(n.Pos().Offset()), int(n.End().Offset()))
}

// differs returns what other shells than bash read in a node as other commands, or "".
func (c *compiler) differs(n syntax.Node) string {
	if c.family == bash {
		return ""
	}
	switch n := n.(type) {
	case *syntax.Stmt:
		for _, r := range n.Redirs {
			if n.Cmd != nil && r.Pos().Offset() < n.Cmd.End().Offset() && (r.Op == syntax.RdrAll || r.Op == syntax.AppAll) {
				return "words after &> and its file"
			}
		}
	case *syntax.Assign:
		if n.Index != nil || n.Append {
			return "x[1]= or +="
		}
	case *syntax.SglQuoted:
		if n.Dollar {
			return "$'…'"
		}
	case *syntax.Word: // a shell may take the second dollar sign for that of $'…'
		for i, p := range n.Parts[1:] {
			pid, ok := n.Parts[i].(*syntax.ParamExp)
			if _, isLit := p.(*syntax.Lit); ok && !isLit && pid.Short && pid.Param != nil && pid.Param.Value == "$" {
				return "quotes behind $$"
			}
		}
	case *syntax.BinaryTest:
		if n.Op == syntax.AndTest || n.Op == syntax.OrTest || n.Op == syntax.TsReMatch {
			return "&&, || or =~ in [["
		}
	}
	return ""
}

// misread returns what the parser reads in a node as no shell does, or "".
func (c *compiler) misread(n syntax.Node) string {
	switch n := n.(type) {
	case *syntax.ParamExp:
		if text := c.src[n.Pos().Offset():n.End().Offset()]; strings.Contains(text, "<(") || strings.Contains(text, ">(") {
			return "<( ) within ${…}"
		}
	case *syntax.Redirect:
		if n.Hdoc == nil {
			break
		}
		delimiter, _, _ := strings.Cut(argOf(n.Word).text, gap)
		delimiter += "\n" // the last one has no line break
		for line := range strings.Lines(c.src[n.Hdoc.Pos().Offset():n.Hdoc.End().Offset()]) {
			if n.Op == syntax.DashHdoc {
				line = strings.TrimLeft(line, "\t")
			}
			if line == delimiter {
				return "the delimiter of a here-document inside it"
			}
		}
	}
	return ""
}

// site is a mark and the nodes that it is in.
type site struct {
	c     *compiler
	mark  mark
	from  int           // offset of the leaf
	stack []syntax.Node // from the file to the leaf
}

// place returns the place of the mark.
func (s *site) place() place {
	n := len(s.stack)
	if _, ok := s.stack[n-1].(*syntax.Comment); ok {
		return place{text: true}
	}
	if inArithmetic(s.stack) {
		return s.arithmetic()
	}
	if s.feedsShell() {
		return refuseText
	}
	if s.inBackquotes() {
		return refuseBackquotes
	}
	first := s.word()
	if first < 0 {
		return refuseName
	}
	p := s.quote()
	if p.err != nil || p.text {
		return p
	}
	held := s.holder(first)
	if held.err != nil {
		return held
	}
	p.check, p.joined = held.check, held.joined
	s.inWord(&p)
	return p
}

// inBackquotes reports whether the mark is in backquotes in which shells may read something
// in another way than in $(…).
func (s *site) inBackquotes() bool {
	return slices.ContainsFunc(s.stack, func(n syntax.Node) bool {
		sub, ok := n.(*syntax.CmdSubst)
		if !ok || !sub.Backquotes {
			return false
		}
		text := s.c.src[sub.Left.Offset()+1 : sub.Right.Offset()]
		return strings.ContainsAny(text, "\\#`") || strings.Contains(text, "<<")
	})
}

// arithmetic returns the place of a value in arithmetic, where it must be a number
// that stands for itself and does not join what is beside it.
func (s *site) arithmetic() place {
	n := len(s.stack)
	if w, ok := s.stack[n-2].(*syntax.Word); !ok || w.Lit() != markText {
		return refuseNumber
	}
	if before := s.c.src[:s.mark.at]; last[*syntax.LetClause](s.stack) < 0 && (strings.HasSuffix(before, "-") || strings.HasSuffix(before, "+")) {
		return place{how: apart, check: number} // but a blank would end a word of let
	}
	return place{how: inDouble, check: number}
}

// word returns the index of the outermost word that holds the mark within its
// own statement, or -1.
func (s *site) word() int {
	for i := last[*syntax.Stmt](s.stack) + 1; i < len(s.stack); i++ {
		if _, ok := s.stack[i].(*syntax.Word); ok {
			return i
		}
	}
	return -1
}

// inWord sets what depends on the innermost word around the mark: whether it is
// repeated for each record, and whether quotes can be left out where it is shown.
func (s *site) inWord(p *place) {
	i := last[*syntax.Word](s.stack)
	w := s.stack[i].(*syntax.Word)
	from, to := int(w.Pos().Offset()), int(w.End().Offset())
	alone := from == s.mark.at && to == s.mark.at+len(markText)
	call, _ := s.stack[i-1].(*syntax.CallExpr)
	_, isItem := s.stack[i-1].(*syntax.WordIter)
	_, isElem := s.stack[i-1].(*syntax.ArrayElem)
	_, isTarget := s.stack[i-1].(*syntax.Redirect)
	isArg := call != nil && call.Args[0] != w
	p.last = isArg && alone && last[*syntax.FuncDecl](s.stack) < 0
	if alone && (isItem || call != nil && len(call.Args) > 1) {
		p.none = ""
	}
	if (call != nil || isItem || isElem) && p.check == anything && !p.joined {
		p.list = span{from, to}
	}
	if p.how == single && (isArg || isItem || isTarget) && s.mildWord(w, to) {
		p.how = bare
	}
}

// mildWord reports whether w, which ends at to, consists of marks and harmless
// bytes alone, and what follows cannot join it.
func (s *site) mildWord(w *syntax.Word, to int) bool {
	if text := w.Lit(); text == "" || !plainText(text) {
		return false
	}
	return to >= len(s.c.src) || strings.IndexByte(" \t\n;|)", s.c.src[to]) >= 0
}

// quote says how a reference is quoted where the mark stands, by the innermost quotes.
func (s *site) quote() place {
	document := inHereDoc(s.stack)
	var param *syntax.ParamExp       // the innermost one
	var literal, within, quoted bool // in single quotes; in double quotes, outside of param
	for i := len(s.stack) - 1; ; i-- {
		switch h := s.stack[i].(type) {
		case *syntax.DblQuoted:
			if h.Dollar {
				return refuseDollar
			}
			within, quoted = within || param == nil, quoted || param != nil
			continue
		case *syntax.SglQuoted:
			if h.Dollar || s.from > 0 && s.c.src[s.from-1] == '$' {
				return refuseDollar
			}
			literal = true
			continue
		case *syntax.ParamExp:
			if param == nil {
				param = h
			}
			continue
		case *syntax.ExtGlob:
			return refuseUnknown
		case *syntax.Word, *syntax.Lit:
			continue
		case *syntax.Redirect:
			quoted = quoted || inHereDoc(s.stack[i:i+2])
		}
		break
	}
	if param == nil {
		quoted, within = quoted || within, false
	}
	if literal {
		if param != nil && (quoted || within) {
			return refuseNested
		}
		return place{how: inSingle}
	}
	p := s.beside()
	switch {
	case p.err != nil || p.text:
	case param != nil:
		return s.quoteParam(p, param, quoted, within)
	case quoted && (document || s.from == s.mark.at && strings.IndexByte("\"`)}]", s.c.src[s.from-1]) < 0):
		p.how = inner // behind a variable without braces, or in what may hold double quotes
	case quoted:
		p.how = inDouble
	case p.escaped:
		return place{text: true}
	default:
		p.how, p.none = single, "''"
	}
	return p
}

// takesWord reports whether w is a word of p that is expanded like any other, and
// not arithmetic.
func takesWord(p *syntax.ParamExp, w *syntax.Word) bool {
	return p.Exp != nil && p.Exp.Word == w || p.Repl != nil && (p.Repl.Orig == w || p.Repl.With == w)
}

// quoteParam says how a reference is quoted in the word of a ${…}. quoted is whether that
// is in double quotes, within whether there are double quotes inside it.
func (s *site) quoteParam(p place, param *syntax.ParamExp, quoted, within bool) place {
	pattern := param.Repl != nil
	if !pattern {
		switch param.Exp.Op {
		case syntax.RemSmallPrefix, syntax.RemLargePrefix, syntax.RemSmallSuffix, syntax.RemLargeSuffix:
			pattern = true
		case syntax.AssignUnset, syntax.AssignUnsetOrNull:
			if a := s.c.assigned(param.Param.Value); a.err != nil || a.check != anything {
				return refuseUnknown
			}
		case syntax.OtherParamOps, syntax.UpperFirst, syntax.UpperAll, syntax.LowerFirst, syntax.LowerAll:
			return refuseUnknown
		}
	}
	switch {
	case pattern && inHereDoc(s.stack):
		return refuseUnknown
	case p.escaped, within && quoted && !pattern:
		return refuseNested
	case within, quoted && !pattern:
		p.how = inner
	default:
		p.how = outer
	}
	return p
}

// beside looks at what stands right before the mark: a backslash, or a dollar sign, which
// would give the braces another meaning.
func (s *site) beside() place {
	src, at := s.c.src, s.mark.at
	p := place{escaped: odd(src[s.from:at])}
	signs := at - len(strings.TrimRight(src[:at], "$"))
	if signs > 0 && odd(src[:at-signs]) {
		signs-- // one is only text
	}
	if signs%2 == 0 { // $$ is a variable
		return p
	}
	switch m := s.mark.piece; {
	case m.kind == seq, m.kind == host, m.kind == units, m.kind == made, m.form == whole && (m.kind == column && m.n > 0 || m.kind == field && syntax.ValidName(strings.TrimSuffix(m.name, "?"))):
		return place{text: true} // a parameter of the shell, such as ${1} or ${name}
	}
	return refuse("cannot stand after a dollar sign", `write \$ before it for the sign, or "$x" for a variable`)
}

// odd reports whether an odd number of backslashes ends s.
func odd(s string) bool {
	return (len(s)-len(strings.TrimRight(s, `\`)))%2 == 1
}

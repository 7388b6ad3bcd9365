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

// place describes where a mark stands in a script or command: how its value is referred to
// there, and which values are allowed.
type place struct {
	how     how
	check   check
	none    string // text to write if no value is inserted
	escaped bool   // a backslash before the mark escapes it
	joined  bool   // the word must stay one word, whatever the value is
	single  bool   // it is an error if the word becomes several
	guard   int    // how many words, counted from this one, must not be options
	list    span   // the word to repeat for each record, if any
	last    bool   // it is a word of its own and an argument that is not in a function
	text    bool   // it is text of the script and not a placeholder
	err     error  // why no value can stand here; continues the placeholder's text
}

// refuse returns a place where no value can stand. why continues the placeholder's text, and
// how suggests a replacement.
func refuse(why, how string) place { return place{err: errors.New(why + ": " + how)} }

var (
	refuseName       = refuse("cannot be a name or the number of a descriptor", "write it as it is")
	refuseNumber     = refuse("cannot be part of a number", "write {} alone, as in $(({} + 1)), which then must be a number in every task")
	refuseNested     = refuse(`cannot stand in quotes or behind a backslash within ${…}`, "leave these out")
	refuseDollar     = refuse(`cannot stand in $'…' or $"…"`, "leave out the dollar sign")
	refuseUnknown    = refuse("stands where crew cannot tell how the shell reads it", `put it into a variable, as in x={}, and write "$x" there`)
	refuseHidden     = refuse("stands where crew cannot tell what is run with which options", "write the words before it as they are")
	refuseBackquotes = refuse("cannot stand in backquotes that hold a backslash, a # or a here-document", "write $(…) instead")
	refuseText       = refuse("cannot be in text for a shell to run", "write it in that shell's own command, as in sh -c 'rm {}' or ssh {} ls")
)

// stacks yields, for each node below f, the path of nodes from f to that node. The slice is
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

// lastIndex returns the index of the last T among nodes, or -1.
func lastIndex[T syntax.Node](nodes []syntax.Node) int {
	for i, n := range slices.Backward(nodes) {
		if _, ok := n.(T); ok {
			return i
		}
	}
	return -1
}

// inHereDoc reports whether the last node of the stack is in the text of a here-document.
func inHereDoc(stack []syntax.Node) bool {
	for i, node := range stack[:len(stack)-1] {
		if r, ok := node.(*syntax.Redirect); ok && stack[i+1] == syntax.Node(r.Hdoc) {
			return true
		}
	}
	return false
}

// findPlaces finds the place of each mark in f, the parsed script.
func (c *compiler) findPlaces(f *syntax.File) error {
	for _, s := range [...]string{"$$(", "$${", "$$["} {
		if strings.Contains(c.src, s) {
			return fmt.Errorf("the command holds %s, which shells read differently: write ${$} for the number of the process", s)
		}
	}
	for i := range c.marks {
		c.marks[i].place = refuseUnknown
	}
	c.numeric = c.numericVarsIn(f)
	different := ""
	for stack := range stacks(f) {
		leaf := stack[len(stack)-1]
		different = cmp.Or(different, c.shellDifference(leaf), c.parserDifference(leaf))
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
		evaluated := p.check == number || p.check == digits
		switch {
		case c.tail && (p.err != nil || !p.last || different != ""):
			return errNoEnd
		case p.text:
		case p.err != nil:
			return fmt.Errorf("%s %w", name, p.err)
		case different != "":
			err := fmt.Errorf("%s cannot stand in a script with %s, which shells read in different ways: leave that out", name, different)
			if c.family != bash {
				err = fmt.Errorf("%w, or name the shell, as in --shell bash", err)
			}
			return err
		case kind == seq, kind == worker:
			p.check = anything // crew makes the value, and it is a number
		case evaluated && (kind == host || kind == units):
			return fmt.Errorf("%s cannot stand where only a number can: leave it out", name)
		}
	}
	return nil
}

// marksIn returns the marks in a node.
func (c *compiler) marksIn(n syntax.Node) []mark {
	return c.marksBetween(int(n.Pos().Offset()), int(n.End().Offset()))
}

// shellDifference names the syntax in n that shells other than bash read differently, or returns "".
func (c *compiler) shellDifference(n syntax.Node) string {
	if c.family == bash {
		return ""
	}
	switch n := n.(type) {
	case *syntax.Redirect:
		if n.Op == syntax.RdrAll || n.Op == syntax.AppAll {
			return "&>"
		}
	case *syntax.Assign:
		if n.Index != nil || n.Append {
			return "x[1]= or +="
		}
	case *syntax.SglQuoted:
		if n.Dollar {
			return "$'…'"
		}
	case *syntax.Word: // a shell may read the second dollar sign as the beginning of $'…'
		for i, p := range n.Parts[1:] {
			pid, ok := n.Parts[i].(*syntax.ParamExp)
			if _, isLit := p.(*syntax.Lit); ok && !isLit && pid.Short && pid.Param.Value == "$" {
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

// parserDifference names the syntax in n that the parser reads differently from all shells, or returns "".
func (c *compiler) parserDifference(n syntax.Node) string {
	switch n := n.(type) {
	case *syntax.CoprocClause:
		return "coproc"
	case *syntax.ParamExp:
		if text := c.src[n.Pos().Offset():n.End().Offset()]; strings.Contains(text, "<(") || strings.Contains(text, ">(") {
			return "<( ) within ${…}"
		}
	case *syntax.Redirect:
		if (n.Op == syntax.DplIn || n.Op == syntax.DplOut) && c.src[n.Word.Pos().Offset()] == '-' && n.Word.Lit() != "-" {
			return "a word right after >&-" // bash runs it
		}
		if n.Hdoc == nil {
			break
		}
		delimiter, _, _ := strings.Cut(argOf(n.Word).text, gap)
		for line := range strings.Lines(c.src[n.Hdoc.Pos().Offset():n.Hdoc.End().Offset()]) {
			if n.Op == syntax.DashHdoc {
				line = strings.TrimLeft(line, "\t")
			}
			// The delimiter that ends the document has no line break. In $(…), bash also takes one before a ).
			if line == delimiter+"\n" || strings.HasPrefix(line, delimiter) && strings.Contains(line, ")") {
				return "the delimiter of a here-document inside it"
			}
		}
	}
	return ""
}

// site is a mark and the nodes that contain it.
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
		return s.arithmeticPlace()
	}
	if s.feedsShell() {
		return refuseText
	}
	if s.inBackquotes() {
		return refuseBackquotes
	}
	first := s.outermostWord()
	if first < 0 {
		return refuseName
	}
	p := s.quotePlace()
	if p.err != nil || p.text {
		return p
	}
	held := s.holderPlace(first)
	if held.err != nil {
		return held
	}
	p.check, p.joined = held.check, held.joined
	s.applyWord(&p)
	return p
}

// inBackquotes reports whether the mark is in backquotes that shells may read differently from $(…).
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

// afterBase matches a mark after the base of a number, as in 10#08.
var afterBase = lazily("^[0-9]+#" + markText + "$")

// arithmeticPlace returns the place of a value in arithmetic. The value must be a number and an
// operand of its own, or the digits after a base.
func (s *site) arithmeticPlace() place {
	n := len(s.stack)
	w, ok := s.stack[n-2].(*syntax.Word)
	switch {
	case ok && afterBase().MatchString(w.Lit()):
		return place{how: inDouble, check: digits}
	case !ok || w.Lit() != markText:
		return refuseNumber
	case strings.HasSuffix(s.c.src[:s.mark.at], "-") && lastIndex[*syntax.LetClause](s.stack) < 0: // in let, a blank would end the word
		return place{how: apart, check: number}
	}
	return place{how: inDouble, check: number}
}

// outermostWord returns the index of the outermost word that contains the mark within its innermost
// statement, or -1.
func (s *site) outermostWord() int {
	for i := lastIndex[*syntax.Stmt](s.stack) + 1; i < len(s.stack); i++ {
		if _, ok := s.stack[i].(*syntax.Word); ok {
			return i
		}
	}
	return -1
}

// applyWord sets the fields of p that depend on the innermost word around the mark: whether it is
// repeated for each record, and whether it is displayed without quotes.
func (s *site) applyWord(p *place) {
	i := lastIndex[*syntax.Word](s.stack)
	w := s.stack[i].(*syntax.Word)
	from, to := int(w.Pos().Offset()), int(w.End().Offset())
	alone := from == s.mark.at && to == s.mark.at+len(markText)
	call, _ := s.stack[i-1].(*syntax.CallExpr)
	_, isItem := s.stack[i-1].(*syntax.WordIter)
	_, isElem := s.stack[i-1].(*syntax.ArrayElem)
	_, isTarget := s.stack[i-1].(*syntax.Redirect)
	isArg := call != nil && call.Args[0] != w
	p.last = isArg && alone && lastIndex[*syntax.FuncDecl](s.stack) < 0
	if alone && (isItem || call != nil && len(call.Args) > 1) {
		p.none = ""
	}
	if (call != nil || isItem || isElem) && p.check == anything && !p.joined {
		p.list = span{from, to}
	}
	if (isArg || isItem || isTarget) && s.isPlainWord(w, to) {
		p.how = bare
	}
}

// isPlainWord reports whether w, which ends at to, consists only of marks and harmless bytes, and
// is followed by the end of a word.
func (s *site) isPlainWord(w *syntax.Word, to int) bool {
	if text := w.Lit(); text == "" || !plainText(text) {
		return false
	}
	return to >= len(s.c.src) || strings.IndexByte(" \t\n;|)", s.c.src[to]) >= 0
}

// quotePlace returns how a reference is quoted at the mark, depending on the quotes around it.
func (s *site) quotePlace() place {
	document := inHereDoc(s.stack)
	var param *syntax.ParamExp       // the innermost ${…}
	var literal, within, quoted bool // in single quotes; in double quotes inside param; in double quotes around param
	for i := len(s.stack) - 1; ; i-- {
		switch h := s.stack[i].(type) {
		case *syntax.DblQuoted:
			if h.Dollar {
				return refuseDollar
			}
			within, quoted = within || param == nil, param != nil
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
		if quoted {
			return refuseNested
		}
		return place{how: inSingle}
	}
	p := s.precedingPlace()
	switch {
	case p.err != nil || p.text:
	case param != nil:
		return s.paramPlace(p, param, quoted, within)
	case quoted && (document || s.from == s.mark.at && strings.IndexByte("\"`)}]", s.c.src[s.from-1]) < 0):
		p.how = inner // follows a variable without braces, or is in text that may hold double quotes
	case quoted:
		p.how = inDouble
	case p.escaped:
		return place{text: true}
	default:
		p.how, p.none = single, "''"
	}
	return p
}

// takesWord reports whether p expands w like any other word, and does not evaluate it as
// arithmetic.
func takesWord(p *syntax.ParamExp, w *syntax.Word) bool {
	return p.Exp != nil && p.Exp.Word == w || p.Repl != nil && (p.Repl.Orig == w || p.Repl.With == w)
}

// paramPlace returns how a reference is quoted in the word of a ${…}. quoted says whether
// the ${…} is in double quotes, within whether there are double quotes inside it.
func (s *site) paramPlace(p place, param *syntax.ParamExp, quoted, within bool) place {
	pattern := param.Repl != nil
	if !pattern {
		switch param.Exp.Op {
		case syntax.RemSmallPrefix, syntax.RemLargePrefix, syntax.RemSmallSuffix, syntax.RemLargeSuffix:
			pattern = true
		case syntax.AssignUnset, syntax.AssignUnsetOrNull:
			if a := s.c.assignmentPlace(param.Param.Value); a.err != nil || a.check != anything {
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

// precedingPlace returns the place of the mark if the bytes before it already decide that: a backslash, or
// a dollar sign, which gives the braces another meaning.
func (s *site) precedingPlace() place {
	src, at := s.c.src, s.mark.at
	p := place{escaped: oddBackslashes(src[s.from:at])}
	signs := at - len(strings.TrimRight(src[:at], "$"))
	if signs > 0 && oddBackslashes(src[:at-signs]) {
		signs-- // an escaped dollar sign is text
	}
	if signs%2 == 0 { // $$ is a variable
		return p
	}
	if s.mark.piece.kind != record {
		return place{text: true} // a parameter of the shell, such as ${1} or ${name}
	}
	return refuse("cannot stand after a dollar sign", `write \$ before it for the sign, or "$x" for a variable`)
}

// oddBackslashes reports whether s ends with an odd number of backslashes.
func oddBackslashes(s string) bool {
	return (len(s)-len(strings.TrimRight(s, `\`)))%2 == 1
}

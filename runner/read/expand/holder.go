package expand

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// holderPlace returns the place of the mark by the node that holds its outermost word, stack[first].
func (s *site) holderPlace(first int) place {
	word := s.stack[first].(*syntax.Word)
	switch n := s.stack[first-1].(type) {
	case *syntax.CallExpr:
		if at := slices.Index(n.Args, word); at == 0 || s.mark.piece.anyText() {
			return s.c.argumentPlace(argsOf(n), at)
		}
		return place{}
	case *syntax.Redirect:
		return s.redirectPlace(n, word)
	case *syntax.Assign:
		return s.assignPlace(first - 1)
	case *syntax.ArrayElem: // in an ArrayExpr in an Assign
		return s.assignPlace(first - 3)
	case *syntax.UnaryTest:
		if n.Op == syntax.TsVarSet {
			return refuseName
		}
	case *syntax.WordIter:
		return s.c.assignmentPlace(n.Name.Value)
	case *syntax.CaseClause, *syntax.CaseItem, *syntax.BinaryTest, *syntax.TestClause, *syntax.ParenTest:
	default:
		return refuseNumber
	}
	return place{}
}

// redirectPlace returns the place of the mark in word, which is the target of a redirection or the
// text of a here-document.
func (s *site) redirectPlace(r *syntax.Redirect, word *syntax.Word) place {
	switch {
	case r.Hdoc == word:
	case r.Op == syntax.Hdoc, r.Op == syntax.DashHdoc, (r.Op == syntax.DplIn || r.Op == syntax.DplOut) && s.mark.piece.anyText():
		return refuseName
	case s.c.Batch && s.mark.piece.ofEach() && r.Op != syntax.WordHdoc:
		return refuse("cannot be the target of a redirection if a command takes several records",
			"write a fixed name, or take one record per command")
	}
	return place{}
}

// feedsShell reports whether a shell reads the output or the here-document of the mark's
// statement as its script.
func (s *site) feedsShell() bool {
	if hasShellInSubst(s.stack[0]) {
		return true
	}
	for i, n := range slices.Backward(s.stack) {
		switch n := n.(type) {
		case *syntax.Redirect:
			if (n.Hdoc != nil || n.Op == syntax.WordHdoc) && readsScript(s.stack[i-1].(*syntax.Stmt)) {
				return true
			}
		case *syntax.BinaryCmd:
			if (n.Op == syntax.Pipe || n.Op == syntax.PipeAll) && s.stack[i+1] == syntax.Node(n.X) && readsScript(n.Y) {
				return true
			}
		case *syntax.ProcSubst:
			return readsScript(s.stack[lastIndex[*syntax.Stmt](s.stack[:i])].(*syntax.Stmt))
		case *syntax.CmdSubst:
			return false
		}
	}
	return false
}

// hasShellInSubst reports whether a shell in a >( ) reads its script from there: any later statement may write to it.
func hasShellInSubst(f syntax.Node) bool {
	for stack := range stacks(f) {
		st, ok := stack[len(stack)-1].(*syntax.Stmt)
		i := lastIndex[*syntax.ProcSubst](stack)
		if ok && i >= 0 && stack[i].(*syntax.ProcSubst).Op == syntax.CmdOut && readsScript(st) {
			return true
		}
	}
	return false
}

// readsScript reports whether a statement is a shell that reads its script from standard input
// or from a file, or an exec that redirects the input of later shells.
func readsScript(st *syntax.Stmt) bool {
	call, ok := st.Cmd.(*syntax.CallExpr)
	if !ok || len(call.Args) == 0 {
		return false
	}
	args := argsOf(call)
	isShell := func(a arg) bool { return a.obscure || familyOf(a.program()) != foreign }
	if sc, ok := scriptOf(args, posix); ok && !sc.sameShell {
		return sc.from >= len(args) || sc.family == foreign || slices.ContainsFunc(args[sc.from:sc.to], isShell)
	}
	named := args[min(skipPrefixes(args), len(args)):]
	return args[len(args)-1].text == "exec" || startsShell(named) || len(named) > 0 && (named[0].text == "." || named[0].text == "source") ||
		slices.ContainsFunc(args, func(a arg) bool {
			return isShell(a) || loginShells.has(a.program())
		})
}

// assignPlace returns the place of the mark in a value that stack[i] assigns.
func (s *site) assignPlace(i int) place {
	a := s.stack[i].(*syntax.Assign)
	d, ok := s.stack[i-1].(*syntax.DeclClause)
	if !ok {
		return s.c.assignmentPlace(a.Name.Value)
	}
	name := ""
	if a.Name != nil {
		name = a.Name.Value
	} else if name = Assigned(argOf(a.Value).text); name == "" { // in quotes, as in export "x={}"
		return refuseName
	}
	args := declared(d)
	return s.c.declarationPlace(args, len(args), name, a.Array != nil)
}

// declarationPlace returns the place of a value that a declaration assigns to name, or to an element of that
// array. The options of the declaration are in args before args[at].
func (c *compiler) declarationPlace(args []arg, at int, name string, isElement bool) place {
	p, harmless := c.assignmentPlace(name), "-xrgp"
	switch {
	case isElement:
		harmless += "aA"
	case c.numeric[name+"["]:
		p.check = number // it may be read as a list of elements, and their indexes can run commands
	}
	for _, a := range args[1:at] {
		switch before, _, _ := strings.Cut(a.text, "="); {
		case !startsOption(a.text) && !strings.Contains(before, gap), strings.Trim(a.text, harmless) == "":
		case strings.Trim(a.text, harmless+"i") == "":
			p.check = number
		default:
			return refuseUnknown
		}
	}
	return p
}

// assignmentPlace returns the place of a value that is assigned to a variable.
func (c *compiler) assignmentPlace(name string) place {
	switch {
	case choosesProgram(name):
		return refuse("cannot be assigned to "+name+", by which programs choose what they run", "use another name, or, if that is meant, x={} and then "+name+"=$x")
	case c.numeric[name], c.numeric["*"], integerVariables.has(name):
		return place{check: number}
	}
	return place{}
}

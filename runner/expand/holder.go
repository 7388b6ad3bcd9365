package expand

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

const (
	hintNumber   = "compare with [ ] and compute with expr, as in $(expr {} + 1)"
	hintVariable = "write the name itself"
)

// refuseNode refuses a mark that is in no word.
func (s *site) refuseNode(parent syntax.Node) place {
	switch parent.(type) {
	case *syntax.FuncDecl:
		return refuse("cannot be the name of a function", hintVariable)
	case *syntax.WordIter, *syntax.Assign, *syntax.DeclClause:
		return refuse("cannot be the name of a variable", hintVariable)
	case *syntax.Redirect:
		return refuse("cannot be the number of a descriptor", hintVariable)
	}
	return place{err: errUnknown}
}

// holder refuses the mark because of what holds its word, stack[first].
func (s *site) holder(first int) place {
	word := s.stack[first].(*syntax.Word)
	switch n := s.stack[first-1].(type) {
	case *syntax.CallExpr:
		return s.call(n, word)
	case *syntax.Redirect:
		return s.redirect(n, word, s.stack[first-2])
	case *syntax.Assign:
		if n.Value != word {
			return refuse("cannot be the index of an array", hintNumber)
		}
		if d, ok := s.stack[first-2].(*syntax.DeclClause); ok {
			return s.declared(d, n)
		}
		return s.assigned(n.Name)
	case *syntax.ArrayElem:
		if n.Value != word {
			return refuse("cannot be the index of an array", hintNumber)
		}
		if d, ok := s.stack[first-4].(*syntax.DeclClause); ok {
			return s.declared(d, s.stack[first-3].(*syntax.Assign))
		}
		return s.assigned(s.stack[first-3].(*syntax.Assign).Name)
	case *syntax.BinaryTest:
		switch n.Op {
		case syntax.TsEql, syntax.TsNeq, syntax.TsLeq, syntax.TsGeq, syntax.TsLss, syntax.TsGtr:
			return refuse("cannot be a number in [[ ]], which evaluates it", "use [ ] instead")
		}
	case *syntax.UnaryTest:
		switch n.Op {
		case syntax.TsVarSet, syntax.TsRefVar:
			return refuse("cannot be the name of a variable", hintVariable)
		}
	case *syntax.WordIter:
		return s.assigned(n.Name)
	case *syntax.CaseClause, *syntax.CaseItem, *syntax.TestClause, *syntax.ParenTest:
	case *syntax.CoprocClause:
		return refuse("cannot be the name of a variable", hintVariable)
	default:
		return refuse("cannot stand in arithmetic, which evaluates it", hintNumber)
	}
	return place{}
}

// assigned is for a value that is assigned to a variable.
func (s *site) assigned(name *syntax.Lit) place {
	if s.integers {
		return refuse("cannot be assigned where variables are declared as integers, since the shell evaluates it",
			"leave out the -i")
	}
	switch name.Value {
	case "OPTIND", "RANDOM", "SRANDOM", "SECONDS", "LINENO", "HISTCMD", "PS1", "PS2", "PS4", "PROMPT_COMMAND", "ENV", "BASH_ENV":
		return refuse("cannot be assigned to "+name.Value+", which the shell evaluates", "use another name")
	}
	return place{}
}

// declared is for an argument of declare, export and the like.
func (s *site) declared(d *syntax.DeclClause, a *syntax.Assign) place {
	switch d.Variant.Value {
	case "export", "readonly", "local":
	default:
		return refuse("cannot be among the arguments of "+d.Variant.Value+", which evaluates them",
			"assign it on its own, as in x={}")
	}
	if a.Naked {
		return refuse("cannot be the name of a variable", hintVariable)
	}
	for _, o := range d.Args {
		if o.Naked && o.Value != nil {
			if t := staticText(o.Value); !t.static || strings.ContainsAny(t.text, "aAin") && strings.HasPrefix(t.text, "-") {
				return refuse("cannot be among the arguments of "+d.Variant.Value+" with options",
					"assign it on its own, as in x={}")
			}
		}
	}
	return s.assigned(a.Name)
}

// redirect is for a redirection's target and a here-document's text.
func (s *site) redirect(r *syntax.Redirect, word *syntax.Word, stmt syntax.Node) place {
	if st, ok := stmt.(*syntax.Stmt); ok && (r.Hdoc == word || r.Op == syntax.WordHdoc) {
		if call, ok := st.Cmd.(*syntax.CallExpr); ok && readsScript(call) {
			return refuse("cannot be in the text that a shell reads as its script",
				`pass it as an argument, as in sh -s {} <<'EOF', and write "$1"`)
		}
	}
	switch {
	case r.Hdoc == word:
		for _, p := range r.Word.Parts {
			if l, ok := p.(*syntax.Lit); !ok || strings.Contains(l.Value, `\`) {
				return refuse("cannot be in a here-document with a quoted delimiter", "leave out the quotes")
			}
		}
	case r.Op == syntax.Hdoc, r.Op == syntax.DashHdoc:
		return refuse("cannot be the delimiter of a here-document", hintVariable)
	case r.Op == syntax.DplIn, r.Op == syntax.DplOut:
		return refuse("cannot be the number of a descriptor", hintVariable)
	case s.c.batch && r.Op != syntax.WordHdoc:
		return refuse("cannot be where a redirection goes when a command takes several records",
			"write a name of its own, or take one record a command")
	}
	return place{}
}

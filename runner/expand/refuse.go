package expand

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

const (
	hintNumber = "write {} alone between operators, as in $(({} + 1)), which then must be a number in every task"
	hintName   = "write the name itself"
	hintAssign = "assign it on its own, as in x={}"
)

var (
	refuseName       = refuse("cannot be the name of a variable", hintName)
	refuseDescriptor = refuse("cannot be the number of a descriptor", "write the number itself")
	refuseIndex      = refuse("cannot be part of the index of an array", hintNumber)
	refuseArithmetic = refuse("cannot be part of a number in arithmetic", hintNumber)
	refusePattern    = refuse("cannot stand in an extended pattern", "write one case for each pattern")
	refuseNested     = refuse(`cannot stand in quotes within "${…}"`, "leave out the inner quotes")
)

// refuseArguments refuses a mark among the arguments of a command.
func refuseArguments(command, why, how string) place {
	return refuse("cannot be among the arguments of "+command+why, how)
}

// refuseOption refuses a mark among the arguments of a command that may take it for an
// option.
func refuseOption(args []arg) place {
	return refuseArguments(args[0].text+", which may take it for an option", "", "write -- before it")
}

// refuseNode refuses a mark that is in no word.
func refuseNode(parent syntax.Node) place {
	switch parent.(type) {
	case *syntax.FuncDecl:
		return refuse("cannot be the name of a function", hintName)
	case *syntax.WordIter, *syntax.Assign, *syntax.DeclClause:
		return refuseName
	case *syntax.Redirect:
		return refuseDescriptor
	}
	return place{err: errUnknown}
}

// holder refuses the mark if it must because of what holds its word,
// stack[first].
func (s *site) holder(first int) place {
	word := s.stack[first].(*syntax.Word)
	switch n := s.stack[first-1].(type) {
	case *syntax.CallExpr:
		return s.call(n, word)
	case *syntax.Redirect:
		return s.redirect(n, word, s.stack[first-2])
	case *syntax.Assign:
		return s.assign(first-1, n.Value == word)
	case *syntax.ArrayElem: // in an ArrayExpr in an Assign
		return s.assign(first-3, n.Value == word)
	case *syntax.UnaryTest:
		if n.Op == syntax.TsVarSet || n.Op == syntax.TsRefVar {
			return refuseName
		}
	case *syntax.BinaryTest:
		if n.Op == syntax.TsReMatch && s.c.family == posix && strings.Contains(s.c.src[word.Pos().Offset():word.End().Offset()], "(") {
			return refuse("cannot stand in a group of a regular expression, which shells read differently", "name the shell, as in --shell bash")
		}
	case *syntax.WordIter:
		return s.assigned(n.Name.Value)
	case *syntax.CaseClause, *syntax.CaseItem, *syntax.TestClause, *syntax.ParenTest:
	case *syntax.CoprocClause:
		return refuseName
	default:
		return refuseArithmetic
	}
	return place{}
}

// assign says how the mark may stand in the assignment stack[i]. isValue is whether
// it is in the value and not in an index.
func (s *site) assign(i int, isValue bool) place {
	a := s.stack[i].(*syntax.Assign)
	if !isValue {
		return refuseIndex
	}
	if a.Array != nil && s.c.family == ksh {
		return refuse("cannot be an element of an array, which this shell may read as an assignment", "assign it on its own, as in x[0]={}")
	}
	d, ok := s.stack[i-1].(*syntax.DeclClause)
	if !ok {
		return s.assigned(a.Name.Value)
	}
	name := ""
	if a.Name != nil && !a.Naked {
		name = a.Name.Value
	} else if a.Value != nil { // in quotes, as in export "x={}"
		name, _, ok = strings.Cut(known(a.Value).text, "=")
		if !ok || !syntax.ValidName(name) {
			return refuseName
		}
	}
	integer := d.Variant.Value == "integer" || d.Variant.Value == "float"
	for _, o := range d.Args {
		if !o.Naked || o.Value == nil || o == a {
			continue
		}
		t := known(o.Value)
		switch {
		case t.static() && strings.Trim(t.text, "-xrgp") == "":
		case t.static() && strings.Trim(t.text, "-xrgpi") == "":
			integer = true
		case !t.static() || strings.HasPrefix(t.text, "-") || strings.HasPrefix(t.text, "+"):
			return refuseArguments(d.Variant.Value, " with options", hintAssign)
		}
	}
	switch p := s.assigned(name); {
	case p.err != nil:
		return p
	case s.variables.arrays[name]:
		return refuse("cannot be assigned to an array in a declaration, which may evaluate it", hintAssign)
	case integer:
		return place{how: number}
	default:
		return p
	}
}

// redirect refuses the mark if it must in a redirection's target or in the text
// of a here-document.
func (s *site) redirect(r *syntax.Redirect, word *syntax.Word, stmt syntax.Node) place {
	if st, ok := stmt.(*syntax.Stmt); ok && (r.Hdoc == word || r.Op == syntax.WordHdoc) {
		if s.variables.runsInput(st) {
			return refuse("cannot be in the text that a shell reads as its script",
				`pass it as an argument, as in sh -s {} <<'EOF', and write "$1"`)
		}
	}
	switch {
	case r.Hdoc == word:
	case r.Op == syntax.Hdoc, r.Op == syntax.DashHdoc:
		return refuse("cannot be the delimiter of a here-document", hintName)
	case r.Op == syntax.DplIn, r.Op == syntax.DplOut:
		return refuseDescriptor
	case s.c.batch && r.Op != syntax.WordHdoc:
		return refuse("cannot be where a redirection goes when a command takes several records",
			"write a fixed name, or take one record per command")
	}
	return place{}
}

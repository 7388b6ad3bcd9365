package expand

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// quote says how a value is written in a word, given the nodes from the word to
// the leaf. If quoted is set, the word as a whole is read as if in double quotes;
// byRef asks for a reference to a variable everywhere.
func (s *site) quote(nodes []syntax.Node, quoted, byRef bool) place {
	leaf := nodes[len(nodes)-1]
	var param *syntax.ParamExp // the innermost one
	within := false            // in double quotes within param
	for i := 1; i < len(nodes)-1; i++ {
		switch n := nodes[i].(type) {
		case *syntax.DblQuoted:
			if n.Dollar {
				return refuse(`cannot stand in $"…", which the shell translates`, `write "…"`)
			}
			if param != nil {
				within = true
			} else {
				quoted = true
			}
		case *syntax.ParamExp:
			param, quoted, within = n, quoted || within, false
		case *syntax.Word:
			if param == nil || !takesWord(param, n) {
				return refuseArithmetic
			}
		case *syntax.ExtGlob:
			return refusePattern
		default:
			return refuseArithmetic
		}
	}
	if q, ok := leaf.(*syntax.SglQuoted); ok {
		return s.quoteSingle(q, param, quoted || within, byRef)
	}
	switch nodes[len(nodes)-2].(type) {
	case *syntax.Word, *syntax.DblQuoted:
	case *syntax.ExtGlob:
		return refusePattern
	default:
		return refuseName
	}
	p := s.beside(leaf.(*syntax.Lit))
	if p.err != nil || p.text {
		return p
	}
	if param != nil {
		return s.quoteParam(p, param, quoted, within)
	}
	return quotePlain(p, quoted, byRef)
}

// takesWord reports whether w is a word of p that is expanded like any other, and
// not arithmetic.
func takesWord(p *syntax.ParamExp, w *syntax.Word) bool {
	return p.Exp != nil && p.Exp.Word == w || p.Repl != nil && (p.Repl.Orig == w || p.Repl.With == w)
}

// quoteSingle says how a value is written in single quotes.
func (s *site) quoteSingle(q *syntax.SglQuoted, param *syntax.ParamExp, quoted, byRef bool) place {
	if q.Dollar || s.from > 0 && s.c.src[s.from-1] == '$' {
		return refuse("cannot stand in $'…', which reads backslashes", "write '…'")
	}
	switch {
	case param != nil && quoted:
		return refuseNested
	case param != nil || byRef:
		return place{ref: `'"${v}"'`, how: inSingle}
	}
	return place{how: inSingle}
}

// quotePlain says how a value is written outside of any ${…} of its statement.
func quotePlain(p place, quoted, byRef bool) place {
	switch {
	case quoted && byRef:
		p.ref = "${v}"
	case quoted:
		if p.how != outDouble {
			p.how = inDouble
		}
		return p
	case p.escaped:
		return place{text: true}
	case byRef:
		p.ref, p.none = `"${v}"`, "''"
	default:
		p.none = "''"
	}
	p.how = single
	return p
}

// quoteParam says how a value is written in the word of a ${…}. Only a reference
// is read alike by all shells there. quoted is whether the ${…} is in double
// quotes, within whether there are double quotes inside it.
func (s *site) quoteParam(p place, param *syntax.ParamExp, quoted, within bool) place {
	if p.escaped {
		return refuse("cannot stand after a backslash within ${…}", "leave out the backslash")
	}
	if param.Exp != nil && param.Param != nil && (param.Exp.Op == syntax.AssignUnset || param.Exp.Op == syntax.AssignUnsetOrNull) {
		if a := s.assigned(param.Param.Value); a.err != nil || a.how == number {
			return a
		}
	}
	if text := s.c.src[param.Pos().Offset():param.End().Offset()]; s.c.family == zsh && strings.Count(text, "(") > strings.Count(text, "$(") {
		return refuse("cannot stand in ${…} beside a parenthesis, which zsh may take for a qualifier", "leave out the parenthesis")
	}
	p.how = single
	pattern := param.Repl != nil
	if !pattern && param.Exp != nil {
		switch param.Exp.Op {
		case syntax.RemSmallPrefix, syntax.RemLargePrefix, syntax.RemSmallSuffix, syntax.RemLargeSuffix:
			pattern = true
		case syntax.AlternateUnset, syntax.AlternateUnsetOrNull, syntax.DefaultUnset, syntax.DefaultUnsetOrNull,
			syntax.ErrorUnset, syntax.ErrorUnsetOrNull, syntax.AssignUnset, syntax.AssignUnsetOrNull:
		default:
			return place{err: errUnknown}
		}
	}
	switch {
	case pattern && s.documents > 0:
		return refuse("cannot stand in a pattern within a here-document", "put the result into a variable before it")
	case within && quoted && !pattern:
		return refuseNested
	case within, quoted && !pattern:
		p.ref = "${v}"
	default:
		p.ref = `"${v}"`
	}
	return p
}

// beside looks at what stands right before the mark: a backslash would escape the
// value's first quote, a dollar sign would give it another meaning, and the name
// of a variable would go on in the value.
func (s *site) beside(leaf *syntax.Lit) place {
	src, at := s.c.src, s.mark.at
	p := place{escaped: odd(src[s.from:at])}
	if s.afterVariable(leaf) {
		if !strings.ContainsAny(src[s.from:at], " \t\n") {
			if s.c.family.korn() && src[s.from] == '[' && s.from < at {
				return refuse("cannot be the index of an array", "write braces around the variable, as in ${x}[{}]")
			}
			p.how = outDouble
		}
		if s.from == at {
			return p // a dollar sign before it belongs to the variable
		}
	}
	if at == 0 || src[at-1] != '$' || odd(src[:at-1]) {
		return p
	}
	switch m := s.mark.piece; {
	case m.kind == seq, m.kind == host, m.form == whole && (m.kind == column && m.n > 0 || m.kind == field && syntax.ValidName(m.name)):
		return place{text: true} // a parameter of the shell, such as ${1} or ${name}
	}
	return refuse("cannot stand after a dollar sign", `write \$ before it for the sign, or "$x" for a variable`)
}

// afterVariable reports whether a variable without braces stands right before the
// leaf.
func (s *site) afterVariable(leaf *syntax.Lit) bool {
	var parts []syntax.WordPart
	switch n := s.stack[len(s.stack)-2].(type) {
	case *syntax.Word:
		parts = n.Parts
	case *syntax.DblQuoted:
		parts = n.Parts
	}
	i := slices.Index(parts, syntax.WordPart(leaf))
	if i < 1 {
		return false
	}
	p, ok := parts[i-1].(*syntax.ParamExp)
	return ok && p.Short
}

// odd reports whether an odd number of backslashes ends s.
func odd(s string) bool {
	return (len(s)-len(strings.TrimRight(s, `\`)))%2 == 1
}

package expand

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// quote says how a value is written in a word, given the nodes from the word to
// the leaf. quoted is whether the word as a whole is read as if in double
// quotes; byRef asks for a reference to a variable wherever it is.
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
				return refuse("cannot stand in arithmetic, which evaluates it", hintNumber)
			}
		case *syntax.ExtGlob:
			return refuse("cannot stand in an extended pattern", "write one case for each pattern")
		default:
			return refuse("cannot stand in arithmetic, which evaluates it", hintNumber)
		}
	}
	if q, ok := leaf.(*syntax.SglQuoted); ok {
		return s.quoteSingle(q, param, quoted || within, byRef)
	}
	switch nodes[len(nodes)-2].(type) {
	case *syntax.Word, *syntax.DblQuoted:
	case *syntax.ExtGlob:
		return refuse("cannot stand in an extended pattern", "write one case for each pattern")
	default:
		return refuse("cannot be the name of a variable", hintVariable)
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

// takesWord says whether w is a word of p that is expanded like any other, and
// not arithmetic.
func takesWord(p *syntax.ParamExp, w *syntax.Word) bool {
	return p.Exp != nil && p.Exp.Word == w || p.Repl != nil && (p.Repl.Orig == w || p.Repl.With == w)
}

// quoteSingle is for what stands in single quotes.
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

var refuseNested = refuse(`cannot stand in quotes within "${…}"`, "leave out the inner quotes")

// quotePlain is for what stands outside of every ${…} of its statement.
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

// quoteParam is for what stands in the word of a ${…}. There a reference is
// the one thing that all shells read alike; quoted is whether the ${…} itself
// is in double quotes, within whether double quotes stand inside of it.
func (s *site) quoteParam(p place, param *syntax.ParamExp, quoted, within bool) place {
	if p.escaped {
		return refuse("cannot stand behind a backslash within ${…}", "leave out the backslash")
	}
	p.how = single
	pattern := false
	switch {
	case param.Repl != nil:
		pattern = true
	case param.Exp != nil:
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
	case pattern && s.documents() > 0:
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

// documents is how many here-documents the mark is in.
func (s *site) documents() int {
	n := 0
	for i, node := range s.stack {
		if r, ok := node.(*syntax.Redirect); ok && r.Hdoc != nil && s.stack[i+1] == syntax.Node(r.Hdoc) {
			n++
		}
	}
	return n
}

// beside looks at what stands right before the mark: a backslash would take the
// value's first quote, a dollar sign would give it another meaning, and a
// variable's name would go on in it.
func (s *site) beside(leaf *syntax.Lit) place {
	src := s.c.src
	var p place
	p.escaped = odd(src[s.from:s.at])
	if prev := s.before(leaf); prev != nil {
		if blank := strings.ContainsAny(src[s.from:s.at], " \t\n"); !blank {
			if s.c.family == korn && src[s.from] == '[' && s.from < s.at {
				return refuse("cannot be the index of an array", "write braces around the variable, as in ${x}[{}]")
			}
			p.how = outDouble
		}
		if s.from == s.at {
			return p // a dollar sign before it is of the variable
		}
	}
	if s.at == 0 || src[s.at-1] != '$' || odd(src[:s.at-1]) {
		return p
	}
	i := s.c.indexOf(s.at)
	switch m := s.c.marks[i].piece; {
	case m.kind == seq, m.kind == column && m.n > 0 && m.form == whole, m.kind == field && m.form == whole && name(m.name):
		return place{text: true} // a parameter of the shell, as ${1} and ${name} are
	}
	return refuse("cannot stand behind a dollar sign", `write \$ before it for the sign, or "$x" for a variable`)
}

// before is the variable that stands right before the leaf without braces; nil
// where there is none.
func (s *site) before(leaf *syntax.Lit) *syntax.ParamExp {
	var parts []syntax.WordPart
	switch n := s.stack[len(s.stack)-2].(type) {
	case *syntax.Word:
		parts = n.Parts
	case *syntax.DblQuoted:
		parts = n.Parts
	}
	for i := 1; i < len(parts); i++ {
		if parts[i] == syntax.WordPart(leaf) {
			if p, ok := parts[i-1].(*syntax.ParamExp); ok && p.Short {
				return p
			}
		}
	}
	return nil
}

// odd says whether an odd number of backslashes ends s.
func odd(s string) bool {
	return (len(s)-len(strings.TrimRight(s, `\`)))%2 == 1
}

// name says whether s can be the name of a shell variable.
func name(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c == '_', i > 0 && c >= '0' && c <= '9':
		default:
			return false
		}
	}
	return s != ""
}

// indexOf is the index of the mark at an offset.
func (c *compiler) indexOf(at int) int {
	for i, m := range c.marks {
		if m.at == at {
			return i
		}
	}
	return -1
}

package expand

import (
	"errors"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

var errBackquotes = errors.New("the command holds a placeholder in backquotes that cannot be told apart: write $(…) instead")

// unquoteBackquotes rewrites a command substitution in backquotes that holds a
// mark as $(…), which means the same and where quotes nest, and says whether
// there was one. The outermost comes first.
func (c *compiler) unquoteBackquotes(f *syntax.File) (bool, error) {
	if !strings.Contains(c.src, "`") {
		return false, nil
	}
	var found *syntax.CmdSubst
	var quoted, document bool
	var stack []syntax.Node
	syntax.Walk(f, func(n syntax.Node) bool {
		if n == nil {
			stack = stack[:len(stack)-1]
			return true
		}
		stack = append(stack, n)
		sub, ok := n.(*syntax.CmdSubst)
		if !ok || found != nil || !sub.Backquotes || !c.holds(sub) {
			return true
		}
		found = sub
		for i, n := range stack[:len(stack)-1] {
			switch n := n.(type) {
			case *syntax.Stmt:
				quoted = false
			case *syntax.DblQuoted:
				quoted = true
			case *syntax.Redirect:
				document = document || n.Hdoc != nil && stack[i+1] == syntax.Node(n.Hdoc)
			}
		}
		return true
	})
	if found == nil {
		return false, nil
	}
	from, to := int(found.Left.Offset()), int(found.Right.Offset())
	if from >= to || to >= len(c.src) || c.src[from] != '`' || c.src[to] != '`' {
		return false, errBackquotes
	}
	inner, ok := unescapeBackquoted(c.src[from+1:to], quoted, document)
	if !ok {
		return false, errBackquotes
	}
	c.resource(c.src[:from] + "$(" + inner + ")" + c.src[to+1:])
	return true, nil
}

// holds says whether a mark stands in the node.
func (c *compiler) holds(n syntax.Node) bool {
	for _, m := range c.marks {
		if m.at >= int(n.Pos().Offset()) && m.at < int(n.End().Offset()) {
			return true
		}
	}
	return false
}

// unescapeBackquoted is what stands in `…` as it is written in $(…): a backslash
// goes before $, ` and \, and in double quotes before " too (POSIX.1-2024, Shell
// Command Language, 2.6.3). ok is false where shells differ.
func unescapeBackquoted(s string, quoted, document bool) (_ string, ok bool) {
	var b strings.Builder
	if strings.HasPrefix(s, "(") {
		b.WriteByte(' ') // $(( would be arithmetic
	}
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			switch next := s[i+1]; {
			case next == '"' && document:
				return "", false
			case next == '$', next == '`', next == '\\', next == '"' && quoted:
				i++
			}
		}
		b.WriteByte(s[i])
	}
	t := b.String()
	if odd(t) {
		return "", false // it would take the parenthesis
	}
	if strings.ContainsAny(t, "#\n") {
		t += "\n" // so that neither a comment nor a here-document takes it
	}
	return t, true
}

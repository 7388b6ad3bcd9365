package expand

import (
	"errors"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

var errBackquotes = errors.New("the command has a placeholder in backquotes that shells read differently: write $(…) instead")

// unquoteBackquotes rewrites the first and outermost command substitution in
// backquotes that holds a mark as $(…), which means the same and in which quotes
// nest. It reports whether there was one.
func (c *compiler) unquoteBackquotes(f *syntax.File) (bool, error) {
	if !strings.Contains(c.src, "`") {
		return false, nil
	}
	var found *syntax.CmdSubst
	var quoted, document bool
	walk(f, func(stack []syntax.Node) {
		sub, ok := stack[len(stack)-1].(*syntax.CmdSubst)
		if ok && found == nil && sub.Backquotes && c.holdsMark(sub) {
			found, quoted, document = sub, inDoubleQuotes(stack), documents(stack) > 0
		}
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

// holdsMark reports whether a mark stands in n.
func (c *compiler) holdsMark(n syntax.Node) bool {
	from, to := int(n.Pos().Offset()), int(n.End().Offset())
	return slices.ContainsFunc(c.marks, func(m mark) bool { return from <= m.at && m.at < to })
}

// unescapeBackquoted returns the text in `…` as it is written in $(…): a
// backslash goes before $, ` and \, and in double quotes also before "
// (POSIX.1-2024, Shell Command Language, 2.6.3). ok is false where shells differ.
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
		return "", false // the last backslash would escape the parenthesis
	}
	if strings.ContainsAny(t, "#\n") {
		t += "\n" // end a comment or a here-document before the parenthesis
	}
	return t, true
}

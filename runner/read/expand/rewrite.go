package expand

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

var errContinued = errors.New("the command has a placeholder in or after a here-document with continued lines, which shells read differently: join the lines")

// joinLine removes the first backslash and newline that continue a line, as a shell
// does before it recognizes tokens (POSIX.1-2024, Shell Command Language, 2.2.1).
// The parser does so only between some tokens. What precedes them holds no other, so
// it is read rightly and tells whether they stand in quotes.
func (c *compiler) joinLine(f *syntax.File) error {
	for from := 0; ; {
		i := strings.Index(c.src[from:], "\\\n")
		if i < 0 {
			return nil
		}
		at := from + i
		from = at + 2
		if !odd(c.src[:at+1]) {
			continue
		}
		switch n := skipped(f, at); {
		case n < 0:
			return errContinued
		case n > 0:
			c.set(c.src[:at] + c.src[at+n:])
			return nil
		}
	}
}

// skipped returns how many bytes a shell skips of the backslash and the newline at offset at:
// both or, in a comment, which the newline ends but not for the parser, the first; neither in
// single quotes and in a here-document that is taken as it is. It is negative in a
// here-document that the shell expands.
func skipped(f *syntax.File, at int) (n int) {
	n = 2
	holds := func(n syntax.Node) bool { return int(n.Pos().Offset()) <= at && at < int(n.End().Offset()) }
	for stack := range stacks(f) {
		switch leaf := stack[len(stack)-1].(type) {
		case *syntax.SglQuoted:
			if holds(leaf) {
				n = min(n, 0)
			}
		case *syntax.Comment:
			if holds(leaf) {
				n = 1
			}
		case *syntax.Redirect:
			switch {
			case leaf.Op != syntax.Hdoc && leaf.Op != syntax.DashHdoc:
			case quotedDelimiter(leaf):
				if leaf.Hdoc != nil && holds(leaf.Hdoc) {
					n = 0
				}
			case at > int(leaf.Word.Pos().Offset()) && (leaf.Hdoc == nil || at < int(leaf.Hdoc.End().Offset())):
				n = -1 // or on the line before it: the parser may begin it too late
			}
		}
	}
	return n
}

// quotedDelimiter reports whether the here-document r is taken as it is.
func quotedDelimiter(r *syntax.Redirect) bool {
	return slices.ContainsFunc(r.Word.Parts, func(p syntax.WordPart) bool {
		l, ok := p.(*syntax.Lit)
		return !ok || strings.Contains(l.Value, `\`)
	})
}

// unquoteDocument rewrites the first here-document that holds a mark and is taken as
// it is, so that the shell expands it to the same text. A value can then be written
// as a variable; as text it might hold the delimiter.
func (c *compiler) unquoteDocument(f *syntax.File) error {
	for stack := range stacks(f) {
		r, ok := stack[len(stack)-1].(*syntax.Redirect)
		if !ok || r.Hdoc == nil || len(c.marksIn(r.Hdoc)) == 0 || !quotedDelimiter(r) {
			continue
		}
		delimiter := argOf(r.Word)
		if !delimiter.static() || delimiter.text == "" || !plainText(delimiter.text) || strings.ContainsAny(delimiter.text, " \t") {
			return errors.New("the command has a placeholder in a here-document whose delimiter is no plain word: write one, as in <<'EOF'")
		}
		body := [2]int{int(r.Hdoc.Pos().Offset()), int(r.Hdoc.End().Offset())}
		text := strings.NewReplacer(`\`, `\\`, "$", `\$`, "`", "\\`").Replace(c.src[body[0]:body[1]])
		c.set(c.src[:r.Word.Pos().Offset()] + delimiter.text + c.src[r.Word.End().Offset():body[0]] + text + c.src[body[1]:])
		return nil
	}
	return nil
}

// nest replaces the first script within the script that holds a mark, such as the
// argument of sh -c, by one mark. It stands for the inner script, compiled for the shell
// that reads it.
func (c *compiler) nest(f *syntax.File) error {
	for stack := range stacks(f) {
		call, ok := stack[len(stack)-1].(*syntax.CallExpr)
		if !ok || len(call.Args) == 0 {
			continue
		}
		args := words(call)
		sc, ok := scriptOf(args, c.family)
		if !ok || sc.from >= len(args) {
			continue
		}
		script := args[sc.from:sc.to]
		at := span{int(call.Args[sc.from].Pos().Offset()), int(call.Args[sc.to-1].End().Offset())}
		isNested := func(m mark) bool { return m.piece.kind == nested && m.at == at.from }
		if slices.ContainsFunc(script, arg.unknown) || !slices.ContainsFunc(script, arg.marks) || slices.ContainsFunc(c.marks, isNested) {
			continue
		}
		text := join(script, " ", func(a arg) string { return a.text })
		return c.nested(f, sc, at, text[sc.attached:])
	}
	return nil
}

// nested replaces a stretch of f, which says text, as nest does.
func (c *compiler) nested(f *syntax.File, sc inline, at span, text string) error {
	inside := c.holes(at)
	switch {
	case len(inside) != strings.Count(text, markText), !plainText(sc.option):
		return fmt.Errorf("%s %w", inside[0].text, refuseUnknown.err)
	case text == markText && inside[0].ofData():
		return errWhole(inside[0], sc)
	}
	rest := inside
	whole, pieces := piece{text: inside[0].text, kind: nested}, fill(show(text), &rest)
	if !sc.family.takesValues() {
		return cmp.Or(unread(pieces, sc.shell), fmt.Errorf("%s %w", whole.text, refuseUnknown.err))
	}
	inner := newCompiler(sc.family, c.Config, sc.login)
	if sc.same {
		c.evaluated++
		inner.prefix, inner.outer = c.script.name+strconv.Itoa(c.evaluated)+"_", c.namesIn(f)
	}
	var err error
	if whole.inner, err = inner.compile(pieces, false); err != nil {
		return err
	}
	if sc.option != "" {
		sc.option += " "
	}
	before := len(c.within(0, at.from))
	c.marks = slices.Replace(c.marks, before, before+len(inside), mark{piece: whole})
	c.set(c.src[:at.from] + sc.option + markText + c.src[at.to:])
	return nil
}

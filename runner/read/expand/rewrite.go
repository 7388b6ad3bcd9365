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
// The parser does so only between some tokens. No other continuation precedes the first one, so
// the parser reads the source before it correctly and can tell whether it is in quotes.
func (c *compiler) joinLine(f *syntax.File) error {
	for from := 0; ; {
		i := strings.Index(c.src[from:], "\\\n")
		if i < 0 {
			return nil
		}
		at := from + i
		from = at + 2
		if !oddBackslashes(c.src[:at+1]) {
			continue
		}
		switch n := skippedBytes(f, at); {
		case n < 0:
			return errContinued
		case n > 0:
			c.setSource(c.src[:at] + c.src[at+n:])
			return nil
		}
	}
}

// skippedBytes returns how many bytes of the backslash and the newline at offset at a shell skips.
// In single quotes and in a here-document with a quoted delimiter it skips neither. In a comment it
// skips the backslash: the newline ends the comment, but the parser joins the lines. The result is
// negative in a here-document that the shell expands.
func skippedBytes(f *syntax.File, at int) (n int) {
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
				n = -1 // also on the line before the document: the parser may find its start too late
			}
		}
	}
	return n
}

// quotedDelimiter reports whether the delimiter of the here-document r is quoted, so that the shell
// expands nothing in the document.
func quotedDelimiter(r *syntax.Redirect) bool {
	return slices.ContainsFunc(r.Word.Parts, func(p syntax.WordPart) bool {
		l, ok := p.(*syntax.Lit)
		return !ok || strings.Contains(l.Value, `\`)
	})
}

// unquoteDocument removes the quotes from the delimiter of the first here-document that holds
// a mark, and escapes its text so that the shell expands it to the same text. A value
// can then be written as a variable; inserted as text, it could hold the delimiter.
func (c *compiler) unquoteDocument(f *syntax.File) error {
	for stack := range stacks(f) {
		r, ok := stack[len(stack)-1].(*syntax.Redirect)
		if !ok || r.Hdoc == nil || len(c.marksIn(r.Hdoc)) == 0 || !quotedDelimiter(r) {
			continue
		}
		delimiter := argOf(r.Word)
		if !delimiter.isStatic() || delimiter.text == "" || !plainText(delimiter.text) || strings.ContainsAny(delimiter.text, " \t") {
			return errors.New("the command has a placeholder in a here-document whose delimiter is no plain word: write one, as in <<'EOF'")
		}
		body := [2]int{int(r.Hdoc.Pos().Offset()), int(r.Hdoc.End().Offset())}
		text := strings.NewReplacer(`\`, `\\`, "$", `\$`, "`", "\\`").Replace(c.src[body[0]:body[1]])
		c.setSource(c.src[:r.Word.Pos().Offset()] + delimiter.text + c.src[r.Word.End().Offset():body[0]] + text + c.src[body[1]:])
		return nil
	}
	return nil
}

// nestScript replaces the first script within the script that holds a mark, such as the
// argument of sh -c, by a single mark. This mark stands for the inner script, compiled for the
// shell that reads it.
func (c *compiler) nestScript(f *syntax.File) error {
	for stack := range stacks(f) {
		call, ok := stack[len(stack)-1].(*syntax.CallExpr)
		if !ok || len(call.Args) == 0 {
			continue
		}
		args := argsOf(call)
		sc, ok := scriptOf(args, c.family)
		if !ok || sc.from >= len(args) {
			continue
		}
		script := args[sc.from:sc.to]
		at := span{int(call.Args[sc.from].Pos().Offset()), int(call.Args[sc.to-1].End().Offset())}
		isNested := func(m mark) bool { return m.piece.kind == nested && m.at == at.from }
		if slices.ContainsFunc(script, arg.hasGap) || !slices.ContainsFunc(script, arg.hasMark) || slices.ContainsFunc(c.marks, isNested) {
			continue
		}
		text := join(script, " ", arg.String)
		return c.replaceNested(f, sc, at, text[sc.attached:])
	}
	return nil
}

// replaceNested does the work of nestScript for the script sc, which has the given text and the place at in
// the source.
func (c *compiler) replaceNested(f *syntax.File, sc inline, at span, text string) error {
	inside := c.placeholders(at)
	switch {
	case len(inside) != strings.Count(text, markText), !plainText(sc.option):
		return fmt.Errorf("%s %w", inside[0].text, refuseUnknown.err)
	case text == markText && inside[0].ofData():
		return errWhole(inside[0], sc)
	}
	rest := inside
	whole, pieces := piece{text: inside[0].text, kind: nested}, fillHoles(showBytes(text), &rest)
	if !sc.family.takesValues() {
		return cmp.Or(errUnknownQuoting(pieces, sc.shell), fmt.Errorf("%s %w", whole.text, refuseUnknown.err))
	}
	inner := newCompiler(sc.family, c.Config, sc.login)
	if sc.sameShell {
		c.evaluated++
		inner.prefix, inner.outer = c.script.name+strconv.Itoa(c.evaluated)+"_", c.numericVarsIn(f)
	}
	var err error
	if whole.inner, err = inner.compile(pieces, false); err != nil {
		return err
	}
	if sc.option != "" {
		sc.option += " "
	}
	before := len(c.marksBetween(0, at.from))
	c.marks = slices.Replace(c.marks, before, before+len(inside), mark{piece: whole})
	c.setSource(c.src[:at.from] + sc.option + markText + c.src[at.to:])
	return nil
}

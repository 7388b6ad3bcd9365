package expand

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// arg is a word of a command as far as it is known before the command runs.
type arg struct {
	text  string // its beginning up to the first expansion, without quotes; a placeholder is a mark
	known bool   // text is the whole word
	marks bool   // text holds a mark
	split bool   // it holds an expansion outside of quotes and may be any number of words

	expands bool // it holds an expansion of a variable or command
	odd     bool // it is written in a way that hides what it is
	like    bool // it is not known and looks like a script
	option  bool // it is not known, and may be a bundle of a shell's options
	quoted  bool // it begins with a quote
}

// static reports whether the word is the same in every task.
func (a arg) static() bool { return a.known && !a.marks }

// options reports whether a is, in every task, a bundle of short options.
func (a arg) options() bool { return len(a.text) > 1 && a.text[0] == '-' && a.text[1] != '-' }

// words returns what is known of a command's words.
func words(call *syntax.CallExpr) []arg {
	args := make([]arg, len(call.Args))
	for i, w := range call.Args {
		args[i] = known(w)
		if l, ok := w.Parts[0].(*syntax.Lit); ok && i > 0 && strings.HasPrefix(l.Value, "~") {
			args[i].known = false // it begins with a directory that the shell knows, such as HOME
		}
	}
	return args
}

// known returns what is known of a word before the script runs.
func known(w *syntax.Word) arg {
	var b strings.Builder
	a := arg{known: appendKnown(&b, w.Parts, false)}
	a.text = b.String()
	literal := literalText(w)
	a.option, a.like = !a.known && startsOption(literal), !a.known && strings.ContainsAny(literal, scriptBytes)
	a.odd = braces([]*syntax.Word{w}) != ""
	a.marks = strings.Contains(a.text, markText)
	if _, isDouble := w.Parts[0].(*syntax.DblQuoted); isDouble {
		a.quoted = true
	}
	syntax.Walk(w, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.ParamExp, *syntax.CmdSubst, *syntax.ArithmExp:
			a.expands = true
			return false
		case *syntax.SglQuoted:
			a.odd = a.odd || n.Dollar
		case *syntax.DblQuoted:
			a.odd = a.odd || n.Dollar
		}
		return true
	})
	a.split = slices.ContainsFunc(w.Parts, func(p syntax.WordPart) bool {
		switch p.(type) {
		case *syntax.Lit, *syntax.SglQuoted, *syntax.DblQuoted:
			return false
		}
		return true
	})
	return a
}

// literalText returns the text of a word without quotes, backslashes and
// expansions, but with the ${x:-text} in these. What $'…' stands for counts as a dash.
func literalText(w *syntax.Word) string {
	var b strings.Builder
	syntax.Walk(w, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Word, *syntax.DblQuoted, nil:
			return true
		case *syntax.Lit:
			b.WriteString(strings.ReplaceAll(n.Value, `\`, ""))
		case *syntax.SglQuoted:
			if n.Dollar {
				b.WriteString("-")
			}
			b.WriteString(n.Value)
		case *syntax.ParamExp:
			if n.Exp != nil && n.Exp.Word != nil {
				b.WriteString(literalText(n.Exp.Word))
			}
		}
		return false
	})
	return b.String()
}

// startsOption reports whether s begins as the options of a shell do.
func startsOption(s string) bool { return strings.HasPrefix(s, "-") || strings.HasPrefix(s, "+") }

// appendKnown writes the text of the parts up to the first that is not known,
// and reports whether that is all. In double quotes, a backslash only escapes some
// characters.
func appendKnown(b *strings.Builder, parts []syntax.WordPart, quoted bool) bool {
	for _, p := range parts {
		switch p := p.(type) {
		case *syntax.Lit:
			for i := 0; i < len(p.Value); i++ {
				if p.Value[i] == '\\' && i+1 < len(p.Value) && (!quoted || strings.IndexByte("$`\"\\", p.Value[i+1]) >= 0) {
					i++
				}
				b.WriteByte(p.Value[i])
			}
		case *syntax.SglQuoted:
			if p.Dollar {
				return false
			}
			b.WriteString(p.Value)
		case *syntax.DblQuoted:
			if p.Dollar || !appendKnown(b, p.Parts, true) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

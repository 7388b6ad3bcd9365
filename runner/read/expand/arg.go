package expand

import (
	"regexp"
	"strings"
	"sync"

	"mvdan.cc/sh/v3/syntax"
)

// arg is a word of a command as far as it is known before the command runs.
type arg struct {
	text  string // without quotes; a placeholder is a mark, and what is known only later a gap
	split bool   // it holds an expansion outside of quotes and may be any number of words
	odd   bool   // it is written in a way that hides what it is
}

// gap stands for what is known only when the command runs. A script holds none; see hide.
const gap = string(rune(privateUse + '?'))

// unknown reports whether text is not the whole word.
func (a arg) unknown() bool { return strings.Contains(a.text, gap) }

// marks reports whether the word holds a placeholder.
func (a arg) marks() bool { return strings.Contains(a.text, markText) }

// static reports whether the word is the same in every task.
func (a arg) static() bool { return !a.unknown() && !a.marks() }

// program returns the name of the program that the word is in every task, if it is one.
func (a arg) program() string {
	if a.static() {
		return basename(a.text)
	}
	return ""
}

// options reports whether a is, in every task, a bundle of short options.
func (a arg) options() bool { return len(a.text) > 1 && a.text[0] == '-' && a.text[1] != '-' }

// mayBeOption reports whether the word begins as the options of a shell do, if the gaps are
// nothing.
func (a arg) mayBeOption() bool { return startsOption(strings.ReplaceAll(a.text, gap, "")) }

// words returns what is known of a command's words.
func words(call *syntax.CallExpr) []arg {
	args := make([]arg, len(call.Args))
	for i, w := range call.Args {
		args[i] = argOf(w)
		if l, ok := w.Parts[0].(*syntax.Lit); ok && i > 0 && strings.HasPrefix(l.Value, "~") {
			args[i].text += gap // it begins with a directory that the shell knows, such as HOME
		}
	}
	return args
}

// argOf returns what is known of a word before the script runs.
func argOf(w *syntax.Word) arg {
	a := arg{odd: braces([]*syntax.Word{w}) != ""}
	a.add(w.Parts, false)
	return a
}

// What a backslash escapes, and what it does in double quotes.
var (
	escapes         = lazily(`(?s)\\(.)`)
	escapesInQuotes = lazily("\\\\([$`\"\\\\])")
)

// lazily returns what compiles an expression when it is first asked for: a start of crew must not pay for it.
func lazily(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}

// add appends the text of the parts, and that of a ${x:-text} among them behind a gap. In
// double quotes, a backslash only escapes some characters.
func (a *arg) add(parts []syntax.WordPart, quoted bool) {
	for _, p := range parts {
		switch p := p.(type) {
		case *syntax.Lit:
			escaped := escapes
			if quoted {
				escaped = escapesInQuotes
			}
			a.text += escaped().ReplaceAllString(p.Value, "$1")
		case *syntax.SglQuoted:
			if p.Dollar { // it may stand for an option
				a.odd = true
				a.text += gap + "-"
			}
			a.text += p.Value
		case *syntax.DblQuoted:
			if p.Dollar {
				a.odd = true
				a.text += gap
			}
			a.add(p.Parts, true)
		default:
			a.text += gap
			a.split = a.split || !quoted
			switch p := p.(type) {
			case *syntax.ParamExp:
				if p.Exp != nil && p.Exp.Word != nil {
					a.add(p.Exp.Word.Parts, true)
				}
			case *syntax.ExtGlob:
				a.odd = true
			}
		}
	}
}

// startsOption reports whether s begins as the options of a shell do.
func startsOption(s string) bool { return strings.HasPrefix(s, "-") || strings.HasPrefix(s, "+") }

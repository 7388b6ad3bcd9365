package expand

import (
	"regexp"
	"strings"
	"sync"

	"mvdan.cc/sh/v3/syntax"
)

// arg describes a word of a command as far as it is known before the command runs.
type arg struct {
	text    string // without quotes; a placeholder is a mark, and an unknown part is a gap
	split   bool   // it has an unquoted expansion, so it may become any number of words
	obscure bool   // it is written in a way that hides its text
}

// gap stands for a part of a word that is known only when the command runs. Scripts hold none; see hideBytes.
const gap = string(rune(privateUse + '?'))

func (a arg) String() string { return a.text }

// hasGap reports whether a part of the word is unknown.
func (a arg) hasGap() bool { return strings.Contains(a.text, gap) }

// hasMark reports whether the word holds a placeholder.
func (a arg) hasMark() bool { return strings.Contains(a.text, markText) }

// leads reports whether the word begins with a placeholder if its gaps are empty.
func (a arg) leads() bool { return strings.HasPrefix(strings.ReplaceAll(a.text, gap, ""), markText) }

// isStatic reports whether the word is the same in every task.
func (a arg) isStatic() bool { return !a.hasGap() && !a.hasMark() }

// program returns the base name of the word if it is the same in every task, and otherwise "".
func (a arg) program() string {
	if a.isStatic() {
		return basename(a.text)
	}
	return ""
}

// isShortOptions reports whether a looks like a group of short options, such as -xc.
func (a arg) isShortOptions() bool { return len(a.text) > 1 && a.text[0] == '-' && a.text[1] != '-' }

// mayBeOption reports whether the word looks like an option of a shell if its gaps are empty.
func (a arg) mayBeOption() bool { return startsOption(strings.ReplaceAll(a.text, gap, "")) }

// argsOf describes the words of a command.
func argsOf(call *syntax.CallExpr) []arg {
	args := make([]arg, len(call.Args))
	for i, w := range call.Args {
		args[i] = argOf(w)
		if l, ok := w.Parts[0].(*syntax.Lit); ok && i > 0 && strings.HasPrefix(l.Value, "~") {
			args[i].text += gap // a directory that the shell knows, such as $HOME
		}
	}
	return args
}

// argOf describes a word.
func argOf(w *syntax.Word) arg {
	a := arg{obscure: braceExpansion([]*syntax.Word{w}) != ""}
	a.addParts(w.Parts, false)
	return a
}

// escapes matches a backslash and the character that it escapes. escapesInQuotes is for text in double
// quotes, where a backslash escapes only some characters.
var (
	escapes         = lazily(`(?s)\\(.)`)
	escapesInQuotes = lazily("\\\\([$`\"\\\\])")
)

// lazily returns a function that compiles expr when it is first called, so that crew starts
// without compiling expressions that it may not need.
func lazily(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}

// addParts appends the text of parts. For ${x:-text} it appends a gap and the text. In
// double quotes, a backslash escapes only some characters.
func (a *arg) addParts(parts []syntax.WordPart, quoted bool) {
	for _, p := range parts {
		switch p := p.(type) {
		case *syntax.Lit:
			escaped := escapes
			if quoted {
				escaped = escapesInQuotes
			}
			a.text += escaped().ReplaceAllString(p.Value, "$1")
		case *syntax.SglQuoted:
			if p.Dollar { // its text may be an option
				a.obscure = true
				a.text += gap + "-"
			}
			a.text += p.Value
		case *syntax.DblQuoted:
			if p.Dollar {
				a.obscure = true
				a.text += gap
			}
			a.addParts(p.Parts, true)
		default:
			a.text += gap
			a.split = a.split || !quoted
			switch p := p.(type) {
			case *syntax.ParamExp:
				if p.Exp != nil && p.Exp.Word != nil {
					a.addParts(p.Exp.Word.Parts, true)
				}
			case *syntax.ExtGlob:
				a.obscure = true
			}
		}
	}
}

// startsOption reports whether s starts like an option of a shell.
func startsOption(s string) bool { return strings.HasPrefix(s, "-") || strings.HasPrefix(s, "+") }

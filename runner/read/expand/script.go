package expand

import (
	"slices"
	"strconv"
	"strings"

	"crew/runner/decide/task"
)

// script is a compiled script. Its text refers to its values by variables, _crew1 and so on,
// in order. Its first line sets them: to the arguments of the script or, in a script within
// a script, to quoted values.
type script struct {
	segs     []seg
	values   []piece // placeholders and nested scripts
	argsFree bool    // the script does not use its arguments; if a group is repeated, it refers to values as arguments
	name     string  // of the variables, without their numbers
	login    bool    // it is for a user's login shell, or one on another host, which may not be a POSIX shell
	bash     bool    // it holds syntax that only bash understands
}

// seg is a piece of text, followed by a reference to a value if ref is not 0.
type seg struct {
	text  string
	ref   int // number of the value or, in a filled script, of the variable, from 1; 0 for no reference
	how   how
	group *word // placeholders of the word that is repeated for each record; nil if the text is not repeated
}

// how is the form of a reference, and of the value that is displayed in its place.
type how uint8

const (
	bare     how = iota // "${v?}"; displayed: the value, quoted if necessary
	single              // "${v?}"; displayed: the value in single quotes
	inSingle            // '"${v?}"'; displayed: the value as in single quotes
	inDouble            // ${v?}; displayed: the value, unless it cannot stand in double quotes
	outer               // "${v?}"; never displayed as a value
	inner               // ${v?}; never displayed as a value
	apart               // a blank and ${v?}; displayed: the value, which is a number
)

// quotes returns the text before and after a reference.
func (h how) quotes() (before, behind string) {
	switch h {
	case bare, single, outer:
		return `"`, `"`
	case inSingle:
		return `'"`, `"'`
	case apart:
		return " ", ""
	}
	return "", ""
}

// displayed returns the text that is displayed for s in place of a reference. ok is false if s cannot be
// displayed there.
func (h how) displayed(s string) (_ string, ok bool) {
	s = strings.ReplaceAll(s, tempMark, "")
	switch h {
	case bare:
		if s == slotMark {
			return s, true // a number
		}
		return task.Quote(s), true
	case single:
		return "'" + escape(s) + "'", true
	case inSingle:
		return escape(s), true
	case inDouble:
		return s, plainInDouble(s)
	case apart:
		return " " + s, true
	}
	return "", false
}

// escape returns s in the form that it has between single quotes.
func escape(s string) string { return strings.ReplaceAll(s, "'", `'\''`) }

// plainInDouble reports whether no byte of s is special in double quotes, in any shell and locale.
func plainInDouble(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool {
		return r < ' ' && r != 0 || r >= 0x7f || strings.ContainsRune("\"$`\\!", r)
	})
}

// filled is a script with the values of one task.
type filled struct {
	*script
	segs  []seg    // the segments, repeated if necessary
	texts []string // values of the variables
}

// fill returns the script filled in with v. Equal values share a variable if it is one of the first nine.
func (s *script) fill(v *Values) filled {
	f := filled{script: s}
	for i, end := 0, 0; i < len(s.segs); i = end {
		group, each := s.segs[i].group, [][]string(nil)
		end = i + 1
		if group != nil {
			for s.segs[end].group == group { // the last segment is in no group
				end++
			}
			each = group.each(v)
		}
		f.segs = slices.Grow(f.segs, (1+len(each))*(1+end-i))
		for nth := range max(1, len(each)) {
			recs := v.Records
			if nth < len(each) {
				recs = each[nth : nth+1]
			}
			if nth > 0 {
				f.segs = append(f.segs, seg{text: " "})
			}
			for _, g := range s.segs[i:end] {
				if g.ref > 0 {
					text := s.values[g.ref-1].textIn(v, recs)
					if g.ref = 1 + slices.Index(f.texts[:min(9, len(f.texts))], text); g.ref == 0 {
						f.texts = append(f.texts, text)
						g.ref = len(f.texts)
					}
				}
				f.segs = append(f.segs, g)
			}
		}
	}
	return f
}

// setVariables returns commands that set the variables to the first arguments.
func (f filled) setVariables() string {
	n := len(f.texts)
	if n == 0 {
		return ""
	}
	var b []byte
	for i := range int64(n) {
		b = append(strconv.AppendInt(append(b, f.name...), i+1, 10), "=${"...)
		b = append(strconv.AppendInt(b, i+1, 10), "} "...)
	}
	b[len(b)-1] = ';'
	return string(append(strconv.AppendInt(append(b, " shift "...), int64(n), 10), "; "...))
}

// body returns the script with references to variables called name and a number, or to
// arguments if name is "".
func (f filled) body(name string) string {
	var b []byte
	for _, g := range f.segs {
		b = append(b, g.text...)
		if g.ref > 0 {
			before, behind := g.how.quotes()
			b = append(append(append(b, before...), "${"...), name...)
			b = append(append(strconv.AppendInt(b, int64(g.ref), 10), "?}"...), behind...)
		}
	}
	return string(b)
}

// embedded returns the script as part of an outer script. A login shell may be fish or csh, and
// csh ends a line even in quotes.
func (f filled) embedded() string {
	text := f.withAssignments(func(t string) string { return braces.Replace(task.Quote(t)) })
	if !f.login {
		return text
	}
	if strings.Contains(text, "\n") {
		text = `eval "$(printf '` + printfFormat(text) + `')"`
	}
	shell := "sh"
	if f.bash {
		shell = "bash"
	}
	return "exec " + shell + " -c '" + everywhere.Replace(text) + "'"
}

// printfFormat returns a format for printf(1) that writes text, which may hold the marks of a slot.
func printfFormat(text string) string {
	var b strings.Builder
	for i, part := range strings.Split(text, "\x00") {
		if i > 0 {
			b.WriteString("\x00" + part[:1])
			part = part[1:]
		}
		format := task.PrintfFormat(part)
		b.WriteString(format[1 : len(format)-1])
	}
	return b.String()
}

// everywhere escapes text in single quotes so that POSIX shells, fish and csh read it the same way.
var everywhere = strings.NewReplacer("'", `'\''`, `\`, `'\\'`, "!", `'\!'`)

// braces hides in values between single quotes what find, xargs and fd would replace.
var braces = strings.NewReplacer("{}", "{''}", "{/", "{''/", "{.", "{''.")

// withAssignments returns the script after assignments of its values, in quotes.
func (f filled) withAssignments(quote func(string) string) string {
	var b strings.Builder
	for i, t := range f.texts {
		b.WriteString(f.name + strconv.Itoa(i+1) + "=" + quote(t))
		b.WriteString([...]string{" ", "; "}[(i+1)/len(f.texts)])
	}
	b.WriteString(f.body(f.name))
	return b.String()
}

// forDisplay returns the script for people to read. It shows values in the place of references if
// all of them can stand there, and otherwise as assignments before the script.
func (f filled) forDisplay() string {
	var b strings.Builder
	plain := true
	for _, g := range f.segs {
		plain = plain && !strings.Contains(g.text, "`") // in backquotes, a value would need more escapes
		b.WriteString(g.text)
		if g.ref > 0 {
			text, ok := g.how.displayed(f.texts[g.ref-1])
			plain = plain && ok
			b.WriteString(text)
		}
	}
	if !plain {
		return f.withAssignments(task.Quote)
	}
	return b.String()
}

// shellArgs returns the arguments of a shell after -c: the script, name and the values.
func (f filled) shellArgs(name string) []string {
	body := ""
	if f.argsFree && len(f.segs) > len(f.script.segs) { // much shorter than with variables
		body = f.body("")
	} else {
		body = f.setVariables() + f.body(f.name)
	}
	return append([]string{body, name}, f.texts...)
}

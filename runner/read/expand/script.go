package expand

import (
	"slices"
	"strconv"
	"strings"

	"crew/runner/decide/task"
)

// script is a compiled script. Its text holds references to variables, _crew1 and so on,
// which stand for its values in order. They are set on its first line: to arguments of
// the script or, in a script within a script, to quoted values.
type script struct {
	segs   []seg
	values []piece // the placeholders and scripts within the script
	own    bool    // it uses no arguments itself, so values can be these
	name   string  // of the variables, without their numbers
	once   string  // the script for one record with one column, as it is run
	login  bool    // for a shell that somebody chose, far away or for a user
	bash   bool    // it holds what only bash understands
}

// seg is text and then a reference to a value, or to nothing.
type seg struct {
	text  string
	ref   int // number of the variable, from 1; 0 for nothing
	value int // index of its value in a script for one record
	how   how
	group *word // the placeholders of a word that is repeated for each record; nil if it stands once
}

// how says in which form a reference stands, and what can stand there instead for people
// to read.
type how uint8

const (
	bare     how = iota // "${v?}"; or the value, quoted if it needs it
	single              // the same; or the value in quotes
	inSingle            // '"${v?}"'; or the value as in single quotes
	inDouble            // ${v?}; or the value as it is, unless double quotes forbid that
	outer               // "${v?}"
	inner               // ${v?}
	apart               // the same behind a blank; or the value, which is a number
)

// around returns what stands before and behind a reference.
func (h how) around() (before, behind string) {
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

// plain returns s as it can stand instead of a reference. ok is false if it cannot.
func (h how) plain(s string) (_ string, ok bool) {
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
		return s, mildInDouble(s)
	case apart:
		return " " + s, true
	}
	return "", false
}

// escape returns s as it is written between single quotes.
func escape(s string) string { return strings.ReplaceAll(s, "'", `'\''`) }

// mildInDouble reports whether every byte of s means itself in double quotes, in
// every shell and locale.
func mildInDouble(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != 0 || c >= 0x7f || c == '"' || c == '$' || c == '`' || c == '\\' || c == '!' {
			return false
		}
	}
	return true
}

// head returns what sets n variables to the first arguments.
func (s *script) head(n int) string {
	if n == 0 {
		return ""
	}
	var b []byte
	for i := range int64(n) {
		b = append(strconv.AppendInt(append(b, s.name...), i+1, 10), "=${"...)
		b = append(strconv.AppendInt(b, i+1, 10), "} "...)
	}
	b[len(b)-1] = ';'
	return string(append(strconv.AppendInt(append(b, " shift "...), int64(n), 10), "; "...))
}

// body returns the script with references to variables or, without a name for these, to
// arguments.
func (f filled) body(name string) string {
	var b []byte
	f.parts(func(g seg, _ [][]string) {
		b = append(b, g.text...)
		if g.ref > 0 {
			before, behind := g.how.around()
			b = append(append(append(b, before...), "${"...), name...)
			b = append(append(strconv.AppendInt(b, int64(g.ref), 10), "?}"...), behind...)
		}
	})
	return string(b)
}

// filled is a script for one task.
type filled struct {
	*script
	values  *Values
	several bool     // words of groups are repeated
	texts   []string // what references stand for
}

// fill fills in v.
func (s *script) fill(v *Values) filled {
	f := filled{script: s, values: v}
	f.several = slices.ContainsFunc(s.segs, func(g seg) bool { return g.group != nil && len(g.group.each(v)) > 1 })
	if !f.several {
		f.texts = make([]string, len(s.values))
		for i := range s.values {
			f.texts[i] = s.values[i].valueIn(v, v.Records)
		}
		return f
	}
	f.parts(func(g seg, recs [][]string) {
		if g.ref > 0 {
			f.texts = append(f.texts, s.values[g.value].valueIn(v, recs))
		}
	})
	return f
}

// parts calls do with each segment of the script and the records that it is for. Where words
// are repeated, each reference is one to a value of its own.
func (f filled) parts(do func(g seg, recs [][]string)) {
	refs := 0
	for i := 0; i < len(f.segs); {
		group, end, each := f.segs[i].group, i+1, [][]string(nil)
		if group != nil {
			for end < len(f.segs) && f.segs[end].group == group {
				end++
			}
			each = group.each(f.values)
		}
		for nth := range max(1, len(each)) {
			recs := f.values.Records
			if len(each) > 1 {
				recs = each[nth : nth+1]
			}
			if nth > 0 {
				do(seg{text: " "}, nil)
			}
			for _, g := range f.segs[i:end] {
				if f.several && g.ref > 0 {
					refs++
					g.ref = refs
				}
				do(g, recs)
			}
		}
		i = end
	}
}

// within returns the script for a shell within another. One that somebody chose may be
// fish or csh, which ends a line even in quotes.
func (f filled) within() string {
	text := f.assigned()
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

// printfFormat returns what printf(1) writes a text from, which may hold marks of a slot.
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

// everywhere escapes a text in single quotes so that POSIX shells, fish and csh read the same.
var everywhere = strings.NewReplacer("'", `'\''`, `\`, `'\\'`, "!", `'\!'`)

// assigned returns the script with its values at its beginning.
func (f filled) assigned() string {
	var b strings.Builder
	for i, t := range f.texts {
		b.WriteString(f.name + strconv.Itoa(i+1) + "=" + task.Quote(t))
		b.WriteString([...]string{" ", "; "}[(i+1)/len(f.texts)])
	}
	b.WriteString(f.body(f.name))
	return b.String()
}

// shown returns the script for people to read, with its values where they stand if they
// can stand there, and otherwise at its beginning.
func (f filled) shown() string {
	var b strings.Builder
	plain := !strings.Contains(f.once, "`") // in which a value would need more escapes
	f.parts(func(g seg, _ [][]string) {
		b.WriteString(g.text)
		if g.ref > 0 {
			text, ok := g.how.plain(f.texts[g.ref-1])
			plain = plain && ok
			b.WriteString(text)
		}
	})
	if !plain {
		return f.assigned()
	}
	return b.String()
}

// exec returns the script, its name and its arguments.
func (f filled) exec(name string) []string {
	body := f.once
	switch {
	case !f.several:
	case f.own: // which is shorter by far
		body = f.body("")
	default:
		body = f.head(len(f.texts)) + f.body(f.name)
	}
	return append([]string{body, name}, f.texts...)
}

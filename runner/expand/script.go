package expand

import (
	"slices"
	"strconv"
	"strings"

	"crew/runner/task"
)

// script is a compiled script. Its text holds references to variables, _crew1 and so on,
// which stand for its values in order. They are set on its first line: to arguments of
// the script or, in a script within a script, to quoted values.
type script struct {
	segs   []seg
	values []piece  // the placeholders and scripts within the script
	groups []*group // words that a command has once for each of several records
	own    bool     // it uses no arguments itself, so values can be these
	list   bool     // all groups have the same words, which are the script's arguments, as "$@"
	name   string   // of the variables, without their numbers
	once   string   // the script for one record with one column, as it is run
	login  bool     // for a shell that somebody chose, far away or for a user
	bash   bool     // it holds what only bash understands
}

// seg is text and then a reference to a value, to the list, or to nothing.
type seg struct {
	text  string
	ref   int // number of the value, from 1; 0 for nothing
	how   how
	group *group // nil if it stands once
}

const toList = -1

// group is a word of a script that is repeated for each record.
type group struct {
	text string // as in the source, the same for groups that can share variables
	word word   // what it consists of, outside of any script

	plain bool // it consists of nothing else
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
	for i := range n {
		k := strconv.Itoa(i + 1)
		b = append(b, s.name+k+"=${"+k+"} "...)
	}
	b[len(b)-1] = ';'
	if n == 1 {
		return string(b) + " shift; "
	}
	return string(b) + " shift " + strconv.Itoa(n) + "; "
}

// body returns segments with references to variables or, without a name for these, to
// arguments.
func (s *script) body(segs []seg, name string) string {
	var b []byte
	for _, g := range segs {
		b = append(b, g.text...)
		switch g.ref {
		case 0:
		case toList:
			b = append(b, `"$@"`...)
		default:
			before, behind := g.how.around()
			b = strconv.AppendInt(append(b, before+"${"+name...), int64(g.ref), 10)
			if name != "" {
				b = append(b, '?')
			}
			b = append(b, "}"+behind...)
		}
	}
	return string(b)
}

// filled is a script for one task.
type filled struct {
	*script
	several bool // words of groups are repeated, in segs

	segs  []seg
	texts []string // what they refer to
	list  []string // the words of the list
}

// fill fills in v.
func (s *script) fill(v *Values) filled {
	f := filled{script: s, segs: s.segs}
	if !slices.ContainsFunc(s.groups, func(g *group) bool { return len(g.word.each(v)) > 1 }) {
		f.texts = make([]string, len(s.values))
		for i := range s.values {
			f.texts[i] = s.values[i].valueIn(v, v.Records)
		}
		return f
	}
	f.segs, f.several = nil, true
	for i := 0; i < len(s.segs); {
		group, end, each := s.segs[i].group, i+1, [][][]string{v.Records}
		if group != nil {
			for end < len(s.segs) && s.segs[end].group == group {
				end++
			}
			if recs := group.word.each(v); len(recs) > 1 {
				each = slices.Collect(slices.Chunk(recs, 1))
			}
		}
		if s.list && group != nil {
			f.segs = append(f.segs, seg{ref: toList})
			i, each = end, nil
		}
		for nth, recs := range each {
			if nth > 0 {
				f.segs = append(f.segs, seg{text: " "})
			}
			for _, g := range s.segs[i:end] {
				if g.ref > 0 {
					f.texts = append(f.texts, s.values[g.ref-1].valueIn(v, recs))
					g.ref = len(f.texts)
				}
				f.segs = append(f.segs, g)
			}
		}
		i = end
	}
	if s.list {
		f.list = s.groups[0].word.appendTo(nil, v)
	}
	return f
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
	if len(f.list) > 0 {
		b.WriteString("set -- " + join(f.list, " ", task.Quote) + "; ")
	}
	b.WriteString(f.body(f.segs, f.name))
	return b.String()
}

// shown returns the script for people to read, with its values where they stand if they
// can stand there, and otherwise at its beginning.
func (f filled) shown() string {
	if strings.Contains(f.once, "`") { // in which a value would need more escapes
		return f.assigned()
	}
	var b strings.Builder
	for _, g := range f.segs {
		b.WriteString(g.text)
		switch {
		case g.ref == toList:
			b.WriteString(join(f.list, " ", task.Quote))
		case g.ref > 0:
			text, ok := g.how.plain(f.texts[g.ref-1])
			if !ok {
				return f.assigned()
			}
			b.WriteString(text)
		}
	}
	return b.String()
}

// exec appends the script, its name and its arguments to a shell's words.
func (f filled) exec(argv []string, name string) []string {
	body := f.once
	switch {
	case !f.several:
	case f.own && !f.script.list:
		body = f.body(f.segs, "")
	default:
		body = f.head(len(f.texts)) + f.body(f.segs, f.name)
	}
	return append(append(append(argv, body, name), f.texts...), f.list...)
}

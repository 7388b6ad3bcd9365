package man

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	hard    = "\x01" // a blank within a word
	indent  = 5      // indentation of text
	display = 6      // further indentation of examples
)

// renderer converts mdoc into plain text as mandoc(1) does. It knows only the macros of the pages.
type renderer struct {
	width    int
	name     string // of the page
	out      strings.Builder
	words    string // of the current paragraph
	left     int    // indentation of its lines
	first    string // the beginning of its first line, if not left blanks
	lists    []list // the open lists, the innermost last
	literal  bool   // in a literal display
	synopsis bool   // in the SYNOPSIS, where each Nm begins a paragraph
	top      bool   // at the start, after a heading or after a blank line, where no blank line follows
}

// list is an open .Bl.
type list struct {
	left, width int // indentation outside the list, and of the text of its items within it
	compact     bool
}

// render returns mdoc source as lines of at most width characters. Examples may be longer.
func render(source, name string, width int) string {
	r := renderer{width: width, name: name, left: indent, top: true}
	for line := range strings.Lines(source) {
		line = strings.TrimSuffix(line, "\n")
		macro, isMacro := strings.CutPrefix(line, ".")
		switch {
		case r.literal && line != ".Ed":
			r.line(blanks(r.left+display) + strings.ReplaceAll(unescape(line), "\t", "        "))
		case isMacro:
			r.macro(split(macro))
		default:
			r.words += " " + unescape(line)
		}
	}
	r.flush()
	return r.out.String()
}

// macro adds the line of a macro.
func (r *renderer) macro(line []string) {
	args := line[1:]
	compact := slices.Contains(args, "-compact")
	switch macro := line[0]; macro {
	case "Dd", "Dt", "Os":
	case "Sh", "Ss":
		r.blank()
		if r.left, r.synopsis = indent, args[0] == "SYNOPSIS"; macro == "Ss" {
			args[0] = "   " + args[0]
		}
		r.line(unescape(strings.Join(args, " ")))
		r.top = true
	case "Pp":
		r.blank()
	case "Bl":
		r.flush()
		l := list{r.left, 4, compact}
		if args[0] == "-tag" {
			l.width = width(args[2]) + 2
		}
		r.lists = append(r.lists, l)
	case "It":
		l := r.lists[len(r.lists)-1]
		if r.flush(); !l.compact {
			r.blank()
		}
		r.left = l.left + l.width
		r.first = blanks(l.left) + cmp.Or(r.inline(args), "*")
		if room := r.left - width(r.first); room >= 2 {
			r.first += blanks(room)
		} else {
			r.words, r.first = r.first[l.left:], blanks(l.left)
			r.flush()
		}
	case "El":
		r.flush()
		last := len(r.lists) - 1
		r.lists, r.left = r.lists[:last], r.lists[last].left
	case "Bd":
		if r.flush(); !compact {
			r.blank()
		}
		r.literal = true
	case "Ed":
		r.literal = false
	case "Dl":
		r.flush()
		r.line(blanks(r.left+display) + r.inline(args))
	default:
		if macro == "Nm" && r.synopsis {
			r.flush()
			r.first, r.left = blanks(indent), indent+len("crew ")
		}
		r.words += " " + r.inline(line)
	}
}

// blank ends the paragraph and writes a blank line, except at the top.
func (r *renderer) blank() {
	if r.flush(); !r.top {
		r.line("")
		r.top = true
	}
}

// flush writes the current paragraph as lines and begins a new one.
func (r *renderer) flush() {
	line, blank := cmp.Or(r.first, blanks(r.left)), ""
	for word := range strings.FieldsSeq(r.words) {
		if blank != "" && width(line)+1+width(word) > r.width {
			r.line(line)
			line, blank = blanks(r.left), ""
		}
		line, blank = line+blank+word, " "
	}
	if strings.TrimSpace(line) != "" {
		r.line(line)
	}
	r.words, r.first = "", ""
}

// line writes a line.
func (r *renderer) line(text string) {
	r.out.WriteString(strings.TrimRight(strings.ReplaceAll(text, hard, " "), " ") + "\n")
	r.top = false
}

func blanks(n int) string { return strings.Repeat(" ", n) }

func width(s string) int { return utf8.RuneCountInString(s) }

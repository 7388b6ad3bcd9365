package man

import (
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	hard    = "\u00a0" // a non-breaking blank
	glue    = "\x01"   // joins the words beside it
	indent  = 5        // indentation of text
	display = 6        // further indentation of examples
)

// renderer converts mdoc into plain text as mandoc(1) does. It knows only the macros of the pages.
type renderer struct {
	width     int
	name      string // of the page
	out       strings.Builder
	paragraph        // the current one
	lists     []list // the open lists, the innermost last
	display   int    // indentation of the current literal display; 0 outside one
	gap       bool   // a blank line precedes the next line
	headed    bool   // the last line was a heading
	synopsis  bool   // in the SYNOPSIS, where each Nm begins a paragraph
}

// paragraph collects text that is not broken into lines yet.
type paragraph struct {
	words string
	left  int    // indentation of its lines
	first int    // indentation of its first line, if different; 0 if not
	tag   string // the tag of a list item, put before the first line, or above it if too long
}

// list is an open .Bl.
type list struct {
	kind    string
	width   int
	compact bool
	left    int // indentation outside the list
}

func (r *renderer) text() string {
	r.flush()
	return r.out.String()
}

// render adds mdoc source.
func (r *renderer) render(source string) {
	r.left = indent
	for line := range strings.Lines(source) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case r.display > 0 && !strings.HasPrefix(line, ".Ed"):
			r.line(r.display, strings.ReplaceAll(unescape(line), "\t", "        "))
		case strings.HasPrefix(line, "."):
			args := split(line[1:])
			if !r.block(args[0], args[1:]) {
				r.inline(args)
			}
		default:
			r.add(unescape(line))
		}
	}
}

// block handles a macro that structures the text, and reports whether macro is one.
func (r *renderer) block(macro string, args []string) bool {
	switch macro {
	case "Dd", "Dt", "Os":
	case "Sh", "Ss":
		r.head(macro, unescape(strings.Join(args, " ")))
	case "Nd":
		r.add("-")
		r.plain(args...)
	case "Pp":
		r.flush()
		r.blank()
	case "Nm":
		if r.synopsis {
			r.flush()
			r.first, r.left = indent, indent+len("crew ")
		}
		return false
	case "Bl":
		r.open(args)
	case "It":
		r.item(args)
	case "El":
		r.flush()
		l := r.lists[len(r.lists)-1]
		r.lists, r.left = r.lists[:len(r.lists)-1], l.left
	case "Bd":
		r.flush()
		if !slices.Contains(args, "-compact") {
			r.blank()
		}
		r.display = r.left + display
	case "Ed":
		r.display = 0
	case "Dl", "D1":
		r.example(args)
	default:
		return false
	}
	return true
}

// head begins a section (Sh) or subsection (Ss).
func (r *renderer) head(macro, title string) {
	r.flush()
	if r.out.Len() > 0 {
		r.blank()
	}
	r.synopsis = title == "SYNOPSIS"
	r.lists, r.left = nil, indent
	at := 0
	if macro == "Ss" {
		at = 3
	}
	r.line(at, title)
	r.headed = true
}

// example writes a display of one line, which is never broken.
func (r *renderer) example(args []string) {
	r.flush()
	r.inline(args)
	r.line(r.left+display, strings.Join(cut(r.words), " "))
	r.words = ""
}

// open begins a list.
func (r *renderer) open(args []string) {
	r.flush()
	l := list{kind: args[0], left: r.left, compact: slices.Contains(args, "-compact"), width: 4}
	if i := slices.Index(args, "-width"); i >= 0 {
		if l.width = width(args[i+1]) + 2; args[i+1] == "Ds" {
			l.width = 8
		}
	}
	r.lists = append(r.lists, l)
}

// item begins an item of the innermost list.
func (r *renderer) item(args []string) {
	r.flush()
	l := &r.lists[len(r.lists)-1]
	if !l.compact {
		r.blank()
	}
	r.left = l.left
	if r.inline(args); l.kind == "-bullet" {
		r.add("*")
	}
	r.tag, r.words = r.words, ""
	r.first, r.left = l.left, l.left+l.width
}

// blank requests a blank line before the next line, unless that follows a heading.
func (r *renderer) blank() { r.gap = !r.headed }

// add adds words to the current paragraph.
func (r *renderer) add(words string) { r.words += " " + words }

var gluing = strings.NewReplacer(" "+glue+" ", "", " "+glue, "", glue+" ", "", glue, "")

// cut applies the glue and returns the words of a paragraph.
func cut(text string) []string {
	return strings.FieldsFunc(gluing.Replace(text), func(r rune) bool { return r == ' ' })
}

// flush writes the current paragraph and begins a new one.
func (r *renderer) flush() {
	at := r.left
	if r.first > 0 {
		at = r.first
	}
	tag, words := cut(r.tag), cut(r.words)
	joined := strings.Join(tag, hard)
	if room := r.left - at - width(joined); r.tag != "" && len(words) > 0 && room >= 2 {
		words[0] = joined + strings.Repeat(hard, room) + words[0]
	} else if r.tag != "" {
		r.fill(at, tag)
		at = r.left
	}
	r.fill(at, words)
	r.words, r.first, r.tag = "", 0, ""
}

// fill writes words as lines; the first line is indented by at, the others by r.left.
func (r *renderer) fill(at int, words []string) {
	line := ""
	for _, w := range words {
		switch {
		case line == "":
			line = w
		case at+width(line)+1+width(w) > r.width:
			r.line(at, line)
			line, at = w, r.left
		default:
			line += " " + w
		}
	}
	if line != "" {
		r.line(at, line)
	}
}

// line writes a line that is indented by at, after a blank line if one was requested.
func (r *renderer) line(at int, text string) {
	if r.gap {
		r.out.WriteByte('\n')
	}
	r.gap, r.headed = false, false
	if text != "" {
		r.out.WriteString(strings.Repeat(" ", at) + strings.ReplaceAll(text, hard, " "))
	}
	r.out.WriteByte('\n')
}

func width(s string) int { return utf8.RuneCountInString(s) }

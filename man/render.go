package man

import (
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	hard    = "\u00a0" // a blank at which no line ends
	glue    = "\x01"   // has what is before it and behind it be one word
	indent  = 5        // of text below a heading
	display = 6        // more of an example
)

// renderer turns the macros of mdoc that the pages use into plain text, as mandoc(1) does.
type renderer struct {
	width     int
	name      string // of the page
	out       strings.Builder
	paragraph        // the one that grows
	lists     []list // the open ones
	display   int    // indentation of the literal display, or 0 outside one
	gap       bool   // a blank line goes before what follows
	headed    bool   // nothing stands below the heading yet
	synopsis  bool   // each form of it begins with the name
}

// paragraph is text that is not cut into lines yet.
type paragraph struct {
	words string
	left  int    // indentation of its lines
	first int    // that of its first line, if that is less
	tag   string // stands before its first line, or above it if it is long
}

// list is an open .Bl.
type list struct {
	kind    string
	width   int
	compact bool
	left    int // indentation of what is around it
}

func (r *renderer) text() string {
	r.flush()
	return r.out.String()
}

// render adds the text of lines of mdoc.
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

// block handles the macros that shape the text. It reports whether the macro is one.
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

// head begins a section or subsection.
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

// example writes one line, however long.
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

// blank has a blank line go before what follows, unless that is the first below a heading.
func (r *renderer) blank() { r.gap = !r.headed }

// add adds words to the paragraph.
func (r *renderer) add(words string) { r.words += " " + words }

var gluing = strings.NewReplacer(" "+glue+" ", "", " "+glue, "", glue+" ", "", glue, "")

// cut returns the words of a paragraph.
func cut(text string) []string {
	return strings.FieldsFunc(gluing.Replace(text), func(r rune) bool { return r == ' ' })
}

// flush ends the paragraph.
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

// fill writes words in lines, the first of which begins at a column.
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

// line writes a line.
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

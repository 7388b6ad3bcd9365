package man

import "strings"

// fonts are the macros whose arguments stand for themselves in plain text.
const fonts = " Ar Cm Dv Em Ev Ic Li No Pa Sx Sy Va "

func isMacro(word string) bool {
	return pair(word) != "" || len(word) == 2 && strings.Contains(fonts+"Fl Fx Nm Xr Ns Ap Oo Oc Po Pc ", " "+word+" ")
}

// pair returns what a macro that encloses the rest of its line puts around it, or "" for
// another one.
func pair(macro string) string {
	switch macro {
	case "Op":
		return "[]"
	case "Pq":
		return "()"
	case "Brq":
		return "{}"
	case "Sq", "Ql":
		return "''"
	case "Dq":
		return `""`
	}
	return ""
}

// inline adds the text of a line of macros.
func (r *renderer) inline(args []string) {
	for len(args) > 0 {
		macro := args[0]
		n := 1 // the macro and its arguments
		for n < len(args) && !isMacro(args[n]) {
			n++
		}
		if !isMacro(macro) {
			r.plain(args[:n])
		} else if pair(macro) != "" {
			r.enclose(pair(macro), args[1:])
			return
		} else {
			r.macro(macro, args[1:n])
		}
		args = args[n:]
	}
}

// macro adds the text of one macro.
func (r *renderer) macro(macro string, args []string) {
	switch macro {
	case "Fl":
		r.flags(args)
		return
	case "Xr":
		r.add(args[0] + "(" + args[1] + ")")
		args = args[2:]
	case "Nm":
		if len(args) == 0 || isClosing(args[0]) {
			r.add(r.name)
		}
	case "Fx":
		r.add("FreeBSD")
	case "Ns":
		r.glue = true
	case "Ap":
		r.mark("'", true, true)
	case "Oo":
		r.mark("[", r.glue, true)
	case "Oc":
		r.mark("]", true, false)
	case "Po":
		r.mark("(", r.glue, true)
	case "Pc":
		r.mark(")", true, false)
	}
	r.plain(args)
}

// mark adds a character that may belong to the words before and behind it.
func (r *renderer) mark(s string, before, behind bool) {
	r.glue = before
	r.add(s)
	r.glue = behind
}

// flags adds the names of options, each with a dash.
func (r *renderer) flags(args []string) {
	if len(args) == 0 || isClosing(args[0]) {
		r.add("-")
	}
	for _, arg := range args {
		if isClosing(arg) || arg == "|" {
			r.plain([]string{arg})
		} else {
			r.add("-" + unescape(arg))
		}
	}
}

// enclose adds the rest of a line between two characters, and behind them the punctuation
// that it ends with.
func (r *renderer) enclose(pair string, args []string) {
	end := len(args)
	for end > 0 && isClosing(args[end-1]) {
		end--
	}
	r.mark(pair[:1], r.glue, true)
	r.inline(args[:end])
	r.mark(pair[1:], true, false)
	r.plain(args[end:])
}

// plain adds words and the punctuation between them.
func (r *renderer) plain(args []string) {
	for _, arg := range args {
		opening := arg == "(" || arg == "["
		r.glue = r.glue || isClosing(arg)
		r.add(unescape(arg))
		r.glue = opening
	}
}

func isClosing(arg string) bool { return len(arg) == 1 && strings.Contains(".,:;)]?!", arg) }

// split cuts the line of a macro into its arguments, which quotes can hold together.
func split(line string) []string {
	var args []string
	for line = strings.TrimLeft(line, " "); line != ""; line = strings.TrimLeft(line, " ") {
		if line[0] == '"' {
			arg, rest, _ := strings.Cut(line[1:], `"`)
			args, line = append(args, strings.ReplaceAll(arg, " ", hard)), rest
			continue
		}
		n := wordEnd(line)
		args, line = append(args, line[:n]), line[n:]
	}
	return args
}

// words cuts a line of text into its words.
func words(line string) []string {
	var list []string
	for line = strings.TrimLeft(line, " "); line != ""; line = strings.TrimLeft(line, " ") {
		n := wordEnd(line)
		list, line = append(list, line[:n]), line[n:]
	}
	return list
}

// wordEnd returns where the first word of a line ends: at a blank without a backslash.
func wordEnd(line string) int {
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case '\\':
			i++
		case ' ':
			return i
		}
	}
	return len(line)
}

// unescape replaces the escapes that the pages use.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	for _, e := range [...][2]string{{`\&`, ""}, {`\-`, "-"}, {`\(dq`, `"`}, {`\ `, hard}, {`\e`, `\`}} {
		s = strings.ReplaceAll(s, e[0], e[1])
	}
	return s
}

// expandTabs replaces tabs by blanks up to the next multiple of 8.
func expandTabs(s string) string {
	for {
		before, after, found := strings.Cut(s, "\t")
		if !found {
			return s
		}
		s = before + strings.Repeat(" ", 8-width(before)%8) + after
	}
}

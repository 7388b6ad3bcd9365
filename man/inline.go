package man

import "strings"

// fonts lists the macros that only set a font, so plain text has just their arguments.
const fonts = " Ar Cm Dv Em Ev Ic Li No Pa Sx Sy Va "

// pairs maps the macros that enclose the rest of their line to the two enclosing characters.
var pairs = map[string]string{"Op": "[]", "Pq": "()", "Brq": "{}", "Sq": "''", "Ql": "''", "Dq": `""`}

// signs maps the macros that stand for a text to that text.
var signs = map[string]string{"Oo": "[", "Oc": "]", "Po": "(", "Pc": ")", "Fx": "FreeBSD", "Ns": glue, "Ap": glue + "'" + glue}

func isMacro(word string) bool {
	return pairs[word] != "" || signs[word] != "" || len(word) == 2 && strings.Contains(fonts+"Fl Nm Xr ", " "+word+" ")
}

// inline adds the text of a line of macros to the paragraph.
func (r *renderer) inline(args []string) {
	macro := ""
	for i := 0; i < len(args); i++ {
		arg, alone := args[i], i+1 == len(args) || isClosing(args[i+1]) || isMacro(args[i+1])
		switch {
		case pairs[arg] != "":
			r.enclose(pairs[arg], args[i+1:])
			return
		case !isMacro(arg):
			if macro == "Fl" && !isClosing(arg) && arg != "|" {
				arg = "-" + arg
			}
			r.plain(arg)
			continue
		case arg == "Fl" && alone:
			r.add("-")
		case arg == "Xr":
			r.add(args[i+1] + "(" + args[i+2] + ")")
			i += 2
		case arg == "Nm" && alone:
			r.add(r.name)
		case signs[arg] != "":
			r.plain(signs[arg])
		}
		macro = arg
	}
}

// enclose adds the rest of a line between two characters, followed by the closing punctuation of the line.
func (r *renderer) enclose(pair string, args []string) {
	end := len(args)
	for end > 0 && isClosing(args[end-1]) {
		end--
	}
	r.add(pair[:1] + glue)
	r.inline(args[:end])
	r.add(glue + pair[1:])
	r.plain(args[end:]...)
}

// plain adds words, and joins punctuation to the words beside it.
func (r *renderer) plain(args ...string) {
	for _, arg := range args {
		switch {
		case isClosing(arg):
			arg = glue + arg
		case arg == "(" || arg == "[":
			arg += glue
		}
		r.add(unescape(arg))
	}
}

func isClosing(arg string) bool { return len(arg) == 1 && strings.Contains(".,:;)]?!", arg) }

// split cuts the line of a macro into words at blanks, except blanks after a backslash or in quotes.
func split(line string) (words []string) {
	for line = strings.TrimLeft(line, " "); line != ""; line = strings.TrimLeft(line, " ") {
		if line[0] == '"' {
			word, rest, _ := strings.Cut(line[1:], `"`)
			words, line = append(words, strings.ReplaceAll(word, " ", hard)), rest
			continue
		}
		n := 0
		for n < len(line) && line[n] != ' ' {
			if line[n] == '\\' {
				n++
			}
			n++
		}
		words, line = append(words, line[:n]), line[n:]
	}
	return words
}

// escapes replaces the escape sequences that occur in the pages.
var escapes = strings.NewReplacer(`\&`, "", `\-`, "-", `\(dq`, `"`, `\ `, hard, `\e`, `\`)

func unescape(s string) string { return escapes.Replace(s) }

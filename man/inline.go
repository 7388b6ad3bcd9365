package man

import "strings"

// fonts lists the macros that only set a font.
const fonts = " Ar Cm Em Ev Fl Ic Li Nm No Pa Sx Va "

// pairs maps the macros that enclose the rest of their line to the two enclosing characters.
var pairs = map[string]string{"Op": "[]", "Pq": "()", "Brq": "{}", "Sq": "''", "Ql": "''", "Dq": `""`}

// signs maps the macros that stand for a text to that text.
var signs = map[string]string{"Oo": "[", "Oc": "]", "Fx": "FreeBSD", "Nd": "-"}

// inline returns the text of a line of macros.
func (r *renderer) inline(words []string) (text string) {
	blank, dash := "", ""
	for i := 0; i < len(words); i++ {
		word, rest := words[i], words[i+1:]
		if sign := signs[word]; sign != "" {
			word, dash = sign, ""
		}
		switch pair := pairs[word]; {
		case pair != "":
			end := len(rest)
			for end > 0 && isClosing(rest[end-1]) {
				end--
			}
			return text + blank + pair[:1] + r.inline(rest[:end]) + pair[1:] + strings.Join(rest[end:], "")
		case word == "Ns":
			blank, dash = "", ""
			continue
		case word == "Nm" && (len(rest) == 0 || isClosing(rest[0])):
			text += blank + r.name
		case word == "Fl":
			dash = "-"
			continue
		case strings.Contains(fonts, " "+word+" "):
			dash = ""
			continue
		case word == "Xr":
			text += blank + rest[0] + "(" + rest[1] + ")"
			i += 2
		case isClosing(word):
			text += word
		default:
			text += blank + dash + word
		}
		if blank = " "; word == "[" {
			blank = ""
		}
	}
	return unescape(text)
}

func isClosing(word string) bool { return len(word) == 1 && strings.Contains(".,:;)]?!", word) }

// split cuts the line of a macro into words at blanks that are not in quotes.
func split(line string) []string {
	parts := strings.Split(line, `"`)
	for i := 1; i < len(parts); i += 2 {
		parts[i] = strings.ReplaceAll(parts[i], " ", hard)
	}
	return strings.Fields(strings.Join(parts, ""))
}

// escapes replaces the escape sequences that occur in the pages.
var escapes = strings.NewReplacer(`\&`, "", `\-`, "-", `\(dq`, `"`, `\e`, `\`)

func unescape(s string) string { return escapes.Replace(s) }

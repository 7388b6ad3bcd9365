package expand

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// staticText is what is known of a word before the script runs. A variable
// that holds the name of the shell counts as "sh".
func staticText(w *syntax.Word) arg {
	var b strings.Builder
	static := appendStatic(&b, w.Parts)
	if len(w.Parts) == 1 && !static {
		part := w.Parts[0]
		if q, ok := part.(*syntax.DblQuoted); ok && len(q.Parts) == 1 {
			part = q.Parts[0]
		}
		if p, ok := part.(*syntax.ParamExp); ok && p.Param != nil {
			switch p.Param.Value {
			case "SHELL", "BASH", "0":
				return arg{"sh", true}
			}
		}
	}
	return arg{b.String(), static}
}

// appendStatic writes the text of the parts and says whether that is all.
func appendStatic(b *strings.Builder, parts []syntax.WordPart) bool {
	for _, p := range parts {
		switch p := p.(type) {
		case *syntax.Lit:
			for i := 0; i < len(p.Value); i++ {
				if p.Value[i] == '\\' && i+1 < len(p.Value) {
					i++
				}
				b.WriteByte(p.Value[i])
			}
		case *syntax.SglQuoted:
			b.WriteString(p.Value)
		case *syntax.DblQuoted:
			if !appendStatic(b, p.Parts) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// words is what is known of a command's words. What holds a mark is not known.
func (s *site) words(call *syntax.CallExpr) []arg {
	args := make([]arg, len(call.Args))
	for i, w := range call.Args {
		args[i] = staticText(w)
		if strings.Contains(args[i].text, s.c.mark) {
			args[i].static = false
		}
	}
	return args
}

// call refuses the mark in word of a command that reads its arguments as
// syntax.
func (s *site) call(call *syntax.CallExpr, word *syntax.Word) place {
	args, at := s.words(call), slices.Index(call.Args, word)
	if before, _, found := strings.Cut(args[at].text, "="); at == 0 && found && name(strings.ReplaceAll(before, s.c.mark, "_")) {
		return refuse("cannot be the name of a variable", hintVariable)
	}
	if script, shell, _ := inlined(args); script == at {
		sh := basename(args[shell].text)
		return refuse("cannot stand in the script of "+sh+" -c", `pass it as an argument, as in `+sh+` -c '… "$1"' sh {}`)
	}
	i := skipPrefixes(args)
	if i >= at || !args[i].static {
		return place{}
	}
	cmd := args[i].text
	switch cmd {
	case "eval", "trap":
		return refuse("cannot be among the arguments of "+cmd+", which reads them as shell syntax",
			`put it into a variable, as in x={}; `+cmd+` '… "$x"'`)
	case "let":
		return refuse("cannot stand in arithmetic, which evaluates it", hintNumber)
	case "alias", "bind", "complete", "compgen", "declare", "typeset", "integer", "float", "nameref", "fc":
		return refuse("cannot be among the arguments of "+cmd+", which evaluates them", "assign it on its own, as in x={}")
	case "read", "unset", "mapfile", "readarray", "getopts":
		return refuse("cannot be the name of a variable", hintVariable)
	case "export", "readonly", "local":
		before, _, _ := strings.Cut(args[at].text, "=")
		if strings.Contains(before, s.c.mark) || !strings.Contains(args[at].text, "=") {
			return refuse("cannot be the name of a variable", hintVariable)
		}
	case "test", "[", "printf", "wait":
		if prev := args[at-1]; prev.static && (prev.text == "-v" || prev.text == "-R" || cmd == "wait" && prev.text == "-p") {
			return refuse("cannot be the name of a variable", hintVariable)
		}
	}
	if s.c.family == korn {
		return kornCall(args[i:])
	}
	return place{}
}

// kornCall refuses a mark among the arguments of builtins that evaluate numbers
// as arithmetic in ksh and zsh.
func kornCall(args []arg) place {
	evaluates := false
	switch args[0].text {
	case "exit", "return", "shift", "break", "continue", "umask", "ulimit":
		evaluates = true
	case "set":
		evaluates = len(args) > 1 && args[1].text != "--"
	case "printf":
		evaluates = len(args) < 2 || !args[1].static || strings.HasPrefix(args[1].text, "-") || !textOnly(args[1].text)
	case "test", "[":
		for _, a := range args {
			switch a.text {
			case "-eq", "-ne", "-lt", "-le", "-gt", "-ge":
				evaluates = true
			}
			evaluates = evaluates || !a.static && strings.HasPrefix(a.text, "-")
		}
	}
	if evaluates {
		return refuse("cannot be among the arguments of "+args[0].text+", which this shell evaluates", "use another --shell")
	}
	return place{}
}

// textOnly says whether a format of printf takes its arguments as text alone.
func textOnly(format string) bool {
	_, rest, found := strings.Cut(format, "%")
	for ; found; _, rest, found = strings.Cut(rest, "%") {
		if rest == "" || strings.IndexByte("sbq%", rest[0]) < 0 {
			return false
		}
		rest = rest[1:]
	}
	return true
}

// skipPrefixes is the index of the word that names the command, behind words
// that only say how it is run.
func skipPrefixes(args []arg) int {
	i := 0
	for i < len(args)-1 && args[i].static {
		switch args[i].text {
		case "command", "builtin", "exec", "noglob", "nocorrect", "time", "-":
		default:
			return i
		}
		i++
		for i < len(args)-1 && args[i].static && len(args[i].text) > 1 && args[i].text[0] == '-' {
			i++
		}
	}
	return i
}

// readsScript says whether the command is a shell that reads its script from
// its standard input, or may be.
func readsScript(call *syntax.CallExpr) bool {
	args := make([]arg, len(call.Args))
	for i, w := range call.Args {
		args[i] = staticText(w)
	}
	if at, _, _ := inlined(args); at >= 0 {
		return false
	}
	for _, a := range args {
		if a.static && familyOf(a.text) != foreign {
			return true
		}
	}
	return false
}

// tame says whether the command's first word is nothing but the name of a
// command to every shell, so that its arguments are nothing but arguments.
func tame(call *syntax.CallExpr) bool {
	a := staticText(call.Args[0])
	if !a.static || a.text == "" {
		return false
	}
	for _, c := range []byte(a.text) {
		if !plainByte(c) || c == '=' {
			return false
		}
	}
	switch a.text {
	case "time", "coproc", "function", "select", "repeat", "foreach", "nocorrect", "noglob", "-", "let":
		return false
	}
	return true
}

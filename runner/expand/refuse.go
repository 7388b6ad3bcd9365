package expand

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

const (
	hintNumber = "compare with [ ] and compute with expr, as in $(expr {} + 1)"
	hintName   = "write the name itself"
	hintAssign = "assign it on its own, as in x={}"
)

var (
	refuseName       = refuse("cannot be the name of a variable", hintName)
	refuseDescriptor = refuse("cannot be the number of a descriptor", "write the number itself")
	refuseIndex      = refuse("cannot be the index of an array", hintNumber)
	refuseArithmetic = refuse("cannot stand in arithmetic, which evaluates it", hintNumber)
	refusePattern    = refuse("cannot stand in an extended pattern", "write one case for each pattern")
	refuseNested     = refuse(`cannot stand in quotes within "${…}"`, "leave out the inner quotes")
)

// refuseArguments refuses a mark among the arguments of a command.
func refuseArguments(command, why, how string) place {
	return refuse("cannot be among the arguments of "+command+why, how)
}

// refuseNode refuses a mark that is in no word.
func refuseNode(parent syntax.Node) place {
	switch parent.(type) {
	case *syntax.FuncDecl:
		return refuse("cannot be the name of a function", hintName)
	case *syntax.WordIter, *syntax.Assign, *syntax.DeclClause:
		return refuseName
	case *syntax.Redirect:
		return refuseDescriptor
	}
	return place{err: errUnknown}
}

// holder refuses the mark if it must because of what holds its word,
// stack[first].
func (s *site) holder(first int) place {
	word := s.stack[first].(*syntax.Word)
	switch n := s.stack[first-1].(type) {
	case *syntax.CallExpr:
		return s.call(n, word)
	case *syntax.Redirect:
		return s.redirect(n, word, s.stack[first-2])
	case *syntax.Assign:
		return s.assign(first-1, n.Value == word)
	case *syntax.ArrayElem: // in an ArrayExpr in an Assign
		return s.assign(first-3, n.Value == word)
	case *syntax.BinaryTest:
		switch n.Op {
		case syntax.TsEql, syntax.TsNeq, syntax.TsLeq, syntax.TsGeq, syntax.TsLss, syntax.TsGtr:
			return refuse("cannot be a number in [[ ]], which evaluates it", "use [ ] instead")
		}
	case *syntax.UnaryTest:
		switch n.Op {
		case syntax.TsVarSet, syntax.TsRefVar:
			return refuseName
		case syntax.TsFdTerm:
			if s.c.family == korn {
				return refuseDescriptor
			}
		}
	case *syntax.WordIter:
		return s.assigned(n.Name)
	case *syntax.CaseClause, *syntax.CaseItem, *syntax.TestClause, *syntax.ParenTest:
	case *syntax.CoprocClause:
		return refuseName
	default:
		return refuseArithmetic
	}
	return place{}
}

// assign refuses the mark if it must because of the assignment stack[i]. isValue
// is whether the mark is in a value and not in an index.
func (s *site) assign(i int, isValue bool) place {
	a := s.stack[i].(*syntax.Assign)
	if !isValue {
		return refuseIndex
	}
	d, ok := s.stack[i-1].(*syntax.DeclClause)
	if !ok {
		return s.assigned(a.Name)
	}
	command := d.Variant.Value
	switch command {
	case "export", "readonly", "local":
	default:
		return refuseArguments(command, ", which evaluates them", hintAssign)
	}
	if a.Naked {
		return refuseName
	}
	for _, o := range d.Args {
		if o.Naked && o.Value != nil {
			if t := staticText(o.Value); !t.static || strings.ContainsAny(t.text, "aAinEF") && strings.HasPrefix(t.text, "-") {
				return refuseArguments(command, " with options", hintAssign)
			}
		}
	}
	return s.assigned(a.Name)
}

// assigned refuses a value assigned to a variable whose value is evaluated.
func (s *site) assigned(name *syntax.Lit) place {
	if s.numbers {
		return refuse("cannot be assigned where variables are declared as numbers, since the shell evaluates it",
			"leave out the declaration")
	}
	evaluates := false
	switch name.Value {
	case "OPTIND", "RANDOM", "SRANDOM", "SECONDS", "LINENO", "HISTCMD", "PS1", "PS2", "PS4", "PROMPT_COMMAND",
		"ENV", "BASH_ENV":
		evaluates = true
	case "BASHPID", "COLUMNS", "EGID", "EPOCHREALTIME", "ERRNO", "EUID", "FUNCNEST", "GID", "HISTSIZE", "KEYTIMEOUT",
		"KSHEGID", "KSHGID", "KSHUID", "LINES", "LISTMAX", "MAILCHECK", "PGRP", "PPID", "SAVEHIST", "SHLVL", "TMOUT",
		"TRY_BLOCK_ERROR", "TRY_BLOCK_INTERRUPT", "UID", "USER_ID", // numbers in zsh or ksh
		"PROMPT4", "functions", "aliases", "galiases", "saliases":
		evaluates = s.c.family == korn
	}
	if evaluates {
		return refuse("cannot be assigned to "+name.Value+", which the shell evaluates", "use another name")
	}
	return place{}
}

// redirect refuses the mark if it must in a redirection's target or in the text
// of a here-document.
func (s *site) redirect(r *syntax.Redirect, word *syntax.Word, stmt syntax.Node) place {
	if st, ok := stmt.(*syntax.Stmt); ok && (r.Hdoc == word || r.Op == syntax.WordHdoc) {
		if call, ok := st.Cmd.(*syntax.CallExpr); ok && readsScript(words(call)) {
			return refuse("cannot be in the text that a shell reads as its script",
				`pass it as an argument, as in sh -s {} <<'EOF', and write "$1"`)
		}
	}
	switch {
	case r.Hdoc == word:
		for _, p := range r.Word.Parts {
			if l, ok := p.(*syntax.Lit); !ok || strings.Contains(l.Value, `\`) {
				return refuse("cannot be in a here-document with a quoted delimiter", "leave out the quotes")
			}
		}
	case r.Op == syntax.Hdoc, r.Op == syntax.DashHdoc:
		return refuse("cannot be the delimiter of a here-document", hintName)
	case r.Op == syntax.DplIn, r.Op == syntax.DplOut:
		return refuseDescriptor
	case s.c.batch && r.Op != syntax.WordHdoc:
		return refuse("cannot be where a redirection goes when a command takes several records",
			"write a fixed name, or take one record per command")
	}
	return place{}
}

// call refuses the mark in word if it must because the command reads its
// arguments as syntax.
func (s *site) call(call *syntax.CallExpr, word *syntax.Word) place {
	args, at := words(call), slices.Index(call.Args, word)
	before, _, assigns := strings.Cut(args[at].text, "=")
	if assigns && at == 0 && syntax.ValidName(strings.ReplaceAll(before, markText, "_")) {
		return refuseName
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
		return refuseArguments(cmd, ", which reads them as shell syntax", `put it into a variable, as in x={}; `+cmd+` '… "$x"'`)
	case "let":
		return refuseArithmetic
	case "alias", "bind", "complete", "compgen", "declare", "typeset", "integer", "float", "nameref", "fc":
		return refuseArguments(cmd, ", which evaluates them", hintAssign)
	case "read", "unset", "mapfile", "readarray", "getopts":
		return refuseName
	case "export", "readonly", "local":
		if !assigns || strings.Contains(before, markText) {
			return refuseName
		}
	case "test", "[", "printf", "wait":
		if prev := args[at-1]; prev.static && (prev.text == "-v" || prev.text == "-R" || cmd == "wait" && prev.text == "-p") {
			return refuseName
		}
	}
	switch {
	case s.c.family != korn:
	case cmd == "print" && takesOption(args[i:]):
		return refuseArguments(cmd, ", which may take it for an option", "write -- before it")
	case kornEvaluates(args[i:], s.c.batch || s.c.tail):
		return refuseArguments(cmd, ", which this shell evaluates", "use another --shell")
	}
	return place{}
}

// takesOption reports whether the builtin print may take a value for an option,
// such as -f, which makes it evaluate other values.
func takesOption(args []arg) bool {
	for _, a := range args[1:] {
		switch {
		case strings.HasPrefix(a.text, markText), a.text == "" && !a.static:
			return true // it may be an option
		case !strings.HasPrefix(a.text, "-"), a.static && (a.text == "-" || a.text == "--"):
			return false
		case !a.static || strings.ContainsAny(a.text, "fuvCxX"): // with an argument
			return true
		}
	}
	return false
}

// kornEvaluates reports whether a command may be a builtin of ksh or zsh that
// evaluates its arguments, mostly as arithmetic. If several is set, a mark may
// stand for several words.
func kornEvaluates(args []arg, several bool) bool {
	switch args[0].text {
	case "exit", "bye", "logout", "return", "shift", "break", "continue", "repeat", "umask", "ulimit", "sched",
		"sysread", "vared", "zstyle":
		return true
	case "set":
		return len(args) > 1 && args[1].text != "--"
	case "printf":
		return len(args) < 2 || !args[1].static || strings.HasPrefix(args[1].text, "-") || !textOnly(args[1].text)
	case "test", "[":
		for i, a := range args {
			switch a.text {
			case "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-t":
				return true
			}
			// Of two values, the first may be such an operator.
			if !a.static && (several || !args[i-1].static || strings.HasPrefix(a.text, "-")) {
				return true
			}
		}
	}
	return false
}

// textOnly reports whether a format of printf takes its arguments as text alone.
func textOnly(format string) bool {
	format = strings.NewReplacer("%s", "", "%b", "", "%q", "", "%%", "").Replace(format)
	return !strings.Contains(format, "%")
}

// arg is a word of a command as far as it is known before the command runs.
type arg struct {
	text   string
	static bool // text is the whole word
}

// words returns what is known of a command's words. A word with a mark is not
// static.
func words(call *syntax.CallExpr) []arg {
	args := make([]arg, len(call.Args))
	for i, w := range call.Args {
		args[i] = staticText(w)
		args[i].static = args[i].static && !strings.Contains(args[i].text, markText)
	}
	return args
}

// staticText returns what is known of a word before the script runs. A variable
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

// appendStatic writes the text of the parts up to the first that is not known,
// and reports whether that is all.
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

// skipPrefixes returns the index of the word that names the command, after words
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

// tame reports whether the command's first word is only the name of a command to
// every shell, so that its arguments are only arguments.
func tame(call *syntax.CallExpr) bool {
	a := staticText(call.Args[0])
	if !a.static || a.text == "" || strings.ContainsAny(a.text, "= \t") || !plainText(a.text) {
		return false
	}
	switch a.text {
	case "time", "coproc", "function", "select", "repeat", "foreach", "nocorrect", "noglob", "-", "let":
		return false
	}
	return true
}

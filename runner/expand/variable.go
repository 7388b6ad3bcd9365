package expand

import (
	"maps"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// variables is what a script says about its variables, wherever it says so. A name
// such as 1 or @ is an argument of the script or of a function.
type variables struct {
	numbers   map[string]bool     // names that it uses in arithmetic or declares as numbers
	evaluated map[string]bool     // names that it evaluates as commands
	arrays    map[string]bool     // names that it makes arrays
	functions map[string]bool     // names of functions
	sources   map[string][]string // for a name, others whose values it is given
	read      []string            // names that it reads text into; "" is any
	unknown   bool                // it may give any variable an attribute
	aliases   bool                // it gives words another meaning, or holds a coproc, whose name bash may take for a command
	odd       bool                // it holds what shells may read differently
	bash      bool                // it holds what other shells may read as several commands
	readers   bool                // a function may run text that it reads
}

// variablesOf looks for the variables of f whose values the shell evaluates.
func (c *compiler) variablesOf(f *syntax.File) *variables {
	v := &variables{numbers: map[string]bool{}, evaluated: map[string]bool{}, arrays: map[string]bool{},
		functions: map[string]bool{}, sources: map[string][]string{}}
	if c.outer != nil {
		maps.Copy(v.numbers, c.outer.numbers)
		maps.Copy(v.evaluated, c.outer.evaluated)
		maps.Copy(v.arrays, c.outer.arrays)
		v.unknown = c.outer.unknown
	}
	c.note(v, f)
	for again := true; again; {
		again = false
		for _, m := range []map[string]bool{v.numbers, v.evaluated} {
			for name, is := range m {
				m["@"] = m["@"] || is && isArgument(name)
			}
		}
		for name, from := range v.sources {
			number := v.numbers[name] || slices.Contains(integers, name) || c.family.korn() && slices.Contains(kornIntegers, name)
			evaluates := v.evaluated[name] || c.evaluates(name)
			for _, s := range from {
				again = again || number && !v.numbers[s] || evaluates && !v.evaluated[s]
				v.numbers[s] = v.numbers[s] || number
				v.evaluated[s] = v.evaluated[s] || evaluates
			}
		}
	}
	return v
}

// note adds what f says to v.
func (c *compiler) note(v *variables, f *syntax.File) {
	walk(f, func(stack []syntax.Node) {
		switch n := stack[len(stack)-1].(type) {
		case *syntax.DeclClause:
			v.declare(n, c.family)
		case *syntax.CallExpr: // such as: command declare -i x
			args := words(n)
			v.call(args, c.family)
			c.noteEvaluated(v, n, args)
		case *syntax.Assign:
			if n.Array != nil || n.Index != nil {
				v.arrays[n.Name.Value] = true
			}
			v.odd = v.odd || n.Index != nil && (quotes(n.Index) || spaced(n))
			if n.Name != nil {
				v.sources[n.Name.Value] = append(v.sources[n.Name.Value], params(n)...)
			}
		case *syntax.WordIter:
			if !n.InPos.IsValid() {
				v.sources[n.Name.Value] = append(v.sources[n.Name.Value], "@")
			}
			v.sources[n.Name.Value] = append(v.sources[n.Name.Value], params(n)...)
		case *syntax.FuncDecl:
			if n.Name != nil {
				v.functions[n.Name.Value] = true
			}
			v.readers = v.readers || v.runsInput(n.Body)
		case *syntax.CoprocClause:
			v.aliases = true
		case *syntax.Stmt:
			v.bash = v.bash || goesOnAfterBoth(n)
		case *syntax.Word:
			v.odd = v.odd || quotedAfterPID(n) || c.family == zsh && zshFlag(n.Parts)
		case *syntax.DblQuoted:
			v.odd = v.odd || c.family == zsh && zshFlag(n.Parts)
		case *syntax.ExtGlob:
			v.odd = v.odd || strings.ContainsAny(n.Pattern.Value, "'\"\\`$ \t\n<>&;#")
		case *syntax.Redirect:
			v.odd = v.odd || n.Hdoc != nil && documents(stack) > 0
			v.noteRedirect(n, stack[len(stack)-2])
		case *syntax.ArithmExp:
			v.bash = v.bash || n.Bracket
		case *syntax.Lit:
			if inArithmetic(stack) {
				v.use(n.Value)
			}
		case *syntax.ParamExp:
			if n.Param == nil {
				break
			}
			name := n.Param.Value
			v.numbers[name] = v.numbers[name] || inArithmetic(stack)
			v.evaluated[name] = v.evaluated[name] || n.Excl || n.Exp != nil && n.Exp.Op == syntax.OtherParamOps && n.Exp.Word.Lit() == "P"
		}
	})
}

// noteEvaluated notes the variables that a command evaluates, and what a script
// within it says of them.
func (c *compiler) noteEvaluated(v *variables, call *syntax.CallExpr, args []arg) {
	if len(args) == 0 {
		return
	}
	i := skipPrefixes(args)
	if i == len(args) {
		v.evaluate(call)
		v.unknown = v.unknown || len(args) > 1
		v.aliases = v.aliases || slices.ContainsFunc(args, mayAlias)
		return
	}
	if numeric(args[i:], c.family) {
		for _, w := range call.Args[i:] {
			for _, name := range params(w) {
				v.numbers[name] = true
			}
		}
	}
	if args[i].text == "set" || v.functions[args[i].text] {
		v.sources["@"] = append(v.sources["@"], params(call)...)
	}
	sc, ok := scriptOf(args, c.family)
	if !ok || sc.from >= len(args) {
		return
	}
	text := ""
	for j, w := range call.Args[sc.from:sc.to] {
		if !args[sc.from+j].known {
			v.evaluate(w)
			v.unknown = v.unknown || sc.shell == "eval"
			v.aliases = v.aliases || sc.shell == "eval" && slices.ContainsFunc(args, mayAlias)
			return
		}
		text += args[sc.from+j].text + " "
		if m := c.nestedAt(w); m != nil {
			text = m.name
		}
	}
	parser := syntax.NewParser(syntax.Variant(syntax.LangBash))
	f, err := parser.Parse(strings.NewReader(text[sc.attached:]), "")
	if err != nil {
		v.unknown = true
		return
	}
	inner := compiler{family: sc.family} // without the marks of c
	inner.note(v, f)
}

// numeric reports whether a builtin of a shell of family f evaluates its arguments
// as numbers.
func numeric(args []arg, f family) bool {
	switch builtins(args[0].text, f) {
	case aNumber:
		return f.korn() || args[0].text == "let"
	case ofTest:
		return f.korn() && slices.ContainsFunc(args, arg.comparesNumbers)
	case ofPrintf:
		return f.korn() && len(args) > 1 && strings.Trim(conversions(args[1].text), "s") != ""
	}
	return false
}

// noteRedirect notes the variables in text that a shell reads as its script.
func (v *variables) noteRedirect(r *syntax.Redirect, holder syntax.Node) {
	switch {
	case r.Op == syntax.DplOut || r.Op == syntax.DplIn: // bash expands these twice
		v.evaluate(r.Word)
	case r.Hdoc != nil || r.Op == syntax.WordHdoc:
		if st, ok := holder.(*syntax.Stmt); ok && v.runsInput(st) {
			v.evaluate(r)
		}
	}
}

// evaluate notes that the variables in n are evaluated.
func (v *variables) evaluate(n syntax.Node) {
	for _, name := range params(n) {
		v.evaluated[name] = true
	}
}

// quotes reports whether there are quotes, backslashes or substitutions in n.
func quotes(n syntax.Node) (found bool) {
	syntax.Walk(n, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.SglQuoted, *syntax.DblQuoted, *syntax.CmdSubst:
			found = true
		case *syntax.Lit:
			found = found || strings.Contains(n.Value, `\`)
		}
		return true
	})
	return found
}

// zshFlag reports whether one of the parts is a dollar sign that begins an expansion
// to zsh alone.
func zshFlag(parts []syntax.WordPart) bool {
	for i := 1; i < len(parts); i++ {
		sign, ok := parts[i-1].(*syntax.Lit)
		next, isText := parts[i].(*syntax.Lit)
		if ok && isText && sign.Value == "$" && next.Value != "" && strings.IndexByte("=~^+#:-[", next.Value[0]) >= 0 {
			return true
		}
	}
	return false
}

// goesOnAfterBoth reports whether a command goes on after an &> and its file. Where
// that is no operator, the rest is a command of its own.
func goesOnAfterBoth(st *syntax.Stmt) bool {
	return st.Cmd != nil && slices.ContainsFunc(st.Redirs, func(r *syntax.Redirect) bool {
		return (r.Op == syntax.RdrAll || r.Op == syntax.AppAll) && r.Pos().Offset() < st.Cmd.End().Offset()
	})
}

// quotedAfterPID reports whether quotes stand right after a $$, which some shells
// take for $'…' or $"…" after a $.
func quotedAfterPID(w *syntax.Word) bool {
	for i, p := range w.Parts[1:] {
		if pid, ok := w.Parts[i].(*syntax.ParamExp); ok && pid.Short && pid.Param != nil && pid.Param.Value == "$" {
			switch p := p.(type) {
			case *syntax.SglQuoted, *syntax.DblQuoted:
				return true
			case *syntax.Lit:
				return strings.HasPrefix(p.Value, markText) // whose value is quoted
			}
		}
	}
	return false
}

// spaced reports whether there may be blanks in the index of an assignment, where
// the word ends in some shells.
func spaced(a *syntax.Assign) bool {
	gap := a.Index.Pos().Offset() != a.Name.End().Offset()+1 || a.Value != nil && a.Value.Pos().Offset() > a.Index.End().Offset()+3
	syntax.Walk(a.Index, func(n syntax.Node) bool {
		if b, ok := n.(*syntax.BinaryArithm); ok {
			end := b.OpPos.Offset() + uint(len(b.Op.String()))
			gap = gap || b.X.End() != b.OpPos || b.Y.Pos().Offset() != end
		}
		return true
	})
	return gap
}

// params returns the names of the variables that n expands.
func params(n syntax.Node) (names []string) {
	syntax.Walk(n, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.ParamExp:
			if n.Param != nil {
				names = append(names, n.Param.Value)
			}
		case *syntax.Word:
			if startsTilde(n) {
				names = append(names, "HOME")
			}
		}
		return true
	})
	return names
}

// runsInput reports whether a statement may run text that it reads.
func (v *variables) runsInput(st *syntax.Stmt) (found bool) {
	if st == nil {
		return false
	}
	syntax.Walk(st, func(n syntax.Node) bool {
		call, ok := n.(*syntax.CallExpr)
		if !ok || len(call.Args) == 0 {
			return true
		}
		args := words(call)
		i := skipPrefixes(args)
		found = found || i == len(args) || !args[i].static() || v.readers && v.functions[args[i].text] || readsScript(args)
		return true
	})
	return found
}

// declare notes what a declaration does to its variables.
func (v *variables) declare(d *syntax.DeclClause, f family) {
	args := []arg{{text: d.Variant.Value, known: true}}
	for _, a := range d.Args {
		switch {
		case a.Name != nil && a.Value != nil:
			args = append(args, arg{text: a.Name.Value + "=" + known(a.Value).text, known: true})
		case a.Name != nil:
			args = append(args, arg{text: a.Name.Value, known: true})
		case a.Value != nil:
			args = append(args, known(a.Value))
		}
	}
	v.call(args, f)
}

// call notes what a command that may be a declaration does to its variables.
func (v *variables) call(args []arg, f family) {
	i := skipPrefixes(args)
	if i >= len(args) {
		return
	}
	number, array := false, false
	switch args[i].text {
	case "integer", "float":
		number = true
	case "nameref":
		v.unknown = true
	case "declare", "typeset", "local", "readonly", "export":
	case "alias", "unalias":
		v.aliases = true
		return
	case "read", "mapfile", "readarray", "getopts":
		for _, a := range args[i+1:] {
			if !a.known {
				a.text = ""
			}
			v.read = append(v.read, a.text)
		}
		return
	default:
		return
	}
	for _, a := range args[i+1:] {
		name, value, _ := strings.Cut(a.text, "=")
		option := strings.HasPrefix(a.text, "-") || strings.HasPrefix(a.text, "+")
		switch {
		case !option && syntax.ValidName(name):
			v.numbers[name] = v.numbers[name] || number
			v.arrays[name] = v.arrays[name] || array
			if number {
				v.use(value)
			}
		case !a.static() || !option:
			v.unknown = true
		default:
			number = number || strings.Contains(a.text, "i") || f.korn() && strings.ContainsAny(a.text, "EFZLR")
			array = array || strings.ContainsAny(a.text, "aA")
			v.unknown = v.unknown || strings.Trim(a.text, "-+xrgpiaAEFlufZLR0123456789") != ""
		}
	}
}

// use notes the names in an arithmetic expression.
func (v *variables) use(text string) {
	notName := func(r rune) bool { return !syntax.ValidName(string(r)) && (r < '0' || r > '9') }
	for _, name := range strings.FieldsFunc(text, notName) {
		v.numbers[name] = true
	}
}

// mayAlias reports whether a command or script that a belongs to may make an alias.
func mayAlias(a arg) bool {
	return strings.Contains(strings.NewReplacer("'", "", `"`, "", `\`, "", "\n", "").Replace(a.text), "alias")
}

// readAlike refuses any value in a script that shells may read differently.
func (v *variables) readAlike(f family) place {
	if v.odd {
		return refuse("cannot stand in a script that shells read differently",
			"leave out quotes and blanks in patterns and indexes, quotes after $$, and here-documents in here-documents")
	}
	if v.bash && f == posix {
		return refuse("cannot stand in a script with $[…], or with words after &> and its file, since not all shells read these so", "add --shell bash")
	}
	if v.aliases {
		return refuse("cannot stand in a script with aliases or coproc, which change how it is read", "leave them out")
	}
	return place{}
}

// isArgument reports whether name is an argument of a script or a function.
func isArgument(name string) bool { return name != "" && strings.Trim(name, "0123456789@*") == "" }

// passed says how a value may be an argument of a function, or of a script within
// the script.
func (v *variables) passed() place {
	switch {
	case v.evaluated["@"]:
		return refuse("cannot be an argument that the script evaluates", "leave out the eval, or what stands for it")
	case v.numbers["@"]:
		return place{how: number}
	}
	return place{}
}

// inArithmetic reports whether the last node of the stack is in arithmetic that is
// part of its own statement.
func inArithmetic(stack []syntax.Node) bool {
	for i, n := range slices.Backward(stack) {
		switch n := n.(type) {
		case *syntax.Stmt:
			return false
		case *syntax.Word:
			if i > 0 && isArithmetic(stack[i-1], n) {
				return true
			}
		}
	}
	return false
}

// isArithmetic reports whether w is an operand of arithmetic, given the node that
// holds it.
func isArithmetic(holder syntax.Node, w *syntax.Word) bool {
	switch h := holder.(type) {
	case *syntax.ArithmExp, *syntax.ArithmCmd, *syntax.BinaryArithm, *syntax.UnaryArithm, *syntax.ParenArithm,
		*syntax.FlagsArithm, *syntax.LetClause, *syntax.CStyleLoop:
		return true
	case *syntax.ParamExp:
		return !takesWord(h, w)
	case *syntax.Assign:
		return h.Value != w
	case *syntax.ArrayElem:
		return h.Value != w
	case *syntax.BinaryTest:
		switch h.Op {
		case syntax.TsEql, syntax.TsNeq, syntax.TsLeq, syntax.TsGeq, syntax.TsLss, syntax.TsGtr:
			return true
		}
	case *syntax.UnaryTest:
		return h.Op == syntax.TsFdTerm
	}
	return false
}

// assigned says how a value may be assigned to a variable.
func (s *site) assigned(name string) place {
	switch {
	case s.c.evaluates(name):
		return refuse("cannot be assigned to "+name+", which the shell evaluates", "use another name")
	case s.variables.evaluated[name]:
		return refuse("cannot be assigned to "+name+", which the script evaluates", `leave out the eval, or what stands for it`)
	case s.variables.unknown:
		return refuse("cannot be assigned where a declaration or an unknown command may make the shell evaluate it", "write it where it is used")
	case s.variables.numbers[name], slices.Contains(integers, name), s.c.family.korn() && slices.Contains(kornIntegers, name):
		return place{how: number}
	}
	return place{}
}

// evaluates reports whether the shell evaluates the value of a variable.
func (c *compiler) evaluates(name string) bool {
	return slices.Contains(evaluated, name) || c.family == zsh && slices.Contains(evaluatedByZsh, name)
}

// evaluated are the variables whose values shells expand or read as commands, and
// integers those that they read as numbers.
var (
	evaluated = []string{"BASH_ENV", "ENV", "PROMPT_COMMAND", "PS0", "PS1", "PS2", "PS3", "PS4", "SHELLOPTS", "BASHOPTS",
		"BASH_ALIASES", "BASH_CMDS", "BASH_COMPAT", "BASH_XTRACEFD", "COMP_WORDBREAKS", "FCEDIT", "HISTCMD", "MAILPATH",
		"PROMPT_DIRTRIM", "YASH_PS1", "YASH_PS2", "YASH_PS4", "COMMAND_NOT_FOUND_HANDLER", "POST_PROMPT_COMMAND", "YASH_AFTER_CD",
		"DIRSTACK", "histchars", "EXECIGNORE", "GLOBIGNORE", "POSIXLY_CORRECT", "CHILD_MAX", "FUNCNAME", "GROUPS", "PIPESTATUS"}
	evaluatedByZsh = []string{"PROMPT", "PROMPT2", "PROMPT3", "PROMPT4", "RPROMPT", "RPROMPT2", "RPS1", "RPS2", "SPROMPT", "prompt",
		"aliases", "galiases", "saliases", "dis_aliases", "dis_galiases", "dis_saliases", "functions", "dis_functions", "options",
		"parameters", "commands", "builtins", "dis_builtins", "modules", "nameddirs", "userdirs", "keymaps", "widgets", "argv",
		"zsh_scheduled_events", "zsh_eval_context", "module_path", "MODULE_PATH", "HISTCHARS", "KEYBOARD_HACK", "TIMEFMT",
		"patchars", "reswords", "history", "dirstack", "jobdirs", "jobstates", "jobtexts", "WATCHFMT", "REPORTTIME", "EPOCHREALTIME",
		"READNULLCMD", "NULLCMD"}
	integers = []string{"OPTIND", "RANDOM", "SRANDOM", "SECONDS", "LINENO", "COLUMNS", "LINES", "HISTSIZE", "HISTFILESIZE",
		"TMOUT", "MAILCHECK", "UID", "EUID", "PPID", "SHLVL", "BASHPID", "BASH_ARGC", "BASH_SUBSHELL", "IGNOREEOF", "FUNCNEST",
		"OPTERR", "EPOCHSECONDS", "EPOCHREALTIME"}
	kornIntegers = []string{"ARGC", "EGID", "ERRNO", "GID", "KEYTIMEOUT", "KSHEGID", "KSHGID", "KSHUID", "LISTMAX", "PGRP",
		"SAVEHIST", "TRY_BLOCK_ERROR", "TRY_BLOCK_INTERRUPT", "USER_ID", "status", "TTYIDLE", "ZSH_SUBSHELL", "JOBMAX", "HISTEDIT",
		"LINENO", "DIRSTACKSIZE", "LOGCHECK", "BAUD", "PERIOD", "CPUTYPE", "SECONDS", "OPTIND", "ESCDELAY"}
)

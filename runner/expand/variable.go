package expand

import (
	"maps"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// variables is what a script says about its variables, wherever it says so.
type variables struct {
	numbers   map[string]bool // names that it uses in arithmetic or declares as numbers
	arrays    map[string]bool // names that it makes arrays
	functions map[string]bool
	read      []string // names that it reads text into
	unknown   bool     // it may give any variable an attribute
	evals     bool     // it evaluates text that is not known
	aliases   bool     // it gives words another meaning
}

// variablesOf looks for the variables of f whose values the shell evaluates.
func (c *compiler) variablesOf(f *syntax.File) *variables {
	v := &variables{numbers: map[string]bool{}, arrays: map[string]bool{}, functions: map[string]bool{}}
	if c.outer != nil {
		maps.Copy(v.numbers, c.outer.numbers)
		maps.Copy(v.arrays, c.outer.arrays)
		v.unknown = c.outer.unknown
	}
	walk(f, func(stack []syntax.Node) {
		switch n := stack[len(stack)-1].(type) {
		case *syntax.DeclClause:
			v.declare(n, c.family)
		case *syntax.CallExpr: // such as: command declare -i x
			v.call(words(n), c.family)
		case *syntax.Assign:
			if n.Array != nil || n.Index != nil {
				v.arrays[n.Name.Value] = true
			}
		case *syntax.Lit:
			if inArithmetic(stack) {
				v.numbers[n.Value] = true
			}
		case *syntax.FuncDecl:
			if n.Name != nil {
				v.functions[n.Name.Value] = true
			}
		case *syntax.ParamExp:
			if n.Param != nil && inArithmetic(stack) {
				v.numbers[n.Param.Value] = true
			}
		}
	})
	return v
}

// declare notes what a declaration does to its variables.
func (v *variables) declare(d *syntax.DeclClause, f family) {
	args := []arg{{text: d.Variant.Value, known: true}}
	for _, a := range d.Args {
		switch {
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
	case "eval":
		v.evals = v.evals || slices.ContainsFunc(args[i+1:], func(a arg) bool { return !a.known })
		return
	case "read", "mapfile", "readarray", "getopts":
		for _, a := range args[i+1:] {
			v.read = append(v.read, a.text)
		}
		return
	default:
		return
	}
	for _, a := range args[i+1:] {
		name, _, _ := strings.Cut(a.text, "=")
		option := strings.HasPrefix(a.text, "-") || strings.HasPrefix(a.text, "+")
		switch {
		case !option && syntax.ValidName(name):
			v.numbers[name] = v.numbers[name] || number
			v.arrays[name] = v.arrays[name] || array
		case !a.static() || !option:
			v.unknown = true
		default:
			number = number || strings.Contains(a.text, "i") || f.korn() && strings.ContainsAny(a.text, "EFZLR")
			array = array || strings.ContainsAny(a.text, "aA")
			v.unknown = v.unknown || strings.Trim(a.text, "-+xrgpiaAEFlufZLR0123456789") != ""
		}
	}
}

// positional reports whether the script uses its arguments, or a function's, in
// arithmetic.
func (v *variables) positional() bool {
	for name := range v.numbers {
		if strings.Trim(name, "0123456789@*") == "" {
			return true
		}
	}
	return false
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
	case s.variables.unknown:
		return refuse("cannot be assigned where a declaration may make the variable evaluate it", "leave out the declaration")
	case slices.Contains(evaluated, name), s.c.family == zsh && slices.Contains(evaluatedByZsh, name):
		return refuse("cannot be assigned to "+name+", which the shell evaluates", "use another name")
	case s.variables.numbers[name], slices.Contains(integers, name), s.c.family.korn() && slices.Contains(kornIntegers, name):
		return place{how: number}
	}
	return place{}
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

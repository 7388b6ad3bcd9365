package expand

import (
	"errors"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// numericVars holds the variables that a script uses in arithmetic, or declares as anything but text,
// anywhere in the script. Values assigned to them must be numbers. Values that reach them
// through other variables are not checked. "x[" means that x is an array, and "*" any variable.
type numericVars map[string]bool

func (c *compiler) numericVarsIn(f *syntax.File) numericVars {
	v := numericVars{}
	maps.Copy(v, c.outer)
	for stack := range stacks(f) {
		switch n := stack[len(stack)-1].(type) {
		case *syntax.DeclClause:
			v.declare(declared(n))
		case *syntax.CallExpr: // for example: command declare -i x
			if args := argsOf(n); len(args) > 0 {
				v.declare(args[nameIndex(args):])
			}
		case *syntax.ParamExp:
			if n.Index != nil {
				v[n.Param.Value+"["] = true // := may make it an array
			}
		case *syntax.Assign:
			if n.Array != nil || n.Index != nil {
				v[n.Name.Value+"["] = true
			}
		case *syntax.Lit:
			if inArithmetic(stack) {
				v.addUsed(n.Value)
			}
		}
	}
	return v
}

// declared returns the words of a declaration, its name first.
func declared(d *syntax.DeclClause) []arg {
	args := []arg{{text: d.Variant.Value}}
	for _, a := range d.Args {
		switch {
		case a.Name != nil && a.Value != nil:
			value := argOf(a.Value)
			value.text = a.Name.Value + "=" + value.text
			args = append(args, value)
		case a.Name != nil:
			args = append(args, arg{text: a.Name.Value})
		case a.Value != nil:
			args = append(args, argOf(a.Value))
		}
	}
	return args
}

// declare adds the variables that a command makes numbers, arrays or references to other
// variables. If it cannot tell which options the declaration has, it adds "*".
func (v numericVars) declare(args []arg) {
	use, _ := useOf(args[0].text)
	if use == asName || args[0].text == "printf" { // it may make arrays
		for _, a := range args[1:] {
			name, _, _ := strings.Cut(a.text, "[")
			v[name+"["] = true
		}
	}
	if slices.ContainsFunc(args, func(a arg) bool { return a.obscure }) && (args[0].obscure || use == declares) {
		v["*"] = true
	}
	if use != declares {
		return
	}
	number, array := false, false
	for _, a := range args[1:] {
		name, value, _ := strings.Cut(a.text, "=")
		switch {
		case startsOption(a.text) || strings.Contains(name, gap):
			number = number || a.hasGap() || strings.ContainsAny(a.text, "in") && args[0].text != "export"
			array = array || strings.ContainsAny(a.text, "aA")
		case number:
			v[name] = true
			v.addUsed(value)
		case array:
			v[name+"["] = true
		}
	}
}

// addUsed adds the names in an arithmetic expression.
func (v numericVars) addUsed(text string) {
	notName := func(r rune) bool { return !syntax.ValidName(string(r)) && (r < '0' || r > '9') }
	for _, name := range strings.FieldsFunc(text, notName) {
		v[name] = true
	}
}

// inArithmetic reports whether the last node of the stack is in arithmetic within its innermost
// statement.
func inArithmetic(stack []syntax.Node) bool {
	for i := lastIndex[*syntax.Stmt](stack) + 1; i < len(stack); i++ {
		if w, ok := stack[i].(*syntax.Word); ok && isArithmetic(stack[i-1], w) {
			return true
		}
	}
	return false
}

// isArithmetic reports whether w, a child of holder, is an operand of arithmetic.
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
	}
	return false
}

// commandVariables are the variables whose values shells and programs run as commands or expand,
// or use to choose the programs that they run. integerVariables are read as numbers.
const (
	commandVariables list = `CREW_OPTS PARALLEL PARALLEL_SHELL SHELL EDITOR VISUAL PAGER MANPAGER BROWSER LESSOPEN LESSCLOSE GIT_SSH
		GIT_SSH_COMMAND GIT_EDITOR GIT_SEQUENCE_EDITOR GIT_PAGER GIT_ASKPASS GIT_EXTERNAL_DIFF GIT_PROXY_COMMAND
		SSH_ASKPASS RSYNC_RSH CVS_RSH BORG_RSH MAKEFLAGS GNUMAKEFLAGS TAR_OPTIONS PERL5OPT PERL5DB RUBYOPT NODE_OPTIONS
		PYTHONSTARTUP JAVA_TOOL_OPTIONS JDK_JAVA_OPTIONS _JAVA_OPTIONS FZF_DEFAULT_COMMAND BASH_ENV ENV PROMPT_COMMAND
		PS0 PS1 PS2 PS3 PS4 SHELLOPTS BASHOPTS IFS PATH BASH_ALIASES BASH_CMDS BASH_COMPAT BASH_XTRACEFD FCEDIT
		MAILPATH POSIXLY_CORRECT CHILD_MAX FUNCNAME GROUPS PIPESTATUS DIRSTACK HISTCMD PROMPT_DIRTRIM histchars`
	integerVariables list = `OPTIND RANDOM SRANDOM SECONDS LINENO COLUMNS LINES HISTSIZE HISTFILESIZE TMOUT MAILCHECK UID EUID PPID SHLVL
		BASHPID BASH_ARGC BASH_SUBSHELL IGNOREEOF FUNCNEST OPTERR EPOCHSECONDS EPOCHREALTIME`
)

// choosesProgram reports whether the variable called name determines which programs run.
func choosesProgram(name string) bool {
	return commandVariables.has(name) || slices.ContainsFunc([]string{"LD_", "DYLD_", "GIT_CONFIG_", functionPrefix},
		func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// Bash exports a function as an environment variable whose name has this prefix and suffix. Its
// value begins with "() {".
const (
	functionPrefix = "BASH_FUNC_"
	functionSuffix = "%%"
)

// asFunction returns the words that must precede a command that starts with name, if name is a
// function exported by bash and not a program. Otherwise it returns nil.
func asFunction(name string) []string {
	if !strings.HasPrefix(os.Getenv(functionPrefix+name+functionSuffix), "() {") || !plainText(name) {
		return nil
	}
	if _, err := exec.LookPath(name); err == nil || errors.Is(err, exec.ErrDot) {
		return nil
	}
	return []string{"bash", "-c", name + ` "$@"`}
}

package expand

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// skipPrefixes returns the index of the word that names the command, after words
// that only say how it is run. It is len(args) if that word is not known.
func skipPrefixes(args []arg) int {
	i := 0
	for i < len(args)-1 && args[i].static() && slices.Contains(prefixes, args[i].text) {
		prefix := args[i].text
		for i++; i < len(args)-1 && args[i].static() && strings.HasPrefix(args[i].text, "-"); i++ {
			if prefix == "exec" && strings.HasSuffix(args[i].text, "a") {
				i++ // the name that the command is given
			}
		}
	}
	if i == len(args) || !args[i].known || args[i].split {
		return len(args)
	}
	switch text := args[i].text; {
	case text == "[", text == "[[", text == ":":
	case strings.ContainsAny(text, "{*?["), strings.HasSuffix(text, ":"): // a label to ksh93
		return len(args)
	case strings.Contains(text, "="): // an assignment to some shell: 1=x to zsh, .sh.x=y to ksh93
		return len(args)
	}
	return i
}

var prefixes = []string{"command", "builtin", "exec", "noglob", "nocorrect", "time", "-"}

// tame reports whether the command's first word is only the name of a command to
// every shell, so that its arguments are only arguments.
func tame(call *syntax.CallExpr) bool {
	a := known(call.Args[0])
	if !a.static() || a.text == "" || strings.ContainsAny(a.text, "= \t") || !plainText(a.text) {
		return false
	}
	switch a.text {
	case "time", "coproc", "function", "select", "repeat", "foreach", "nocorrect", "noglob", "-", "let":
		return false
	}
	return true
}

// call says how the mark in word may stand among the words of a command.
func (s *site) call(call *syntax.CallExpr, word *syntax.Word) place {
	args, at := words(call), slices.Index(call.Args, word)
	if before, _, ok := strings.Cut(args[at].text, "="); ok && at == 0 && nameWithMark(before) {
		return refuseName
	}
	if sc, ok := scriptOf(args, s.c.family); ok && sc.from <= at && at < sc.to {
		return refuse("cannot be in the script of "+sc.shell+", parts of which are not known before it runs",
			"write that script in single quotes, and pass the rest as its arguments")
	}
	i := skipPrefixes(args)
	if j := slices.IndexFunc(args[:min(i, at)], func(a arg) bool { return s.variables.functions[a.text] }); j >= 0 {
		i = j // not a prefix, but a function of its name
	}
	switch {
	case i == len(args) || !args[i].known:
		return refuse("cannot be given to a command whose name is not known before it runs", "write the name of the command")
	case i == at:
		return s.commandName(call, word)
	case args[i].marks && !strings.Contains(args[i].text, "/"):
		return refuse("cannot be given to a command that is a value, too", "write the path of the command, as in ./{}, or leave out the shell")
	case i > at:
		return place{}
	}
	if slices.ContainsFunc(args[:at], isShell) {
		switch {
		case !args[at].known && args[at].text == "":
			return refuse("cannot be part of a word that may be an option of a shell", "write the beginning of the word as it is")
		case startsOption(args[at].text):
			return refuse("cannot be part of an option of a shell", "write the option as it is")
		}
	}
	if p := unclear(args[i:], at-i); p.err != nil {
		return p
	}
	return s.argument(args[i:], at-i)
}

// unclear refuses args[at] if a word before it makes it unclear whether that is an
// argument or a script.
func unclear(args []arg, at int) place {
	for j := 1; j < at; j++ {
		if args[j].static() {
			continue
		}
		shell, last := slices.ContainsFunc(args[:j], isShell), args[at-1]
		unknown := !args[j].known && (args[j].split && (shell || wraps(args[0].text)) || last.options() && strings.HasSuffix(last.text, "c"))
		if unknown || shell && (args[j].option || strings.HasPrefix(args[j].text, "-")) {
			return refuse("cannot stand where it is not known what "+args[0].text+" runs", "write quotes around the words before it")
		}
	}
	return place{}
}

// isShell reports whether a is a program that takes a script as an option.
func isShell(a arg) bool {
	return a.static() && (familyOf(a.text) != foreign || slices.Contains(scriptOptions, programName(a.text)))
}

// nameWithMark reports whether s, with values in it, may be the name of a variable.
func nameWithMark(s string) bool {
	return syntax.ValidName(strings.ReplaceAll(strings.TrimSuffix(s, "+"), markText, "_"))
}

// commandName says how the mark may stand in the word that names the command.
// Other values must not be its arguments, since it may be that of a builtin that
// evaluates them.
func (s *site) commandName(call *syntax.CallExpr, word *syntax.Word) place {
	if a := known(word); a.known && strings.Contains(strings.ReplaceAll(a.text, markText, ""), "/") {
		return place{joined: true}
	}
	for _, w := range call.Args {
		if w != word && s.c.holdsMark(w) {
			return refuse("cannot be a command that is given values, too", "write the path of the command, as in ./{}, or leave out the shell")
		}
	}
	return place{joined: true}
}

// rule says what a builtin does with its arguments.
type rule uint8

const (
	unknownRule rule = iota // it may evaluate them
	anyValue                // it does not
	aNumber                 // a number is harmless
	ofPrintf
	ofTest
	ofSet
	ofPrint
	ofExport // export, readonly and others that assign
)

// builtins returns the rule for a command in a shell of family f. A name that is
// no builtin of any shell in the family is a program, whose arguments are only
// strings.
func builtins(name string, f family) rule {
	switch name {
	case "echo", "true", "false", ":", "cd", "chdir", "pwd", "type", "hash", "which", "whence", "kill", ".", "source",
		"pushd", "sleep", "cat", "basename", "dirname", "cp", "cut", "getconf", "ln", "mktemp", "mv", "rename", "command",
		"time", "exec", "realpath":
		return anyValue
	case "exit", "return", "shift", "break", "continue", "wait", "ulimit", "let", "logout", "bye", "fg", "bg", "disown",
		"repeat":
		return aNumber
	case "umask":
		if !f.korn() {
			return anyValue
		}
	case "printf":
		return ofPrintf
	case "test", "[", "[[":
		return ofTest
	case "set":
		return ofSet
	case "print":
		if f.korn() {
			return ofPrint
		}
		return anyValue
	case "export", "readonly", "local", "declare", "typeset":
		return ofExport
	}
	if slices.Contains(evaluating, name) {
		return unknownRule
	}
	if f.korn() && slices.Contains(kornEvaluating, name) {
		return unknownRule
	}
	return anyValue
}

// evaluating are the remaining builtins and reserved words of dash, bash, busybox
// and yash, and kornEvaluating those of zsh, ksh93 and mksh. All may evaluate
// their arguments, name variables with them or change how text is read.
var (
	evaluating = []string{"alias", "array", "bind", "bindkey", "builtin", "caller", "compgen", "complete", "compopt", "coproc",
		"dirs", "enable", "eval", "fc", "function", "getopts", "help", "history", "integer", "float", "nameref", "jobs", "mapfile",
		"popd", "read", "readarray", "select", "shopt", "suspend", "times", "trap", "unalias", "unset"}
	kornEvaluating = []string{"-", "autoload", "alarm", "compadd", "comparguments", "compcall", "compctl", "compdescribe",
		"compfiles", "compgroups", "compound", "compquote", "compset", "comptags", "comptry", "compvalues", "disable", "echotc",
		"echoti", "emulate", "end", "enum", "foreach", "functions", "getln", "global", "hist", "limit", "log", "nocorrect", "noglob",
		"private", "pushln", "r", "redirect", "rehash", "sched", "setopt", "stop", "strftime", "sysread", "syswrite", "sysopen",
		"sysseek", "ttyctl", "unfunction", "unhash", "unlimit", "unsetopt", "vared", "where", "zcompile", "zformat", "zle",
		"zmodload", "zparseopts", "zpty", "zregexparse", "zselect", "zstat", "zstyle", "zsocket", "ztcp", "zcurses", "zprof"}
)

// argument says how the mark in w may stand in args[at], an argument of args[0].
func (s *site) argument(args []arg, at int) place {
	name := args[0].text
	if firstOperand(args, at) && strings.HasPrefix(args[at].text, markText) {
		if slices.ContainsFunc(args[at+1:], func(a arg) bool { return a.marks || !a.known }) {
			return refuseArguments(name, ", which may take it for an option and the next for a script", "write -- before it")
		}
		return place{joined: true}
	}
	switch {
	case strings.Contains(name, "/"):
		return s.environment(args, at)
	case name == "set", s.variables.functions[name], givesArguments(args, at):
		switch p := s.variables.passed(); {
		case p.err != nil:
			return p
		case p.how == number:
			return s.onlyNumber(args, at, "cannot be part of an argument that the script uses in arithmetic")
		}
	}
	switch builtins(name, s.c.family) {
	case anyValue:
		return s.environment(args, at)
	case aNumber:
		if name == "let" && args[at].known && isolated(args[at].text) {
			return place{how: number}
		}
		return s.onlyNumber(args, at, "cannot be an argument of "+name+", unless it is all of it")
	case ofPrintf:
		return s.printf(args, at)
	case ofTest:
		return s.test(args, at)
	case ofSet:
		if args[1].static() && args[1].text == "--" && at > 1 {
			return place{}
		}
		return refuseArguments(name, ", which may take it for an option", "write -- before it")
	case ofPrint:
		if takesOption(args) {
			return refuseArguments(name, ", which may take it for an option", "write -- before it")
		}
		return place{}
	case ofExport:
		return s.export(args, at)
	}
	switch name {
	case "read", "unset", "mapfile", "readarray", "getopts":
		return refuseName
	case "eval", "trap":
		return refuseArguments(name, ", which reads them as shell syntax", `put it into a variable, as in x={}; `+name+` '… "$x"'`)
	}
	return refuseArguments(name, ", which may evaluate them", "put it into a variable, as in x={}, and use \"$x\" where it is needed")
}

// givesArguments reports whether args[at] is an argument of a script in args.
func givesArguments(args []arg, at int) bool {
	sc, ok := scriptOf(args, posix)
	return ok && sc.to <= at
}

// onlyNumber returns the place of a value that must be a number and the whole word.
func (s *site) onlyNumber(args []arg, at int, why string) place {
	if args[at].known && args[at].text == markText {
		return place{how: number}
	}
	return refuse(why, "write {} alone there, which then must be a number in every task")
}

// isolated reports whether no letter, digit or sign of a name stands beside a mark
// in an arithmetic expression.
func isolated(s string) bool {
	parts := strings.Split(s, markText)
	joins := func(s string) bool { return s == "" || strings.Trim(s[:1], "+-*/%<>=!&|^~?:,() ") != "" }
	for i, p := range parts {
		if i > 0 && p != "" && joins(p) || i < len(parts)-1 && (i > 0 || p != "") && joins(p[max(0, len(p)-1):]) {
			return false
		}
	}
	return true
}

// environment says how the mark may stand in an argument of a program: not in a
// variable whose value a shell evaluates.
func (s *site) environment(args []arg, at int) place {
	switch {
	case strings.HasPrefix(args[at].text, markText) && mayBeOption(args, at):
		return refuseOption(args)
	case wraps(args[0].text):
		name, _, ok := strings.Cut(args[at].text, "=")
		if ok && syntax.ValidName(name) {
			if p := s.assigned(name); p.err != nil {
				return p
			}
		}
	}
	return place{ofSSH: isHost(args, at)}
}

// export says how the mark may stand in an argument of export, readonly and the
// like, where they are read as commands and not as declarations.
func (s *site) export(args []arg, at int) place {
	name, _, ok := strings.Cut(args[at].text, "=")
	if !ok || !syntax.ValidName(name) {
		return refuseName
	}
	for _, a := range args[1:at] {
		if strings.HasPrefix(a.text, "-") || strings.HasPrefix(a.text, "+") || !a.known {
			return refuseArguments(args[0].text, " with options", hintAssign)
		}
	}
	return s.assigned(name)
}

// printf says how the mark may stand in args[at]: as text, or as a number where the
// format asks for one, but not in the format.
func (s *site) printf(args []arg, at int) place {
	format := skipDashes(args, 1)
	switch {
	case format >= len(args) || !args[format].static() || strings.HasPrefix(args[format].text, "-") && format == 1:
		return refuse("cannot be given to printf without a fixed format", `write one, as in printf '%s\n' {}`)
	case at == format:
		return refuse("cannot be the format of printf", `write one, as in printf '%s\n' {}`)
	}
	kinds := conversions(args[format].text)
	if kinds == "" {
		return place{}
	}
	kind := kinds[0]
	mixed := strings.Trim(kinds, kinds[:1]) != ""
	if mixed {
		splits := func(a arg) bool { return a.split }
		if s.c.batch || slices.ContainsFunc(args[format+1:at], splits) {
			return refuse("cannot stand where it is not known whether printf wants text or a number", "write the words before it in quotes, or %s alone")
		}
		kind = kinds[(at-format-1)%len(kinds)]
	}
	if kind == 's' {
		return place{joined: mixed} // more words would move a number's value on
	}
	p := s.onlyNumber(args, at, "cannot be part of a number for printf")
	if p.err == nil && kind == 'f' {
		p.how = fraction
	}
	return p
}

// conversions returns what a format of printf takes from its arguments, in order:
// s for text, d for an integer, f for a number with a fraction.
func conversions(format string) string {
	var kinds []byte
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			continue
		}
		for i++; i < len(format) && strings.IndexByte("-+ #0123456789.*'hljztLq", format[i]) >= 0; i++ {
			if format[i] == '*' {
				kinds = append(kinds, 'd')
			}
			if format[i] == 'q' {
				break
			}
		}
		switch {
		case i == len(format) || format[i] == '%':
		case strings.IndexByte("sbqcQ", format[i]) >= 0:
			kinds = append(kinds, 's')
		case strings.IndexByte("eEfFgGaA", format[i]) >= 0:
			kinds = append(kinds, 'f')
		default:
			kinds = append(kinds, 'd') // such as %(…)T
		}
	}
	return string(kinds)
}

// comparesNumbers reports whether a is an operator of [ that compares numbers.
func (a arg) comparesNumbers() bool {
	switch a.text {
	case "-eq", "-ne", "-lt", "-le", "-gt", "-ge":
		return a.static()
	}
	return false
}

// test says how the mark may stand among the arguments of test or [.
func (s *site) test(args []arg, at int) place {
	before, after := args[at-1], arg{known: true}
	if at+1 < len(args) {
		after = args[at+1]
	}
	switch {
	case before.static() && at > 1 && (before.text == "-v" || before.text == "-R"):
		return refuseName
	case before.static() && before.text == "-t" && at > 1, before.comparesNumbers() && at > 1, after.comparesNumbers():
		return s.onlyNumber(args, at, "cannot be part of a number in [ ]")
	case !before.static() && at > 1, !after.static():
		return refuse("cannot stand in [ ] where it may be taken for an operator", `write the operator between two values, as in [ {} = "$x" ]`)
	}
	return place{joined: true}
}

// takesOption reports whether the builtin print may take a value for an option,
// such as -f, which makes it evaluate other values.
func takesOption(args []arg) bool {
	for _, a := range args[1:] {
		switch {
		case strings.HasPrefix(a.text, markText), a.text == "" && !a.static():
			return true // it may be an option
		case !strings.HasPrefix(a.text, "-"), a.static() && (a.text == "-" || a.text == "--"):
			return false
		case !a.static() || strings.ContainsAny(a.text, "fuvCxXeDP"): // with an argument
			return true
		}
	}
	return false
}

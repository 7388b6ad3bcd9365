package expand

import (
	"cmp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// skipPrefixes returns the index of the word that names the command, after prefixes such as
// exec and time. It returns len(args) if that word is not known before the command runs.
func skipPrefixes(args []arg) int {
	i := nameIndex(args)
	if a := args[i]; a.hasGap() || a.text != "[" && strings.ContainsAny(a.text, "{*?[=") {
		return len(args)
	}
	return i
}

// nameIndex is like skipPrefixes, but also finds a name that is not known before the command runs.
func nameIndex(args []arg) (i int) {
	prefix := ""
	for ; i < len(args)-1; i++ {
		switch text := args[i].text; {
		case prefixes.has(text):
			prefix = text
		case !args[i].isStatic() || !strings.HasPrefix(text, "-"):
			return i
		case prefix == "exec" && strings.HasSuffix(text, "a") && i < len(args)-2:
			i++ // the argument of exec -a
		}
	}
	return i
}

const prefixes list = "command builtin exec time"

// argumentPlace returns the place of the mark in args[at], a word of a command. If no shell runs
// the command, c.family is foreign.
func (c *compiler) argumentPlace(args []arg, at int) place {
	if sc, ok := scriptOf(args, c.family); ok && sc.from <= at && at < sc.to {
		return refuse("cannot be in the script of "+sc.shell+", parts of which are not known before it runs",
			"write that script in single quotes, and pass the rest as its arguments")
	}
	i, n := 0, 0
	if c.family != foreign {
		i, n = skipPrefixes(args), nameIndex(args)
	}
	name := args[n]
	switch {
	case (i == at || at == 0) && !args[at].obscure:
		return c.commandNamePlace(args[at].text)
	case i < len(args) && i > at: // the argument of exec -a
		return place{}
	case at > n && name.hasMark() && c.family != foreign && !strings.Contains(name.text, "/"):
		return refuse("cannot be given to a command that is a value, too", "write the path of the command, as in ./{}, or leave out the shell")
	}
	shell := slices.IndexFunc(args[:at], takesScript)
	guard, joined := optionGuard(args, at)
	switch {
	case i == len(args) && !name.hasGap(), slices.ContainsFunc(args, func(a arg) bool { return a.obscure }) && risky(args),
		looksLikeScript(args[at]) && (i == len(args) || shell >= 0 && slices.ContainsFunc(args[:at], arg.hasGap) || mayFollowOption(args, at)),
		shell >= 0 && (slices.ContainsFunc(args[shell+1:at], mayHide) || startsOption(args[at].text) || args[at].split && strings.HasPrefix(args[at].text, gap)):
		return refuseHidden
	case i == len(args):
		return place{}
	}
	p := place{joined: joined}
	if p.err = checkInterpreted(args, i, at); p.err != nil {
		return p
	}
	if variable, _, ok := strings.Cut(args[at].text, "="); ok && (name.isWrapper() || setsKeyword().MatchString(unquoted(strings.Join(c.Words, " ")))) {
		if strings.Contains(variable, markText) {
			return refuseName
		} else if choosesProgram(variable) {
			return c.assignmentPlace(variable)
		}
	}
	if args[at].leads() && guard > 0 {
		p.check, p.guard = noOption, guard
	}
	if c.family != foreign {
		b := c.builtinPlace(args[i:], at-i)
		p.err, p.joined, p.check = b.err, joined || b.joined, cmp.Or(b.check, p.check)
	}
	return p
}

// risky reports whether a command may evaluate or run its arguments.
func risky(args []arg) bool {
	name := args[nameIndex(args)]
	use, ok := useOf(name.text)
	return slices.ContainsFunc(args, takesScript) || name.isWrapper() || name.obscure || ok && use != asText
}

// scriptBytes are the bytes that distinguish a script from a plain word.
const scriptBytes = " \t\n;|&<>()$`"

// looksLikeScript reports whether a, which holds a value, looks like a script.
func looksLikeScript(a arg) bool { return strings.ContainsAny(a.text, scriptBytes) }

// mayHide reports whether a may be an option of a shell that the compiler does not see.
func mayHide(a arg) bool {
	return !a.isStatic() && (a.split || a.mayBeOption()) ||
		startsOption(a.text) && len(a.text) > 2 && a.text[1] != '-' && strings.ContainsAny(a.text[1:len(a.text)-1], "oO") // -onoclobber
}

// mayFollowOption reports whether args[at] may be the script of an option that is not known before the
// command runs.
func mayFollowOption(args []arg, at int) bool {
	takesScript := func(a arg) bool { r, _ := runnerOf(a); return r.long != "" }
	hidden := func(a arg) bool { return mayHide(a) || strings.HasPrefix(a.text, gap) }
	return slices.ContainsFunc(args[:at], takesScript) && slices.ContainsFunc(args[max(at-1, 0):at+1], hidden)
}

// setsKeyword matches templates, without their quotes, that may set -k, after which NAME=VALUE is an assignment
// among arguments, too.
var setsKeyword = lazily(`\bset\s+(-?[^-;&\n])*-?[k*$]|\b(|ba|k|mk)sh(\s+-\w+)*\s+-\w*k|[o=]\s*keyword`)

// takesScript reports whether a is a program that takes a script as an option.
func takesScript(a arg) bool {
	r, _ := runnerOf(a)
	return r.isShell || r.option == "c"
}

// Assigned returns the name of the variable in a word of the form NAME=VALUE, or "".
func Assigned(word string) string {
	if name, _, found := strings.Cut(word, "="); found && syntax.ValidName(name) {
		return name
	}
	return ""
}

// commandNamePlace returns the place of a mark in name, the word that names the command.
func (c *compiler) commandNamePlace(name string) place {
	if c.family == foreign || strings.Contains(name, "/") {
		return place{}
	}
	if before, _, ok := strings.Cut(name, "="); ok && syntax.ValidName(strings.ReplaceAll(strings.TrimSuffix(before, "+"), markText, "_")) {
		return refuseName
	}
	return place{joined: true}
}

// use says how a builtin treats its arguments.
type use uint8

const (
	refused  use = iota // it may evaluate them
	asText              // it treats them as text
	asNumber            // it evaluates them as numbers
	asName              // it takes them as names of variables
	declares            // it assigns to variables
	special             // it depends on the argument
)

// builtins lists the builtins of dash, busybox and bash, and some reserved words, by their use of
// arguments. Any other name is a program or a function, and its arguments are text.
var builtins = [...]list{
	refused:  "[[ alias bind compgen complete compopt coproc enable fc function history jobs select shopt suspend unalias",
	asText:   ". : builtin cd chdir command dirs echo exec false hash help kill popd pushd pwd source times true type umask",
	asNumber: "bg break caller continue disown exit fg let logout return shift ulimit wait",
	asName:   "getopts mapfile read readarray setvar unset",
	declares: "declare export local readonly typeset",
	special:  "[ eval printf set test trap",
}

// useOf returns how a builtin treats its arguments. ok is false if name is not a builtin.
func useOf(name string) (u use, ok bool) {
	i, ok := listWith(builtins[:], name)
	return use(i), ok
}

// builtinPlace returns the place of the mark in args[at], an argument of args[0], which may be a builtin.
func (c *compiler) builtinPlace(args []arg, at int) place {
	name := args[0].text
	switch use, ok := useOf(name); {
	case !ok, use == asText:
		return place{}
	case use == asNumber:
		return numberPlace(args[at])
	case use == declares:
		variable := Assigned(args[at].text)
		if variable == "" {
			return refuseName
		}
		return c.declarationPlace(args, at, variable, false)
	case name == "printf":
		return c.printfPlace(args, at)
	case name == "test", name == "[":
		return c.testPlace(args, at)
	case name == "set" && args[1].text == "--":
		return place{}
	case name == "read" && prompted().MatchString(join(args[1:at+1], "\x00", arg.String)):
		return place{joined: true}
	case use == asName:
		return refuseName
	}
	return refuse("cannot be among the arguments of "+name+", which may evaluate them", `put it into a variable, as in x={}, and use "$x" where it is needed`)
}

// prompted matches the arguments of read, separated by NUL bytes, if the last one is the prompt of -p or the
// delimiter of -d.
var prompted = lazily("^(-[ers]+\x00|-[ers]*[adinNptu]\x00?[^\x00" + markText + gap + "]+\x00)*-[ers]*[dp]\x00?[^\x00]*$")

// numberPlace returns the place of a value that must be a number and a word of its own.
func numberPlace(a arg) place {
	if a.text == markText {
		return place{check: number}
	}
	return refuseNumber
}

// printfPlace returns the place of the mark in args[at]. A value cannot be the variable of bash's printf -v.
func (c *compiler) printfPlace(args []arg, at int) place {
	switch format := args[1]; {
	case strings.HasPrefix(format.text, "-v"), !format.isStatic() && format.mayBeOption():
		return refuseName
	case at == 1 && format.leads():
		return place{check: noOption, joined: true}
	case at > 1 && (format.leads() || strings.HasPrefix(format.text, gap)):
		return refuse("cannot be given to printf without a fixed format", `write one, as in printf '%s\n' {}`)
	}
	return place{}
}

// comparing are the operators of [ that compare numbers.
const comparing list = "-eq -ne -lt -le -gt -ge"

// testPlace returns the place of the mark in args[at], an argument of test or [.
func (c *compiler) testPlace(args []arg, at int) place {
	before, after := args[at-1], arg{}
	if at+1 < len(args) {
		after = args[at+1]
	}
	switch {
	case before.text == "-v":
		return refuseName
	case comparing.has(before.text), comparing.has(after.text):
		return numberPlace(args[at])
	case !before.isStatic(), !after.isStatic():
		return refuse("cannot stand in [ ] where it may be taken for an operator", `write the operator between two values, as in [ {} = "$x" ]`)
	}
	return place{joined: true}
}

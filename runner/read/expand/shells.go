package expand

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// family classifies shells by how much crew knows about their languages.
type family uint8

const (
	foreign family = iota // not known to be a shell
	posix                 // sh, dash, busybox
	bash                  // bash, whose scripts sh may not understand
	korn                  // zsh, ksh93, mksh and yash, which get values only as arguments
	alien                 // shells in which POSIX quoting is not safe
)

// familyOf returns the family of a program. It ignores the directory and the version in the name.
func familyOf(program string) family {
	name := strings.TrimPrefix(basename(program), "-") // a login shell's argv[0]
	f, _ := listWith(families[:], strings.TrimRight(name, "0123456789.-"))
	return family(f)
}

var families = [...]list{
	posix: "sh dash ash posh",
	bash:  "bash rbash",
	korn:  "zsh rzsh ksh mksh lksh oksh loksh pdksh rksh yash",
	alien: "fish csh tcsh nu elvish xonsh rc es",
}

// list is a list of names separated by blanks.
type list string

// has reports whether the name is in the list.
func (l list) has(name string) bool {
	if !strings.Contains(string(l), name) {
		return false // the case for most names, and ten times faster
	}
	for n := range strings.FieldsSeq(string(l)) {
		if n == name {
			return true
		}
	}
	return false
}

// listWith returns the index of the first list that has the name.
func listWith(lists []list, name string) (i int, ok bool) {
	i = slices.IndexFunc(lists, func(l list) bool { return l.has(name) })
	return max(i, 0), i >= 0
}

// familyOfCommand returns the family of the shell that a command starts, such as
// "busybox sh" or "/usr/bin/env bash", and the index of the shell's name. It returns
// foreign and 0 if the command starts no shell.
func familyOfCommand(words []string) (f family, at int) {
	for i, w := range words {
		if f := familyOf(w); f != foreign {
			return f, i
		}
		if i == 0 && !wrappers.has(basename(w)) {
			break
		}
	}
	return foreign, 0
}

// takesValues reports whether scripts for f can refer to values.
func (f family) takesValues() bool { return f == posix || f == bash }

// inline is a script within a command: a single argument, or several that are joined with
// blanks.
type inline struct {
	from, to  int    // indexes of its words
	attached  int    // how many bytes of words[from] precede it, as in -c'…'
	option    string // the option that it is attached to
	shell     string // the program that runs it, for messages
	sameShell bool   // the shell that runs the command runs it, as with eval
	runner
}

// scriptOf finds the script among the arguments of a command. Much can precede the shell: env,
// sudo, xargs, find -exec. If f is not foreign, a shell of that family, which has
// builtins, runs the command. A script that is missing, as after a final -c, starts at len(args).
func scriptOf(args []arg, f family) (s inline, ok bool) {
	first := 0
	if f != foreign {
		if first = skipPrefixes(args); first == len(args) {
			first = 0
		}
	}
	switch name := args[first]; {
	case notWrappers.has(name.text):
		return inline{}, false
	case f == foreign:
	case name.text == "eval", name.text == "trap":
		from, to := first+1, len(args)
		if from < to && args[from].text == "--" {
			from++
		}
		if ok = from < to; name.text == "trap" {
			ok, to = from+1 < to, from+1
		}
		return inline{from: from, to: to, shell: name.text, sameShell: true, runner: runner{family: f}}, ok
	}
	for i, a := range args[first:] {
		i += first
		r, ok := runnerOf(a)
		if ok {
			s, ok = r.findScript(args, i)
		}
		// After a program that is not known to run others, a shell's name may be a plain argument.
		sure := i == first || args[first].isWrapper() || familyOf(args[first].text) != foreign
		if ok && (r.isShell || sure || s.from < len(args) && looksLikeScript(args[s.from])) {
			if j := slices.IndexFunc(args[first:i], func(a arg) bool { return a.program() == "parallel" || joining.has(a.program()) }); j >= 0 {
				s.shell, s.runner = args[first+j].program(), runner{} // another shell reads the script first
			}
			return s, true
		}
		if quoting.has(a.program()) && sure {
			if from := slices.IndexFunc(args[i:], func(a arg) bool { return a.hasMark() && looksLikeScript(a) }); from >= 0 {
				return inline{from: i + from, to: i + from + 1, shell: a.program()}, true
			}
		}
	}
	return inline{}, false
}

const (
	// notWrappers are commands that run no other command, even if an argument is sh.
	notWrappers list = "echo printf print grep egrep fgrep test [ which type rsync scp git"
	// wrappers are commands that run the command in their arguments.
	wrappers list = `eval . source env sudo doas nice ionice nohup time timeout setsid stdbuf chrt taskset
		flock xargs find busybox chroot fakeroot unshare nsenter strace watch parallel crew ssh sshpass su runuser
		script chronic systemd-run docker podman kubectl`
	// quoting are commands that run an argument with blanks as a script, with quoting rules of their own.
	quoting list = "parallel crew tmux"
	// joining are commands that join all their arguments into one script.
	joining list = "pdsh clush pssh parallel-ssh dsh bsub"
	// loginShells are commands that start a shell that reads its script from standard input.
	loginShells list = "ssh rsh autossh pdsh clush at batch su runuser sg newgrp script sbatch bsub qsub"
	// dashed are programs that read arguments after their script as options, unless they follow a --.
	dashed list = "fish perl ruby node php"
)

// isWrapper reports whether a is in wrappers.
func (a arg) isWrapper() bool { return wrappers.has(basename(a.text)) }

// runner describes a shell, or a program that passes a script to a shell.
type runner struct {
	isShell  bool   // it is a shell: its first operand is a script if there is an option -c
	option   string // letter of the short option that takes a script
	long     list   // long options that take a script
	takes    string // letters of other options with a value
	valued   list   // other long options with a value
	attached string // letters of options with a value only in the same word
	operand  int    // number, from 1, of the operand that starts the script; 0 if only options, also long ones, have scripts
	operands int    // how many operands may be read as options
	family   family
	login    bool // it starts a user's login shell, or a shell on another host
}

var runners = map[string]runner{
	"ssh":     {takes: "BbcDEeFIiJLlmOopPQRSWw", operand: 2, operands: 1, login: true},
	"autossh": {takes: "BbcDEeFIiJLlMmOopPQRSWw", operand: 2, operands: 1, login: true},
	"rsh":     {takes: "el", operand: 2, operands: 1, login: true},
	"sbatch":  {long: "--wrap"},
	"su":      {option: "c", long: "--command --session-command", operands: 99, login: true},
	"runuser": {option: "c", long: "--command --session-command", operands: 99, login: true},
	"script":  {option: "c", long: "--command", operands: 99, login: true},
	"flock":   {option: "c", long: "--command", takes: "wE", valued: "--timeout --wait --conflict-exit-code --start --length --fd", operands: 2, login: true},
	"sg":      {option: "c", operand: 2, operands: 2},
	"watch":   {takes: "nqs", valued: "--interval --equexit --shotsdir", attached: "d", operand: 1, operands: 1},
	"env":     {option: "S", long: "--split-string"},
}

// execs matches the option with which watch starts no shell.
var execs = lazily("^-[bcCegprtw]*x|^--exec$")

// starters are commands that start a shell if they have no operand with this number.
var starters = map[string]runner{
	"sudo":     {takes: "CDghpRrTtUu", valued: "--chdir --chroot --close-from --command-timeout --group --host --prompt --role --type --user --other-user", operand: 1},
	"doas":     {takes: "aCu", operand: 1},
	"nsenter":  {takes: "GSt", valued: "--setgid --setuid --target", operand: 1},
	"unshare":  {takes: "GlRSw", valued: "--root --setgid --setuid --wd", operand: 1},
	"fakeroot": {takes: "bils", valued: "--lib --faked --fd-base", operand: 1},
	"chroot":   {valued: "--groups --userspec", operand: 2},
}

// startsShell reports whether a command of starters has too few operands, or crew or parallel reads commands.
func startsShell(args []arg) bool {
	for i, a := range args {
		name, operands := a.program(), 0
		r := starters[name]
		for j := i + 1; j < len(args); j++ {
			switch text := args[j].text; {
			case strings.HasPrefix(text, "-"):
				j += r.valueCount(text)
			case Assigned(text) == "": // sudo takes variables
				operands++
			}
		}
		if (operands < r.operand || (name == "crew" || name == "parallel") && !hasCommand(args[i+1:])) && args[0].isWrapper() {
			return true
		}
	}
	return false
}

// runnerOf returns the description of a program. ok is false if it is not a runner.
func runnerOf(a arg) (r runner, ok bool) {
	if f := familyOf(a.program()); f != foreign {
		return runner{isShell: true, operand: 1, operands: 1, family: f}, true
	}
	r, ok = runners[a.program()]
	if a.program() != "env" { // env splits words by rules of its own
		r.family = posix
	}
	return r, ok
}

// isOption reports whether a is an option, or a group of short options, in every task.
func (r runner) isOption(a arg) bool {
	return a.isStatic() && (strings.HasPrefix(a.text, "-") || r.isShell && startsOption(a.text))
}

// checkInterpreted returns an error if no value can be args[at]. The command starts at args[first].
// A program that is not a shell may pass the value to a shell, and a shell that is not a POSIX shell
// may read it as an option.
func checkInterpreted(args []arg, first, at int) error {
	for j := first; j < at && (j == first || args[first].isWrapper()); j++ {
		name, before := args[j].program(), args[j+1:at]
		f := familyOf(name)
		listed := slices.ContainsFunc(before, func(a arg) bool { return strings.HasPrefix(a.text, ":::") })
		switch {
		case joining.has(name), name == "tmux" && args[at-1].text != "-t", name == "parallel" && !(listed && hasCommand(before)), name == "crew" && !hasCommand(before):
			return refuse("cannot be among the arguments of "+name+", which runs them", "write ssh, whose script crew knows, crew -- gzip {} or parallel gzip ::: {}").err
		case (f == korn || f == alien) && !endsOptions(before, f):
			return refuse("may be an option of "+name, "write it behind the script, as in "+name+` -c '…' -- {}`).err
		}
	}
	return nil
}

// endsOptions reports whether a shell of family f reads a word after args neither as an option nor
// as the name of a script.
func endsOptions(args []arg, f family) bool {
	for _, a := range args {
		switch operand := a.isStatic() && !startsOption(a.text); {
		case operand && f == korn, a.text == "--" && f == alien:
			return true
		case !operand && (!a.isStatic() || len(a.text) != 2 || strings.ContainsAny(a.text, "oO")):
			return false
		}
	}
	return false
}

// hasCommand reports whether the arguments of crew or parallel name a command.
func hasCommand(args []arg) bool {
	const flags = "0kmqrtuvX" // short options of both that take no value
	for i := 0; i < len(args); i++ {
		switch text := args[i].text; {
		case !args[i].isStatic() || strings.HasPrefix(text, ":::"):
			return false
		case text == "--":
			return i+1 < len(args) && !strings.HasPrefix(args[i+1].text, ":::")
		case !strings.HasPrefix(text, "-"):
			return true
		case strings.HasPrefix(text, "--") && !strings.Contains(text, "="), strings.Trim(text[len(text)-1:], flags+"123456789") != "":
			i++
		}
	}
	return false
}

// xargs describes the options of xargs, also of that of BSD.
var xargs = runner{takes: "adEIJLnPRSs", attached: "eil", valued: "--arg-file --delimiter --max-args --max-chars --max-procs --process-slot-var"}

// xargsReplaces reports whether xargs inserts its input into the script sc among args.
func xargsReplaces(args []arg, sc inline) bool {
	x := slices.IndexFunc(args[:sc.from], func(a arg) bool { return a.program() == "xargs" })
	if x < 0 {
		return false
	}
	appends := true
	for i := x + 1; i < sc.from && strings.HasPrefix(args[i].text, "-"); i++ {
		option := args[i].text
		n := len(xargs.flags(option))
		value, replaces := strings.CutPrefix(option[n:], "i")
		switch {
		case strings.HasPrefix(option, "--"):
			_, value, _ = strings.Cut(option, "=")
			replaces = strings.HasPrefix(option, "--r")
		case n < len(option) && strings.Contains("IJ", option[n:n+1]):
			value, replaces = cmp.Or(option[n+1:], args[i+1].text), true
		}
		if i += xargs.valueCount(option); !replaces {
			continue
		}
		appends = false
		with := cmp.Or(value, "{}")
		if slices.ContainsFunc(args[sc.from:sc.to], func(a arg) bool { return !a.isStatic() || strings.Contains(a.text, with) }) {
			return true
		}
	}
	name, _, _ := strings.Cut(sc.shell, " ")
	return appends && runners[name].operand > 0
}

// findScript finds the script in the arguments of args[i], which is described by r. A script that
// is missing starts at len(args).
func (r runner) findScript(args []arg, i int) (s inline, ok bool) {
	s = inline{from: len(args), to: len(args), shell: basename(args[i].text), runner: r}
	operands, given := 0, !r.isShell // given: the operand is a script
	if r.isShell {
		s.shell += " -c"
	}
	for j := i + 1; j < len(args); j++ {
		a := args[j]
		switch end := r.optionEnd(a); {
		case end > 0:
			option, script := strings.TrimSuffix(a.text[:end], "="), ""
			s.shell, s.from, s.to = s.shell+" "+option, j+1, j+2
			if end < len(a.text) {
				s.from, s.to, s.attached, s.option = j, j+1, end, option
				script = a.text[end:]
			} else if s.from < len(args) {
				script = args[s.from].text
			}
			again := func(a arg) bool { return r.optionEnd(a) > 0 }
			// The shell reads a script that looks like an option as an option. The words that
			// env -S splits may end in sh -c.
			if r.family == foreign || startsOption(script) || slices.ContainsFunc(args[min(s.to, len(args)):], again) {
				s.family, s.to = foreign, len(args)
			}
			return s, true
		case a.hasGap() && strings.HasPrefix(a.text, "-") && r.option != "":
			return inline{from: j, to: j + 1, shell: s.shell}, true
		case s.shell == "watch" && execs().MatchString(a.text):
			return s, false
		case s.shell == "script" && a.text == "--": // the words after it are the script
			s.from = j + 1
			return s, true
		case r.isOption(a) && !(r.isShell && args[j-1].text == "--"):
			given = given || !strings.HasPrefix(a.text, "--") && strings.Contains(a.text, "c")
			j += r.valueCount(a.text)
		default:
			if operands++; operands == r.operand {
				s.from = j
				if r.isShell {
					s.to = j + 1
				}
				return s, given
			}
			if r.operand == 0 && operands == r.operands { // options after it are options of the command that flock runs
				return s, false
			}
		}
	}
	return s, given && operands == r.operand-1
}

// optionEnd returns the length of the option in a that takes a script, or 0 if a has no such option.
func (r runner) optionEnd(a arg) int {
	name, _, attached := strings.Cut(a.text, "=")
	switch long := r.long.hasLong(name) && !r.valued.hasLong(name); {
	case long && attached:
		return len(name) + 1
	case long:
		return len(name)
	case r.option != "" && a.isShortOptions():
		if n := strings.Index(a.text, r.option); !strings.ContainsAny(a.text[:max(n, 0)], markText+gap) {
			return n + 1
		}
	}
	return 0
}

// hasLong reports whether option is one of the long options in l, or may be short for one.
func (l list) hasLong(option string) bool {
	return len(option) > len("--") && slices.ContainsFunc(strings.Fields(string(l)), func(long string) bool { return strings.HasPrefix(long, option) })
}

// flags returns the letters of a group of short options up to the first that may have a value.
func (r runner) flags(option string) string {
	if i := strings.IndexAny(option, r.takes+r.attached); i >= 0 {
		return option[:i]
	}
	return option
}

// valueCount returns how many of the words after option are its values.
func (r runner) valueCount(option string) int {
	switch flags := r.flags(option); {
	case list("rcfile init-file").has(strings.TrimLeft(option, "-")), r.valued.hasLong(option):
		return 1
	case strings.HasPrefix(option, "--"):
	case r.isShell:
		return strings.Count(option, "o") + strings.Count(option, "O")
	case len(flags) == len(option)-1 && strings.ContainsAny(option[len(flags):], r.takes):
		return 1
	}
	return 0
}

// optionGuard returns how many words, from args[at] on, may be read as options by a shell or by a program
// that passes a script to a shell. It also returns whether args[at] must stay one word because a second
// word would be a script.
func optionGuard(args []arg, at int) (guard int, joined bool) {
	if notWrappers.has(args[0].text) {
		return 0, false
	}
	for i, a := range args[:at] {
		r, _ := runnerOf(a)
		if strings.Contains(a.text, "/") && !strings.Contains(a.text, "bin/") { // ./script is not script(1)
			continue
		}
		n := r.countOperands(args[i+1 : at])
		isDashes := func(a arg) bool { return a.text == "--" }
		// ssh accepts options after --, too.
		if !slices.ContainsFunc(args[i+1:at], isDashes) || r.operand == 2 {
			guard = max(guard, r.operands-n)
		}
		sure := i == 0 || args[0].isWrapper() || prefixes.has(args[0].text)
		joined = joined || sure && (n == optionValue || !r.isShell && n < max(r.operand, r.operands))
		if r.isShell {
			break // the other words are arguments of the script
		}
	}
	return guard, joined
}

// optionValue is the result of countOperands if the next word is the value of an option.
const optionValue = math.MaxInt

// countOperands returns how many of the words after the name of r are operands.
func (r runner) countOperands(args []arg) (n int) {
	i := 0
	for ; i < len(args); i++ {
		if r.isOption(args[i]) {
			i += r.valueCount(args[i].text)
		} else {
			n++
		}
	}
	if i > len(args) {
		return optionValue
	}
	return n
}

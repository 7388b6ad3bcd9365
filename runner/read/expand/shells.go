package expand

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// family says how much is known about the language of a shell.
type family uint8

const (
	foreign family = iota // not known to be a shell
	posix                 // sh, dash, busybox
	bash                  // bash, whose scripts are not for sh
	korn                  // zsh, ksh93, mksh and yash, whose scripts get values as arguments alone
	alien                 // a shell in which POSIX quoting is not safe
)

// familyOf returns the family of a program, by its name without directory and
// version.
func familyOf(program string) family {
	name := strings.TrimPrefix(basename(program), "-") // a login shell's argv[0]
	f, _ := which(families[:], strings.TrimRight(name, "0123456789.-"))
	return family(f)
}

var families = [...]list{
	posix: "sh dash ash posh",
	bash:  "bash rbash",
	korn:  "zsh rzsh ksh mksh lksh oksh loksh pdksh rksh yash",
	alien: "fish csh tcsh nu elvish xonsh rc es",
}

// list is a text of names with blanks between them.
type list string

// has reports whether the name is in the list.
func (l list) has(name string) bool {
	if !strings.Contains(string(l), name) {
		return false // as for most names, in a tenth of the time
	}
	for n := range strings.FieldsSeq(string(l)) {
		if n == name {
			return true
		}
	}
	return false
}

// which returns the index of the list that has the name.
func which(lists []list, name string) (i int, ok bool) {
	i = slices.IndexFunc(lists, func(l list) bool { return l.has(name) })
	return max(i, 0), i >= 0
}

// familyOfCommand returns the family of the shell that a command starts, such as
// "busybox sh" or "/usr/bin/env bash", and the index of its name. It is foreign,
// at index 0, if the command starts no shell.
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

// takesValues reports whether values can stand in a script for f.
func (f family) takesValues() bool { return f == posix || f == bash }

// inline is the text of a script within a command: one of its arguments, or
// several, which are then joined with blanks.
type inline struct {
	from, to int    // the words it is made of
	attached int    // how many bytes of words[from] stand before it, as in -c'…'
	option   string // the option that it is attached to, written out
	shell    string // the program that runs it, for messages
	same     bool   // the shell that runs the command runs it, too
	runner
}

// scriptOf finds the script among the arguments of a command, in which much can stand
// before the shell: env, sudo, xargs, find -exec. If family is not foreign, the command
// is run by a shell of that family, which has builtins. A script that is still to
// come, as after a final -c, starts at len(args).
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
		return inline{from: from, to: to, shell: name.text, same: true, runner: runner{family: f}}, ok
	}
	for i, a := range args[first:] {
		i += first
		r, ok := runnerOf(a)
		if ok {
			s, ok = r.script(args, i)
		}
		// Behind a program that is not known to run others, a name may be only a word.
		sure := i == first || args[first].wraps() || familyOf(args[first].text) != foreign
		if ok && (r.isShell || sure || s.from < len(args) && scriptLike(args[s.from])) {
			return s, true
		}
		if quoting.has(a.program()) && sure {
			if from := slices.IndexFunc(args[i:], func(a arg) bool { return a.marks() && scriptLike(a) }); from >= 0 {
				return inline{from: i + from, to: i + from + 1, shell: a.program()}, true
			}
		}
	}
	return inline{}, false
}

const (
	// notWrappers are commands that run nothing, even if an argument is called sh.
	notWrappers list = "echo printf print grep egrep fgrep test [ which type rsync scp git"
	// wrappers are some that run the command that their arguments name.
	wrappers list = `. source env sudo doas nice ionice nohup time timeout setsid stdbuf chrt taskset
		flock xargs find busybox chroot unshare nsenter strace watch parallel crew ssh sshpass su runuser
		script chronic systemd-run docker podman kubectl`
	// quoting are some that read an argument with blanks as a script, with a quoting of their own.
	quoting list = "parallel crew tmux"
	// joining are some that make one script of all their arguments.
	joining list = "pdsh clush pssh parallel-ssh dsh bsub"
	// loginShells start a shell that reads its script from standard input.
	loginShells list = "ssh rsh at batch su runuser sg script sbatch"
	// dashed take what follows their script for options, unless -- stands between.
	dashed list = "fish perl ruby node php"
)

// wraps reports whether a is one of the wrappers.
func (a arg) wraps() bool { return wrappers.has(basename(a.text)) }

// runner is a program that gives a script to a shell, or a shell.
type runner struct {
	isShell  bool   // then the first operand is a script if there is an option -c
	option   string // letter of the short option that the script belongs to
	takes    string // letters of other options with a value
	operand  int    // the operand, from 1, that begins a script of the remaining words; 0 is none, but the long options
	operands int    // how many may be taken for options
	unless   string // letters of options without a value, of which x means that it starts no shell
	family   family
	login    bool // the shell is one that somebody chose, far away or for a user
}

var runners = map[string]runner{
	"ssh":     {takes: "BbcDEeFIiJLlmOopPQRSWw", operand: 2, operands: 1, login: true},
	"autossh": {takes: "BbcDEeFIiJLlMmOopPQRSWw", operand: 2, operands: 1, login: true},
	"rsh":     {takes: "l", operand: 2, operands: 1, login: true},
	"sbatch":  {},
	"su":      {option: "c", operands: 99, login: true},
	"runuser": {option: "c", operands: 99, login: true},
	"script":  {option: "c", operands: 99, login: true},
	"flock":   {option: "c", takes: "wE", operands: 2, login: true},
	"sg":      {option: "c", operand: 2, operands: 2},
	"watch":   {takes: "nq", operand: 1, operands: 1, unless: "bcCdegprtwx"},
	"env":     {option: "S"},
}

// runnerOf returns what is known of a program. ok is false if it is no runner.
func runnerOf(a arg) (r runner, ok bool) {
	if f := familyOf(a.program()); f != foreign {
		return runner{isShell: true, operand: 1, operands: 1, family: f}, true
	}
	r, ok = runners[a.program()]
	if a.program() != "env" { // which splits words in a way of its own
		r.family = posix
	}
	return r, ok
}

// isOption reports whether a is, in every task, an option or a bundle of them.
func (r runner) isOption(a arg) bool {
	return a.static() && (strings.HasPrefix(a.text, "-") || r.isShell && startsOption(a.text))
}

// interpreted says why no value can be args[at], the command of which begins at
// args[first]: a program that is no shell would give it to one, or a shell of another
// grammar may take it for an option.
func interpreted(args []arg, first, at int) error {
	for j := first; j < at && (j == first || args[first].wraps()); j++ {
		name, before := args[j].program(), args[j+1:at]
		f := familyOf(name)
		listed := slices.ContainsFunc(before, func(a arg) bool { return strings.HasPrefix(a.text, ":::") })
		switch {
		case joining.has(name), name == "tmux" && args[at-1].text != "-t", name == "parallel" && !(listed && hasCommand(before)), name == "crew" && !hasCommand(before):
			return refuse("cannot be among the arguments of "+name+", which runs them", "write ssh, of which crew knows the script, crew -- gzip {} or parallel gzip ::: {}").err
		case (f == korn || f == alien) && !endsOptions(before, f):
			return refuse("may be an option of "+name, "write it behind the script, as in "+name+` -c '…' -- {}`).err
		}
	}
	return nil
}

// endsOptions reports whether a shell of family f takes what follows its arguments for no
// option, and not for the name of a script.
func endsOptions(args []arg, f family) bool {
	for _, a := range args {
		switch operand := a.static() && !startsOption(a.text); {
		case operand && f == korn, a.text == "--" && f == alien:
			return true
		case !operand && (!a.static() || len(a.text) != 2 || strings.ContainsAny(a.text, "oO")):
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
		case !args[i].static() || strings.HasPrefix(text, ":::"):
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

// replacing matches options of xargs with what it replaces.
var replacing = lazily(`^(?s)(-I|-i|--replace=?)(.*)`)

// replaces reports whether xargs makes what it reads part of the script sc among args.
func replaces(args []arg, sc inline) bool {
	x := slices.IndexFunc(args[:sc.from], func(a arg) bool { return a.program() == "xargs" })
	if x < 0 {
		return false
	}
	for i, a := range args[x+1 : sc.from] {
		option := replacing().FindStringSubmatch(a.text)
		if option == nil {
			continue
		}
		with := option[2]
		if option[1] == "-I" && with == "" {
			with = args[x+i+2].text
		}
		with = cmp.Or(with, "{}")
		return slices.ContainsFunc(args[sc.from:sc.to], func(a arg) bool { return a.unknown() || strings.Contains(a.text, with) })
	}
	name, _, _ := strings.Cut(sc.shell, " ")
	return runners[name].operand > 0
}

// script finds the script that args[i], which is r, is given. One that is still to come
// starts at len(args).
func (r runner) script(args []arg, i int) (s inline, ok bool) {
	s = inline{from: len(args), to: len(args), shell: basename(args[i].text), runner: r}
	operands, given := 0, !r.isShell // that the operand is a script
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
			again := func(a arg) bool { return r.optionEnd(a) > 0 && r.operands > 2 }
			// The shell takes what looks like an option for one, and what env splits may
			// end in sh -c.
			if r.family == foreign || startsOption(script) || slices.ContainsFunc(args[min(s.to, len(args)):], again) {
				s.family, s.to = foreign, len(args)
			}
			return s, true
		case a.unknown() && strings.HasPrefix(a.text, "-") && r.option != "":
			return inline{from: j, to: j + 1, shell: s.shell}, true
		case r.unless != "" && (cluster(a.text, "x") && strings.Trim(a.text[1:], r.unless) == "" || a.text == "--exec"):
			return s, false
		case r.isOption(a) && !(r.isShell && args[j-1].text == "--"):
			given = given || a.text == "--command" || !strings.HasPrefix(a.text, "--") && strings.Contains(a.text, "c")
			j += r.values(a.text)
		default:
			if operands++; operands == r.operand {
				s.from = j
				if r.isShell {
					s.to = j + 1
				}
				return s, given
			}
		}
	}
	return s, given && operands == r.operand-1
}

// optionEnd returns where the option in a ends that a script belongs to, or 0.
func (r runner) optionEnd(a arg) int {
	name, _, attached := strings.Cut(a.text, "=")
	isLong := func(long string) bool {
		return r.operand == 0 && len(name) > len("--") && strings.HasPrefix(long, name)
	}
	switch long := slices.ContainsFunc(strings.Fields(scripting), isLong); {
	case long && attached:
		return len(name) + 1
	case long:
		return len(name)
	case r.option != "" && a.options():
		if n := strings.Index(a.text, r.option); !strings.ContainsAny(a.text[:max(n, 0)], markText+gap) {
			return n + 1
		}
	}
	return 0
}

// scripting are the long options that a script belongs to.
const scripting = "--command --session-command --split-string --wrap"

// valued are the long options with a value in a word of its own.
const valued list = "--interval --equexit --timeout --wait --conflict-exit-code --rcfile --init-file"

// values returns how many of the words after an option are its values.
func (r runner) values(option string) int {
	switch {
	case valued.has(option):
		return 1
	case strings.HasPrefix(option, "--"):
	case r.isShell:
		return strings.Count(option, "o") + strings.Count(option, "O")
	case strings.IndexAny(option, r.takes) == len(option)-1 && option != "-":
		return 1
	}
	return 0
}

// position reports how many of the words from args[at] on may be taken for options by a
// program that gives a script to a shell, or by a shell, and whether args[at] must stay
// one word, since another would be a script.
func position(args []arg, at int) (guard int, joined bool) {
	if notWrappers.has(args[0].text) {
		return 0, false
	}
	for i, a := range args[:at] {
		r, ok := runnerOf(a)
		if !ok || strings.Contains(a.text, "/") && !strings.Contains(a.text, "bin/") { // ./script is not script(1)
			continue
		}
		n := r.count(args[i+1 : at])
		isDashes := func(a arg) bool { return a.text == "--" }
		if !slices.ContainsFunc(args[i+1:at], isDashes) || r.operand == 2 { // ssh goes on to look for options
			guard = max(guard, r.operands-n)
		}
		sure := i == 0 || args[0].wraps() || prefixes.has(args[0].text)
		joined = joined || sure && (n == optionValue || !r.isShell && n < max(r.operand, r.operands))
		if r.isShell && n > 0 {
			break // what follows are arguments of a script
		}
	}
	return guard, joined
}

// optionValue is the result of count if the next word is an option's value.
const optionValue = math.MaxInt

// count returns how many of the words after r are operands.
func (r runner) count(args []arg) (n int) {
	i := 0
	for ; i < len(args); i++ {
		if r.isOption(args[i]) {
			i += r.values(args[i].text)
		} else {
			n++
		}
	}
	if i > len(args) {
		return optionValue
	}
	return n
}

// cluster reports whether s is a bundle of short options that includes one of
// options.
func cluster(s, options string) bool {
	return len(s) > 1 && s[0] == '-' && s[1] != '-' && strings.ContainsAny(s[1:], options)
}

package expand

import (
	"cmp"
	"slices"
	"strings"
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

// starters are commands that read a script from standard input if they have fewer operands than the index.
var starters = [...]list{1: "sudo doas nsenter unshare fakeroot crew parallel", 2: "chroot"}

// startsShell reports whether a command of starters may have too few operands.
func startsShell(args []arg) bool {
	for i, a := range args {
		if least, ok := listWith(starters[:], a.program()); ok && sureOperands(args[i:]) < least && args[0].isWrapper() {
			return true
		}
	}
	return false
}

// sureOperands returns how many words of a command, after its name and up to a :::, are operands
// whatever its options mean: a word after an option may be its value.
func sureOperands(args []arg) (n int) {
	mayBeValue := false
	for _, a := range args[1:] {
		isOption := strings.HasPrefix(a.text, "-")
		switch {
		case strings.HasPrefix(a.text, ":::"):
			return n
		case a.isStatic() && !isOption && !mayBeValue && Assigned(a.text) == "": // sudo takes variables
			n++
		}
		mayBeValue = !a.isStatic() || isOption && !withoutValue().MatchString(args[0].text+" "+a.text)
	}
	return n
}

// withoutValue matches a command and its option if that does not take the next word as its value.
var withoutValue = lazily(` --$|=| -\w*[0-9kmqvX]$|^\S*sudo -[nEHk]+$`)

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

// insertsInput reports whether an option of xargs, from GNU or BSD, may make its input part of the script.
func insertsInput(options, script []arg) bool {
	for i, o := range options {
		m, next := replaces().FindStringSubmatch(o.text), options[min(i+1, len(options)-1)]
		unsure := func(a arg) bool { return a.obscure || !a.isStatic() }
		inserts := func(a arg) bool { return unsure(a) || strings.Contains(a.text, cmp.Or(m[2], next.text)) }
		if m != nil && (m[1] == "" || unsure(o) || unsure(next) || slices.ContainsFunc(script, inserts)) {
			return true
		}
	}
	return false
}

var replaces = lazily(`(?s)^-\w*?(?:(I)|[iJ])(.*)|^--r`)

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

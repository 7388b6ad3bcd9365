package expand

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// family says how much is known about the language of a shell.
type family uint8

const (
	foreign family = iota // not known to be a shell
	posix                 // sh, dash, busybox, yash: any shell that keeps to POSIX, perhaps with extensions
	bash                  // bash alone
	zsh                   // zsh, which evaluates numbers as arithmetic
	ksh                   // ksh93, mksh and their kin, which do the same
	alien                 // a shell in which POSIX quoting is not safe
)

// familyOf returns the family of a program, by its name without directory and
// version.
func familyOf(program string) family {
	name := strings.TrimPrefix(programName(program), "-") // a login shell's argv[0]
	if name != "ksh93" && name != "ksh88" {
		name = strings.TrimRight(name, "0123456789.-")
	}
	switch name {
	case "sh", "dash", "ash", "yash", "posh", "rsh":
		return posix
	case "bash", "rbash":
		return bash
	case "zsh", "rzsh":
		return zsh
	case "ksh", "ksh88", "ksh93", "mksh", "lksh", "oksh", "loksh", "pdksh", "rksh":
		return ksh
	case "fish", "csh", "tcsh", "nu", "elvish", "xonsh", "rc", "es":
		return alien
	}
	return foreign
}

// programName returns the name of a program without its directory. To zsh, =NAME is
// the program NAME.
func programName(s string) string { return basename(strings.TrimPrefix(s, "=")) }

// familyOfCommand returns the family of the shell that a command starts, such as
// "busybox sh" or "/usr/bin/env bash", and the index of its name. It is foreign,
// at index 0, if the command starts no shell.
func familyOfCommand(words []string) (f family, at int) {
	for i, w := range words {
		if f := familyOf(w); f != foreign {
			return f, i
		}
		if i == 0 && programName(w) != "busybox" && !wraps(w) {
			break
		}
	}
	return foreign, 0
}

// posixFamily reports whether f has the syntax of the POSIX shell.
func (f family) posixFamily() bool { return f != foreign && f != alien }

// korn reports whether builtins of f evaluate numbers as arithmetic, which runs
// commands in the subscripts of arrays.
func (f family) korn() bool { return f == zsh || f == ksh }

// reading is a language in which a script is parsed.
type reading struct {
	lang     syntax.LangVariant
	optional bool // a script that it cannot read is not one that the shell reads so
}

// readings returns how a shell of family f may read a script. A value can only
// stand where all of them agree.
func (f family) readings() []reading {
	switch f {
	case bash:
		return []reading{{lang: syntax.LangBash}}
	case zsh:
		return []reading{{lang: syntax.LangBash}, {lang: syntax.LangZsh}}
	case ksh:
		return []reading{{lang: syntax.LangBash}, {lang: syntax.LangMirBSDKorn}}
	}
	return []reading{{lang: syntax.LangBash}, {lang: syntax.LangPOSIX, optional: true}}
}

// script is the text of a script within a command: one of its arguments, or
// several, which are then joined with blanks.
type script struct {
	from, to int    // the words it is made of
	attached int    // how many bytes of words[from] stand before it, as in -c'…'
	option   string // the option that it is attached to, written out
	shell    string // the program that runs it, for messages
	family   family
}

// scriptOf finds the script among the arguments of a command. Much can stand before
// the shell: env, sudo, xargs, find -exec. If family is not foreign, the command
// is run by a shell of that family, which has builtins. A script that is still to
// come, as after a final -c, starts at len(args).
func scriptOf(args []arg, f family) (s script, ok bool) {
	first := 0
	if f != foreign {
		first = skipPrefixes(args)
	}
	if first == len(args) {
		return script{}, false
	}
	switch name := args[first]; {
	case !name.static(), slices.Contains(notWrappers, name.text):
		return script{}, false
	case f == foreign:
	case name.text == "eval":
		from := skipDashes(args, first+1)
		return script{from: from, to: len(args), shell: "eval", family: f}, from < len(args)
	case name.text == "trap":
		from := skipDashes(args, first+1)
		return script{from: from, to: from + 1, shell: "trap", family: f}, from+1 < len(args)
	}
	for i, a := range args[first:] {
		i += first
		if !a.static() {
			continue
		}
		if f := familyOf(a.text); f != foreign && programName(a.text) != "rsh" {
			if at := scriptAfter(args, i+1); at >= 0 {
				return script{from: at, to: at + 1, shell: programName(a.text) + " -c", family: f}, true
			}
		}
		if i > first && !wraps(args[first].text) && familyOf(args[first].text) == foreign {
			continue
		}
		if s, ok := scriptOption(args, i); ok {
			return s, true
		}
		if s, ok := remoteScript(args, i); ok {
			return s, true
		}
		if s, ok := joinedScript(args, i); ok {
			return s, true
		}
	}
	return script{}, false
}

// notWrappers are commands that run nothing, even if an argument is called sh.
var notWrappers = []string{"echo", "printf", "print", "grep", "egrep", "fgrep", "test", "[", "which", "type", "command"}

func skipDashes(args []arg, i int) int {
	if i < len(args) && args[i].static() && args[i].text == "--" {
		i++
	}
	return i
}

// scriptOptions are programs with an option whose value is a script for a shell.
var scriptOptions = []string{"su", "runuser", "script", "flock"}

// scriptOption finds the script that args[i] takes as the value of an option and
// gives to a shell.
func scriptOption(args []arg, i int) (script, bool) {
	name, short, long := programName(args[i].text), "c", "--command"
	switch {
	case name == "env":
		short, long = "S", "--split-string"
	case !slices.Contains(scriptOptions, name):
		return script{}, false
	}
	shell := func(a arg) bool { return strings.HasPrefix(a.text, "-s") || strings.HasPrefix(a.text, "--sh") }
	takes := func(a arg) bool { return name != "env" && name != "flock" && cluster(a.text, short) }
	if first := slices.IndexFunc(args[i+1:], takes); first >= 0 && slices.ContainsFunc(args[i+first+2:], takes) {
		return script{from: i + 1, to: len(args), shell: name + " " + long}, true // which of them counts?
	}
	for j := i + 1; j < len(args); j++ {
		a := args[j]
		s := script{from: j + 1, to: j + 2, shell: name + " " + long, family: posix}
		if name == "env" || name != "flock" && slices.ContainsFunc(args, shell) {
			s.family = foreign
		}
		switch before, _, attached := strings.Cut(a.text, "="); {
		case !a.known && strings.HasPrefix(a.text, "-"):
			s.from, s.to = j, j+1
			return s, true
		case a.options():
			n := strings.IndexAny(a.text, short)
			switch {
			case n < 0 || strings.Contains(a.text[:n], markText):
				continue
			case n+len(short) < len(a.text) || !a.known:
				s.from, s.to, s.attached, s.option = j, j+1, n+1, a.text[:n+1]
			default: // the shell takes what looks like an option for one
				for ; s.from < len(args) && startsOption(args[s.from].text); s.from, s.to = s.from+1, s.to+1 {
				}
			}
			if name == "env" {
				s.to = len(args) // what it splits may end in sh -c
			}
			return s, true
		case len(before) >= len("--c") && strings.HasPrefix(long, before),
			len(before) >= len("--se") && strings.HasPrefix("--session-command", before):
			if attached || !a.known {
				s.from, s.to, s.attached, s.option = j, j+1, len(before)+1, before
			}
			if name == "env" {
				s.to = len(args)
			}
			return s, true
		}
	}
	return script{}, false
}

// mayBeOption reports whether args[at], of which the first character is not known,
// may be an option that takes a script.
func mayBeOption(args []arg, at int) bool {
	for i, a := range args[:at] {
		switch {
		case !a.static():
		case a.text == "--", args[at-1].static() && args[at-1].text == "--":
			return false
		case strings.Contains(a.text, "/") && !strings.Contains(a.text, "bin/"): // ./script is not script(1)
		case slices.Contains(scriptOptions, programName(a.text)) && (i == 0 || wraps(args[0].text)):
			rest := slices.ContainsFunc(args[at+1:], func(a arg) bool { return a.marks || !a.known })
			return rest || programName(a.text) != "flock"
		}
	}
	return false
}

// remoteScript finds the words that ssh, which is args[i], gives to a shell on
// another host.
func remoteScript(args []arg, i int) (script, bool) {
	switch programName(args[i].text) {
	case "ssh", "autossh", "rsh":
	default:
		return script{}, false
	}
	host := operandOfSSH(args, i+1)
	at := operandOfSSH(args, host+1)
	return script{from: at, to: len(args), shell: "ssh", family: posix}, host < len(args)
}

// operandOfSSH returns the index of the first argument of ssh from i on that is no option
// and belongs to none, or len(args).
func operandOfSSH(args []arg, i int) int {
	for ; i < len(args); i++ {
		switch a := args[i]; {
		case a.static() && a.text == "--":
		case a.static() && a.options():
			// The option's argument is the next word unless it is attached.
			if n := strings.IndexAny(a.text, "BbcDEeFIiJLlmOopPQRSWw"); n == len(a.text)-1 {
				i++
			}
		default:
			return i
		}
	}
	return len(args)
}

// isHost reports whether args[at] begins with a value and is where ssh, which args[0] is
// or runs, expects the name of a host.
func isHost(args []arg, at int) bool {
	i := slices.IndexFunc(args[:at], func(a arg) bool { return a.static() && programName(a.text) == "ssh" })
	return i >= 0 && (i == 0 || wraps(args[0].text)) && operandOfSSH(args, i+1) == at && strings.HasPrefix(args[at].text, markText)
}

// joinedScript finds the words that args[i] gives to a shell after quoting of its own,
// or none.
func joinedScript(args []arg, i int) (script, bool) {
	s := script{from: i + 1, to: len(args), shell: programName(args[i].text), family: foreign}
	switch s.shell {
	case "watch":
		isExec := func(a arg) bool {
			return a.static() && (a.options() && strings.Contains(a.text, "x") || a.text == "--exec")
		}
		return s, !slices.ContainsFunc(args[s.from:], isExec) && s.from < s.to
	case "parallel":
		return s, s.from < s.to
	case "crew", "tmux": // one word with blanks is a script
		for j, a := range args[s.from:] {
			if a.marks && strings.ContainsAny(a.text, " \t\n;|&") {
				s.from += j
				s.to = s.from + 1
				return s, true
			}
		}
	}
	return script{}, false
}

// readsScript reports whether a command may be a shell that reads its script from
// its standard input.
func readsScript(args []arg) bool {
	if sc, ok := scriptOf(args, posix); ok {
		isReplace := func(a arg) bool { return strings.HasPrefix(a.text, "-I") || strings.HasPrefix(a.text, "-i") }
		builds := slices.Contains([]string{"xargs", "parallel"}, programName(args[0].text))
		if sc.from == len(args) || builds && slices.ContainsFunc(args, isReplace) {
			return builds || sc.shell == "ssh"
		}
		return runsItsInput(args[sc.from:sc.to], sc)
	}
	return slices.ContainsFunc(args, func(a arg) bool {
		if !a.static() {
			return false
		}
		switch programName(a.text) {
		case "ssh", "at", "batch", "su":
			return true
		}
		return familyOf(a.text) != foreign
	})
}

// runsItsInput reports whether a script may run text that it reads.
func runsItsInput(list []arg, sc script) bool {
	text := ""
	for _, a := range list {
		if !a.static() {
			return !a.known // a script with values has been looked at where they stand
		}
		text += a.text + " "
	}
	f, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(text[sc.attached:]), "")
	return err != nil || slices.ContainsFunc(f.Stmts, new(variables).runsInput)
}

// scriptAfter returns the index of a shell's script, given that its options begin
// at i, or -1 if it takes no script from its arguments.
func scriptAfter(args []arg, i int) int {
	c := false // there was a -c
	for ; i < len(args); i++ {
		a := args[i]
		if !a.static() || a.text == "" || a.text[0] != '-' && a.text[0] != '+' {
			break
		}
		switch {
		case len(a.text) == 1: // it ends the options of some shells
		case a.text == "--":
			i++
			if c {
				return i
			}
			return -1
		case a.text == "--rcfile", a.text == "--init-file", a.text == "--init-command":
			i++
		case a.text == "--command":
			c = true
		case a.text[1] == '-':
		default:
			c = c || strings.Contains(a.text, "c")
			i += optionArguments(a.text)
		}
	}
	if !c {
		return -1
	}
	return min(i, len(args))
}

// firstOperand reports whether args[at] is the first argument of a shell that is no
// option, if it is none.
func firstOperand(args []arg, at int) bool {
	i := slices.IndexFunc(args[:at], func(a arg) bool { return a.static() && familyOf(a.text).posixFamily() })
	if i < 0 || i > 0 && !wraps(args[0].text) {
		return false
	}
	for i++; i < at; i++ {
		text := args[i].text
		switch {
		case !args[i].static(), text == "--", text == "" || text[0] != '-' && text[0] != '+':
			return false
		default:
			i += optionArguments(text)
		}
	}
	return i == at
}

// optionArguments returns how many of the words after a bundle of a shell's options
// are arguments of these.
func optionArguments(bundle string) int {
	if strings.HasPrefix(bundle, "--") {
		return 0
	}
	return strings.Count(bundle, "o") + strings.Count(bundle, "O")
}

// cluster reports whether s is a bundle of short options that includes one of
// options.
func cluster(s, options string) bool {
	return len(s) > 1 && s[0] == '-' && s[1] != '-' && strings.ContainsAny(s[1:], options)
}

// wraps reports whether s runs the command that its arguments name.
func wraps(s string) bool {
	switch programName(s) {
	case ".", "source", "env", "sudo", "doas", "nice", "ionice", "nohup", "time", "timeout", "setsid", "stdbuf", "chrt", "taskset", "flock",
		"xargs", "find", "busybox", "chroot", "unshare", "nsenter", "strace", "watch", "parallel", "ssh", "su", "runuser",
		"script", "systemd-run", "docker", "podman", "kubectl":
		return true
	}
	return false
}

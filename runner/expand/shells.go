package expand

import (
	"slices"
	"strings"
)

// family says how much is known about the language of a shell.
type family uint8

const (
	foreign family = iota // not known to be a shell
	posix                 // sh, dash, bash, …
	korn                  // ksh and zsh: POSIX syntax, but builtins evaluate their numbers
	alien                 // a shell in which POSIX quoting is not safe
)

// familyOf returns the family of a program, by its name without directory and
// version.
func familyOf(program string) family {
	name := strings.TrimPrefix(basename(program), "-") // a login shell's argv[0]
	if name != "ksh93" && name != "ksh88" {
		name = strings.TrimRight(name, "0123456789.-")
	}
	switch name {
	case "sh", "bash", "dash", "ash", "yash", "rbash", "posh", "busybox-sh":
		return posix
	case "zsh", "rzsh", "ksh", "ksh88", "ksh93", "mksh", "lksh", "oksh", "loksh", "pdksh", "rksh":
		return korn
	case "fish", "csh", "tcsh", "nu", "elvish", "xonsh", "rc", "es":
		return alien
	}
	return foreign
}

// posixFamily reports whether f has the syntax of the POSIX shell.
func (f family) posixFamily() bool { return f == posix || f == korn }

// inlined finds the word that a shell among args takes as its script: the word
// after "sh -c". Much can stand before the shell (env, sudo, xargs, find -exec).
// at is -1 if there is none, and len(args) if the script is still to come. shell
// is the index of the shell, and f its family.
func inlined(args []arg) (at, shell int, f family) {
	if len(args) > 0 && args[0].static && (args[0].text == "echo" || args[0].text == "printf") {
		return -1, 0, foreign
	}
	for i, a := range args {
		if !a.static {
			continue
		}
		if f := familyOf(a.text); f != foreign {
			if at := scriptAfter(args, i+1); at >= 0 {
				return at, i, f
			}
		}
		if takesScript(args, i) {
			for j, a := range args[i+1:] {
				if a.static && (a.text == "--command" || cluster(a.text, "c") && strings.HasSuffix(a.text, "c")) {
					return i + j + 2, i, posix
				}
			}
		}
	}
	return -1, 0, foreign
}

// readsScript reports whether a command may be a shell that reads its script from
// its standard input.
func readsScript(args []arg) bool {
	at, _, _ := inlined(args)
	return at < 0 && slices.ContainsFunc(args, func(a arg) bool { return a.static && familyOf(a.text) != foreign })
}

// scriptAfter returns the index of a shell's script, given that its options begin
// at i, or -1 if it takes no script from its arguments.
func scriptAfter(args []arg, i int) int {
	c := false // there was a -c
	for ; i < len(args); i++ {
		a := args[i]
		if !a.static || len(a.text) < 2 || a.text[0] != '-' && a.text[0] != '+' {
			break
		}
		switch {
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
			c = c || cluster(a.text, "c")
			if last := a.text[len(a.text)-1]; last == 'o' || last == 'O' {
				i++
			}
		}
	}
	if !c {
		return -1
	}
	return min(i, len(args))
}

// cluster reports whether s is a bundle of short options that includes one of
// options.
func cluster(s, options string) bool {
	return len(s) > 1 && s[0] == '-' && s[1] != '-' && strings.ContainsAny(s[1:], options)
}

// takesScript reports whether args[i] is a program that gives the word after its
// -c to a shell.
func takesScript(args []arg, i int) bool {
	switch basename(args[i].text) {
	case "su", "runuser", "script", "flock":
		return i == 0 || args[0].static && wraps(args[0].text)
	}
	return false
}

// wraps reports whether s runs the command that its arguments name.
func wraps(s string) bool {
	switch basename(s) {
	case "env", "sudo", "doas", "nice", "ionice", "nohup", "time", "timeout", "setsid", "stdbuf", "chrt", "taskset", "flock":
		return true
	}
	return false
}

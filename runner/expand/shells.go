package expand

import "strings"

// family says how far the language of a shell is known here.
type family uint8

const (
	foreign family = iota // no shell, or one with a grammar of its own
	posix                 // sh, dash, bash, …
	korn                  // ksh and zsh: POSIX syntax, and builtins that evaluate their numbers
	alien                 // a shell where POSIX quoting is not safe
)

// familyOf tells a shell by the name of its program, without directory and
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

// posixFamily says whether f's language is the POSIX shell's.
func (f family) posixFamily() bool { return f == posix || f == korn }

// arg is a word of a command as far as it is known before the command runs.
type arg struct {
	text   string
	static bool // text is all of it
}

// inlined finds the word that a shell among args takes as its script: what
// follows "sh -c", wherever it stands, since much can stand before it (env,
// sudo, xargs, find -exec). at is -1 where there is none, and len(args) where
// the script is still to come. shell is the index of the shell.
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
			for j := i + 1; j < len(args); j++ {
				if t := args[j].text; args[j].static && (t == "--command" || cluster(t, 'c') && strings.HasSuffix(t, "c")) {
					return j + 1, i, posix
				}
			}
		}
	}
	return -1, 0, foreign
}

// scriptAfter is the index of a shell's script, whose options begin at i; -1
// where it reads no script from its arguments.
func scriptAfter(args []arg, i int) int {
	c := false
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
			c = c || cluster(a.text, 'c')
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

// cluster says whether s is a bundle of short options with c among them.
func cluster(s string, c byte) bool {
	return len(s) > 1 && s[0] == '-' && s[1] != '-' && strings.IndexByte(s, c) > 0
}

// takesScript says whether args[i] is a program that gives what follows its -c
// to a shell.
func takesScript(args []arg, i int) bool {
	switch basename(args[i].text) {
	case "su", "runuser", "script", "flock":
	default:
		return false
	}
	return i == 0 || args[0].static && wraps(args[0].text)
}

// wraps says whether s runs the command that its arguments name.
func wraps(s string) bool {
	switch basename(s) {
	case "env", "sudo", "doas", "nice", "ionice", "nohup", "time", "timeout", "setsid", "stdbuf", "chrt", "taskset", "flock":
		return true
	}
	return false
}

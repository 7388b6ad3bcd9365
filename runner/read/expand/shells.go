package expand

import (
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
	return strings.Contains(string(l), name) && slices.Contains(strings.Fields(string(l)), name) // most names fail the fast test
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
			for j, a := range args[first:i] { // another shell reads the script first, or input becomes part of it
				if name := a.program(); quoting.has(name) || joining.has(name) || name == "xargs" && (!r.isShell || insertsInput(args[first+j:i], args[s.from:min(s.to, len(args))])) {
					s.shell, s.runner = name, runner{}
					break
				}
			}
			return s, true
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
	// quoting are commands that read a script in their arguments by rules of their own.
	quoting list = "crew tmux"
	// joining are commands that join all their arguments into one script.
	joining list = "parallel pdsh clush pssh parallel-ssh dsh bsub"
	// loginShells are commands that start a shell that reads its script from standard input.
	loginShells list = "ssh rsh autossh pdsh clush at batch su runuser sg newgrp script sbatch bsub qsub"
	// dashed are programs that read arguments after their script as options, unless they follow a --.
	dashed list = "fish perl ruby node php"
)

// checkInterpreted returns an error if no value can be args[at]. The command starts at args[first].
// A program that is not a shell may pass the value to a shell, and a shell that is not a POSIX shell
// may read it as an option.
func checkInterpreted(args []arg, first, at int) error {
	for j := first; j < at && (j == first || args[first].isWrapper()); j++ {
		name, before := args[j].program(), args[j+1:at]
		f := familyOf(name)
		switch {
		case joining.has(name), name == "tmux" && args[at-1].text != "-t", name == "crew" && sureOperands(args[j:at]) == 0:
			return refuse("cannot be among the arguments of "+name+", which runs them", "write ssh, whose script crew knows, or crew -- gzip {}").err
		case (f == alien || f == korn && sureOperands(args[j:at]) == 0) && !slices.ContainsFunc(before, func(a arg) bool { return a.text == "--" }):
			return refuse("may be an option of "+name, "write it behind the script, as in "+name+` -c '…' -- {}`).err
		}
	}
	return nil
}

// optionValue is the result of countOperands if the next word is the value of an option.
const optionValue = math.MaxInt

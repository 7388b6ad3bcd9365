package input

import (
	"crew/runner/decide/task"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Limits bound how many records go into one command. The zero Limits means one
// record of any size.
type Limits struct {
	Records int // number of records; 0 means no limit if Chars is set, and otherwise 1
	Chars   int // bytes of arguments including NULs, counted as xargs does; 0 means no limit
	ArgMax  int // bytes of arguments including NULs and pointers, counted as execve does; 0 means no limit

	// Workers is how many commands share the last records evenly. Up to as many full
	// commands are held back until more records have been read. If it is 0 or 1, each command is
	// filled as the records arrive.
	Workers int
}

func (l Limits) batches() bool { return l.Records > 1 || l.Chars > 0 }

// maxArgument is the longest argument that Linux accepts, without its NUL
// (MAX_ARG_STRLEN in linux/binfmts.h). It applies on other systems, too, so that a run that
// one machine accepts is not refused by another.
const maxArgument = 128<<10 - 1

const pointerSize = 8

var (
	errTooLong = errors.New("argument list too long")
	errNUL     = errors.New(`an argument holds a NUL byte, which no command can take: write the object without \u0000`)
)

// checkLimits removes the task's command if the task has an Err or exceeds a limit.
func (t *Tasks) checkLimits(tk *task.Task) {
	if tk.Err == nil {
		tk.Err = t.checkSize(tk)
	}
	if tk.Err != nil {
		tk.Argv, tk.Exec, tk.Shell = nil, nil, false
	}
}

// spareBytes returns how many bytes the command of tk may still grow within the limits of the system and
// Limits.Chars. argv is the form that is executed, tk.Argv the form that is displayed.
func (t *Tasks) spareBytes(tk *task.Task, argv []string) int {
	temps := 0
	for _, m := range tk.Marks {
		if m.Temp { // in either form: this counts too many rather than too few
			temps += task.TempLen
		}
	}
	left := maxArgument - longest(argv) - temps
	if l := t.cfg.Limits.Chars; l > 0 {
		left = min(left, l-charsOf(tk.Argv))
	}
	if l := t.cfg.Limits.ArgMax; l > 0 {
		left = min(left, l-temps-charsOf(argv)-pointerSize*len(argv)-charsOf(tk.Env)-pointerSize*len(tk.Env))
	}
	return left
}

// checkSize returns an error if the system would not accept the command.
func (t *Tasks) checkSize(tk *task.Task) error {
	argv := tk.ExecOn(0, "", nil)
	// Only an object can be written without the NUL byte: for other records, -0 is the solution.
	if tk.Object != "" && slices.ContainsFunc(argv, func(w string) bool { return strings.IndexByte(w, 0) >= 0 }) {
		return errNUL
	}
	left := t.spareBytes(tk, argv)
	if left >= 0 {
		return nil
	}
	n := -1
	for _, cols := range tk.Records {
		n += charsOf(cols)
	}
	unit := "bytes"
	if n == 1 {
		unit = "byte"
	}
	return fmt.Errorf("%w: record is %d %s, the limit is %d", errTooLong, n, unit, max(0, n+left))
}

// charsOf returns the size of a command as xargs -s counts it.
func charsOf(argv []string) (n int) {
	for _, w := range argv {
		n += len(w) + 1
	}
	return n
}

// longest returns the length of the longest word.
func longest(argv []string) (n int) {
	for _, w := range argv {
		n = max(n, len(w))
	}
	return n
}

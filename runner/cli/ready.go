package cli

import (
	"errors"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"crew/runner/expand"
	"crew/runner/proc"
	"crew/runner/task"
)

// ready returns why a run could do nothing here, if that shows before it reads anything.
func (o *Options) ready(stdin *os.File) error {
	if err := checkLimits(o); err != nil {
		return err
	}
	if o.Pool.Workdir != "" && !o.Engine.far() {
		if _, err := os.Stat(o.Pool.Workdir + "/."); err != nil {
			return &usageError{
				"change to directory " + o.Pool.Workdir + ": " + errors.Unwrap(err).Error(),
				"give --workdir a directory that tasks can run in",
			}
		}
	}
	if err := o.findProgram(o.command().Program()); err != nil {
		return err
	}
	if o.mayLackColons() && isNull(stdin) {
		return o.noRecords()
	}
	return nil
}

// command returns the command as its template begins, before the names of columns are
// known.
func (o *Options) command() expand.Config {
	c := o.Command
	return expand.Config{Words: o.words(), Shell: c.Shell, Replace: c.Replace, Fields: o.Input.JSON || o.Input.Header}
}

// mayLackColons reports whether a command without placeholders may end in values
// that lack a ::: before them, or be meant to run once.
func (o *Options) mayLackColons() bool {
	return len(o.Input.Files)+len(o.Input.Groups) == 0 && o.command().Bare()
}

// findProgram looks for the program that all tasks run, before the run waits for records
// in vain. With --state there may be no task left to run, and a log tells of the task;
// but a shell is needed to compile a script.
func (o *Options) findProgram(name string) error {
	told := !o.Input.readsStdin() || o.State.Dir != "" || o.Output.logs() || o.Output.JUnit != ""
	if name == "" || o.Engine.far() || o.Show.DryRun || told && o.Command.Shell == "" {
		return nil
	}
	if status, err := proc.Find(name, o.Pool.Workdir); err != nil {
		return &badCommand{o.Command.cannotRun(err), status}
	}
	return nil
}

// isNull reports whether f is /dev/null, which a closed standard input is, too.
func isNull(f *os.File) bool {
	var st unix.Stat_t
	return unix.Fstat(int(f.Fd()), &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == unix.Mkdev(1, 3)
}

// noRecords returns the error of a run that would read /dev/null.
func (o *Options) noRecords() error {
	hint := "write ::: VALUE... after the command"
	switch words := o.words(); {
	case o.Pipe.On:
		hint = "give the stream on standard input, or files with -a FILE"
	case len(words) == 0:
		hint = "write ::: COMMAND... or -a FILE"
	case o.Coproc.Words == "":
		once := strings.Join(words, " ")
		if len(words) > 1 && o.Command.Shell == "" {
			once = o.Command.script()
		}
		hint += ", or, to run it once, ::: " + task.Quote(once) + " in its place"
	}
	return &usageError{"standard input is /dev/null, so there are no records", hint}
}

// cannotRun returns what to say about a command that no task can run.
func (c Command) cannotRun(err error) string {
	text := err.Error() + ": no task can run it"
	switch {
	case len(c.Words) > 0 && c.Words[0] == "version" && c.Shell == "":
		text += "; crew --version prints the version"
	case len(c.Words) > 1 && strings.ContainsAny(c.Words[0], " \t\n;&|<>$`"): // shell syntax
		text += "; words run without a shell: write " + task.Quote(strings.Join(c.Words, " ")) + " for one"
	}
	return text
}

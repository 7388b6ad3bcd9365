package wiring

import (
	"cmp"
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"crew/runner/cli"
	"crew/runner/proc"
)

// ready returns why a run could do nothing here, if that shows before it reads anything.
func ready(o *cli.Options, p pool, stdin *os.File) error {
	if err := cmp.Or(checkMachine(o), checkLimits(o, p)); err != nil {
		return err
	}
	if o.Pool.Workdir != "" && !o.Elsewhere() {
		if _, err := os.Stat(o.Pool.Workdir + "/."); err != nil {
			return misuse("change to directory "+o.Pool.Workdir+": "+errors.Unwrap(err).Error(),
				"give --workdir a directory that tasks can run in")
		}
	}
	if err := findCommand(o); err != nil {
		return err
	}
	if o.MayLackColons() && isNull(stdin) {
		return o.NoRecords()
	}
	return nil
}

// findCommand looks for the program that all tasks run, before the run waits for records
// in vain. With --state there may be no task left to run, and a log tells of the task;
// but a shell is needed to compile a script.
func findCommand(o *cli.Options) error {
	name := o.Template().Program()
	told := !o.Input.ReadsStdin() || o.State.Dir != "" || keepsLogs(o) || o.Output.JUnit != ""
	if name == "" || o.Elsewhere() || o.Show.DryRun || told && o.Command.Shell == "" {
		return nil
	}
	if status, err := proc.Find(name, o.Pool.Workdir); err != nil {
		return &failure{o.Command.CannotRun(err), status}
	}
	return nil
}

// isNull reports whether f is /dev/null, which a closed standard input is, too.
func isNull(f *os.File) bool {
	var st, null unix.Stat_t
	return unix.Fstat(int(f.Fd()), &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFCHR &&
		unix.Stat(os.DevNull, &null) == nil && null.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == null.Rdev
}

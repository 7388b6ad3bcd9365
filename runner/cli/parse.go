package cli

import (
	"flag"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/urfave/cli/v2"
)

// parse reads a command line, args[0] the program's name, with the options of
// CREW_OPTS before its own. done says that it asked for help, the version or a
// completion script and got it on stdout; there is nothing to run then. Mistakes
// come back as a usageError; nothing has been opened by then but the FILE of
// --jobs.
func parse(args []string, env func(string) string, stdout, stderr io.Writer) (opts *Options, done bool, err error) {
	if len(args) > 0 {
		args = args[1:]
	}
	if len(args) > 0 && reserved(args[0]) {
		return nil, false, &usageError{
			"this version has no command " + args[0],
			"to run a program of that name, write crew -- " + args[0],
		}
	}
	before, err := fromEnvironment(env("CREW_OPTS"))
	if err != nil {
		return nil, false, err
	}
	l, err := split(args)
	if err != nil {
		return nil, false, err
	}
	if n := len(l.uses); n > 0 && l.uses[n-1].opt.name == "header" && !l.ended && len(l.rest) > 0 && l.rest[0] == ":" {
		return nil, false, &usageError{"--header takes no value", "drop the : behind it"}
	}
	o := defaults()
	o.uses, o.env = slices.Concat(before, l.uses), before
	o.Command.Words, o.Input.Groups, err = operands(l.rest)
	if refused := o.settle(); err == nil {
		err = refused
	}
	if err := o.read(stdout, stderr); err != nil {
		return nil, false, err
	}
	if o.ask != "" {
		return nil, true, o.answer(stdout)
	}
	if err != nil {
		return nil, false, err
	}
	o.finish()
	return &o, false, nil
}

// reserved says whether a word in the first place is a command of crew's own, or
// will be one.
func reserved(word string) bool {
	return slices.Contains([]string{"state", "ctl", "serve", "worker", "engine"}, word)
}

// answer prints what was asked for instead of a run.
func (o *Options) answer(w io.Writer) error {
	var text string
	switch o.ask {
	case askHelp:
		text = helpText()
	case askVersion:
		text = versionText()
	default:
		text = completionScript(o.ask)
	}
	if _, err := io.WriteString(w, text); err != nil {
		return fmt.Errorf("write to stdout: %w", err)
	}
	return nil
}

// read has urfave/cli set the options that were given. It sees those alone, in
// their one form, and no operand: with every built-in switched off there is
// nothing left that it could take for a command of its own.
func (o *Options) read(stdout, stderr io.Writer) error {
	r := reader{opts: o}
	args := make([]string, 1, len(o.uses)+1)
	args[0] = "crew"
	flags := make([]cli.Flag, 0, len(o.uses))
	for i := range o.uses {
		u := &o.uses[i]
		args = append(args, u.word())
		if o.given(u.opt.name) == u {
			flags = append(flags, &cliFlag{opt: u.opt, reader: &r})
		}
	}
	app := &cli.App{
		Name:                      "crew",
		Flags:                     flags,
		HideHelp:                  true,
		HideVersion:               true,
		DisableSliceFlagSeparator: true,
		Compiled:                  time.Unix(0, 0), // else it looks for the binary's age
		Writer:                    stdout,
		ErrWriter:                 stderr,
		Action:                    func(*cli.Context) error { return nil },
		OnUsageError:              func(_ *cli.Context, err error, _ bool) error { return err },
		ExitErrHandler:            func(*cli.Context, error) {},
	}
	if err := app.Run(args); err != nil {
		return fmt.Errorf("parse options: %w", err)
	}
	return r.bad
}

// reader takes the values that urfave/cli finds.
type reader struct {
	opts *Options
	next int   // in opts.uses: the parser keeps their order
	bad  error // the first bad value
}

// set reads one value into the options. A bad one is kept and not returned:
// the flag package would wrap it in words of its own, and lose what it is.
func (r *reader) set(value string) {
	u := r.opts.uses[r.next]
	r.next++
	if r.bad != nil {
		return
	}
	if err := u.opt.set(r.opts, value); err != nil {
		r.bad = &usageError{fmt.Sprintf("bad value %q for %s", value, u.where()), err.Error()}
	}
}

// cliFlag is an option as urfave/cli wants to see it, and its value as the
// flag package does.
type cliFlag struct {
	opt    *option
	reader *reader
}

// Apply puts the option into the set.
func (f *cliFlag) Apply(set *flag.FlagSet) error {
	set.Var(f, f.opt.name, "")
	return nil
}

// Names is the one form in which the option reaches the parser.
func (f *cliFlag) Names() []string { return []string{f.opt.name} }

// IsSet is true: only options that were given become flags.
func (f *cliFlag) IsSet() bool { return true }

// String is empty: help is made elsewhere.
func (f *cliFlag) String() string { return "" }

// IsBoolFlag says that the option stands without a value.
func (f *cliFlag) IsBoolFlag() bool { return f.opt.value == "" }

// Set hands a value on; it has no error of its own.
func (f *cliFlag) Set(value string) error {
	f.reader.set(value)
	return nil
}

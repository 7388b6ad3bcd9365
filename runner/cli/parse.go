package cli

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/urfave/cli/v2"
)

// parse reads a command line, of which args[0] is the program's name, and the
// options in CREW_OPTS, which come before its own. done means that it asked for
// help, the version or a completion script: that has been printed on stdout and
// nothing is to run. A mistake in usage is a usageError. parse opens no file but
// the FILE of --jobs.
func parse(args []string, env func(string) string, stdout, stderr io.Writer) (opts *Options, done bool, err error) {
	if len(args) > 0 {
		args = args[1:]
	}
	var word []use
	cut := split
	if len(args) > 0 && args[0] == serving.name {
		word, args = []use{{opt: &serving, spelled: serving.name}}, args[1:]
	} else if len(args) > 0 && args[0] == "worker" {
		word, args = []use{{opt: &working, spelled: args[0]}}, args[1:]
	} else if attaches(args) {
		args, cut = args[2:], splitAttach
	} else if len(args) > 0 && reserved(args[0]) {
		return nil, false, &usageError{
			"this version has no command " + args[0],
			"to run a program of that name, write crew -- " + args[0],
		}
	}
	before, err := fromEnvironment(env("CREW_OPTS"))
	if err != nil {
		return nil, false, err
	}
	l, err := cut(args)
	if err != nil {
		return nil, false, err
	}
	if n := len(l.uses); n > 0 && l.uses[n-1].opt.name == "header" && !l.ended && len(l.rest) > 0 && l.rest[0] == ":" {
		return nil, false, &usageError{"--header takes no value", "drop the : behind it"}
	}
	o := defaults()
	o.uses, o.env = slices.Concat(before, word, l.uses), before
	o.respell()
	o.Command.Words, o.Input.Groups, err = operands(l.rest)
	if refused := o.dropOverridden(); err == nil {
		err = refused
	}
	if err := o.read(stdout, stderr); err != nil {
		return nil, false, err
	}
	if o.ask != "" { // whatever else is wrong
		return nil, true, o.answer(stdout)
	}
	if o.Command.Literal = l.ended; err == nil {
		err = o.Command.checkOperators()
	}
	if err != nil {
		return nil, false, err
	}
	o.finish(env("MAKEFLAGS"))
	return &o, false, nil
}

// ownWords are crew's own commands, beside help.
var ownWords = []string{"ctl", "engine", "serve", "state", "worker"}

// reserved reports whether a first argument is a subcommand, now or in a later
// version.
func reserved(word string) bool {
	return slices.Contains(ownWords, word)
}

// answer prints what was asked for instead of a run.
func (o *Options) answer(w io.Writer) error {
	var text string
	switch o.ask {
	case askHelp:
		text = o.help(o.given(askHelp))
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

// read sets the fields of o from o.uses by means of urfave/cli. That gets to see
// no operands, and its built-in options are switched off, so it cannot take
// anything for a command of its own.
func (o *Options) read(stdout, stderr io.Writer) error {
	s := setter{opts: o}
	args := []string{"crew"}
	var flags []cli.Flag
	for i := range o.uses {
		u := &o.uses[i]
		args = append(args, u.word())
		if o.given(u.opt.name) == u {
			flags = append(flags, &cli.GenericFlag{Name: u.opt.name, Value: &flagValue{u.opt, &s}})
		}
	}
	app := &cli.App{
		Name:           "crew",
		Flags:          flags,
		HideHelp:       true,
		HideVersion:    true,
		Compiled:       time.Unix(0, 0), // if unset, urfave/cli looks up the binary's age
		Writer:         stdout,
		ErrWriter:      stderr,
		Action:         func(*cli.Context) error { return nil },
		OnUsageError:   func(_ *cli.Context, err error, _ bool) error { return err },
		ExitErrHandler: func(*cli.Context, error) {},
	}
	if err := app.Run(args); err != nil {
		return fmt.Errorf("parse options: %w", err)
	}
	return s.err
}

// setter sets options to the values that urfave/cli finds.
type setter struct {
	opts *Options
	next int   // index in opts.uses; urfave/cli keeps their order
	err  error // the first bad value
}

// flagValue is the flag.Value of an option.
type flagValue struct {
	opt    *option
	setter *setter
}

// String returns "": options have no default that is shown.
func (v *flagValue) String() string { return "" }

// IsBoolFlag reports whether the option takes no value.
func (v *flagValue) IsBoolFlag() bool { return v.opt.value == "" }

// Set sets the option. It keeps the error in the setter, since the flag package
// would wrap it in a message of its own.
func (v *flagValue) Set(value string) error {
	s := v.setter
	u := s.opts.uses[s.next]
	s.next++
	if s.err != nil {
		return nil
	}
	if err := u.opt.set(s.opts, value); err != nil {
		s.err = &usageError{fmt.Sprintf("bad value %q for %s", value, u), err.Error()}
	}
	return nil
}

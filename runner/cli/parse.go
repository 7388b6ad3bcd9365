package cli

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
)

// Parse reads a command line, of which args[0] is the program's name, and the options
// in CREW_OPTS, which come before its own. A mistake in usage is a UsageError. Parse
// opens no file.
func Parse(args []string, env func(string) string) (*Options, error) {
	if len(args) > 0 {
		args = args[1:]
	}
	if len(args) > 1 && args[0] == "--complete" {
		return &Options{Completion: complete(args[1], args[2:])}, nil
	}
	c, args := find(args)
	var l, fromEnv line
	var err error
	if c.hasRun() {
		if fromEnv, err = fromEnvironment(env("CREW_OPTS")); err != nil {
			return nil, err
		}
	}
	if l, err = c.split(args); err != nil {
		return nil, err
	}
	if c.hasRun() {
		respell(fromEnv.uses, l.uses)
	}
	l.uses = slices.Concat(fromEnv.uses, l.uses)
	o, refused, err := c.reconcile(l, fromEnv)
	switch {
	case err != nil:
		return nil, err
	case o.asksHelp: // whatever else is wrong
		o.Print = c.help(o.given("help").spelled == "-h")
	case o.Print != "":
	case refused != nil:
		return nil, refused
	case c.hasRun():
		if err := o.Command.checkOperators(); err != nil {
			return nil, err
		}
		o.finish()
	}
	return o, nil
}

// read returns the Options of a command line. If some of it is wrong, the first mistake
// is the error, and the Options have the rest.
func (c *command) read(l line) (*Options, error) {
	o := newOptions(c)
	o.uses, o.Command.Literal = l.uses, l.ended
	args := append([]string{"crew"}, strings.Fields(c.name)...)
	for _, u := range l.uses {
		args = append(args, u.word())
	}
	err := app(c, &setter{opts: &o}).Run(append(append(args, "--"), l.rest...))
	if _, usage := errors.AsType[*UsageError](err); err != nil && !usage {
		err = fmt.Errorf("parse options: %w", err)
	}
	return &o, err
}

// app returns crew as urfave/cli sees it: with the command and the options that the
// command line has, since it would take 5 times as long for all. It gets long options
// alone, each with its value, then a --, and the operands; its built-in options and
// commands are switched off, so it cannot take anything for a command of its own.
func app(c *command, s *setter) *cli.App {
	tool, verb, isVerb := strings.Cut(c.name, " ")
	made := &cli.Command{
		Name:     cmp.Or(verb, tool),
		HideHelp: true,
		Flags:    []cli.Flag{s},
		Action:   func(ctx *cli.Context) error { return s.took(c, ctx.Args().Slice()) },
		// It is not inherited.
		OnUsageError: func(_ *cli.Context, err error, _ bool) error { return err },
	}
	if isVerb {
		made = &cli.Command{Name: tool, HideHelp: true, Subcommands: []*cli.Command{made}}
	}
	return &cli.App{
		Name:           "crew",
		HideHelp:       true,
		HideVersion:    true,
		Compiled:       time.Unix(0, 0), // if unset, urfave/cli looks up the binary's age
		ExitErrHandler: func(*cli.Context, error) {},
		Commands:       []*cli.Command{made},
	}
}

// setter sets options to the values that urfave/cli finds. It stands for all of them as
// one cli.Flag.
type setter struct {
	opts *Options
	next int   // index in opts.uses; urfave/cli keeps their order
	err  error // the first bad value
}

// Apply adds the options that were given to a set.
func (s *setter) Apply(flags *flag.FlagSet) error {
	for _, u := range s.opts.uses {
		switch {
		case flags.Lookup(u.opt.name) != nil:
		case u.opt.value == "":
			flags.BoolFunc(u.opt.name, "", s.set)
		default:
			flags.Func(u.opt.name, "", s.set)
		}
	}
	return nil
}

// Names returns nothing: urfave/cli would look each name up among those of all options.
func (s *setter) Names() []string { return nil }

// IsSet reports whether the environment sets the option, as CREW_OPTS does not.
func (s *setter) IsSet() bool { return false }

// String returns "": options have no default that is shown.
func (s *setter) String() string { return "" }

// set sets the next option. It keeps an error for took, since the flag package would
// wrap it in a message of its own.
func (s *setter) set(value string) error {
	u := s.opts.uses[s.next]
	s.next++
	err := u.opt.set(s.opts, value)
	if err == nil && u.opt.choices != "" {
		err = among(value, u.opt.choices)
	}
	if err != nil && s.err == nil {
		s.err = u.bad(err)
	}
	return nil
}

// took takes the operands once all options are set.
func (s *setter) took(c *command, operands []string) error {
	asks := s.opts.asksHelp || s.opts.Print != ""
	err := c.take(s.opts, operands)
	if s.err != nil || asks {
		return s.err
	}
	return err
}

// reconcile returns the Options of a command line that begins with the options of fromEnv,
// those of CREW_OPTS, and why the options are refused, if they are. It drops what
// CREW_OPTS has and the command line makes impossible; what CREW_OPTS gets wrong by itself
// is refused. Values are read again when some are dropped, so err is of one that counts.
func (c *command) reconcile(l, fromEnv line) (o *Options, refused, err error) {
	for {
		o, err = c.read(l)
		o.env = fromEnv.uses
		all := o.refusals()
		if len(all) == 0 {
			return o, nil, err
		}
		n := slices.IndexFunc(all[0].uses, func(u *use) bool { return u.env })
		if n < 0 {
			return o, &all[0].UsageError, err
		}
		alone, _ := commands[0].read(fromEnv)
		if !alone.Input.JSON && alone.Coproc.Words == "" { // CREW_OPTS is for any command
			alone.Command.Words = []string{"any"}
		}
		own := alone.refusals()
		if i := slices.IndexFunc(own, func(r refusal) bool { return r.rule == all[0].rule }); i >= 0 {
			return o, &own[i].UsageError, err
		}
		drop := all[0].uses[n].opt
		l.uses = slices.DeleteFunc(slices.Clone(l.uses), func(u use) bool { return u.env && u.opt == drop })
	}
}

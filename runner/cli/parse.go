package cli

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
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
	var fromEnv []use
	var err error
	if c.hasRun() {
		if fromEnv, err = fromEnvironment(env("CREW_OPTS")); err != nil {
			return nil, err
		}
	}
	l, err := c.split(args)
	if err != nil {
		return nil, err
	}
	l.uses = append(fromEnv, l.uses...)
	if c.hasRun() {
		respell(l.uses)
	}
	o, err := c.read(l)
	if err != nil {
		return nil, err
	}
	refused := o.refusals()
	switch {
	case o.asksHelp: // whatever else is wrong
		o.Print = c.help(o.given("help").spelled == "-h")
	case o.Print != "":
	case len(refused) > 0:
		return nil, &refused[0].UsageError
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

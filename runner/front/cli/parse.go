package cli

import (
	"errors"
	"time"

	"github.com/urfave/cli/v2"
)

// Parse parses a command line, where args[0] is the name of the program, and the options in CREW_OPTS, which
// come first. A mistake in the usage is a *UsageError. Parse opens no files.
func Parse(args []string, env func(string) string) (*Options, error) {
	if len(args) > 0 {
		args = args[1:]
	}
	if len(args) > 1 && args[0] == "--complete" {
		return &Options{Completion: complete(args[1], args[2:])}, nil
	}
	c, args := findCommand(args)
	var fromEnv []use
	var err error
	if c.takesRunOptions() {
		if fromEnv, err = fromEnvironment(env("CREW_OPTS")); err != nil {
			return nil, err
		}
	}
	l, err := c.split(args)
	if err != nil {
		return nil, err
	}
	l.uses = append(fromEnv, l.uses...)
	if c.takesRunOptions() {
		resolveN(l.uses)
	}
	o, err := c.read(l)
	if err != nil {
		return nil, err
	}
	refused := o.refusals()
	switch {
	case o.Help: // print the help even if something else is wrong
		o.Print = c.help(o.given("help").spelled == "-h")
	case o.Print != "":
	case len(refused) > 0:
		return nil, &refused[0]
	case c.takesRunOptions():
		o.Command.readVariables()
		if err := o.Command.checkOperators(); err != nil {
			return nil, err
		}
		o.finish()
	}
	return o, nil
}

func init() { cli.HelpFlag = nil } // urfave/cli would look for it with a regular expression at each start

// read returns the Options for a command line. If parts are wrong, it returns the first error, together with
// Options for the rest.
func (c *command) read(l line) (*Options, error) {
	o := newOptions(c)
	o.uses, o.Command.Literal = l.uses, l.dashDash
	var bad error
	for _, u := range l.uses {
		err := o.set(u.opt, u.value)
		if err == nil && u.opt.choices != "" {
			err = checkChoice(u.value, u.opt.choices)
		}
		if err != nil && bad == nil {
			if hint := lookupPeer(u.opt.name+"="+u.value, meansAdvice); hint != "" {
				err = errors.New(hint)
			}
			bad = u.bad(err)
		}
	}
	// The built-in options and commands of urfave/cli are switched off, so that it passes on all words.
	app := cli.App{
		HideHelp: true, HideVersion: true, ExitErrHandler: func(*cli.Context, error) {},
		Compiled: time.Unix(0, 0), // otherwise urfave/cli looks up the age of the binary
		Commands: []*cli.Command{{
			Name: c.name, HideHelp: true, SkipFlagParsing: true,
			Action: func(ctx *cli.Context) error { return c.takeOperands(o, ctx.Args().Slice()) },
		}},
	}
	if err := app.Run(append([]string{"crew", c.name}, l.operands...)); bad == nil && !o.Help && o.Print == "" {
		bad = err
	}
	return o, bad
}

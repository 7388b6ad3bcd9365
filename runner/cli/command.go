// Package cli turns the words of a command line into Options: it has the tables of
// commands and of their options, the spellings of peers, checks, help and completion. It
// knows nothing of running, and is the only package that imports urfave/cli.
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

// command is a row of the command table. The parser, the help and the completion use
// it, and a test compares the man page with it.
type command struct {
	name     string // all its words: "ctl log"
	operands string // as the help has them, one of the constants below
	text     string // description in the help
}

// The operands that take knows.
const (
	takesNothing = ""
	takesCommand = "[command [args...]]"
	takesVerb    = "VERB"
	takesTopic   = "[TOPIC]"
	takesDir     = "[--json] DIR"
	takesRun     = "[RUN]"
	takesTask    = "TASK"
	takesTasks   = "TASK..."
	takesAny     = "[TASK...]"
	takesKey     = "TASK...|--key KEY"
	takesSize    = "N|+N|-N [RUN]"
	takesWork    = "VALUE...|-|COMMAND..."
	takesFile    = "FILE"
	takesFarRun  = "RUN"
)

// The commands that run tasks, or show what tasks have done.
const (
	DoRun    = "run" // which is not written
	DoServe  = "serve"
	DoWork   = "worker"
	DoAttach = "engine attach"
)

// commands is the command table, in the order of the help; verbs follow their command.
var commands = [...]command{
	{DoRun, takesCommand, "run a command for each record"},
	{DoServe, takesCommand, "run what crew ctl add brings: values for the command or, without one, commands"},
	{DoWork, takesCommand, "run the tasks of other crews, which --engine brings"},
	{"state", takesDir, "print a summary of the runs that had --state DIR: what ran, what failed, and\nwhat took longest. It can be used during a run"},
	{"help", takesTopic, "print this; TOPIC is one of these words, or an option"},

	{"ctl", takesVerb, "see, steer and feed the crews that run"},
	{"ctl ls", takesNothing, "list your running crews"},
	{"ctl status", takesRun, "what runs, what waits for what, and why"},
	{"ctl log", takesTask, "the output of a task so far"},
	{"ctl explain", takesAny, "where tasks are, and what they wait for"},
	{"ctl watch", takesRun, "print events as they happen"},
	{"ctl top", takesRun, "show and steer the run on the whole screen"},
	{"ctl pause", takesRun, "start nothing; running tasks finish"},
	{"ctl resume", takesRun, "undo pause"},
	{"ctl resize", takesSize, "set, add or take away workers"},
	{"ctl cancel", takesKey, "end running tasks, remove waiting ones"},
	{"ctl retry", takesTasks, "retry now; run failed tasks again"},
	{"ctl drain", takesRun, "start nothing more, let what runs finish"},
	{"ctl stop", takesRun, "drain, and end what runs"},
	{"ctl add", takesWork, "give tasks to a crew serve"},

	{"engine", takesVerb, "run and look after the NATS server by which crew works with other machines"},
	{"engine serve", takesNothing, "run a hub: a NATS server with its files in DIR"},
	{"engine init", takesNothing, "make the streams on a server, print the least rights"},
	{"engine status", takesNothing, "list workers, queues and runs"},
	{"engine pause", takesFarRun, "start nothing of a run until resume"},
	{"engine resume", takesFarRun, "undo pause"},
	{"engine cancel", takesFarRun, "end a run"},
	{DoAttach, takesFarRun, "show the results of a run that was handed over"},
	{"engine key", takesFile, "make a key that signs commands, print what trusts it"},
}

// commandNamed returns the command of that name, or nil.
func commandNamed(name string) *command {
	if i := slices.IndexFunc(commands[:], func(c command) bool { return c.name == name }); i >= 0 {
		return &commands[i]
	}
	return nil
}

// find returns the command that args name, and the words after its name.
func find(args []string) (c *command, rest []string) {
	if len(args) == 0 || !isCommand(args[0]) {
		return &commands[0], args
	}
	if len(args) > 1 {
		if c := commandNamed(args[0] + " " + args[1]); c != nil {
			return c, args[2:]
		}
	}
	return commandNamed(args[0]), args[1:]
}

// isCommand reports whether a first word is a command of crew's, so that a program of
// that name has to follow a --.
func isCommand(word string) bool {
	return word != DoRun && !strings.Contains(word, " ") && commandNamed(word) != nil
}

// hasRun reports whether the command takes the options of runs.
func (c *command) hasRun() bool { return c.operands == takesCommand || c.name == DoAttach }

// mixes reports whether options may follow operands. Those of the others end at the
// first operand, which may be a command with options of its own.
func (c *command) mixes() bool { return c.operands != takesCommand && c.operands != takesWork }

// takes reports whether o is an option of c, whatever its value.
func (c *command) takes(o *option) bool {
	if o.of == "" {
		if name, _, short := strings.Cut(o.means, "="); short {
			o = long(name)
		}
		return c.hasRun() && !c.refuses(o.name)
	}
	tool, verb, _ := strings.Cut(c.name, " ")
	for entry := range strings.SplitSeq(o.of, "; ") {
		of, verbs, some := strings.Cut(entry, ": ")
		if of == tool && (!some || hasWord(verbs, verb)) {
			return c.operands != takesVerb || o.name == "help"
		}
	}
	return false
}

// refuses reports whether the rules refuse an option of runs because of the command, but
// for one value at most.
func (c *command) refuses(name string) bool {
	if c.name == DoAttach {
		return !hasWord(attachTakes, name)
	}
	state := "crew-" + c.name
	clashing := func(r clash) bool { return hasWord(r.conds, state) && hasWord(r.others, name) }
	elsewhere := func(n need) bool {
		return strings.HasPrefix(n.others, "crew-") && n.others != state && hasWord(n.conds, name)
	}
	return slices.ContainsFunc(clashes[:], clashing) || slices.ContainsFunc(needs[:], elsewhere)
}

// hasWord reports whether word is in a list that is separated by blanks, maybe as
// word!=value.
func hasWord(list, word string) bool {
	for w := range strings.FieldsSeq(list) {
		if name, _, _ := strings.Cut(w, "!="); name == word {
			return true
		}
	}
	return false
}

// long returns the option with a long name of crew's or of its peers, or nil. If c has
// runs, the option may be one that it does not take.
func (c *command) long(name string) *option {
	o := c.option(func(o *option) bool { return sameName(o.name, name) })
	if o == nil && c.hasRun() {
		o = accepted(name)
	}
	return o
}

// short is like long, for a letter.
func (c *command) short(letter byte) *option {
	o := c.option(func(o *option) bool { return strings.IndexByte(o.short, letter) >= 0 })
	if o == nil && c.hasRun() {
		o = accepted(string(letter))
	}
	return o
}

// option returns the option for which is holds: one of the command's own or, if it has
// runs, one of theirs.
func (c *command) option(is func(*option) bool) (ofRuns *option) {
	for i := range options {
		o := &options[i]
		switch {
		case !is(o):
		case o.of == "" && c.hasRun():
			ofRuns = o
		case o.of != "" && c.takes(o):
			return o
		}
	}
	return ofRuns
}

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

// UsageError is a mistake in how crew was called, found before anything ran.
type UsageError struct {
	Msg  string // what is wrong
	Hint string // what to write instead; can be ""
}

// Error returns the message and the hint on one line.
func (e *UsageError) Error() string {
	if e.Hint == "" {
		return e.Msg
	}
	return e.Msg + ": " + e.Hint
}

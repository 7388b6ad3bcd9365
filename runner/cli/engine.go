package cli

import (
	"errors"
	"math"
	"os"

	"crew/runner/task"
)

// EngineCall is a command line of crew engine.
type EngineCall struct {
	Verb    string
	URL     string // or the name of a NATS context; "" if the environment tells
	Operand string // RUN or FILE
	JSON    bool
	Out     *os.File
	Notice  func(string)

	// of serve

	Dir, Listen, Cert, Key string

	// of init; 0 for the default

	MaxTasks, MaxOutput int64
	Replicas            int
}

const engineHelpHead = `Usage: crew engine VERB [options] ...

Runs and looks after the NATS server by which crew works with other machines.

`

const engineHelpTail = `
URL is such as nats://hub:4222, the name of a NATS context, or a file of one.
Without --engine it is that of NATS_URL.
See crew engine VERB --help, and crew(1) for the rest.
`

// engineTool returns the table of what crew engine does.
func engineTool() *tool {
	const at = "engine"
	return &tool{"crew engine", engineHelpHead, engineHelpTail, "serve or status", []verb{
		{"serve", takesNothing, "dir listen tls-cert tls-key", "run a hub: a NATS server with its files in DIR", (*ctl).engine},
		{"init", takesNothing, at + " max-tasks max-output replicas", "make the streams on a server, print the least rights", (*ctl).engine},
		{"status", takesNothing, at + " json", "list workers, queues and runs", (*ctl).engine},
		{"pause", takesFarRun, at, "start nothing of a run until resume", (*ctl).engine},
		{"resume", takesFarRun, at, "undo pause", (*ctl).engine},
		{"cancel", takesFarRun, at, "end a run", (*ctl).engine},
		{attaching.name, takesFarRun, at, "show the results of a run that was handed over", (*ctl).engine},
		{"key", takesFile, "", "make a key that signs commands, print what trusts it", (*ctl).engine},
	}}
}

// engineCommand runs crew engine and returns its exit status.
func engineCommand(args []string, programs Programs, stdout, stderr *os.File) int {
	c := &ctl{tool: engineTool(), line: args, far: programs.Far, out: stdout, errs: stderr}
	return c.main(args[2:])
}

// engine has crew-engine carry the command out.
func (c *ctl) engine() error {
	e := &c.hub
	e.Verb, e.Operand, e.JSON, e.Out = c.verb.name, c.run, c.json, c.out
	e.Notice = func(text string) { complain(c.errs, errors.New(text)) }
	switch {
	case e.Verb == "serve" && e.Dir == "":
		return &usageError{"crew engine serve needs a directory", "add --dir DIR"}
	case (e.Cert == "") != (e.Key == ""):
		return &usageError{"a certificate and its key go together", "give both --tls-cert and --tls-key"}
	}
	if c.far == nil {
		return becomeEngine(c.line)
	}
	return c.far.Engine(*e)
}

func setText(to *string, v string) (err error) {
	*to, err = parseText(v)
	return err
}

func (c *ctl) setEngine(v string) error { return setText(&c.hub.URL, v) }

func (c *ctl) setMaxTasks(v string) error {
	n, err := parseWhole(v, 1, math.MaxInt)
	c.hub.MaxTasks = int64(n)
	return err
}

func (c *ctl) setMaxOutput(v string) (err error) {
	c.hub.MaxOutput, err = task.ParseSize(v)
	return err
}

func (c *ctl) setReplicas(v string) (err error) {
	c.hub.Replicas, err = parseWhole(v, 1, 5)
	return err
}

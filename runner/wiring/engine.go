package wiring

import (
	"errors"
	"os"

	"crew/runner/cli"
)

// EngineCall is a command line of crew engine.
type EngineCall struct {
	cli.Hub
	Verb    string
	URL     string // or the name of a NATS context; "" if the environment tells
	Operand string // RUN or FILE
	JSON    bool
	Out     *os.File
	Notice  func(string)
}

// engine has crew-engine carry out a command of crew engine.
func engine(o *cli.Options, verb string, far *Far, line []string, out, errs *os.File) error {
	if far == nil {
		return becomeEngine(line)
	}
	return far.Engine(EngineCall{
		Hub: o.Hub, Verb: verb, URL: o.Engine.URL, Operand: o.Ctl.Run, JSON: o.Ctl.JSON, Out: out,
		Notice: func(text string) { complain(errs, errors.New(text)) },
	})
}

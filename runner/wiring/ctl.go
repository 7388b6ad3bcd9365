package wiring

import (
	"cmp"
	"os"
	"strconv"

	"crew/runner/cli"
	"crew/runner/control"
	"crew/runner/task"
)

// ctl carries out a command of crew ctl.
type ctl struct {
	*cli.Ctl
	verb          string
	line          []string // the command line
	far           *Far     // nil in crew
	in, out, errs *os.File
}

// runNames returns the runs that crew ctl sees, for the completion, if they are wanted.
func runNames(wanted bool) (list []cli.Candidate) {
	if wanted {
		for _, h := range control.List() {
			list = append(list, cli.Candidate{Word: cmp.Or(h.Name, strconv.Itoa(h.PID)), Text: task.Printable(string(h.Command))})
		}
	}
	return list
}

// do carries out the verb.
func (c *ctl) do() error {
	switch c.verb {
	case "ls":
		return c.ls()
	case "top":
		return c.top()
	case "add":
		return c.add()
	}
	return c.call()
}

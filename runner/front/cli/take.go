package cli

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"crew/runner/decide/task"
	"crew/runner/read/input"
)

// takeOperands sets the fields of o that the operands give.
func (c *command) takeOperands(o *Options, operands []string) (err error) {
	ctl, least := &o.Ctl, 1
	switch c.operands {
	case takesCommand:
		o.Command.Words, o.Input.Groups, err = splitGroups(operands)
		if in := &o.Input; err == nil && len(in.Files) == 0 && len(in.Groups) > 0 && in.Groups[0].Linked {
			err = &UsageError{"the first group of values is linked to nothing", "begin with ::: or ::::"}
		}
		return err
	case takesVerb:
		return c.errVerb(operands)
	case takesTopic:
		return o.takeTopic(operands)
	case takesMove, takesSignal, takesLine:
		least = 2
	}
	if ctl.All || ctl.Key != nil {
		least--
	}
	if c.operands == takesNothing || c.operands[0] == '[' && strings.HasSuffix(c.operands, "]") {
		least = 0
	}
	if len(operands) < least || least > 0 && c.operands != takesWork && slices.Contains(operands, "") {
		return c.errOperands("crew %s lacks an argument", c.name)
	}
	switch {
	case c.takesTasks():
		return c.takeTasks(ctl, operands)
	case c.operands == takesWork:
		return ctl.takeWork(operands, o.Command.Literal)
	case c.operands == takesSources, c.operands == takesWorkers:
		ctl.Work = operands
		return nil
	case c.operands == takesSize:
		err = ctl.setSize(operands[0])
		operands = operands[1:]
	}
	if len(operands) > 0 && ctl.Run == "" && c.operands != takesNothing {
		ctl.Run, operands = operands[0], operands[1:]
	}
	if len(operands) > 0 && err == nil {
		err = c.errOperands("%q is one word too many", operands[0])
	}
	return err
}

// errOperands returns the error for operands that the command does not take.
func (c *command) errOperands(format string, args ...any) error {
	return &UsageError{fmt.Sprintf(format, args...), "write " + c.usage()}
}

// splitGroups splits the operands of a run into the command and groups of values.
func splitGroups(operands []string) (command []string, groups []input.Group, err error) {
	const separators = "::: :::: :::+ ::::+"
	separator := ""
	for i, w := range operands {
		switch {
		case w == ":::" || w == ":::+":
			separator = w
			groups = append(groups, input.Group{Values: []string{}, Linked: w == ":::+"})
		case w == "::::" || w == "::::+":
			if separator = w; i+1 == len(operands) || hasWord(separators, operands[i+1]) {
				return nil, nil, &UsageError{":::: names no file", "write :::: FILE, or ::: for values on the command line"}
			}
		case separator == "":
			command = append(command, w)
		case !strings.HasPrefix(separator, "::::"):
			g := &groups[len(groups)-1]
			g.Values = append(g.Values, w)
		default:
			groups = append(groups, input.Group{File: w, Linked: separator == "::::+"})
		}
	}
	return command, groups, nil
}

// errVerb returns the error for a missing or unknown verb.
func (c *command) errVerb(operands []string) error {
	verbs := c.verbs()
	if len(operands) == 0 {
		return &UsageError{"crew " + c.name + " needs a verb, such as " + verbs[0] + " or status", "see crew " + c.name + " --help"}
	}
	word := operands[0]
	hint := didYouMean(word, verbs, "", "see crew "+c.name+" --help")
	for known := range strings.FieldsSeq(peerVerbs) {
		if known, found := strings.CutPrefix(known, word+":"); found && slices.Contains(verbs, known) {
			hint = "write crew " + c.name + " " + known
		}
	}
	return &UsageError{fmt.Sprintf("crew %s knows no %q", c.name, word), hint}
}

// verbs returns the verbs of a command of verbs.
func (c *command) verbs() (verbs []string) {
	for _, v := range commands {
		if tool, verb, _ := strings.Cut(v.name, " "); tool == c.name && verb != "" {
			verbs = append(verbs, verb)
		}
	}
	return verbs
}

// peerVerbs maps verbs of other queues, such as pueue, to verbs of crew.
const peerVerbs = "start:serve list:explain jobs:explain ps:explain kill:cancel remove:cancel rm:cancel follow:log tail:log " +
	"cat:log parallel:resize slots:resize restart:retry start:resume stash:hold enqueue:release switch:move urgent:move"

// takesTasks reports whether the operands are the numbers of tasks, with another word behind them or not.
func (c *command) takesTasks() bool { return strings.Contains(c.operands, "TASK") }

// takeTasks takes the numbers of tasks, and the word behind them if the command has one.
func (c *command) takeTasks(ctl *Ctl, operands []string) error {
	last := len(operands) - 1
	switch c.operands {
	case takesWait:
		ctl.All = ctl.All || last < 0 && ctl.Key == nil
	case takesMove:
		if ctl.Last = operands[last] == "last"; !ctl.Last && operands[last] != "first" {
			return c.errOperands("crew %s needs \"first\" or \"last\" at the end", c.name)
		}
		operands = operands[:last]
	case takesSignal:
		if ctl.Signal = strings.TrimPrefix(strings.ToUpper(operands[last]), "SIG"); unix.SignalNum("SIG"+ctl.Signal) == 0 {
			return c.errOperands("%q is not the name of a signal", operands[last])
		}
		operands = operands[:last]
	case takesLine:
		ctl.Line, operands = task.Bytes(operands[last]), operands[:last]
	}
	for _, w := range operands {
		id, err := parseTask(w)
		if err == nil {
			ctl.Tasks = append(ctl.Tasks, id)
			continue
		}
		_, noName := parseName(w)
		hint := "write " + c.usage()
		if c.long(w) != nil {
			hint = "did you mean --" + w + "?"
		} else if (noName == nil || strings.HasPrefix(w, EnginePrefix)) && ctl.Run == "" {
			hint = "if it is a run, write --run " + w
		}
		return &UsageError{fmt.Sprintf("%q is not the number of a task", w), hint}
	}
	if c.operands == takesTask && len(ctl.Tasks) > 1 {
		return c.errOperands("%q is one word too many", operands[1])
	}
	return nil
}

// takeWork sets the values or the command to add. If literal, - is a value.
func (ctl *Ctl) takeWork(operands []string, literal bool) (err error) {
	if ctl.Stdin = len(operands) == 1 && operands[0] == "-" && !literal; !ctl.Stdin {
		ctl.Work, ctl.NoCommand = operands, Command{Words: operands, Literal: literal}.checkOperators()
	}
	if len(operands) > 0 && operands[0] == ":::" && !literal {
		return &UsageError{"crew ctl add needs no :::", "drop it, or write -- before it if it is a value"}
	}
	if ctl.Null && len(ctl.Work) > 0 {
		return &UsageError{"-0 is for the records of standard input", "add -, or drop -0"}
	}
	if url, name, far := FarRun(ctl.Run); far {
		if _, err := parseName(name); strings.HasSuffix(name, ".json") || err != nil {
			return &UsageError{ctl.Run + " names no crew serve", "write engine:URL/NAME, with the --name of crew serve --engine URL"}
		}
		ctl.URL, ctl.Run = url, name
	}
	return nil
}

// EnginePrefix starts the name of a run that is reached through a hub.
const EnginePrefix = "engine:"

// FarRun returns the URL and the name in engine:URL/NAME. The name is "" if a part is missing. far is false if
// run is not reached through a hub.
func FarRun(run string) (url, name string, far bool) {
	run, far = strings.CutPrefix(run, EnginePrefix)
	if i := strings.LastIndexByte(run, '/'); i > 0 && run[i-1] != '/' {
		url, name = run[:i], run[i+1:]
	}
	return url, name, far
}

// setSize parses the number of workers.
func (ctl *Ctl) setSize(text string) error {
	digits := strings.TrimLeft(text, "+-")
	n, err := strconv.Atoi(text)
	ctl.N, ctl.Relative = n, text != digits
	switch {
	case text == "0":
		return &UsageError{"a run has at least one worker", "write crew ctl pause to start nothing"}
	case err != nil || !isNumber(digits):
		return &UsageError{fmt.Sprintf("%q is not a number of workers", text), "write a number from 1, or +N or -N for more or fewer"}
	}
	return nil
}

// parseTask parses the number of a task.
func parseTask(text string) (uint64, error) {
	id, err := strconv.ParseUint(text, 10, 64)
	if err != nil || id == 0 {
		return 0, errors.New("write the number that crew ctl add printed for the task")
	}
	return id, nil
}

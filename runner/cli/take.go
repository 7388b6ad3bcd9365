package cli

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"crew/runner/input"
	"crew/runner/task"
)

// take sets what the operands say.
func (c *command) take(o *Options, operands []string) (err error) {
	switch c.operands {
	case takesCommand:
		o.Command.Words, o.Input.Groups, err = splitGroups(operands)
		if in := &o.Input; err == nil && len(in.Files) == 0 && len(in.Groups) > 0 && in.Groups[0].Linked {
			err = &UsageError{"the first group of values is linked to nothing", "begin with ::: or ::::"}
		}
		return err
	case takesVerb:
		return c.noVerb(operands)
	case takesTopic:
		return o.takeTopic(operands)
	case takesTask, takesTasks, takesAny, takesKey, takesWait:
		return c.takeTasks(&o.Ctl, operands)
	case takesMove:
		return c.takeMove(&o.Ctl, operands)
	case takesWork:
		return c.takeWork(&o.Ctl, operands, o.Command.Literal)
	case takesDir:
		if len(operands) != 1 || operands[0] == "" {
			return &UsageError{"crew state takes one directory",
				"write crew state DIR, crew state --json DIR for the events, or crew -- state for a program of that name"}
		}
		o.State.Dir, operands = operands[0], nil
	case takesSources:
		if o.Look.Sources = operands; len(operands) == 0 || slices.Contains(operands, "") {
			return c.wrong("crew report needs what a run has left: a joblog, a file of --json, or a directory of --state")
		}
		return nil
	case takesSize:
		if len(operands) == 0 {
			return c.wrong("crew ctl resize needs a number")
		}
		if err := o.Ctl.setSize(operands[0]); err != nil {
			return err
		}
		operands = operands[1:]
		fallthrough
	case takesRun:
		if len(operands) > 0 && o.Ctl.Run == "" {
			o.Ctl.Run, operands = operands[0], operands[1:]
		}
		if o.Ctl.All && o.Ctl.Run != "" {
			return &UsageError{"--all names all runs, and " + task.Quote(o.Ctl.Run) + " is one", "drop one of them"}
		}
	case takesWorkers:
		if o.Ctl.Work = operands; len(operands) > 0 == o.Ctl.All {
			return c.wrong("crew %s needs either workers or --all", c.name)
		}
		return nil
	case takesFile, takesFarRun, takesName:
		if len(operands) == 0 {
			what := map[string]string{takesName: "user"}[c.operands]
			return c.wrong("crew %s needs the name of a %s", c.name, cmp.Or(what, strings.ToLower(c.operands)))
		}
		o.Ctl.Run, operands = operands[0], operands[1:]
	}
	if len(operands) > 0 {
		return c.wrong("%q is one word too many", operands[0])
	}
	return nil
}

// wrong returns the error of operands that the command does not take.
func (c *command) wrong(format string, args ...any) error {
	return &UsageError{fmt.Sprintf(format, args...), "write " + c.usage()}
}

// splitGroups splits the operands of a run into the command and the groups of values.
func splitGroups(operands []string) (command []string, groups []input.Group, err error) {
	separates := func(w string) bool { return w == ":::" || w == "::::" || w == ":::+" || w == "::::+" }
	cut := func() (words []string) {
		n := slices.IndexFunc(operands, separates)
		if n < 0 {
			n = len(operands)
		}
		words, operands = append(words, operands[:n]...), operands[n:]
		return words
	}
	for command = cut(); len(operands) > 0; {
		separator := operands[0]
		operands = operands[1:]
		words, linked := cut(), strings.HasSuffix(separator, "+")
		if !strings.HasPrefix(separator, "::::") {
			groups = append(groups, input.Group{Values: append([]string{}, words...), Linked: linked})
			continue
		}
		if len(words) == 0 {
			return nil, nil, &UsageError{":::: names no file", "write :::: FILE, or ::: for values on the command line"}
		}
		for _, w := range words {
			if len(w) > 1 && w[0] == '-' {
				return nil, nil, &UsageError{task.Quote(w) + " is among the files of ::::",
					"options come before the command; " + task.Quote("./"+w) + " is a file"}
			}
			groups = append(groups, input.Group{File: w, Linked: linked})
		}
	}
	return command, groups, nil
}

// noVerb returns the error of a command of verbs without one that it knows.
func (c *command) noVerb(operands []string) error {
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
	if commandNamed("ctl "+word) != nil {
		hint = "write crew ctl " + word + " --run engine:URL/RUN"
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

// peerVerbs are the verbs for what other queues, such as pueue, call otherwise.
const peerVerbs = "list:explain jobs:explain ps:explain kill:cancel remove:cancel rm:cancel follow:log tail:log " +
	"cat:log parallel:resize slots:resize restart:retry start:resume stash:hold enqueue:release switch:move urgent:move"

// takeTasks reads the numbers of tasks.
func (c *command) takeTasks(ctl *Ctl, operands []string) error {
	for _, w := range operands {
		id, err := parseTask(w)
		if err != nil {
			return c.noTask(w, operands, ctl.Run)
		}
		ctl.Tasks = append(ctl.Tasks, id)
	}
	switch {
	case c.operands == takesWait && len(ctl.Tasks) == 0 && ctl.Key == nil:
		ctl.All = true
	case len(ctl.Tasks) == 0 && ctl.Key == nil && !ctl.All && c.operands != takesAny:
		return c.wrong("crew %s needs the number of a task", c.name)
	case c.operands == takesTask && len(ctl.Tasks) > 1:
		return &UsageError{"crew " + c.name + " takes one task", "if the first is a run, write --run " + operands[0] + " " + operands[1]}
	}
	return nil
}

// takeMove reads the numbers of tasks, and where to move them.
func (c *command) takeMove(ctl *Ctl, operands []string) error {
	last := len(operands) - 1
	if last < 0 || operands[last] != "first" && operands[last] != "last" {
		return c.wrong("crew ctl move needs to know where to: first or last")
	}
	ctl.Last = operands[last] == "last"
	return c.takeTasks(ctl, operands[:last])
}

// noTask returns the error of an operand that is no number of a task, but maybe a run.
func (c *command) noTask(w string, operands []string, run string) error {
	if _, err := parseName(w); err != nil || run != "" {
		return c.wrong("%q is no number of a task", w)
	}
	rest := slices.DeleteFunc(operands, func(o string) bool { return o == w })
	return &UsageError{
		fmt.Sprintf("%q is no number of a task", w),
		"the run " + w + " is written --run " + w + ", as in crew " + c.name + " --run " + w + " " + cmp.Or(strings.Join(rest, " "), "1"),
	}
}

// takeWork reads what is to be added. literal says that a - is a value.
func (c *command) takeWork(ctl *Ctl, operands []string, literal bool) error {
	if ctl.Stdin = len(operands) == 1 && operands[0] == "-" && !literal; !ctl.Stdin {
		ctl.Work = operands
	}
	switch {
	case len(operands) == 0:
		return &UsageError{"there is nothing to add", "write values or a command, or - for the lines of standard input"}
	case ctl.Null && !ctl.Stdin:
		return &UsageError{"-0 is for the records of standard input", "add -, or drop -0"}
	}
	if url, far := strings.CutPrefix(ctl.Run, EnginePrefix); far {
		var err error
		if ctl.URL, ctl.Queue, err = splitEngine(url); err != nil {
			return &UsageError{"bad queue in --to " + ctl.Run, err.Error()}
		}
	}
	return nil
}

// EnginePrefix begins the RUN of crew ctl add --to that is a queue of an engine.
const EnginePrefix = "engine:"

// setSize reads the number of workers.
func (ctl *Ctl) setSize(text string) error {
	digits := strings.TrimLeft(text, "+-")
	n, err := strconv.Atoi(text)
	ctl.N, ctl.Relative = n, text != digits
	switch {
	case text == "0":
		return &UsageError{"a run has at least one worker", "write crew ctl pause to start nothing"}
	case err != nil || !isNumber(digits):
		return &UsageError{fmt.Sprintf("%q is no number of workers", text), "write a number from 1, or +N or -N for more or fewer"}
	}
	return nil
}

// parseTask parses the number of a task.
func parseTask(text string) (uint64, error) {
	id, err := strconv.ParseUint(text, 10, 64)
	if err != nil || id == 0 {
		return 0, errors.New("write the number that add has printed for the task")
	}
	return id, nil
}

// splitEngine splits URL[/QUEUE]. URL can have slashes behind :// and, as a file,
// before .json.
func splitEngine(text string) (url, queue string, err error) {
	from := 0
	if i := strings.LastIndex(text, "://"); i >= 0 {
		from = i + len("://")
	} else if i := strings.LastIndex(text, ".json"); i >= 0 {
		from = i
	}
	host, queue, found := strings.Cut(text[from:], "/")
	if !found {
		queue = defaultQueue
	}
	_, err = parseQueue(queue)
	return text[:from] + host, queue, err
}

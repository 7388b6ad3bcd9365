package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"crew/runner/control"
	"crew/runner/task"
)

// verb is a row of the table of what crew ctl does, or crew engine. The parser, the
// help and the completion scripts use it, and a test compares the man page with it.
type verb struct {
	name     string
	operands string // as the help has them; some forms have a meaning for ctl.take
	options  string // names of the options it takes beside --help
	text     string // description in the help
	do       func(*ctl) error
}

// tool is a command of crew's that has verbs.
type tool struct {
	name       string
	head, tail string // of its help
	such       string // examples of verbs
	verbs      []verb
}

// The operands that ctl.take knows.
const (
	takesNothing = ""
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

// ctlTool returns the table, in the order of the help. It is no variable, as the
// functions in it come back to it.
func ctlTool() *tool {
	all := []verb{
		{"ls", takesNothing, "", "list your running crews", (*ctl).ls},
		{"status", takesRun, "run", "what runs, what waits for what, and why", (*ctl).status},
		{"log", takesTask, "follow run", "the output of a task so far", (*ctl).log},
		{"explain", takesAny, "run", "where tasks are, and what they wait for", (*ctl).explain},
		{"watch", takesRun, "run", "print events as they happen", (*ctl).watch},
		{"top", takesRun, "run", "show and steer the run on the whole screen", (*ctl).top},
		{"pause", takesRun, "run", "start nothing; running tasks finish", (*ctl).steer},
		{"resume", takesRun, "run", "undo pause", (*ctl).steer},
		{"resize", takesSize, "run", "set, add or take away workers", (*ctl).steer},
		{"cancel", takesKey, "key run", "end running tasks, remove waiting ones", (*ctl).cancel},
		{"retry", takesTasks, "run", "retry now; run failed tasks again", (*ctl).retry},
		{"drain", takesRun, "rest run", "start nothing more, let what runs finish", (*ctl).steer},
		{"stop", takesRun, "run", "drain, and end what runs", (*ctl).steer},
		{"add", takesWork, "to key after wait block null", "give tasks to a crew serve", (*ctl).add},
	}
	for i := range all {
		all[i].options = strings.TrimSpace(all[i].options + " json")
	}
	return &tool{"crew ctl", ctlHelpHead, ctlHelpTail, "ls or status", all}
}

// ctlOption is an option of crew ctl or crew engine.
type ctlOption struct {
	name  string
	short string
	value string // name of the value; "" if the option takes none
	text  string
	set   func(*ctl, string) error
}

var ctlOptions = [...]ctlOption{
	{"run", "", "RUN", "the pid or the name of the run", func(c *ctl, v string) error { c.run = v; return nil }},
	{"to", "", "RUN", "the crew serve, or engine:URL/QUEUE", func(c *ctl, v string) error { c.run = v; return nil }},
	{"follow", "f", "", "go on until the task ends", func(c *ctl, _ string) error { c.follow = true; return nil }},
	{"rest", "", "", "first run everything that was read", func(c *ctl, _ string) error { c.rest = true; return nil }},
	{"key", "", "KEY", "the key of the tasks", func(c *ctl, v string) error { key := task.Bytes(v); c.key = &key; return nil }},
	{"after", "", "TASK", "wait until this one succeeded; repeatable", (*ctl).setAfter},
	{"wait", "", "", "show the output, end with the task's status", func(c *ctl, _ string) error { c.wait = true; return nil }},
	{"block", "", "", "wait while the queue is full", func(c *ctl, _ string) error { c.block = true; return nil }},
	{"null", "0", "", "records of - end with a NUL byte", func(c *ctl, _ string) error { c.null = true; return nil }},
	{"engine", "", "URL", "the NATS server, or the name of a NATS context", (*ctl).setEngine},
	{"dir", "", "DIR", "where the hub keeps everything", func(c *ctl, v string) error { return setText(&c.hub.Dir, v) }},
	{"listen", "", "HOST:PORT", "where it listens (127.0.0.1:4222)", func(c *ctl, v string) error { return setText(&c.hub.Listen, v) }},
	{"tls-cert", "", "FILE", "its certificate; then it may listen anywhere", func(c *ctl, v string) error { return setText(&c.hub.Cert, v) }},
	{"tls-key", "", "FILE", "the key of the certificate", func(c *ctl, v string) error { return setText(&c.hub.Key, v) }},
	{"max-tasks", "", "N", "tasks in the stream; submitters then wait (100000)", (*ctl).setMaxTasks},
	{"max-output", "", "SIZE", "output in the stream; workers then wait (1G)", (*ctl).setMaxOutput},
	{"replicas", "", "N", "how many servers of a cluster keep each message (1)", (*ctl).setReplicas},
	{"json", "", "", "print the replies as lines of JSON", func(c *ctl, _ string) error { c.json = true; return nil }},
	{"help", "h", "", "print this", func(c *ctl, _ string) error { c.help = true; return nil }},
}

// ctl is a parsed command line of crew ctl or crew engine.
type ctl struct {
	in, out, errs *os.File

	tool     *tool
	verb     *verb
	run      string // "" for the only one
	tasks    []uint64
	after    []uint64
	key      *task.Bytes
	n        int
	relative bool       // n is a difference
	work     []string   // what to add
	stdin    bool       // records of standard input are to be added
	line     []string   // all of it, with crew itself
	hub      EngineCall // of crew engine
	far      *Far       // nil in crew

	follow, rest, wait, block, null, json, help bool
}

// exitStatus is an error that was told already, or needs no telling.
type exitStatus int

func (e exitStatus) Error() string { return "exit status " + strconv.Itoa(int(e)) }

// ctlCommand runs "crew ctl" and returns its exit status.
func ctlCommand(args []string, programs Programs, stdin, stdout, stderr *os.File) int {
	c := &ctl{tool: ctlTool(), line: args, far: programs.Far, in: stdin, out: stdout, errs: stderr}
	return c.main(args[2:])
}

func (c *ctl) main(args []string) int {
	stdout, stderr := c.out, c.errs
	err := c.parse(args)
	switch {
	case err == nil && c.help:
		_, err = io.WriteString(stdout, c.helpText())
	case err == nil:
		err = c.verb.do(c)
	}
	if told, ok := errors.AsType[exitStatus](err); ok {
		return int(told)
	}
	if refused, ok := errors.AsType[*control.Refused](err); ok {
		complain(stderr, err)
		return refused.Status
	}
	if err != nil {
		return complain(stderr, err)
	}
	return statusOK
}

// parse reads the verb, its options and its operands, which may be mixed. Only the
// options of add end at its first operand, which may be a command with options of
// its own.
func (c *ctl) parse(args []string) error {
	if len(args) == 0 {
		return &usageError{c.tool.name + " needs a verb, such as " + c.tool.such, "see " + c.tool.name + " --help"}
	}
	if args[0] == "--help" || args[0] == "-h" {
		c.help = true
		return nil
	}
	i := slices.IndexFunc(c.tool.verbs, func(v verb) bool { return v.name == args[0] })
	if i < 0 {
		return c.tool.unknownVerb(args[0])
	}
	c.verb = &c.tool.verbs[i]
	operands, ended, err := c.options(args[1:])
	if err != nil || c.help {
		return err
	}
	return c.take(operands, ended)
}

func (t *tool) unknownVerb(word string) error {
	var names, begin []string
	for _, v := range t.verbs {
		names = append(names, v.name)
		if word != "" && strings.HasPrefix(v.name, word) {
			begin = append(begin, v.name)
		}
	}
	hint := "see " + t.name + " --help"
	if known := peerVerb(word); slices.Contains(names, known) {
		hint = "write " + t.name + " " + known
	} else if near := task.Nearest(word, names); len(begin) > 1 {
		hint = "did you mean " + oneOf(begin) + "?"
	} else if near = strings.Join(append(begin, near)[:1], ""); near != "" {
		hint = "did you mean " + near + "?"
	}
	return &usageError{fmt.Sprintf("%s knows no %q", t.name, word), hint}
}

// peerVerb returns the verb for what other queues, such as pueue, call word, or "".
func peerVerb(word string) string {
	switch word {
	case "list", "jobs", "ps":
		return "explain"
	case "kill", "remove", "rm":
		return "cancel"
	case "follow", "tail", "cat", "wait":
		return "log"
	case "parallel", "slots":
		return "resize"
	case "restart":
		return "retry"
	case "start":
		return "resume"
	}
	return ""
}

// options sets the options in args and returns the operands. ended reports whether
// a -- came before the first of these.
func (c *ctl) options(args []string) (operands []string, ended bool, err error) {
	for len(args) > 0 {
		arg := args[0]
		switch {
		case arg == "--":
			return append(operands, args[1:]...), len(operands) == 0, nil
		case len(arg) < 2 || arg[0] != '-' || c.verb.operands == takesSize && isNumber(arg[1:]):
			if c.verb.operands == takesWork {
				return args, false, nil
			}
			operands, args = append(operands, arg), args[1:]
		default:
			if args, err = c.option(arg, args[1:]); err != nil {
				return nil, false, err
			}
		}
	}
	return operands, false, nil
}

// option sets the option arg, or a bundle of them. next are the arguments that
// follow; rest are those that are left.
func (c *ctl) option(arg string, next []string) (rest []string, err error) {
	name, value, attached := strings.Cut(arg, "=")
	if !strings.HasPrefix(arg, "--") { // no short option takes a value
		name, attached = arg[:2], false
	}
	o := c.verb.option(strings.TrimLeft(name, "-"), len(name) > 2)
	switch {
	case o == nil:
		return nil, &usageError{c.tool.name + " " + c.verb.name + " has no option " + quoteOption(name), "it takes " + oneOf(c.verb.optionNames())}
	case o.value == "" && attached:
		return nil, &usageError{name + " takes no value", "write " + name + " alone"}
	case o.value != "" && !attached:
		if len(next) == 0 {
			return nil, &usageError{name + " needs a value", "write " + name + " " + o.value}
		}
		value, next = next[0], next[1:]
	}
	if err := o.set(c, value); err != nil {
		return nil, &usageError{fmt.Sprintf("bad value %q for %s", value, name), err.Error()}
	}
	if name != arg && len(name) == 2 {
		next = append([]string{"-" + arg[2:]}, next...)
	}
	return next, nil
}

// option returns the option of v with a name, long or short, or nil.
func (v *verb) option(name string, long bool) *ctlOption {
	for i := range ctlOptions {
		o := &ctlOptions[i]
		if v.takes(o) && (long && o.name == name || !long && o.short == name) {
			return o
		}
	}
	return nil
}

// takes reports whether o is an option of v.
func (v *verb) takes(o *ctlOption) bool {
	return o.name == "help" || slices.Contains(strings.Fields(v.options), o.name)
}

// wrong returns the error of operands that the verb does not take.
func (c *ctl) wrong(format string, args ...any) error {
	return &usageError{fmt.Sprintf(format, args...), "write " + c.tool.usage(c.verb)}
}

// noTask returns the error of an operand that is no number of a task, but maybe a run.
func (c *ctl) noTask(w string, operands []string) error {
	if _, err := parseName(w); err != nil || c.run != "" {
		return c.wrong("%q is no number of a task", w)
	}
	rest := slices.DeleteFunc(operands, func(o string) bool { return o == w })
	return &usageError{
		fmt.Sprintf("%q is no number of a task", w),
		"the run " + w + " is written --run " + w + ", as in crew ctl " + c.verb.name + " --run " + w + " " + cmp.Or(strings.Join(rest, " "), "1"),
	}
}

// take reads the operands that the verb takes.
func (c *ctl) take(operands []string, ended bool) (err error) {
	switch c.verb.operands {
	case takesSize:
		if len(operands) == 0 {
			return c.wrong("crew ctl resize needs a number")
		}
		if err := c.setSize(operands[0]); err != nil {
			return err
		}
		operands = operands[1:]
		fallthrough
	case takesRun:
		if len(operands) > 0 && c.run == "" {
			c.run, operands = operands[0], operands[1:]
		}
	case takesFile, takesFarRun:
		if len(operands) == 0 {
			return c.wrong("%s %s needs the name of a %s", c.tool.name, c.verb.name, strings.ToLower(c.verb.operands))
		}
		c.run, operands = operands[0], operands[1:]
	case takesTask, takesTasks, takesAny, takesKey:
		for _, w := range operands {
			id, ok := parseTask(w)
			if !ok {
				return c.noTask(w, operands)
			}
			c.tasks = append(c.tasks, id)
		}
		switch {
		case len(c.tasks) == 0 && c.key == nil && c.verb.operands != takesAny:
			return c.wrong("crew ctl %s needs the number of a task", c.verb.name)
		case len(c.tasks) > 0 && c.key != nil:
			return &usageError{"task numbers and --key do not go together", "drop one of them"}
		case c.verb.operands == takesTask && len(c.tasks) > 1:
			return &usageError{"crew ctl " + c.verb.name + " takes one task", "if the first is a run, write --run " + operands[0] + " " + operands[1]}
		}
		operands = nil
	case takesWork:
		c.work, operands = operands, nil
		if c.stdin = len(c.work) == 1 && c.work[0] == "-" && !ended; c.stdin {
			c.work = nil
		}
		switch {
		case len(c.work) == 0 && !c.stdin:
			return &usageError{"there is nothing to add", "write values or a command, or - for the lines of standard input"}
		case c.null && !c.stdin:
			return &usageError{"-0 is for the records of standard input", "add -, or drop -0"}
		}
	}
	if len(operands) > 0 {
		return c.wrong("%q is one word too many", operands[0])
	}
	return nil
}

func isNumber(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

func (c *ctl) setSize(text string) error {
	digits := strings.TrimLeft(text, "+-")
	n, err := strconv.Atoi(text)
	c.n, c.relative = n, text != digits
	switch {
	case text == "0":
		return &usageError{"a run has at least one worker", "write crew ctl pause to start nothing"}
	case err != nil || !isNumber(digits):
		return &usageError{fmt.Sprintf("%q is no number of workers", text), "write a number from 1, or +N or -N for more or fewer"}
	}
	return nil
}

func (c *ctl) setAfter(text string) error {
	id, ok := parseTask(text)
	if !ok {
		return errors.New("write the number that add has printed for the task")
	}
	c.after = append(c.after, id)
	return nil
}

// parseTask parses the number of a task.
func parseTask(text string) (id uint64, ok bool) {
	id, err := strconv.ParseUint(text, 10, 64)
	return id, err == nil && id > 0
}

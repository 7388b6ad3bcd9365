// Package cli turns the words of a command line into Options: it has the tables of
// commands and of their options, the spellings of peers, checks, help and completion. It
// knows nothing of running, and is the only package that imports urfave/cli.
package cli

import (
	"slices"
	"strings"
)

// The operands that take knows.
const (
	takesNothing = ""
	takesCommand = "[command [args...]]"
	takesVerb    = "VERB"
	takesTopic   = "[TOPIC]"
	takesDir     = "[--json] DIR"
	takesSources = "FILE|DIR..."
	takesRun     = "[RUN]"
	takesTask    = "TASK"
	takesTasks   = "TASK..."
	takesAny     = "[TASK...]"
	takesKey     = "TASK...|--key KEY|--all"
	takesWait    = "[TASK...|--key KEY|--all]"
	takesMove    = "TASK... first|last"
	takesSize    = "N|+N|-N [RUN]"
	takesWork    = "VALUE...|-|COMMAND..."
	takesFile    = "FILE"
	takesFarRun  = "RUN"
	takesName    = "NAME"
	takesWorkers = "WORKER...|--all"
)

// The commands that run tasks, or show what tasks have done.
const (
	DoRun    = "run" // which is not written
	DoServe  = "serve"
	DoWork   = "worker"
	DoAttach = "engine attach"
)

// The commands that crew-web carries out.
const (
	DoReport = "report"
	DoWeb    = "web"
)

// commands is the command table, in the order of the help; verbs follow their command.
var commands = [...]command{
	{DoRun, takesCommand, "run a command for each record"},
	{DoServe, takesCommand, "run what crew ctl add brings: values for the command or, without one, commands"},
	{DoWork, takesCommand, "run the tasks of other crews, which --engine brings"},
	{"state", takesDir, "print a summary of the runs that had --state DIR: what ran, what failed, and\nwhat took longest. It can be used during a run"},
	{DoReport, takesSources, "print an HTML page of what runs did: timeline, failures and their output, and\ntrends. FILE is a joblog or the output of --json, DIR that of --state"},
	{DoWeb, takesNothing, "show and steer your runs in a browser on this machine"},
	{"help", takesTopic, "print this; TOPIC is one of these words, or an option"},

	{"ctl", takesVerb, "see, steer and feed the crews that run"},
	{"ctl ls", takesNothing, "list your running crews"},
	{"ctl status", takesRun, "what runs, what waits for what, and why"},
	{"ctl log", takesTask, "the output of a task so far"},
	{"ctl explain", takesAny, "where tasks are, and what they wait for"},
	{"ctl wait", takesWait, "end when tasks, or all, have, with their status"},
	{"ctl watch", takesRun, "print events as they happen"},
	{"ctl top", takesRun, "show and steer the run on the whole screen"},
	{"ctl pause", takesRun, "start nothing; running tasks finish"},
	{"ctl resume", takesRun, "undo pause"},
	{"ctl resize", takesSize, "set, add or take away workers"},
	{"ctl cancel", takesKey, "end running tasks, remove waiting ones"},
	{"ctl retry", takesTasks, "retry now; run failed tasks again"},
	{"ctl hold", takesTasks, "keep waiting tasks from starting"},
	{"ctl release", takesTasks, "undo hold; start tasks before their time"},
	{"ctl move", takesMove, "have waiting tasks start before or after all others"},
	{"ctl drain", takesRun, "start nothing more, let what runs finish"},
	{"ctl stop", takesRun, "drain, and end what runs; --all: of all your runs"},
	{"ctl add", takesWork, "give tasks to a crew serve"},

	{"engine", takesVerb, "run and look after the NATS server by which crew works with other machines"},
	{"engine serve", takesNothing, "run a hub: a NATS server with its files in DIR"},
	{"engine invite", takesName, "let a worker connect; prints with what"},
	{"engine revoke", takesName, "end what invite began, and close the connections"},
	{"engine init", takesNothing, "print the least rights of users of a NATS server"},
	{"engine status", takesNothing, "list workers, queues and runs"},
	{"engine cancel", takesFarRun, "end a run, or remove one that is over"},
	{"engine drain", takesWorkers, "have workers end once what they run has ended"},
	{DoAttach, takesFarRun, "show the results of a run that was handed over"},
	{"engine key", takesFile, "make a key to sign commands, print what trusts it"},
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

// Package cli turns the words of a command line into Options: it has the tables of
// commands and of their options, the spellings of peers, checks, help and completion. It
// knows nothing of running, and is the only package that imports urfave/cli.
package cli

import (
	_ "embed" // the commands
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

// commandTable has a command a line, in the order of the help: its words, its operands, and its text
// in the help, in which \n ends a line. Verbs follow their command.
//
//go:embed commands.txt
var commandTable string

var commands = func() (all []command) {
	for line := range strings.Lines(commandTable) {
		part := strings.Split(strings.TrimSpace(line), " = ")
		all = append(all, command{part[0], part[1], strings.ReplaceAll(part[2], `\n`, "\n")})
	}
	return all
}()

// commandNamed returns the command of that name, or nil.
func commandNamed(name string) *command {
	if i := slices.IndexFunc(commands, func(c command) bool { return c.name == name }); i >= 0 {
		return &commands[i]
	}
	return nil
}

// find returns the command that args name, and the words after its name.
func findCommand(args []string) (c *command, rest []string) {
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
func (c *command) takesRunOptions() bool { return c.operands == takesCommand || c.name == DoAttach }

// mixes reports whether options may follow operands. Those of the others end at the
// first operand, which may be a command with options of its own.
func (c *command) optionsAnywhere() bool {
	return c.operands != takesCommand && c.operands != takesWork
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

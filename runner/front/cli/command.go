// Package cli turns the words of a command line into Options. It holds the tables of commands and options,
// the spellings of other tools, the checks, the help and the completion. It knows nothing of running
// tasks, and is the only package that imports urfave/cli.
package cli

import (
	_ "embed" // the commands
	"slices"
	"strings"
)

// Forms of operands, as the help shows them.
const (
	takesNothing = ""
	takesCommand = "[command [args...]]"
	takesVerb    = "VERB"
	takesTopic   = "[TOPIC]"
	takesDir     = "[--json] DIR"
	takesSources = "FILE|DIR..."
	takesRun     = "[RUN]"
	takesTask    = "TASK"
	takesWait    = "[TASK...|--key KEY|--all]"
	takesMove    = "TASK... first|last"
	takesSignal  = "TASK... SIGNAL"
	takesLine    = "TASK...|--key KEY LINE"
	takesSize    = "N|+N|-N [RUN]"
	takesWork    = "VALUE...|-|COMMAND..."
	takesFile    = "FILE"
	takesFarRun  = "RUN"
	takesWorkers = "WORKER...|--all"
)

// The commands that run tasks or show the results of tasks.
const (
	DoRun    = "run" // never typed: the default
	DoServe  = "serve"
	DoWork   = "worker"
	DoAttach = "engine attach"
)

// The commands that crew-web carries out.
const (
	DoReport = "report"
	DoWeb    = "web"
)

// commandTable has one command per line, in the order of the help: its words, its operands, and its text in
// the help, where \n stands for a newline. Verbs follow their command.
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

// commandNamed returns the command with this name, or nil.
func commandNamed(name string) *command {
	if i := slices.IndexFunc(commands, func(c command) bool { return c.name == name }); i >= 0 {
		return &commands[i]
	}
	return nil
}

// findCommand returns the command that args name, and the words after its name.
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

// isCommand reports whether word, as the first word, is one of crew's commands. A program with that name has
// to follow a --.
func isCommand(word string) bool {
	return word != DoRun && !strings.Contains(word, " ") && commandNamed(word) != nil
}

// takesRunOptions reports whether the command takes the options of runs.
func (c *command) takesRunOptions() bool { return c.operands == takesCommand || c.name == DoAttach }

// optionsAnywhere reports whether options may follow operands. Otherwise they end at the first operand, which
// may be a command with its own options.
func (c *command) optionsAnywhere() bool {
	return c.operands != takesCommand && c.operands != takesWork
}

// hasWord reports whether a list separated by blanks holds word.
func hasWord(list, word string) bool { return slices.Contains(strings.Fields(list), word) }

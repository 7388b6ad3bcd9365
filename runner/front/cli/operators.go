package cli

import (
	"os"
	"path"
	"regexp"
	"slices"
	"strings"

	"crew/runner/decide/task"
	"crew/runner/read/expand"
)

// operators are words that only a shell understands.
const operators = "; & && || | |& > >> < 2> 2>> &> 2>&1 >&2"

// isAssignment reports whether a word has the form NAME=VALUE.
func isAssignment(word string) bool { return expand.Assigned(word) != "" }

// operator returns the first word that was probably meant for a shell, in a command that runs without one, or
// "".
func (c Command) operator() string {
	if len(c.Words) < 2 || c.Shell != "" {
		return ""
	}
	const wraps = "env sudo doas nice ionice nohup time timeout setsid stdbuf chrt taskset"
	program := slices.IndexFunc(c.Words, func(w string) bool {
		return !hasWord(wraps, path.Base(w)) && w[:min(1, len(w))] != "-" && !isAssignment(w) && strings.Trim(w, "0123456789.smhd") != ""
	})
	for i, w := range c.Words {
		switch {
		case hasWord("-exec -ok -execdir -okdir", w), i == program && hasWord("test [ expr tr", path.Base(w)):
			return ""
		case hasWord(operators, w) && (i == 0 || len(c.Words[i-1]) < 2 || c.Words[i-1][0] != '-'):
			return w
		}
	}
	return ""
}

// ReplacesFindBraces reports whether crew replaces the {} of find's -exec by the record.
func (c Command) ReplacesFindBraces() bool {
	line := strings.Join(c.Words, " ")
	return !c.Literal && c.Replace == "{}" && strings.Contains(line, "find ") &&
		regexp.MustCompile(`(^|[\s;&|(/])find\s(.*\s)?-(exec|ok)(dir)?\s[^;]*\{\}`).MatchString(line)
}

// readVariables puts env before variables at the start of a command of several words. The program after them
// must be known: if a record names it, the record could be another variable. An option is none.
func (c *Command) readVariables() {
	i := slices.IndexFunc(c.Words, func(w string) bool { return !isAssignment(w) })
	known := func(w string) bool {
		return !strings.HasPrefix(w, "{") && !strings.HasPrefix(w, "-") && !strings.HasPrefix(w, c.Replace)
	}
	if i > 0 && c.Shell == "" && !c.Literal && known(c.Words[i]) {
		c.Words = append([]string{"env"}, c.Words...)
	}
}

// checkOperators refuses a command that was probably meant for a shell.
func (c Command) checkOperators() error {
	if len(c.Words) < 2 || c.Shell != "" || c.Literal {
		return nil
	}
	const keep, why = "-- before the command to keep the word", ", because a command of several words runs without a shell"
	first, w := c.Words[0], c.operator()
	switch named := task.Quote(first) + " would be the name of a program" + why; {
	case isAssignment(first):
		return &UsageError{named, "name the program after it, or write -- before the command if it is one"}
	case strings.Contains(first, " ") && strings.Contains(first, "{"):
		return &UsageError{named, c.inOne() + ", or " + keep}
	case w != "":
		return &UsageError{task.Quote(w) + " would be an argument" + why, "write " + task.Quote(c.script()) + " for one, or " + keep}
	}
	return nil
}

// inOne returns the hint to write all words in one, or ::: before values.
func (c Command) inOne() string {
	hint := "write " + task.Quote(strings.Join(c.Words, " ")) + " for one"
	if strings.HasPrefix(c.Words[1], "-") {
		hint += ", options of crew before it"
	} else if strings.Contains(c.Words[0], "{") {
		hint = "put ::: before values, or " + hint
	}
	return hint
}

// script returns the shell command that the user probably meant.
func (c Command) script() string {
	words := slices.Clone(c.Words)
	for i, w := range words {
		if !hasWord(operators, w) && strings.ContainsAny(w, " \t\n'\"\\$`*?[]()#&;<>|~!") {
			words[i] = task.Quote(w)
		}
	}
	return strings.Join(words, " ")
}

// Template returns the configuration of the command's template, as far as it is known without the names of
// columns.
func (o *Options) Template() expand.Config {
	c := o.Command
	return expand.Config{Words: o.Words(), Shell: c.Shell, Replace: c.Replace, Columns: expand.Columns{Fields: o.Input.JSON || o.Input.Header > 0}}
}

// MayLackColons reports whether the command may end in values that lack a ::: before them, or may be meant
// to run once: it has no placeholders, and no option names the input.
func (o *Options) MayLackColons() bool {
	return len(o.Input.Files)+len(o.Input.Groups) == 0 && o.Template().Bare()
}

// TerminalNotice returns the notice for records that are read from a terminal.
func (o *Options) TerminalNotice() string {
	text := "reading tasks from the terminal: end with Ctrl-D"
	if o.MayLackColons() && len(o.Command.Words) > 1 {
		text += "; values in the command line need ::: before them"
	}
	return text + o.Command.aboutVerb()
}

// aboutVerb returns a hint to append to a message if the command is a verb of crew ctl.
func (c Command) aboutVerb() string {
	if len(c.Words) == 0 || c.Shell != "" {
		return ""
	}
	verb := c.Words[0]
	if verb == "list" {
		verb = "ls"
	}
	if commandNamed("ctl "+verb) == nil {
		return ""
	}
	return "; for runs, write crew ctl " + verb
}

// NoRecords returns the error for a run that would read records from /dev/null.
func (o *Options) NoRecords() error {
	return &UsageError{"standard input is /dev/null, so there are no tasks",
		"give values with ::: or -a FILE; ::: COMMAND runs a command once" + o.Command.aboutVerb()}
}

// CannotRun returns the message about a command that no task can run. status is the exit status that a shell
// would give.
func (o *Options) CannotRun(err error, status int) string {
	c, text := o.Command, err.Error()+": no task can run it"
	first := strings.Join(c.Words[:min(len(c.Words), 1)], "")
	switch {
	case first == "version" && c.Shell == "":
		text += "; crew --version prints the version"
	case len(c.Words) > 1 && (strings.ContainsAny(first, " \t\n;&|<>$`") || expand.OnlyInShell(first)):
		text += "; words run without a shell: " + c.inOne()
	case len(c.Words) == 1 && len(o.Input.Files)+len(o.Input.Groups) == 0:
		if st, err := os.Stat(first); err == nil && st.Mode().IsRegular() {
			text += "; if its lines are the tasks, write -a " + task.Quote(first)
			break
		}
		fallthrough
	default:
		f := o.Template().Program()
		if status != 127 || c.Shell != "" || o.Elsewhere() || c.aboutVerb() != "" {
			break
		}
		if isAssignment(f+"=") && path.Base(os.Getenv("SHELL")) == "bash" {
			text += "; if " + f + " is a shell function, run export -f " + f + " first"
		}
		var names []string
		for _, c := range commands[1:] {
			names = append(names, c.name, strings.TrimPrefix(c.name, "ctl "))
		}
		near := task.Nearest(f, names)
		if commandNamed(near) == nil {
			near = "ctl " + near
		}
		if near != "ctl " && !c.Literal {
			text += "; did you mean crew " + near + "?"
		}
	}
	return text + c.aboutVerb()
}

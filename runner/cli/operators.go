package cli

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"crew/runner/task"
)

// operators are the words that only a shell understands.
var operators = [...]string{
	";", "&", "&&", "||", "|", "|&", ">", ">>", "<", "2>", "2>>", "&>", "2>&1", ">&2",
}

// operator returns the first word of a command without a shell that was probably
// meant for one, or "".
func (c Command) operator() string {
	if len(c.Words) < 2 || c.Shell != "" {
		return ""
	}
	switch path.Base(c.program()) {
	case "test", "[", "expr", "tr":
		return ""
	}
	for i, w := range c.Words {
		switch {
		case w == "-exec", w == "-ok", w == "-execdir", w == "-okdir":
			return ""
		case slices.Contains(operators[:], w) && (i == 0 || len(c.Words[i-1]) < 2 || c.Words[i-1][0] != '-'):
			return w
		}
	}
	return ""
}

// program returns the first word that is not one that runs the command after it, as
// env does, or belongs to one.
func (c Command) program() string {
	wraps := []string{"env", "sudo", "doas", "nice", "ionice", "nohup", "time", "timeout", "setsid", "stdbuf", "chrt", "taskset"}
	wrapped := false
	for _, w := range c.Words {
		switch {
		case slices.Contains(wraps, path.Base(w)):
			wrapped = true
		case wrapped && (strings.HasPrefix(w, "-") || strings.Contains(w, "=") || strings.Trim(w, "0123456789.smhd") == ""):
		default:
			return w
		}
	}
	return ""
}

// takesFound reports whether the record takes the place of the {} that find has for what
// it has found.
func (c Command) takesFound() bool {
	line := strings.Join(c.Words, " ")
	return !c.Literal && c.Replace == "{}" && (strings.Contains(line, " -exec") || strings.Contains(line, " -ok")) &&
		regexp.MustCompile(`(^|[\s;&|(/])find\s(.*\s)?-(exec|ok)(dir)?\s[^;]*\{\}`).MatchString(line)
}

// checkOperators refuses a command that was probably meant for a shell.
func (c Command) checkOperators() error {
	w := c.operator()
	if w == "" || c.Literal {
		return nil
	}
	return &usageError{
		task.Quote(w) + " would be an argument, because a command of several words runs without a shell",
		"write " + task.Quote(c.script()) + " for one, or -- before the command to keep the word",
	}
}

// script returns the command as its author probably meant it for a shell.
func (c Command) script() string {
	words := slices.Clone(c.Words)
	for i, w := range words {
		if !slices.Contains(operators[:], w) && strings.ContainsAny(w, " \t\n'\"\\$`*?[]()#&;<>|~!") {
			words[i] = task.Quote(w)
		}
	}
	return strings.Join(words, " ")
}

package cli

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"crew/runner/expand"
	"crew/runner/task"
)

// CommandsSuffice reports whether the command lines of failed tasks are enough to
// run them again: nothing else depends on their records.
func (o *Options) CommandsSuffice() bool {
	byRecord := o.Sched.Key + o.Sched.Cost + o.Output.TagString + o.State.Dir
	fromEnv := func(u use) bool { return u.env }
	return !o.Input.JSON && !o.Command.Stdin && !o.Output.Tag && !o.Output.JSON && byRecord == "" &&
		!slices.ContainsFunc(o.uses, fromEnv)
}

// Unlike returns why a task would change in a run of the failed tasks, or "".
func (o *Options) Unlike(t *task.Task) string {
	if t.Block != nil {
		return "there are no blocks"
	}
	if number := o.numberOf(t); number != "" {
		return number + " would be another number"
	}
	for _, name := range [...]string{"colsep", "csv"} {
		if u := o.given(name); u != nil && o.State.Dir != "" && o.dropsAgain(name) {
			return "without " + u.opt.typed() + " they are of another command"
		}
	}
	return ""
}

// numberOf returns what stands for the task's number in its command, or "".
// Inserted values do not count, unless the record is the command.
func (o *Options) numberOf(t *task.Task) string {
	if len(o.Words()) == 0 {
		return numberVariable(t.Argv...)
	}
	return o.Command.NumberIn(o.Words()...)
}

// NumberIn returns what stands for the task's number in the words of a template,
// or "".
func (c Command) NumberIn(words ...string) string {
	if v := numberVariable(words...); v != "" {
		return v
	}
	if c.Replace != "{#}" && anyContains(words, "{#}") {
		return "{#}"
	}
	return ""
}

// numberVariable returns the variable with the task's number that words refer to,
// or "".
func numberVariable(words ...string) string {
	for _, name := range [...]string{"CREW_SEQ", "PARALLEL_SEQ"} {
		if anyContains(words, name) {
			return "$" + name
		}
	}
	return ""
}

func anyContains(words []string, text string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(w, text) })
}

// Again returns a command line, quoted for a shell, that does to other records
// what this one does. options and values give those records and are inserted as
// they are.
func (o *Options) Again(options, values string) string {
	return o.commandLine(o.Command.Words, o.dropsAgain, options, values)
}

// AgainWhole is like again, for records that are command lines.
func (o *Options) AgainWhole(options, values string) string {
	ofTemplate := []string{"header", "max-args", "max-chars", "replace"}
	drops := func(name string) bool { return o.dropsAgain(name) || slices.Contains(ofTemplate, name) }
	return o.commandLine(nil, drops, options, values)
}

// droppedAgain are the options that a run of the failed tasks does without: those
// that read and cut records, those about earlier runs, and --jitter.
var droppedAgain = [...]string{
	"arg-file", "null", "delimiter", "colsep", "csv", "input", "eof", "replay", "retry-failed", "state-reset", "jitter",
}

// AsRead reports whether a task gets the text of its records, and not their columns.
func (o *Options) AsRead() bool {
	p := o.Protocol()
	return o.Command.Stdin || p == task.LineProtocol || p == task.NULProtocol
}

// dropsAgain reports whether a run of the failed tasks does without an option.
// Tasks that read their records need what ends those; records of one source are
// given to them uncut.
func (o *Options) dropsAgain(name string) bool {
	switch name {
	case "null", "delimiter":
		return !o.AsRead()
	case "colsep", "csv":
		return !o.AsRead() || o.Input.Sources() > 1
	case "shard", "shard-times": // they are part of what the state is of
		return o.State.Dir == ""
	}
	return slices.Contains(droppedAgain[:], name)
}

// commandLine returns a command line with the options given except those that
// drops reports.
func (o *Options) commandLine(command []string, drops func(name string) bool, options, values string) string {
	words := []string{"crew"}
	// CREW_OPTS applies to the new command line as well, so clear it if it holds an
	// option that is not in effect there, or has another value.
	clearEnv := slices.ContainsFunc(o.env, func(u use) bool {
		return drops(u.opt.name) || !slices.Contains(o.uses, u) || o.besides(u) != u
	})
	if clearEnv {
		words = []string{"CREW_OPTS=", "crew"}
	}
	for _, u := range o.uses {
		if (!u.env || clearEnv) && !drops(u.opt.name) {
			words = o.besides(u).appendTyped(words)
		}
	}
	if o.State.Dir != "" {
		words = append(words, "--retry-failed")
	}
	if options != "" {
		words = append(words, options)
	}
	if len(command) > 0 && (strings.HasPrefix(command[0], "-") || isCommand(command[0]) || o.Command.operator() != "") {
		words = append(words, "--")
	}
	for _, w := range command {
		words = append(words, task.Quote(w))
	}
	if values != "" {
		words = append(words, values)
	}
	return strings.Join(words, " ")
}

// commandOptions are the options that decide what the task of a record is. If they
// differ, a journal belongs to another command.
var commandOptions = [...]string{
	"colsep", "csv", "header", "input", "max-args", "max-chars", "shard", "shard-times", "replace", "stdin", "workdir", "shell",
	"worker", "worker-protocol", "pipe", "block", "records", "recend", "recstart",
}

// Identity returns the command that a journal belongs to.
func (o *Options) Identity() string {
	words := []string{"crew"}
	if o.Do == DoServe {
		words = append(words, DoServe)
	}
	for _, name := range commandOptions {
		if u := o.given(name); u != nil {
			words = u.appendTyped(words)
		}
	}
	for _, w := range o.Command.Words {
		words = append(words, task.Quote(w))
	}
	return strings.Join(words, " ")
}

// appendTyped appends the option in its shortest form, quoted for a shell.
func (u use) appendTyped(words []string) []string {
	if u.opt.alone != "" {
		return append(words, u.word())
	}
	words = append(words, u.opt.typed())
	if u.opt.value != "" {
		words = append(words, task.Quote(u.value))
	}
	return words
}

// besides returns an option for a run of the failed tasks such that this run's joblog,
// report and results stay: it names other files. With --state that run completes them.
func (o *Options) besides(u use) use {
	if o.State.Dir != "" {
		return u
	}
	switch u.opt.name {
	case "joblog", "junit":
		if st, err := os.Stat(u.value); err == nil && st.Mode().IsRegular() {
			u.value = unused(u.value)
		}
	case "results":
		path, err := expand.NewPath(u.value, expand.Config{Replace: o.Command.Replace, Fields: true})
		if err != nil {
			break
		}
		dir, constant := path.Dir()
		rest := ""
		if !constant {
			rest = "/" + u.value[len(dir):]
		}
		u.value = unused(filepath.Clean(cmp.Or(dir, "results"))) + rest
	}
	return u
}

// unused returns a path like this one at which there is no file: log, log.2, log.3.
func unused(path string) string {
	stem, n := path, 1
	if i := strings.LastIndexByte(path, '.'); i > 0 {
		if last, err := strconv.Atoi(path[i+1:]); err == nil && last > 1 {
			stem, n = path[:i], last
		}
	}
	for {
		if _, err := os.Lstat(path); err != nil {
			return path
		}
		n++
		path = stem + "." + strconv.Itoa(n)
	}
}

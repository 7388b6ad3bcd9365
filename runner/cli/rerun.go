package cli

import (
	"math"
	"slices"
	"strings"

	"crew/runner/sink"
	"crew/runner/task"
)

// rerun returns how to write the command line that runs failed tasks again.
func (s *source) rerun() sink.RerunConfig {
	o := s.opts
	in, c := o.Input, o.Command
	cuts := in.Colsep != nil || in.CSV
	columns := in.sources() > 1 || cuts || in.Header
	// With -s and {N}, which records are in a task depends on all those before it.
	regroups := c.MaxChars > 0 && !columns && s.template.Counts()
	number := c.numberIn(c.Words...)
	if (number == "{#}" || number == "" && regroups) && o.commandsSuffice() {
		return sink.RerunConfig{Whole: true, Line: o.againWhole}
	}
	cfg := sink.RerunConfig{
		Columns: in.sources() > 1 || cuts && !c.Stdin,
		JSON:    in.JSON,
		Line:    o.again,
		Unlike:  o.unlike,
		State:   o.State.Dir != "",
	}
	switch {
	case regroups:
		cfg.Batch = math.MaxInt
	case c.MaxChars == 0:
		cfg.Batch = c.MaxArgs
	}
	if c.Stdin {
		cfg.Stdin = s.tasks.Separator()
	}
	if in.Header {
		cfg.Header = s.reader.Names
	}
	return cfg
}

// commandsSuffice reports whether the command lines of failed tasks are enough to
// run them again: nothing else depends on their records.
func (o *Options) commandsSuffice() bool {
	byRecord := o.Sched.Key + o.Sched.Cost + o.Output.TagString + o.State.Dir
	fromEnv := func(u use) bool { return u.env }
	return !o.Input.JSON && !o.Command.Stdin && !o.Output.Tag && !o.Output.JSON && byRecord == "" &&
		!slices.ContainsFunc(o.uses, fromEnv)
}

// unlike returns why a task would change in a run of the failed tasks, or "".
func (o *Options) unlike(t *task.Task) string {
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
	if len(o.Command.Words) == 0 {
		return numberVariable(t.Argv...)
	}
	return o.Command.numberIn(o.Command.Words...)
}

// numberIn returns what stands for the task's number in the words of a template,
// or "".
func (c Command) numberIn(words ...string) string {
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

// again returns a command line, quoted for a shell, that does to other records
// what this one does. options and values give those records and are inserted as
// they are.
func (o *Options) again(options, values string) string {
	return o.commandLine(o.Command.Words, o.dropsAgain, options, values)
}

// againWhole is like again, for records that are command lines.
func (o *Options) againWhole(options, values string) string {
	ofTemplate := []string{"header", "max-args", "max-chars", "replace"}
	drops := func(name string) bool { return o.dropsAgain(name) || slices.Contains(ofTemplate, name) }
	return o.commandLine(nil, drops, options, values)
}

// droppedAgain are the options that a run of the failed tasks does without: those
// that read and cut records, those whose files it would overwrite, and those
// about earlier runs.
var droppedAgain = [...]string{
	"arg-file", "null", "delimiter", "colsep", "csv", "input", "eof", "joblog", "results",
	"replay", "retry-failed", "state-reset",
}

// dropsAgain reports whether a run of the failed tasks does without an option.
// Tasks that read their records need what ends those; records of one source are
// given to them uncut.
func (o *Options) dropsAgain(name string) bool {
	switch name {
	case "null", "delimiter":
		return !o.Command.Stdin
	case "colsep", "csv":
		return !o.Command.Stdin || o.Input.sources() > 1
	}
	return slices.Contains(droppedAgain[:], name)
}

// commandLine returns a command line with the options given except those that
// drops reports.
func (o *Options) commandLine(command []string, drops func(name string) bool, options, values string) string {
	words := []string{"crew"}
	// CREW_OPTS applies to the new command line as well, so clear it if it holds an
	// option that is not in effect there.
	clearEnv := slices.ContainsFunc(o.env, func(u use) bool { return drops(u.opt.name) || !slices.Contains(o.uses, u) })
	if clearEnv {
		words = []string{"CREW_OPTS=", "crew"}
	}
	for _, u := range o.uses {
		if (!u.env || clearEnv) && !drops(u.opt.name) {
			words = u.appendTyped(words)
		}
	}
	if o.State.Dir != "" {
		words = append(words, "--retry-failed")
	}
	if options != "" {
		words = append(words, options)
	}
	if len(command) > 0 && (strings.HasPrefix(command[0], "-") || reserved(command[0]) || o.Command.operator() != "") {
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

// appendTyped appends the option in its shortest form, quoted for a shell.
func (u use) appendTyped(words []string) []string {
	words = append(words, u.opt.typed())
	if u.opt.value != "" {
		words = append(words, task.Quote(u.value))
	}
	return words
}

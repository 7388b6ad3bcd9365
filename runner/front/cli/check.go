package cli

import (
	_ "embed" // the rules
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"crew/runner/decide/task"
)

// rules says what is refused: conditions together with others, in which %s of the hint stands for the
// other one, or conditions that need one of others, which are then called something. Hints follow. The
// rules are checked in order. They are about what would not do what people expect.
//
// A condition holds if an option was given: "name" with any value, "name=value" with that value,
// "name~regexp" with one that matches, and "name!=value" or "name!~regexp" with another one. The last
// value counts. Conditions that state knows hold for other reasons. Of several with & between them all
// have to hold, but those behind a !, which must not; the first is none of these.
//
//go:embed rules.txt
var rules string

// ruleOf takes a line of rules apart. what is "" if the conditions do not go together with others.
func parseRule(line string) (conds, others, what, hint string) {
	rule, hint, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
	conds, others, clash := strings.Cut(rule, " + ")
	if !clash {
		conds, others, _ = strings.Cut(rule, " needs ")
		others, what, _ = strings.Cut(others, "as ")
	}
	return conds, others, what, hint
}

// refusals returns what the rules refuse, in the order of the rules.
func (o *Options) refusals() (all []UsageError) {
	refuse := func(u, with *use, what, hint string) {
		hint = strings.Replace(hint, "%s", with.spelled, 1)
		if u.env || with.env {
			hint += ", or write CREW_OPTS= before crew"
		}
		all = append(all, UsageError{what, hint})
	}
	for i := range o.uses {
		if u := &o.uses[i]; !o.command.takes(u.opt) {
			refuse(u, u, u.String()+" is no option of "+strings.TrimSuffix("crew "+o.Do, " "+DoRun), o.command.hintInstead(u.opt))
		}
	}
	for line := range strings.Lines(rules) {
		conds, others, what, hint := parseRule(line)
		for cond := range strings.FieldsSeq(conds) {
			u := o.match(cond)
			switch {
			case u == nil:
			case what == "":
				for other := range strings.FieldsSeq(others) {
					if with := o.match(other); with != nil {
						refuse(u, with, u.withChoice()+" and "+with.withChoice()+" do not go together", hint)
					}
				}
			case !o.anyHolds(others):
				refuse(u, u, u.withChoice()+" needs "+what, hint)
			}
		}
	}
	return all
}

// whenAny reports whether one of conditions holds.
func (o *Options) anyHolds(conds string) bool {
	return slices.ContainsFunc(strings.Fields(conds), func(cond string) bool { return o.match(cond) != nil })
}

// when returns the use that makes the condition hold, or nil. It is spelled as all of them are.
func (o *Options) match(cond string) (holds *use) {
	for part := range strings.SplitSeq(cond, "&") {
		part, not := strings.CutPrefix(part, "!")
		u := o.matchPart(part)
		switch {
		case (u == nil) != not:
			return nil
		case holds == nil:
			holds = u
		case u != nil && u.opt.form != "":
			holds.spelled, holds.env = holds.spelled+" with "+u.spelled, holds.env || u.env
		}
	}
	return holds
}

// part returns a copy of the use that makes a part of a condition hold, or nil.
func (o *Options) matchPart(text string) *use {
	name, value, exact := strings.Cut(text, "=")
	name, pattern, matches := strings.Cut(name, "~")
	name, other := strings.CutSuffix(name, "!")
	u := use{opt: &option{name: name}, spelled: o.stateName(name)}
	if given := o.given(name); given != nil {
		u = *given
	} else if u.spelled == "" {
		return nil
	}
	is := u.value == value
	if matches {
		is = regexp.MustCompile(pattern).MatchString(u.value)
		u.spelled += " " + u.value
	}
	if (exact || matches) && is == other {
		return nil
	}
	return &u
}

// state returns what people call what stands for a condition that is no option, or "" if it does not
// hold. Behind an option, nobody sees that.
func (o *Options) stateName(name string) string {
	in, c := &o.Input, &o.Command
	inTimes := func(path string) bool {
		return filepath.Clean(path) == filepath.Clean(strings.TrimPrefix(o.Output.Joblog, "+"))
	}
	command, verb := strings.CutPrefix(name, "crew-")
	switch {
	case verb && strings.ReplaceAll(command, "-", " ") == o.Do:
		return o.Do
	case name == "command" && len(c.Words) > 0:
		return "the command " + task.Quote(task.Shorten(c.Words[0], 40))
	case name == "values" && len(in.Groups) > 0:
		return "values on the command line"
	case name == "product" && in.Sources() > 1:
		return "a product"
	case name == "numbered" && o.hasPlaceholder(o.Words(), "{#}"):
		return "{#} in the command"
	case name == "placed" && o.hasPlaceholder(o.Words(), "{%}"):
		return "{%} in the command"
	case name == "operands" && o.command.operands != takesWork && (len(o.Ctl.Tasks)+len(o.Ctl.Work) > 0 || o.Ctl.Run != "" && o.given("run") == nil):
		return "arguments"
	case name == "in-times" && slices.ContainsFunc(in.Times, inTimes),
		name == "unused" && !anyContains(o.Words(), c.Replace) && anyContains(o.Words(), "{}"), // such as xargs --replace, which needs no value
		name == "shorter" && o.Failure.Retry.MaxDelay < o.Failure.Retry.Delay:
		return name
	}
	return ""
}

// Workers returns the option that says how many workers there are, as it was typed, or "".
func (o *Options) Workers() string {
	u := o.given("jobs")
	if u == nil {
		u = o.match("topics!=auto")
	}
	if u == nil {
		return ""
	}
	return u.withValue()
}

// takes reports whether o is an option of c.
func (c *command) takes(o *option) bool {
	tool, _, _ := strings.Cut(c.name, " ")
	return (hasWord(o.commands, tool) || hasWord(o.commands, strings.Replace(c.name, " ", "-", 1))) && (c.operands != takesVerb || o.name == "help")
}

// instead returns what to do with an option of runs that the command does not take.
func (c *command) hintInstead(o *option) string {
	switch {
	case !hasWord(o.commands, DoRun):
		return "write crew " + o.commands + " before the options"
	case c.name == DoWork:
		return "drop %s; the run that brings the tasks says what becomes of them"
	case c.name == DoAttach:
		return "the tasks have run or run already: drop %s"
	}
	switch o.name {
	case "arg-file":
		return "crew ctl add brings the tasks: drop %s, and write crew ctl add - < FILE"
	case "buffer":
		return "the queue takes what crew ctl add brings: write --max-queued N"
	case "retry-failed":
		return "crew ctl retry runs failed tasks again: drop %s"
	}
	return "drop %s"
}

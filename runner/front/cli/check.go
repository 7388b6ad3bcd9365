package cli

import (
	"cmp"
	_ "embed" // the rules
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"crew/runner/decide/task"
)

// rules lists the combinations of options that are refused because they would not do what a user expects.
// Each line is a rule, with one of these forms, and rules are checked in order:
//
//	CONDITION... + CONDITION...: HINT
//		No condition on the left may hold together with one on the right.
//	CONDITION... needs CONDITION... as WHAT: HINT
//		If a condition on the left holds, one on the right must hold, too.
//
// %s in the hint of the first form stands for the option on the right. WHAT names the missing thing in the
// message.
//
// A condition is the name of an option, and holds if that was given. It can demand a value: "name=value",
// "name~regexp", "name!=value" or "name!~regexp"; the last value given counts. Other names are computed
// by stateName. Conditions can be joined by &; a part after ! must not hold, but the first part has no !.
//
//go:embed rules.txt
var rules string

// parseRule parses a line of rules. what is "" for a rule of the first form.
func parseRule(line string) (conds, others, what, hint string) {
	rule, hint, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
	conds, others, clash := strings.Cut(rule, " + ")
	if !clash {
		conds, others, _ = strings.Cut(rule, " needs ")
		others, what, _ = strings.Cut(others, "as ")
	}
	return conds, others, what, hint
}

// refusals returns the errors of options that the command does not take, and of broken rules, in order.
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
			refuse(u, u, u.String()+" is not an option of "+strings.TrimSuffix("crew "+o.Do, " "+DoRun), o.command.hintInstead(u.opt))
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
			case !slices.ContainsFunc(strings.Fields(others), func(cond string) bool { return o.match(cond) != nil }):
				refuse(u, u, u.withChoice()+" needs "+what, hint)
			}
		}
	}
	return all
}

// match returns the use that makes a condition hold, or nil. Its spelling names all parts of the condition.
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

// matchPart returns a copy of the use that makes one part of a condition hold, or nil.
func (o *Options) matchPart(text string) *use {
	name, value, exact := strings.Cut(text, "=")
	name, pattern, matches := strings.Cut(name, "~")
	name, other := strings.CutSuffix(name, "!")
	given := o.given(name)
	if given == nil {
		state := o.stateName(name)
		if state == "" {
			return nil
		}
		given = &use{opt: &option{name: name}, spelled: state}
	}
	u := *given
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

// stateName returns a name for messages if a condition that is not an option holds, or "". The name of a
// condition that only occurs after & is not shown.
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
	case name == "varied-dir" && o.variesDir():
		return "a template as --workdir"
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
		name == "unused" && !anyContains(o.Words(), c.Replace) && anyContains(o.Words(), "{}"), // xargs --replace, for example, needs no value
		name == "fewer" && o.Pool.Most < o.Pool.Least,
		name == "shorter" && o.Failure.Retry.MaxDelay < o.Failure.Retry.Delay:
		return name
	}
	return ""
}

// Workers returns the option that sets the number of workers, as it was typed, or "".
func (o *Options) Workers() string {
	if u := cmp.Or(o.given("jobs"), o.match("topics!=auto")); u != nil {
		w := *u
		w.spelled += " " + u.value
		return w.String()
	}
	return ""
}

// takes reports whether o is an option of c.
func (c *command) takes(o *option) bool {
	tool, _, _ := strings.Cut(c.name, " ")
	return (hasWord(o.commands, tool) || hasWord(o.commands, strings.Replace(c.name, " ", "-", 1))) && (c.operands != takesVerb || o.name == "help")
}

// hintInstead returns the hint for an option of runs that the command does not take.
func (c *command) hintInstead(o *option) string {
	if !hasWord(o.commands, DoRun) {
		return "write crew " + o.commands + " before the options"
	}
	return cmp.Or(lookupPeer(c.name+"/"+o.name, meansAdvice), "drop %s")
}

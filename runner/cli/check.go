package cli

import (
	_ "embed" // the rules
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"crew/runner/task"
)

// rules says what is refused: conditions together with others, in which %s of the hint stands for the
// other one, or conditions that need one of others, which are then called something. Hints follow. The
// rules are checked in order. They are about what would not do what people expect.
//
// A condition holds if an option was given: "name" with any value, "name=value"
// with that value, or "name!=value" with another one. The last value counts. Conditions that
// state knows hold for other reasons.
//
//go:embed rules.txt
var rules string

// ruleOf takes a line of rules apart. what is "" if the conditions do not go together with others.
func ruleOf(line string) (conds, others, what, hint string) {
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
		if u := &o.uses[i]; !o.of.takes(u.opt) {
			refuse(u, u, u.String()+" is no option of "+strings.TrimSuffix("crew "+o.Do, " "+DoRun), o.of.instead(u.opt))
		}
	}
	for line := range strings.Lines(rules) {
		conds, others, what, hint := ruleOf(line)
		for cond := range strings.FieldsSeq(conds) {
			u := o.when(cond)
			switch {
			case u == nil:
			case what == "":
				for other := range strings.FieldsSeq(others) {
					if with := o.when(other); with != nil {
						refuse(u, with, u.withChoice()+" and "+with.withChoice()+" do not go together", hint)
					}
				}
			case !o.whenAny(others):
				refuse(u, u, u.withChoice()+" needs "+what, hint)
			}
		}
	}
	return all
}

// whenAny reports whether one of conditions holds.
func (o *Options) whenAny(conds string) bool {
	for cond := range strings.FieldsSeq(conds) {
		if o.when(cond) != nil && (cond != "input=json" || o.ObjectTasks()) {
			return true
		}
	}
	return false
}

// when returns the use that makes the condition hold, or nil.
func (o *Options) when(cond string) *use {
	name, value, exact := strings.Cut(cond, "=")
	name, other := strings.CutSuffix(name, "!")
	u := o.given(name)
	if u == nil {
		u = o.state(name)
	}
	if u == nil || exact && (u.value == value) == other {
		return nil
	}
	return u
}

// state returns what stands for a condition that is no option, as if it were one: the
// option that it comes from, if that is one, so that it can be dropped.
func (o *Options) state(name string) *use {
	said := func(holds bool, spelled string) *use {
		if !holds {
			return nil
		}
		return &use{opt: &option{name: name}, spelled: spelled}
	}
	from := func(holds bool, option, more string) *use {
		given := o.given(option)
		if !holds || given == nil {
			return nil
		}
		u := *given
		u.spelled += strings.Replace(more, "VALUE", u.value, 1)
		return &u
	}
	in, retryOn, submits := &o.Input, &o.Failure.RetryOn, o.Elsewhere() && o.Engine.URL != ""
	if command, found := strings.CutPrefix(name, "crew-"); found {
		return said(strings.ReplaceAll(command, "-", " ") == o.Do, o.Do)
	}
	switch name {
	case "command":
		if len(o.Command.Words) == 0 {
			return nil
		}
		return said(true, "the command "+task.Quote(task.Shorten(o.Command.Words[0], 40)))
	case "values":
		return said(len(in.Groups) > 0, "values on the command line")
	case "product":
		return said(in.Sources() > 1, "a product")
	case "numbered":
		return said(o.holds(o.Words(), "{#}"), "{#} in the command")
	case "placed":
		return said(o.holds(o.Words(), "{%}"), "{%} in the command")
	case "numbered-key":
		return from(o.holds([]string{o.Sched.Key}, "{#}"), "key", " with {#}")
	case "times-joblog":
		same := slices.ContainsFunc(in.Times, func(path string) bool {
			return filepath.Clean(path) == filepath.Clean(strings.TrimPrefix(o.Output.Joblog, "+"))
		})
		return from(same && o.Output.Joblog != "", "joblog", "")
	case "times-of-shares":
		return from(in.Shard.Of > 0, "times", "")
	case "times-of-order":
		return from(in.Shard.Of == 0, "times", "")
	case "jobs-of-all":
		n, err := strconv.Atoi(o.Pool.Jobs)
		return from(o.Pool.Jobs != "" && (err != nil || n <= 0 || o.Pool.Jobs[0] == '+'), "jobs", " VALUE")
	case "submitting":
		return from(submits, "engine", "")
	case "unsigned":
		return from(submits && o.Engine.Sign == "", "engine", " without --sign")
	case "far-pty":
		return from(len(o.Engine.Hosts) > 0, "pty", "")
	case "filters":
		pipe, worker := o.given("pipe"), o.given("worker")
		if pipe == nil || worker == nil {
			return nil
		}
		return &use{opt: pipe.opt, env: pipe.env || worker.env, spelled: "--pipe --worker"}
	case "unasked-worker":
		return from(o.Protocol() == task.LineProtocol || o.Protocol() == task.NULProtocol, "worker", "")
	case "halt-share":
		return from(o.Failure.Halt.Percent, "halt", " VALUE")
	case "halt-pause":
		return from(o.Failure.Halt.When == "pause", "halt", " VALUE")
	case "replace-unused": // such as xargs --replace, which needs no value
		unused := !anyContains(o.Words(), o.Command.Replace) && anyContains(o.Words(), "{}")
		return from(unused, "replace", " VALUE")
	case "short-max-delay":
		return from(o.Failure.RetryMaxDelay < o.Failure.RetryDelay, "retry-max-delay", "")
	case "tasks":
		return said(len(o.Ctl.Tasks) > 0, "task numbers")
	case "far":
		return said(o.Ctl.Queue != "", "a queue of a hub")
	case "unseen":
		return from(o.Control.Name != "" && o.Do != DoWork && o.Engine.URL == "", "name", "")
	case "retry-memory-alone":
		return from(retryOn.OnlyMemory(), "retry-on", " memory")
	}
	word, found := strings.CutPrefix(name, "retry-")
	outcome := retryOutcomes[word]
	return from(found && retryOn.Has(outcome) && (!retryOn.Any || outcome == task.Memory), "retry-on", " "+word)
}

// Workers returns the option that says how many workers there are, as it was typed, or "".
func (o *Options) Workers() string {
	u := o.given("jobs")
	if u == nil {
		u = o.when("topics!=auto")
	}
	if u == nil {
		return ""
	}
	return u.withValue()
}

// takes reports whether o is an option of c.
func (c *command) takes(o *option) bool {
	tool, _, _ := strings.Cut(c.name, " ")
	return (hasWord(o.of, tool) || hasWord(o.of, strings.Replace(c.name, " ", "-", 1))) && (c.operands != takesVerb || o.name == "help")
}

// instead returns what to do with an option of runs that the command does not take.
func (c *command) instead(o *option) string {
	switch {
	case !hasWord(o.of, DoRun):
		return "write crew " + o.of + " before the options"
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

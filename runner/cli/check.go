package cli

import (
	"fmt"
	"slices"
	"strings"
)

// Conditions on an option are written "name", given at all, "name=value", given
// last with that value, or "name!=value", given last with another.

// clash is two conditions of which only one can be.
type clash struct{ a, b, hint string }

// clashes is asked in order. A pair is in it when no meaning of the two
// together is what somebody would expect.
var clashes = [...]clash{
	{"null", "delimiter", `-0 is -d '\0': keep one of them`},
	{"csv", "null", "rows of CSV end with a newline: drop -0"},
	{"csv", "delimiter", "rows of CSV end with a newline: drop -d"},
	{"csv", "colsep", "--csv cuts at commas: drop --csv or -C"},
	{"input=json", "csv", "an object has its own names: drop --csv"},
	{"input=json", "colsep", "an object has its own names: drop -C"},
	{"input=json", "header", "an object has its own names: drop --header"},
	{"input=json", "null", "an object ends with its line: drop -0"},
	{"input=json", "delimiter", "an object ends with its line: drop -d"},
	{"input=json", "max-args", "an object is one task: drop -n"},
	{"input=json", "max-chars", "an object is one task: drop -s"},
	{"input=json", "stdin", `an object has its own: write "stdin" in it, drop --stdin`},
	{"max-args=0", "max-chars", "-n0 puts nothing in that could grow: drop -s"},
	{"max-args=0", "stdin", "-n0 gives nothing, --stdin the record: drop one of them"},
	{"max-chars", "stdin", "--stdin leaves the command as it is: drop -s"},

	{"fail-fast", "halt", "--fail-fast is --halt now,fail=1: keep one of them"},

	{"output=raw", "keep-order", "raw output cannot wait its turn: use --output group"},
	{"output=raw", "tag", "raw output is not looked into: use --output line"},
	{"output=raw", "tag-string", "raw output is not looked into: use --output line"},
	{"output=raw", "json", "raw output is not kept: use --output group"},
	{"output=raw", "results", "raw output is not kept: use --output group"},
	{"output=line", "json", "an object holds the whole output: use --output group"},
	{"output=none", "tag", "there are no lines to tag: drop --tag"},
	{"output=none", "tag-string", "there are no lines to tag: drop --tag-string"},
	{"tag", "tag-string", "--tag-string says it all: drop --tag"},
	{"json", "tag", "an object holds the record already: drop --tag"},
	{"json", "tag-string", "a line of JSON cannot begin with it: drop --tag-string"},

	{"order=longest-first", "sched=round-robin", "each policy has its own order: drop --sched"},
	{"order=longest-first", "sched=least-busy", "each policy has its own order: drop --sched"},
	{"order=longest-first", "sched=keyed", "each policy has its own order: drop --sched"},
	{"order=longest-first", "sched=topic", "each policy has its own order: drop --sched"},
	{"jobs", "topics!=auto", "the topics have their own workers: drop -j"},
	{"replay", "state-reset", "nothing is left to replay: drop one of them"},
	{"retry-failed", "state-reset", "everything runs again: drop --retry-failed"},
	{"replay", "output=line", "lines are not kept: use --output group"},
	{"replay", "output=raw", "raw output is not kept: use --output group"},

	{"dry-run", "json", "nothing runs, so there are no results: drop one of them"},
	{"dry-run", "results", "nothing runs, so there are no results: drop one of them"},
	{"dry-run", "state", "nothing runs, so there is nothing to record: drop one of them"},
	{"dry-run", "joblog", "nothing runs, so there is nothing to log: drop one of them"},
}

// need is a condition that makes sense only with one of others.
type need struct{ a, others, what, hint string }

// needs is asked in order, after clashes.
var needs = [...]need{
	{"retry-delay", "retries", "--retries", "add --retries N"},
	{"retry-max-delay", "retries", "--retries", "add --retries N"},
	{"retry-on", "retries", "--retries", "add --retries N"},
	{"sched=keyed", "key input=json", "a key", "add --key TEMPLATE, such as --key '{1}'"},
	{"sched=topic", "key input=json", "a key", "add --key TEMPLATE, such as --key '{1}'"},
	{"sched=topic", "topics", "topics", "add --topics LIST, or --topics auto"},
	{"topics", "sched=topic", "the topic policy", "add --sched topic"},
	{"order=longest-first", "state", "--state, which knows how long tasks took", "add --state DIR"},
	{"replay", "state", "--state", "add --state DIR"},
	{"retry-failed", "state", "--state", "add --state DIR"},
	{"state-reset", "state", "--state", "add --state DIR"},
	{"per-key", "key input=json", "a key", "add --key TEMPLATE, such as --key '{1}'"},
	{"cost", "sched=least-busy sched=topic", "a policy that goes by it", "add --sched least-busy"},
}

// onlyWithCommand are options about how records go into a command.
var onlyWithCommand = [...]string{"stdin", "replace", "max-args", "max-chars", "colsep", "csv", "header"}

// refusal says why options are refused.
type refusal struct {
	usageError
	at []*use // the options that are at odds; other things may be so with them
}

// rule is one reason to refuse options, or nil where they are not.
type rule func(o *Options) *refusal

// rules are all of them, in the order in which they are asked.
func rules(yield func(rule) bool) {
	for _, c := range clashes {
		if !yield(c.refuse) {
			return
		}
	}
	for _, n := range needs {
		if !yield(n.refuse) {
			return
		}
	}
	for _, r := range [...]rule{withoutCommand, unlinked, product, shortMaxDelay, retryOnTimeout} {
		if !yield(r) {
			return
		}
	}
}

// settle leaves out the options of CREW_OPTS that are refused because of the
// command line, with all that is refused only then, and returns what is refused
// still. It comes before the options are read, so that one left out is not.
func (o *Options) settle() error {
	for {
		refuse, r := o.draft(o.uses).refused()
		if r == nil {
			return nil
		}
		i := slices.IndexFunc(r.at, func(u *use) bool { return u.env })
		if i < 0 {
			return &r.usageError
		}
		alone := o.draft(o.env)
		alone.Command.Words, alone.Input.Groups = []string{"any"}, nil // CREW_OPTS goes with some command
		if own := refuse(alone); own != nil {
			return &own.usageError
		}
		out := r.at[i].opt
		o.uses = slices.DeleteFunc(slices.Clone(o.uses), func(u use) bool { return u.env && u.opt == out })
	}
}

// draft is Options with those options and the operands of o, for the rules.
// Values that are bad are passed over, and so is --jobs, which can be a file.
func (o *Options) draft(uses []use) *Options {
	d := defaults()
	d.uses, d.Command.Words, d.Input.Groups = uses, o.Command.Words, o.Input.Groups
	for _, u := range uses {
		if u.opt.name != "jobs" {
			_ = u.opt.set(&d, u.value) // read says what is bad
		}
	}
	return &d
}

// refused is the first rule that refuses the options, and what it says; or nil.
func (o *Options) refused() (rule, *refusal) {
	for refuse := range rules {
		if r := refuse(o); r != nil {
			return refuse, r
		}
	}
	return nil, nil
}

func (c clash) refuse(o *Options) *refusal {
	a, b := o.when(c.a), o.when(c.b)
	if a == nil || b == nil {
		return nil
	}
	return &refusal{usageError{a.name() + " and " + b.name() + " do not go together", c.hint}, []*use{a, b}}
}

func (n need) refuse(o *Options) *refusal {
	a := o.when(n.a)
	if a == nil || o.any(n.others) {
		return nil
	}
	return &refusal{usageError{a.name() + " needs " + n.what, n.hint}, []*use{a}}
}

// withoutCommand looks at options that only a command makes sense of.
func withoutCommand(o *Options) *refusal {
	if len(o.Command.Words) > 0 {
		return nil
	}
	for _, name := range onlyWithCommand {
		if u := o.given(name); u != nil {
			return &refusal{usageError{
				u.name() + " needs a command",
				"without one each record is a command line: add a command, or drop " + u.opt.typed(),
			}, []*use{u}}
		}
	}
	return nil
}

// unlinked looks at what the first group of values goes in step with.
func unlinked(o *Options) *refusal {
	if len(o.Input.Files) > 0 || len(o.Input.Groups) == 0 || !o.Input.Groups[0].Linked {
		return nil
	}
	return &refusal{usageError{"the first group of values is linked to nothing", "begin with ::: or ::::"}, nil}
}

// product looks at how many sources of objects there are.
func product(o *Options) *refusal {
	u := o.when("input=json")
	if u == nil || o.Input.sources() <= 1 {
		return nil
	}
	return &refusal{usageError{u.name() + " and a product do not go together", "give one source, with -a, ::: or ::::"}, []*use{u}}
}

// shortMaxDelay looks at the first wait and the longest.
func shortMaxDelay(o *Options) *refusal {
	u, f := o.given("retry-max-delay"), &o.Failure
	if u == nil || f.RetryMaxDelay >= f.RetryDelay {
		return nil
	}
	at := []*use{u}
	if first := o.given("retry-delay"); first != nil {
		at = append(at, first)
	}
	return &refusal{usageError{
		fmt.Sprintf("%s is less than the first wait, %v", u.with(f.RetryMaxDelay.String()), f.RetryDelay),
		"lower --retry-delay",
	}, at}
}

// retryOnTimeout looks for the timeouts that are to be retried.
func retryOnTimeout(o *Options) *refusal {
	f := &o.Failure
	if !f.RetryOn.Timeout || f.RetryOn.Any || f.Timeout > 0 || o.Input.JSON {
		return nil
	}
	u := o.given("retry-on")
	return &refusal{usageError{u.with("timeout") + " needs a timeout", "add --timeout DUR"}, []*use{u}}
}

// when is the use that makes a condition true, or nil.
func (o *Options) when(cond string) *use {
	name, value, exact := strings.Cut(cond, "=")
	name, other := strings.CutSuffix(name, "!")
	u := o.given(name)
	if u == nil || exact && (u.value == value) == other {
		return nil
	}
	return u
}

// any says whether one of the conditions, with blanks between, is true.
func (o *Options) any(conds string) bool {
	for cond := range strings.FieldsSeq(conds) {
		if o.when(cond) != nil {
			return true
		}
	}
	return false
}

// typed is the option's shortest form.
func (o *option) typed() string {
	if o.short != "" {
		return "-" + o.short[:1]
	}
	return "--" + o.name
}

package cli

import (
	"fmt"
	"slices"
	"strings"
)

// Conditions on an option are written "name", given at all, or "name=value",
// given last with that value.

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

// override leaves out the options of CREW_OPTS that do not go with one of the
// command line, and those that needed one left out.
func (o *Options) override() {
	all := Options{uses: o.uses}
	drop := func(name string) {
		o.uses = slices.DeleteFunc(slices.Clone(o.uses), func(u use) bool { return u.env && u.opt.name == name })
	}
	for _, c := range clashes {
		a, b := o.when(c.a), o.when(c.b)
		switch {
		case a == nil || b == nil || a.env == b.env:
		case a.env:
			drop(a.opt.name)
		default:
			drop(b.opt.name)
		}
	}
	for _, n := range needs {
		if a := o.when(n.a); a != nil && a.env && !o.any(n.others) && all.any(n.others) {
			drop(a.opt.name)
		}
	}
	if u := o.given("jobs"); u != nil && u.env && o.has("topics") && o.when("topics=auto") == nil {
		drop("jobs") // the topics have their own workers
	}
}

// check refuses what does not go together, one thing at a time.
func (o *Options) check() error {
	for _, c := range clashes {
		a, b := o.when(c.a), o.when(c.b)
		if a != nil && b != nil {
			return &usageError{a.name() + " and " + b.name() + " do not go together", c.hint}
		}
	}
	for _, n := range needs {
		if a := o.when(n.a); a != nil && !o.any(n.others) {
			return &usageError{a.name() + " needs " + n.what, n.hint}
		}
	}
	if len(o.Command.Words) == 0 {
		for _, name := range onlyWithCommand {
			if u := o.given(name); u != nil {
				return &usageError{
					u.name() + " needs a command",
					"without one each record is a command line: add a command, or drop " + u.opt.typed(),
				}
			}
		}
	}
	if err := o.checkSources(); err != nil {
		return err
	}
	return o.checkFailure()
}

// checkSources looks at the sources of records and at the topics.
func (o *Options) checkSources() error {
	sources := 0
	for _, g := range o.Input.Groups {
		sources++
		if g.Files {
			sources += len(g.Words) - 1 // each file is a source of its own
		}
	}
	if len(o.Input.Files) > 0 {
		sources++
	} else if sources > 0 && o.Input.Groups[0].Linked {
		return &usageError{"the first group of values is linked to nothing", "begin with ::: or ::::"}
	}
	if u := o.when("input=json"); u != nil && sources > 1 {
		return &usageError{u.name() + " and a product do not go together", "give one source, with -a, ::: or ::::"}
	}
	if u := o.given("jobs"); u != nil && o.Sched.Topics.Workers() > 0 {
		return &usageError{u.name() + " and --topics do not go together", "the topics have their own workers: drop " + u.opt.typed()}
	}
	return nil
}

// checkFailure looks at the numbers of "When tasks fail".
func (o *Options) checkFailure() error {
	f := &o.Failure
	if o.has("retry-max-delay") && f.RetryMaxDelay < f.RetryDelay {
		return &usageError{
			fmt.Sprintf("--retry-max-delay %v is less than the first wait, %v", f.RetryMaxDelay, f.RetryDelay),
			"lower --retry-delay",
		}
	}
	if f.RetryOn.Timeout && !f.RetryOn.Any && f.Timeout == 0 && !o.Input.JSON {
		return &usageError{"--retry-on timeout needs a timeout", "add --timeout DUR"}
	}
	return nil
}

// when is the use that makes a condition true, or nil.
func (o *Options) when(cond string) *use {
	name, value, exact := strings.Cut(cond, "=")
	u := o.given(name)
	if u == nil || exact && u.value != value {
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

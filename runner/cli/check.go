package cli

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"crew/runner/task"
)

// A condition holds if an option was given: "name" with any value, "name=value"
// with that value, or "name!=value" with another one. The last value counts. Conditions that
// state knows hold for other reasons.

// clash refuses each of conds together with any of others; both are separated by
// blanks. %s in hint stands for the option of the other condition.
type clash struct{ conds, others, hint string }

// clashes are checked in order. They are the combinations that would not do what
// people expect.
var clashes = [...]clash{
	{"null", "delimiter", `-0 is -d '\0': keep one of them`},
	{"csv", "null delimiter", "rows of CSV end with a newline: drop %s"},
	{"csv", "colsep", "--csv cuts at commas: drop --csv or -C"},
	{"input=json", "csv colsep header", "an object has its own names: drop %s"},
	{"input=json", "null delimiter", "an object ends with its line: drop %s"},
	{"input=json", "max-args max-chars spread", "an object is one task: drop %s"},
	{"input=json", "product", "give one source, with -a, ::: or ::::"},
	{"max-args=0", "max-chars spread", "-n0 puts nothing in that could grow: drop %s"},
	{"max-args=0", "stdin", "-n0 gives nothing, --stdin the record: drop one of them"},
	{"stdin", "max-chars spread", "--stdin leaves the command as it is: drop %s"},
	{"spread", "state", "which records a command has depends on all of them and on -j, so a later run would not know it again: " +
		"write -n N instead, or drop --state"},
	{"spread", "engine ssh", "the number of workers that share the records shows only as the tasks run: write -n N instead"},

	{"pipe", "null", `write --recend '\0'`},
	{"pipe", "delimiter", "--recend STR says what ends a record: drop -d"},
	{"pipe", "colsep csv input=json", "blocks are not looked into, but for the ends of records: drop %s"},
	{"pipe", "max-args max-chars spread", "a block goes to standard input, not into the command: write -N N for N records in a block"},
	{"pipe", "stdin", "each task has its block on standard input: drop --stdin"},
	{"pipe", "no-run-if-empty", "without input nothing runs anyway: drop -r"},
	{"pipe", "eof", "blocks are not looked into: cut the stream before, as with sed '/^STR$/,$d'"},
	{"pipe", "shard", "blocks are cut wherever a record ends, so they have no share: give each run a stream of its own"},
	{"recend=", "header", "without ends there are no records, of which one could be the header: drop --header"},
	{"pipe", "values", "give the stream on standard input, or files with -a FILE"},
	{"pipe", "tty", "tasks read their blocks, not the terminal: drop one of them"},

	{"worker", "command", "the records go to the worker: drop it, or put it into --worker '...'"},
	{"worker", "max-args!=1 max-chars spread", "a worker takes one record after another: drop %s"},
	{"worker", "stdin", "a worker reads its records from standard input: drop --stdin"},
	{"worker", "tty", "the terminal would be its standard input, which has the records: drop one of them"},
	{"worker", "pty", "a worker answers into a pipe: drop --pty"},
	{"worker", "output=raw", "an answer is no output until it is whole: use --output line, or quote the worker's command together with its options"},
	{"crew-worker engine ssh", "worker-start!=lazy",
		"workers on other machines start with their first records: drop --worker-start"},

	{"shard", "numbered-key", "a task gets its number after its share is known: take the key from the record"},
	{"times", "placed", "that differs from run to run: have a shell expand $CREW_WORKER instead"},
	{"times", "stdin pipe max-args=0", "all tasks have the same command then, so it does not say how long they take: drop one of them"},
	{"times-of-order", "cost", "--cost says how long tasks take: drop one of them"},
	{"times-of-shares", "key", "a key says which share it is in: drop one of them"},
	{"times-of-shares", "numbered", "that differs from run to run: have a shell expand $CREW_SEQ instead"},
	{"times-of-shares", "times-joblog", "the file is the same, but all shares read it and each writes its own: " +
		"put the logs together when all have ended"},
	{"times-of-shares", "max-args!=1 max-chars spread", "times are known of commands with one record: drop %s"},

	{"crew-serve", "halt-share", "the number of tasks is not known: write a number instead of the percentage"},
	{"crew-serve", "values", "crew ctl add brings them: drop what follows the command"},
	{"crew-worker", "values", "runs with --engine bring them: drop what follows the command"},
	{"crew-serve crew-worker", "max-args!=0", "each value that comes is a task: drop %s"},

	{"engine ssh", "idle-timeout", "a task on another machine is not heard from here: write --timeout DUR"},
	{"engine", "ssh", "the tasks run on workers that are there, or on those that crew starts: drop one of them"},
	{"submitting", "nice pty", "give it to each crew worker: drop %s"},
	{"jobs", "submitting", "each worker has its own, as in crew worker -j 4: drop -j"},
	{"jobs-of-all", "ssh", "write how many tasks each host runs, as in -j 8 or -S 8/web1"},
	{"unsigned", "env workdir pipe",
		"workers run their own command, in the directory and environment that they were started with: add --sign FILE, or drop %s"},
	{"unsigned", "makes stdout-to", "workers run their own command, and bring no files back: add --sign FILE, or drop %s"},
	{"unsigned", "worker-ready worker-start-timeout worker-max worker-age",
		"it is for each crew worker, whose process answers: give it there, or add --sign FILE"},
	{"filters", "ssh engine", "workers that read many blocks run on this machine: drop %s, or --worker"},
	{"filters", "keep-order retries retry-memory state json results tag tag-string worker-protocol",
		"a worker reads many blocks, and its output belongs to none: drop %s, or --worker"},
	{"no-control", "unseen", "without a socket nobody sees the name: drop one of them"},
	{"no-control", "halt-pause", "without a socket nobody can resume the run: drop one of them"},
	{"engine ssh", "load memfree", "the tasks run on other machines, of which neither is seen from here: drop %s"},
	{"ssh", "sign", "the workers that crew starts trust this run: drop --sign"},
	{"ssh", "queue", "the workers that crew starts are for this run alone: drop --queue"},
	{"detach", "makes stdout-to basefile transfer-file return cleanup", "nobody stays to carry files: drop %s"},
	{"detach", "lock", "tasks run on when crew has ended, and with it its lock: drop --lock"},
	{"detach", "pipe", "blocks are read while tasks run: drop --detach"},
	{"ssh", "detach", "the workers that crew starts end with this run: use --engine"},
	{"jobserver=share", "engine ssh", "tasks on other machines share none of these places: drop --jobserver"},
	{"jobserver=share", "tty", "only one task at a time has the terminal: drop one of them"},
	{"tty", "engine ssh", "this terminal is not there: drop one of them"},
	{"crew-engine-attach", "output=raw", "the engine keeps the results: use --output group"},
	{"output=raw", "engine ssh", "output comes back in pieces: use --output line"},
	{"nice", "ssh", "put nice -n before the command: drop --nice"},

	{"retry-delay", "short-max-delay", "the first wait would be the longest: lower --retry-delay"},
	{"fail-fast", "halt", "--fail-fast is --halt now,fail=1: keep one of them"},

	{"output=raw", "keep-order", "raw output cannot wait its turn: use --output group"},
	{"output=raw", "tag tag-string", "raw output is not looked into: use --output line"},
	{"output=raw", "json results replay", "raw output is not kept: use --output group"},
	{"output=line", "json", "an object holds the whole output: use --output group"},
	{"quiet-success", "output=line output=raw", "lines come before the end of their task is known: use --output group"},
	{"output=none", "tag tag-string", "there are no lines to tag: drop %s"},
	{"tag", "tag-string", "--tag-string says it all: drop --tag"},
	{"json", "tag", "an object holds the record already: drop --tag"},
	{"json", "tag-string", "a line of JSON cannot begin with it: drop --tag-string"},

	{"pty", "tty", "--tty gives tasks the terminal itself: drop one of them"},
	{"pty idle-timeout", "output=raw", "raw output does not pass through crew: use --output line"},

	{"tty", "jobs!=1 topics weight", "only one task at a time has the terminal: drop %s"},
	{"tty", "load memfree", "one task at a time may always run: drop %s"},
	{"tty", "output=group output=line output=none quiet-success", "tasks write to the terminal themselves: drop one of them"},
	{"tty", "keep-order tag tag-string json results replay idle-timeout", "tasks write to the terminal themselves: drop %s"},
	{"tty", "stdin", "tasks read the terminal: drop one of them"},

	{"stdout-to", "far-pty", "there a terminal would be the standard output: drop --pty"},
	{"makes stdout-to", "filters", "a worker that reads many blocks makes no files of one: drop --worker"},
	{"makes", "unasked-worker", "it is told where to write by --worker-protocol json alone: add that"},
	{"stdout-to", "worker", "a worker's answers are no files: write --makes and --worker-protocol json"},
	{"stdout-to", "tty", "tasks write to the terminal themselves: drop one of them"},

	{"order!=input", "sched!=fifo", "each policy has its own order: drop --sched"},
	{"sched=keyed sched=topic", "weight", "a task runs on the worker of its key, whose one place it takes: drop %s"},
	{"jobs", "topics!=auto", "the topics have their own workers: drop -j"},
	{"state-reset", "replay retry-failed rerun-changed", "everything runs again: drop %s"},
	{"replay", "output=line", "lines are not kept: use --output group"},

	{"detach", "state replay retry-failed rerun-changed state-reset", "the engine keeps the results: drop %s"},
	{"detach", "keep-order output tag tag-string json results joblog junit report trace notify ci quiet-success", "crew engine attach shows the results: give it %s"},
	{"detach", "tty", "tasks on other machines have no terminal: drop --tty"},
	{"detach", "dry-run", "nothing is handed over: drop one of them"},
	{"detach", "verbose", "the tasks run later: drop -t"},

	{"dry-run", "json results joblog junit report trace notify ci state", "nothing runs, so there is nothing to record: drop one of them"},
	{"dry-run", "name", "nothing runs that could be steered: drop --name"},

	{"tasks", "key all only", "drop one of them"},
	{"key", "all", "drop one of them"},
	{"at", "in", "drop one of them"},
	{"dir", "engine", "drop one of them"},
	{"wait", "far", "crew engine attach RUN shows what became of the tasks: drop --wait"},
	{"after", "far", "they make up a run of their own: drop --after"},
}

// need refuses conditions that hold while none of others does.
type need struct{ conds, others, what, hint string }

// needs are checked in order, after clashes.
var needs = [...]need{
	{"stdin replace max-args max-chars spread colsep csv header pipe", "command worker", "a command",
		"without one each record is a command line: add a command, or drop %s"},
	{"replace-unused", "", "a place in the command", "drop it, as {} stands for the record without it"},
	{"times", "shard order!=input", "--shard or --order", "add --shard K/N, or --order longest-first"},
	{"retry-delay retry-max-delay flaky-fail", "retries", "--retries", "add --retries N"},
	{"retry-on", "retries retry-memory-alone", "--retries", "add --retries N"},
	{"retry-memory", "memfree", "--memfree", "add --memfree SIZE"},
	{"retry-timeout", "timeout idle-timeout input=json", "a timeout", "add --timeout DUR"},
	{"retry-output", "makes stdout-to", "--makes", "add --makes TEMPLATE"},
	{"block records recend recstart", "pipe crew-ctl-add", "--pipe", "add --pipe"},
	{"retry-answer worker-protocol worker-start worker-ready worker-start-timeout worker-max worker-age",
		"worker", "--worker", "add --worker CMD"},
	{"worker-window", "worker allow-commands", "--worker", "add --worker CMD"},
	{"worker-start-timeout", "worker-ready", "--worker-ready", "add --worker-ready REGEX, by which crew knows that a worker has started"},
	{"lock-wait", "lock", "--lock", "add --lock FILE"},
	{"jobserver-style", "jobserver=share", "--jobserver", "add --jobserver"},
	{"queue", "engine crew-worker crew-engine-drain", "--engine", "add --engine URL"},
	{"sign detach", "engine", "--engine", "add --engine URL"},
	{"env", "engine ssh", "--engine or --ssh", "add one of them: tasks here have the whole environment"},
	{"basefile transfer-file return cleanup", "engine ssh", "--engine or --ssh", "add one of them: no file travels here"},
	{"cleanup", "basefile transfer-file return makes", "a file that travels", "add --basefile, --transfer-file or --return"},
	{"connect-timeout", "ssh engine", "--ssh or --engine", "add --ssh HOSTS"},
	{"worker-ttl", "ssh crew-worker", "crew worker or --ssh", "give it to each crew worker"},
	{"allow-commands", "trust", "--trust", "add --trust FILE, with the public keys whose commands it runs"},
	{"trust", "allow-commands", "--allow-commands", "add --allow-commands"},
	{"needs", "cap engine", "--cap", "add --cap NAME=N for each name"},
	{"cap", "needs input=json", "--needs", "add --needs NAME, or no task takes any of it"},
	{"sched=keyed sched=topic sched=fair per-key key-rate", "key input=json crew-serve", "a key", "add --key TEMPLATE, such as --key '{1}'"},
	{"sched=topic", "topics", "topics", "add --topics LIST, or --topics auto"},
	{"topics", "sched=topic", "the topic policy", "add --sched topic"},
	{"order!=input", "cost state times input=json", "the costs of tasks, or how long they took before",
		"add --cost TEMPLATE, --state DIR, or --times PATH"},
	{"replay retry-failed rerun-changed state-reset keep", "state", "--state", "add --state DIR"},
	{"makes stdout-to", "command worker input=json", "a command", "add one; without it each record is a command line"},
	{"reads always-make", "makes stdout-to", "--makes", "add --makes TEMPLATE or --stdout-to TEMPLATE"},
	{"cost", "sched=least-busy sched=topic sched=fair order!=input", "a policy or an order that goes by it",
		"add --sched least-busy, --sched fair or --order longest-first"},
	{"crew-worker", "command worker allow-commands", "a command, for which runs bring the values",
		"write it after the options, or add --allow-commands --trust FILE to run those that are signed"},
	{"crew-engine-serve", "dir", "a directory", "add --dir DIR"},
	{"tls-cert", "tls-key", "--tls-key", "give both"},
	{"tls-key", "tls-cert", "--tls-cert", "give both"},
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
	for _, c := range clashes {
		for cond := range strings.FieldsSeq(c.conds) {
			u := o.when(cond)
			if u == nil {
				continue
			}
			for other := range strings.FieldsSeq(c.others) {
				if with := o.when(other); with != nil {
					refuse(u, with, u.withChoice()+" and "+with.withChoice()+" do not go together", c.hint)
				}
			}
		}
	}
	for _, n := range needs {
		for cond := range strings.FieldsSeq(n.conds) {
			if u := o.when(cond); u != nil && !o.whenAny(n.others) {
				refuse(u, u, u.withChoice()+" needs "+n.what, n.hint)
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
		return said(o.Ctl.Queue != "", "an engine's queue")
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

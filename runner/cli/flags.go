package cli

import (
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	"crew/runner/input"
	"crew/runner/task"
	"crew/sched"
)

// group is the heading of an option in --help and in the man page.
type group string

const (
	groupInput   group = "Tasks in"
	groupPool    group = "The pool"
	groupFailure group = "When tasks fail"
	groupOutput  group = "Results out"
	groupState   group = "Lasting state"
	groupServe   group = "Serving a queue"
	groupEngine  group = "Other machines"
	groupOther   group = "Other"
)

// option is a row of the flag table. The parser, --help and the completion use it, and
// a test compares the man page with it.
type option struct {
	name    string // long, without dashes
	short   string // letters of the short forms
	value   string // name of the value; "" if the option takes none
	alone   string // the value if none is attached; "" if one has to follow
	text    string // description in --help
	group   group
	choices []string // the values, if they are a closed set
	means   string   // name=value, if the option is short for another one
	set     func(o *Options, value string) error

	// The commands that take the option. Without of, these are run, serve and worker,
	// except for those that a hint is for; its %s stands for the option.

	of     string // such as "ctl: log add; state", where no verbs are all; "" for those that run tasks
	only   string // the one command that takes it; "" if others do, too
	serve  string // the hint if crew serve does not take it
	worker string // the hint if crew worker does not take it
	anyway string // a value with which they take it
	attach bool   // crew engine attach takes it, too
}

// The hints of options that a command does not take.
const (
	cutAlready = "what crew ctl add brings is cut already: drop %s"
	eachAdded  = "each value that crew ctl add brings is a task: drop %s"
	noStream   = "crew ctl add brings values, not a stream: drop %s"
	takesAll   = "it runs whatever is added: drop %s"
	runsHere   = "crew serve runs its tasks here: drop %s"
	ofOthers   = "the tasks are of others, who have terminals of their own: drop %s"

	theirRecords  = "submitters bring the records: give them %s"
	theirSchedule = "submitters say which task runs where: give them %s"
	theirFailures = "submitters say what becomes of a failure: give them %s"
	theirResults  = "results go to the submitters: give them %s"
	theirState    = "the submitter's run is what is recorded and shown: give it %s"
	ofRuns        = "it is for runs, which workers carry out: give them %s"
	oneAtATime    = "a worker on another machine has one record at a time: drop %s, or have more workers"
	startLate     = "workers on other machines start with their first records: drop %s"
)

// The closed sets of values.
var (
	inputs    = []string{"lines", "json"}
	policies  = []string{"fifo", "round-robin", "least-busy", "keyed", "topic"}
	modes     = []string{"group", "line", "raw", "none"}
	whens     = []string{"auto", "always", "full", "never"}
	servers   = []string{"auto", "github", "gitlab", "none"}
	shells    = []string{"bash", "zsh", "fish"}
	orders    = []string{"input", "longest-first"}
	protocols = []string{"line", "nul", "json"} // in the order of task's constants
	starts    = []string{"lazy", "eager"}
	sharings  = []string{"share", "join", "no"}
	styles    = []string{"auto", "fifo", "pipe"}
)

// options is the flag table, in the order of --help. The linker lays it out, so it
// takes no time at start-up.
var options = [...]option{
	{name: "arg-file", short: "a", value: "FILE", group: groupInput, worker: theirRecords,
		serve: "crew ctl add brings the tasks: drop -a, and write crew ctl add - < FILE",
		text:  "records from FILE, - is stdin; several one by one",
		set:   func(o *Options, v string) error { return add(&o.Input.Files, v, parseText) }},
	{name: "null", short: "0", group: groupInput, serve: cutAlready, worker: theirRecords,
		text: "records end with a NUL byte",
		set:  func(o *Options, _ string) error { o.Input.Delim = "\x00"; return nil }},
	{name: "delimiter", short: "d", value: "STR", group: groupInput, serve: cutAlready, worker: theirRecords,
		text: `records end with STR; knows \n \t \0 \xHH`,
		set:  func(o *Options, v string) error { return set(&o.Input.Delim, v, input.ParseDelimiter) }},
	{name: "colsep", short: "C", value: "REGEX", group: groupInput, worker: theirRecords,
		text: "cut records into columns at REGEX",
		set:  func(o *Options, v string) error { return set(&o.Input.Colsep, v, input.ParseColsep) }},
	{name: "csv", group: groupInput, worker: theirRecords,
		text: "records are rows of CSV",
		set:  func(o *Options, _ string) error { o.Input.CSV = true; return nil }},
	{name: "header", group: groupInput, worker: theirRecords,
		serve: "no record comes first: write {1} for the first column",
		text:  "the first record names the columns",
		set:   func(o *Options, _ string) error { o.Input.Header = true; return nil }},
	{name: "input", value: "FORMAT", group: groupInput, choices: inputs,
		text: "lines (default), or json: an object a line",
		set:  func(o *Options, v string) error { o.Input.JSON = v == "json"; return nil }},
	{name: "max-args", short: "n", value: "N", group: groupInput, anyway: "0", serve: eachAdded, worker: theirRecords,
		text: "N records in one command; 0 takes one, adds none",
		set: func(o *Options, v string) error {
			n, err := parseWhole(v, 0, math.MaxInt)
			o.Command.MaxArgs, o.Command.NoArgs = max(1, n), n == 0
			return err
		}},
	{name: "max-chars", short: "s", value: "N", group: groupInput, serve: eachAdded, worker: theirRecords,
		text: "as many records as fit a command of N bytes",
		set:  func(o *Options, v string) error { return setWhole(&o.Command.MaxChars, v, 1) }},
	{name: "no-run-if-empty", short: "r", group: groupInput, serve: eachAdded, worker: theirRecords,
		text: "skip empty records",
		set:  func(o *Options, _ string) error { o.Input.SkipEmpty = true; return nil }},
	{name: "eof", short: "E", value: "STR", group: groupInput, serve: eachAdded, worker: theirRecords,
		text: "stop at the record STR",
		set:  func(o *Options, v string) error { o.Input.EOF = v; return nil }},
	{name: "shard", value: "K/N", group: groupInput, serve: takesAll, worker: theirRecords,
		text: "take share K of the records, which N runs share",
		set:  func(o *Options, v string) error { return set(&o.Input.Shard, v, parseShard) }},
	{name: "shard-times", value: "FILE", group: groupInput, serve: takesAll, worker: theirRecords,
		text: "balance shares by the times in a joblog",
		set:  func(o *Options, v string) error { return setText(&o.Input.ShardTimes, v) }},
	{name: "replace", short: "I", value: "STR", group: groupInput,
		text: "STR stands for the record in place of {}",
		set:  func(o *Options, v string) error { return setText(&o.Command.Replace, v) }},
	{name: "pipe", group: groupInput, serve: noStream, worker: theirRecords,
		text: "cut a stream into blocks, each a task's stdin",
		set:  func(o *Options, _ string) error { o.Pipe.On = true; return nil }},
	{name: "block", value: "SIZE", group: groupInput, serve: noStream, worker: theirRecords,
		text: "about SIZE bytes in a block (1M); -N: N a worker",
		set:  func(o *Options, v string) error { return set(&o.Pipe.Block, v, parseBlock) }},
	{name: "records", short: "N", value: "N", group: groupInput, serve: noStream, worker: theirRecords,
		text: "N records in a block; without --pipe the same as -n",
		set:  func(o *Options, v string) error { return setWhole(&o.Pipe.Records, v, 1) }},
	{name: "recend", value: "STR", group: groupInput, serve: noStream, worker: theirRecords,
		text: `records of blocks end with STR (\n); knows \n \t \0`,
		set:  func(o *Options, v string) error { return set(&o.Pipe.End, v, parseMark) }},
	{name: "recstart", value: "STR", group: groupInput, serve: noStream, worker: theirRecords,
		text: "records of blocks begin with STR",
		set:  func(o *Options, v string) error { return set(&o.Pipe.Start, v, parseMark) }},
	{name: "stdin", group: groupInput,
		text: "give the record to the task's standard input",
		set:  func(o *Options, _ string) error { o.Command.Stdin = true; return nil }},

	{name: "jobs", short: "jP", value: "N", group: groupPool,
		text: "workers: N, N%, +N, -N, 0 for most, or a FILE",
		set:  func(o *Options, v string) error { return setText(&o.Pool.Jobs, v) }},
	{name: "sched", value: "POLICY", group: groupPool, choices: policies, worker: theirSchedule,
		text: "fifo, round-robin, least-busy, keyed or topic",
		set:  func(o *Options, v string) error { o.Sched.Policy = v; return nil }},
	{name: "key", value: "TEMPLATE", group: groupPool, worker: theirSchedule,
		text: "what policy and limits go by, such as '{1}'",
		set:  func(o *Options, v string) error { return setText(&o.Sched.Key, v) }},
	{name: "cost", value: "TEMPLATE", group: groupPool, worker: theirSchedule,
		text: "a number: how heavy a task is",
		set:  func(o *Options, v string) error { return setText(&o.Sched.Cost, v) }},
	{name: "topics", value: "LIST", group: groupPool, worker: theirSchedule,
		text: "workers for each key: mail=2,db=1,*=5, or auto",
		set:  func(o *Options, v string) error { return set(&o.Sched.Topics, v, sched.ParseTopics) }},
	{name: "per-key", value: "N", group: groupPool, worker: theirSchedule,
		text: "at most N tasks of one key at once",
		set:  func(o *Options, v string) error { return setWhole(&o.Sched.PerKey, v, 1) }},
	{name: "buffer", value: "N", group: groupPool, worker: theirRecords,
		serve: "the queue takes what crew ctl add brings: write --max-queued N",
		text:  "read ahead N (2 x jobs, >= 64; 4096 with keys)",
		set:   func(o *Options, v string) (err error) { o.Pool.Buffer, err = parseWhole(v, 1, 1<<30); return err }},
	{name: "delay", value: "DUR", group: groupPool,
		text: "at least DUR between starts",
		set:  func(o *Options, v string) error { return set(&o.Pool.Delay, v, task.ParseDuration) }},
	{name: "jitter", value: "DUR", group: groupPool,
		text: "wait a random time up to DUR before the first start",
		set:  func(o *Options, v string) error { return set(&o.Pool.Jitter, v, task.ParseDuration) }},
	{name: "order", value: "ORDER", group: groupPool, choices: orders, anyway: "input", worker: theirSchedule,
		serve: "tasks start in the order in which they were added: drop --order",
		text:  "input (default), or longest-first, by --state",
		set:   func(o *Options, v string) error { o.Sched.LongestFirst = v == "longest-first"; return nil }},
	{name: "lock", value: "FILE", group: groupPool,
		text: "exit with 75 if another run holds it",
		set:  func(o *Options, v string) error { return setText(&o.Pool.Lock, v) }},
	{name: "lock-wait", value: "DUR", group: groupPool,
		text: "with --lock: wait for the other run up to DUR",
		set:  func(o *Options, v string) error { return set(&o.Pool.LockWait, v, task.ParseDuration) }},
	{name: "jobserver", value: "WHEN", alone: "share", group: groupPool, choices: sharings,
		text: "share the places as make -j does; =no: join none",
		set:  func(o *Options, v string) error { o.Jobserver.Mode = v; return nil }},
	{name: "jobserver-style", value: "FORM", group: groupPool, choices: styles,
		text: "auto (default), fifo, or pipe for make before 4.4",
		set:  func(o *Options, v string) error { o.Jobserver.Style = v; return nil }},
	{name: "workdir", value: "DIR", group: groupPool,
		text: "run tasks in DIR",
		set:  func(o *Options, v string) error { return setText(&o.Pool.Workdir, v) }},
	{name: "nice", value: "N", group: groupPool,
		text: "add N to the tasks' niceness",
		set:  func(o *Options, v string) (err error) { o.Pool.Nice, err = parseWhole(v, -20, 19); return err }},
	{name: "pty", group: groupPool,
		text: "tasks write to terminals: colours, progress bars",
		set:  func(o *Options, _ string) error { o.Pool.PTY = true; return nil }},
	{name: "tty", group: groupPool, serve: ofOthers, worker: ofOthers,
		text: "one task at a time, with the terminal, for prompts",
		set:  func(o *Options, _ string) error { o.Pool.TTY = true; return nil }},
	{name: "shell", value: "PATH", group: groupPool,
		text: "run the command in this shell",
		set:  func(o *Options, v string) error { return setText(&o.Command.Shell, v) }},
	{name: "worker", value: "CMD", group: groupPool,
		text: "give the records to long-lived processes",
		set: func(o *Options, v string) (err error) {
			if o.Coproc.Words, err = parseText(v); isNumber(v) {
				err = errors.New("write the command of a worker; -j N says how many there are")
			}
			return err
		}},
	{name: "worker-protocol", value: "NAME", group: groupPool, choices: protocols,
		text: "line (default), nul or json",
		set: func(o *Options, v string) error {
			o.Coproc.Protocol = task.LineProtocol + task.Protocol(slices.Index(protocols, v))
			return nil
		}},
	{name: "worker-window", value: "N", group: groupPool, anyway: "1", worker: oneAtATime,
		text: "up to N records in a worker at once (1)",
		set:  func(o *Options, v string) (err error) { o.Coproc.Window, err = parseWhole(v, 1, 1<<16); return err }},
	{name: "worker-start", value: "WHEN", group: groupPool, choices: starts, anyway: "lazy", worker: startLate,
		text: "lazy (default), with the first record, or eager",
		set:  func(o *Options, v string) error { o.Coproc.Eager = v == "eager"; return nil }},
	{name: "worker-ready", value: "REGEX", group: groupPool,
		text: "wait for a line of the worker that matches",
		set:  func(o *Options, v string) error { return set(&o.Coproc.Ready, v, parseReady) }},
	{name: "worker-start-timeout", value: "DUR", group: groupPool,
		text: "replace a worker that is not ready after DUR",
		set: func(o *Options, v string) error {
			return setDuration(&o.Coproc.Start, v, 1, "write a time in which a worker can start, such as 1m")
		}},
	{name: "worker-max", value: "N", group: groupPool,
		text: "a fresh worker after N records",
		set:  func(o *Options, v string) error { return setWhole(&o.Coproc.Max, v, 1) }},
	{name: "worker-age", value: "DUR", group: groupPool,
		text: "a fresh worker after DUR",
		set: func(o *Options, v string) error {
			return setDuration(&o.Coproc.Age, v, 1, "write a time in which a worker can start, such as 10m")
		}},

	{name: "retries", value: "N", group: groupFailure, worker: theirFailures,
		text: "N more attempts after the first",
		set:  func(o *Options, v string) error { return setWhole(&o.Failure.Retries, v, 0) }},
	{name: "retry-delay", value: "DUR", group: groupFailure, worker: theirFailures,
		text: "wait before the first retry (1s), then doubling",
		set:  func(o *Options, v string) error { return set(&o.Failure.RetryDelay, v, task.ParseDuration) }},
	{name: "retry-max-delay", value: "DUR", group: groupFailure, worker: theirFailures,
		text: "longest wait before a retry (1m)",
		set:  func(o *Options, v string) error { return set(&o.Failure.RetryMaxDelay, v, task.ParseDuration) }},
	{name: "retry-on", value: "LIST", group: groupFailure, worker: theirFailures,
		text: "exit:1-99, signal, timeout, start, answer, any",
		set:  func(o *Options, v string) error { return set(&o.Failure.RetryOn, v, parseRetryOn) }},
	{name: "timeout", value: "DUR", group: groupFailure, worker: theirFailures,
		text: "end an attempt after DUR",
		set:  func(o *Options, v string) error { return set(&o.Failure.Timeout, v, task.ParseDuration) }},
	{name: "kill-after", value: "DUR", group: groupFailure,
		text: "KILL comes DUR (5s) after TERM",
		set:  func(o *Options, v string) error { return set(&o.Failure.KillAfter, v, task.ParseDuration) }},
	{name: "halt", value: "WHEN", group: groupFailure, worker: theirFailures,
		text: "never, or such as now,fail=1 or soon,done=10%",
		set:  func(o *Options, v string) error { return set(&o.Failure.Halt, v, parseHalt) }},
	{name: "fail-fast", group: groupFailure, worker: theirFailures,
		text: "same as --halt now,fail=1",
		set:  func(o *Options, _ string) error { return set(&o.Failure.Halt, "now,fail=1", parseHalt) }},
	{name: "deadline", value: "WHEN", group: groupFailure, worker: theirFailures,
		text: "end the run after such as 90m, or at 06:00",
		set:  func(o *Options, v string) error { return set(&o.Failure.Deadline, v, parseDeadline) }},

	{name: "keep-order", short: "k", group: groupOutput, attach: true, worker: theirResults,
		serve: "the first task would hold back the results of all others: drop -k",
		text:  "results in input order",
		set:   func(o *Options, _ string) error { o.Output.KeepOrder = true; return nil }},
	{name: "output", value: "MODE", group: groupOutput, choices: modes, attach: true, worker: theirResults,
		text: "group (default), line, raw or none",
		set:  func(o *Options, v string) error { o.Output.Mode = v; return nil }},
	{name: "line-buffer", group: groupOutput, means: "output=line",
		text: "same as --output line"},
	{name: "ungroup", short: "u", group: groupOutput, means: "output=raw",
		text: "same as --output raw"},
	{name: "tag", group: groupOutput, attach: true, worker: theirResults,
		text: "begin each line with the record",
		set:  func(o *Options, _ string) error { o.Output.Tag = true; return nil }},
	{name: "tag-string", value: "TEMPLATE", group: groupOutput, attach: true, worker: theirResults,
		text: "begin each line with this",
		set:  func(o *Options, v string) error { return setText(&o.Output.TagString, v) }},
	{name: "json", group: groupOutput, attach: true, worker: theirResults,
		text: "print a JSON object a result",
		set:  func(o *Options, _ string) error { o.Output.JSON = true; return nil }},
	{name: "results", value: "DIR", group: groupOutput, attach: true, worker: theirResults,
		text: "keep each task's results in a directory of DIR",
		set:  func(o *Options, v string) error { return setText(&o.Output.Results, v) }},
	{name: "joblog", value: "FILE", group: groupOutput, attach: true, worker: theirResults,
		text: "a line a task, as GNU parallel does; +FILE appends",
		set: func(o *Options, v string) (err error) {
			v, o.Output.Append = strings.CutPrefix(v, "+")
			o.Output.Joblog, err = parseText(v)
			return err
		}},
	{name: "junit", value: "FILE", group: groupOutput, attach: true, worker: theirResults,
		text: "write a test report in JUnit's XML at the end",
		set:  func(o *Options, v string) error { return setText(&o.Output.JUnit, v) }},
	{name: "ci", value: "SERVER", group: groupOutput, choices: servers, attach: true, worker: theirResults,
		text: "CI server: auto (default), github, gitlab or none",
		set:  func(o *Options, v string) error { o.Show.CI = v; return nil }},
	{name: "progress", value: "WHEN", group: groupOutput, choices: whens, attach: true,
		text: "a bar: auto (on a terminal), always, full, never",
		set:  func(o *Options, v string) error { return set(&o.Show.Progress, v, parseProgress) }},
	{name: "bar", group: groupOutput, means: "progress=always",
		text: "same as --progress always"},
	{name: "quiet", short: "q", group: groupOutput, attach: true,
		text: "no lines about failures, nor a digest at the end",
		set:  func(o *Options, _ string) error { o.Show.Quiet = true; return nil }},
	{name: "quiet-success", group: groupOutput, attach: true, worker: theirResults,
		text: "show only tasks that failed; nothing if none did",
		set:  func(o *Options, _ string) error { o.Output.FailedOnly = true; return nil }},
	{name: "verbose", short: "t", group: groupOutput,
		text: "each command on stderr before it runs",
		set:  func(o *Options, _ string) error { o.Show.Verbose = true; return nil }},
	{name: "dry-run", group: groupOutput, worker: theirState,
		serve: "others add tasks so that they run: drop --dry-run",
		text:  "print the commands, run nothing",
		set:   func(o *Options, _ string) error { o.Show.DryRun = true; return nil }},

	{name: "state", value: "DIR", group: groupState, worker: theirState,
		text: "keep a journal in DIR; go on where it stopped",
		set:  func(o *Options, v string) error { return setText(&o.State.Dir, v) }},
	{name: "replay", group: groupState, worker: theirState,
		serve: "results are shown once: drop --replay",
		text:  "show the results of earlier runs, too",
		set:   func(o *Options, _ string) error { o.State.Replay = true; return nil }},
	{name: "retry-failed", group: groupState, worker: theirState,
		serve: "crew ctl retry runs failed tasks again: drop --retry-failed",
		text:  "run again what failed in earlier runs",
		set:   func(o *Options, _ string) error { o.State.RetryFailed = true; return nil }},
	{name: "state-reset", group: groupState, worker: theirState,
		text: "begin anew in a DIR that holds another run",
		set:  func(o *Options, _ string) error { o.State.Reset = true; return nil }},

	{name: "max-queued", value: "N", group: groupServe, only: "serve",
		text: "at most N tasks wait (100000)",
		set:  func(o *Options, v string) error { return setWhole(&o.Serve.MaxQueued, v, 1) }},
	{name: "idle-exit", value: "DUR", group: groupServe, only: "serve",
		text: "end after DUR without a task",
		set: func(o *Options, v string) error {
			return setDuration(&o.Serve.IdleExit, v, 1, "write a time that others can add a task in, such as 10m")
		}},
	{name: "keep", value: "DUR", group: groupServe, only: "serve",
		text: "with --state: forget ended tasks after DUR (24h)",
		set:  func(o *Options, v string) error { return set(&o.Serve.Keep, v, task.ParseDuration) }},

	{name: "engine", value: "URL", group: groupEngine, serve: runsHere,
		text: "run the tasks on the workers of a NATS server",
		set:  func(o *Options, v string) error { return setText(&o.Engine.URL, v) }},
	{name: "queue", value: "NAME", group: groupEngine, serve: runsHere,
		text: "which workers of the engine (default)",
		set:  func(o *Options, v string) error { return set(&o.Engine.Queue, v, parseQueue) }},
	{name: "ssh", short: "S", value: "HOSTS", group: groupEngine, serve: runsHere, worker: ofRuns,
		text: "run on 8/host,user@host,: over ssh; or a FILE",
		set:  func(o *Options, v string) error { return add(&o.Engine.Hosts, v, parseText) }},
	{name: "connect-timeout", value: "DUR", group: groupEngine, serve: runsHere, worker: ofRuns,
		text: "--ssh: end when no host is there for DUR (30s)",
		set:  func(o *Options, v string) error { return set(&o.Engine.Reach, v, task.ParseDuration) }},
	{name: "env", value: "NAME", group: groupEngine, serve: runsHere, worker: ofRuns,
		text: "pass this variable to remote tasks",
		set:  func(o *Options, v string) error { return add(&o.Engine.Env, v, parseVariable) }},
	{name: "sign", value: "FILE", group: groupEngine, serve: runsHere, worker: ofRuns,
		text: "sign commands with the key in FILE",
		set:  func(o *Options, v string) error { return setText(&o.Engine.Sign, v) }},
	{name: "detach", group: groupEngine, serve: runsHere, worker: ofRuns,
		text: "hand the tasks over, print the run's name and end",
		set:  func(o *Options, _ string) error { o.Engine.Detach = true; return nil }},
	{name: "basefile", value: "FILE", group: groupEngine, serve: runsHere, worker: ofRuns,
		text: "copy FILE to every host first",
		set:  func(o *Options, v string) error { return add(&o.Engine.BaseFiles, v, parseText) }},
	{name: "transfer", group: groupEngine, means: "transfer-file={}",
		text: "same as --transfer-file {}"},
	{name: "transfer-file", value: "FILE", group: groupEngine, serve: runsHere, worker: ofRuns,
		text: "copy this file to the task's host",
		set:  func(o *Options, v string) error { return add(&o.Engine.Transfer, v, parseText) }},
	{name: "return", value: "TEMPLATE", group: groupEngine, serve: runsHere, worker: ofRuns,
		text: "copy this file back when the task has ended",
		set:  func(o *Options, v string) error { return add(&o.Engine.Return, v, parseText) }},
	{name: "cleanup", group: groupEngine, serve: runsHere, worker: ofRuns,
		text: "remove copied files from the hosts",
		set:  func(o *Options, _ string) error { o.Engine.Cleanup = true; return nil }},
	{name: "labels", value: "LIST", group: groupEngine, only: "worker",
		text: "crew worker: topics of these names run there alone",
		set:  func(o *Options, v string) error { return set(&o.Engine.Labels, v, parseLabels) }},
	{name: "worker-ttl", value: "DUR", group: groupEngine, serve: runsHere,
		text: "a worker counts as lost when silent for DUR (10s)",
		set: func(o *Options, v string) error {
			return setDuration(&o.Engine.TTL, v, time.Second, "write a time of at least 1s")
		}},
	{name: "allow-commands", group: groupEngine, only: "worker",
		text: "crew worker: run commands that are signed",
		set:  func(o *Options, _ string) error { o.Engine.Commands = true; return nil }},
	{name: "trust", value: "FILE", group: groupEngine, only: "worker",
		text: "crew worker: whose signatures count",
		set:  func(o *Options, v string) error { return add(&o.Engine.Trust, v, parseText) }},

	{name: "name", value: "NAME", group: groupOther,
		text: "what crew ctl calls the run",
		set:  func(o *Options, v string) error { return set(&o.Control.Name, v, parseName) }},
	{name: "no-control", group: groupOther,
		serve: "tasks come by the socket: drop --no-control",
		text:  "make no socket for crew ctl",
		set:   func(o *Options, _ string) error { o.Control.Off = true; return nil }},
	{name: "help", short: "h", group: groupOther,
		text: "print this; -h: what is used most, on one screen",
		set:  func(o *Options, _ string) error { o.ask = askHelp; return nil }},
	{name: "version", short: "V", group: groupOther,
		text: "print the version",
		set:  func(o *Options, _ string) error { o.ask = askVersion; return nil }},
	{name: "completion", value: "SHELL", group: groupOther, choices: shells,
		text: "print a script that completes for bash, zsh or fish",
		set:  func(o *Options, v string) error { o.ask = v; return nil }},

	{name: "run", value: "RUN", of: "ctl: status log explain watch top pause resume resize cancel retry drain stop",
		text: "the pid or the name of the run",
		set:  func(o *Options, v string) error { o.Ctl.Run = v; return nil }},
	{name: "to", value: "RUN", of: "ctl: add",
		text: "the crew serve, or engine:URL/QUEUE",
		set:  func(o *Options, v string) error { o.Ctl.Run = v; return nil }},
	{name: "follow", short: "f", of: "ctl: log",
		text: "go on until the task ends",
		set:  func(o *Options, _ string) error { o.Ctl.Follow = true; return nil }},
	{name: "rest", of: "ctl: drain",
		text: "first run everything that was read",
		set:  func(o *Options, _ string) error { o.Ctl.Rest = true; return nil }},
	{name: "key", value: "KEY", of: "ctl: cancel add",
		text: "the key of the tasks",
		set:  func(o *Options, v string) error { key := task.Bytes(v); o.Ctl.Key = &key; return nil }},
	{name: "after", value: "TASK", of: "ctl: add",
		text: "wait until this one succeeded; repeatable",
		set:  func(o *Options, v string) error { return add(&o.Ctl.After, v, parseAfter) }},
	{name: "wait", of: "ctl: add",
		text: "show the output, end with the task's status",
		set:  func(o *Options, _ string) error { o.Ctl.Wait = true; return nil }},
	{name: "block", of: "ctl: add",
		text: "wait while the queue is full",
		set:  func(o *Options, _ string) error { o.Ctl.Block = true; return nil }},
	{name: "null", short: "0", of: "ctl: add",
		text: "records of - end with a NUL byte",
		set:  func(o *Options, _ string) error { o.Ctl.Null = true; return nil }},

	{name: "engine", value: "URL", of: "engine: init status pause resume cancel attach",
		text: "the NATS server, or the name of a NATS context",
		set:  func(o *Options, v string) error { return setText(&o.Engine.URL, v) }},
	{name: "dir", value: "DIR", of: "engine: serve",
		text: "where the hub keeps everything",
		set:  func(o *Options, v string) error { return setText(&o.Hub.Dir, v) }},
	{name: "listen", value: "HOST:PORT", of: "engine: serve",
		text: "where it listens (127.0.0.1:4222)",
		set:  func(o *Options, v string) error { return setText(&o.Hub.Listen, v) }},
	{name: "tls-cert", value: "FILE", of: "engine: serve",
		text: "its certificate; then it may listen anywhere",
		set:  func(o *Options, v string) error { return setText(&o.Hub.Cert, v) }},
	{name: "tls-key", value: "FILE", of: "engine: serve",
		text: "the key of the certificate",
		set:  func(o *Options, v string) error { return setText(&o.Hub.Key, v) }},
	{name: "max-tasks", value: "N", of: "engine: init",
		text: "tasks in the stream; submitters then wait (100000)",
		set:  func(o *Options, v string) error { return setWhole(&o.Hub.MaxTasks, v, 1) }},
	{name: "max-output", value: "SIZE", of: "engine: init",
		text: "output in the stream; workers then wait (1G)",
		set:  func(o *Options, v string) error { return set(&o.Hub.MaxOutput, v, task.ParseSize) }},
	{name: "replicas", value: "N", of: "engine: init",
		text: "how many servers of a cluster keep each message (1)",
		set:  func(o *Options, v string) (err error) { o.Hub.Replicas, err = parseWhole(v, 1, 5); return err }},

	{name: "json", of: "ctl; engine: status; state",
		text: "print lines of JSON",
		set:  func(o *Options, _ string) error { o.Ctl.JSON = true; return nil }},
	{name: "help", short: "h", of: "ctl; engine; state",
		text: "print this",
		set:  func(o *Options, _ string) error { o.ask = askHelp; return nil }},
}

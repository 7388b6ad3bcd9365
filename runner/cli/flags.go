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

// option is a row of the flag table. The parser, --help and the completion scripts
// use it, and a test compares the man page with it.
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
}

// long returns the option with a name of crew's or of its peers, or nil.
func long(name string) *option {
	for i := range options {
		if sameName(options[i].name, name) {
			return &options[i]
		}
	}
	return accepted(name)
}

// short returns the option with a letter, or nil.
func short(letter byte) *option {
	for i := range options {
		if strings.IndexByte(options[i].short, letter) >= 0 {
			return &options[i]
		}
	}
	return accepted(string(letter))
}

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
	{name: "arg-file", short: "a", value: "FILE", group: groupInput,
		text: "records from FILE, - is stdin; several one by one",
		set: func(o *Options, v string) error {
			v, err := parseText(v)
			o.Input.Files = append(o.Input.Files, v)
			return err
		}},
	{name: "null", short: "0", group: groupInput,
		text: "records end with a NUL byte",
		set:  func(o *Options, _ string) error { o.Input.Delim = "\x00"; return nil }},
	{name: "delimiter", short: "d", value: "STR", group: groupInput,
		text: `records end with STR; knows \n \t \0 \xHH`,
		set:  func(o *Options, v string) (err error) { o.Input.Delim, err = input.ParseDelimiter(v); return err }},
	{name: "colsep", short: "C", value: "REGEX", group: groupInput,
		text: "cut records into columns at REGEX",
		set:  func(o *Options, v string) (err error) { o.Input.Colsep, err = input.ParseColsep(v); return err }},
	{name: "csv", group: groupInput,
		text: "records are rows of CSV",
		set:  func(o *Options, _ string) error { o.Input.CSV = true; return nil }},
	{name: "header", group: groupInput,
		text: "the first record names the columns",
		set:  func(o *Options, _ string) error { o.Input.Header = true; return nil }},
	{name: "input", value: "FORMAT", group: groupInput, choices: inputs,
		text: "lines (default), or json: an object a line",
		set: func(o *Options, v string) error {
			v, err := parseChoice(v, inputs)
			o.Input.JSON = v == "json"
			return err
		}},
	{name: "max-args", short: "n", value: "N", group: groupInput,
		text: "N records in one command; 0 takes one, adds none",
		set: func(o *Options, v string) error {
			n, err := parseWhole(v, 0, math.MaxInt)
			o.Command.MaxArgs, o.Command.NoArgs = max(1, n), n == 0
			return err
		}},
	{name: "max-chars", short: "s", value: "N", group: groupInput,
		text: "as many records as fit a command of N bytes",
		set: func(o *Options, v string) (err error) {
			o.Command.MaxChars, err = parseWhole(v, 1, math.MaxInt)
			return err
		}},
	{name: "no-run-if-empty", short: "r", group: groupInput,
		text: "skip empty records",
		set:  func(o *Options, _ string) error { o.Input.SkipEmpty = true; return nil }},
	{name: "eof", short: "E", value: "STR", group: groupInput,
		text: "stop at the record STR",
		set:  func(o *Options, v string) error { o.Input.EOF = v; return nil }},
	{name: "shard", value: "K/N", group: groupInput,
		text: "take share K of the records, which N runs share",
		set:  func(o *Options, v string) (err error) { o.Input.Shard, err = parseShard(v); return err }},
	{name: "shard-times", value: "FILE", group: groupInput,
		text: "balance shares by the times in a joblog",
		set:  func(o *Options, v string) (err error) { o.Input.ShardTimes, err = parseText(v); return err }},
	{name: "replace", short: "I", value: "STR", group: groupInput,
		text: "STR stands for the record in place of {}",
		set:  func(o *Options, v string) (err error) { o.Command.Replace, err = parseText(v); return err }},
	{name: "pipe", group: groupInput,
		text: "cut a stream into blocks, each a task's stdin",
		set:  func(o *Options, _ string) error { o.Pipe.On = true; return nil }},
	{name: "block", value: "SIZE", group: groupInput,
		text: "about SIZE bytes in a block (1M); -N: N a worker",
		set:  func(o *Options, v string) (err error) { o.Pipe.Block, err = parseBlock(v); return err }},
	{name: "records", short: "N", value: "N", group: groupInput,
		text: "N records in a block; without --pipe the same as -n",
		set: func(o *Options, v string) (err error) {
			o.Pipe.Records, err = parseWhole(v, 1, math.MaxInt)
			return err
		}},
	{name: "recend", value: "STR", group: groupInput,
		text: `records of blocks end with STR (\n); knows \n \t \0`,
		set:  func(o *Options, v string) (err error) { o.Pipe.End, err = parseMark(v); return err }},
	{name: "recstart", value: "STR", group: groupInput,
		text: "records of blocks begin with STR",
		set:  func(o *Options, v string) (err error) { o.Pipe.Start, err = parseMark(v); return err }},
	{name: "stdin", group: groupInput,
		text: "give the record to the task's standard input",
		set:  func(o *Options, _ string) error { o.Command.Stdin = true; return nil }},

	{name: "jobs", short: "jP", value: "N", group: groupPool,
		text: "workers: N, N%, +N, -N, 0 for most, or a FILE",
		set:  func(o *Options, v string) (err error) { o.Pool.Jobs, o.Pool.JobsFile, err = readJobs(v); return err }},
	{name: "sched", value: "POLICY", group: groupPool, choices: policies,
		text: "fifo, round-robin, least-busy, keyed or topic",
		set:  func(o *Options, v string) (err error) { o.Sched.Policy, err = parseChoice(v, policies); return err }},
	{name: "key", value: "TEMPLATE", group: groupPool,
		text: "what policy and limits go by, such as '{1}'",
		set:  func(o *Options, v string) (err error) { o.Sched.Key, err = parseText(v); return err }},
	{name: "cost", value: "TEMPLATE", group: groupPool,
		text: "a number: how heavy a task is",
		set:  func(o *Options, v string) (err error) { o.Sched.Cost, err = parseText(v); return err }},
	{name: "topics", value: "LIST", group: groupPool,
		text: "workers for each key: mail=2,db=1,*=5, or auto",
		set:  func(o *Options, v string) (err error) { o.Sched.Topics, err = sched.ParseTopics(v); return err }},
	{name: "per-key", value: "N", group: groupPool,
		text: "at most N tasks of one key at once",
		set: func(o *Options, v string) (err error) {
			o.Sched.PerKey, err = parseWhole(v, 1, math.MaxInt)
			return err
		}},
	{name: "buffer", value: "N", group: groupPool,
		text: "read ahead N (2 x jobs, >= 64; 4096 with keys)",
		set:  func(o *Options, v string) (err error) { o.Pool.Buffer, err = parseWhole(v, 1, 1<<30); return err }},
	{name: "delay", value: "DUR", group: groupPool,
		text: "at least DUR between starts",
		set:  func(o *Options, v string) (err error) { o.Pool.Delay, err = parseDuration(v); return err }},
	{name: "jitter", value: "DUR", group: groupPool,
		text: "wait a random time up to DUR before the first start",
		set:  func(o *Options, v string) (err error) { o.Pool.Jitter, err = parseDuration(v); return err }},
	{name: "order", value: "ORDER", group: groupPool, choices: orders,
		text: "input (default), or longest-first, by --state",
		set: func(o *Options, v string) error {
			v, err := parseChoice(v, orders)
			o.Sched.LongestFirst = v == "longest-first"
			return err
		}},
	{name: "lock", value: "FILE", group: groupPool,
		text: "refuse, with status 75, while another run has it",
		set:  func(o *Options, v string) (err error) { o.Pool.Lock, err = parseText(v); return err }},
	{name: "lock-wait", value: "DUR", group: groupPool,
		text: "with --lock: wait for the other run up to DUR",
		set:  func(o *Options, v string) (err error) { o.Pool.LockWait, err = parseDuration(v); return err }},
	{name: "jobserver", value: "WHEN", alone: "share", group: groupPool, choices: sharings,
		text: "share the places as make -j does; =no: join none",
		set:  func(o *Options, v string) (err error) { o.Jobserver.Mode, err = parseChoice(v, sharings); return err }},
	{name: "jobserver-style", value: "FORM", group: groupPool, choices: styles,
		text: "auto (default), fifo, or pipe for make before 4.4",
		set: func(o *Options, v string) error {
			v, err := parseChoice(v, styles)
			o.Jobserver.Style = v
			return err
		}},
	{name: "workdir", value: "DIR", group: groupPool,
		text: "run tasks in DIR",
		set:  func(o *Options, v string) (err error) { o.Pool.Workdir, err = parseText(v); return err }},
	{name: "nice", value: "N", group: groupPool,
		text: "add N to the tasks' niceness",
		set:  func(o *Options, v string) (err error) { o.Pool.Nice, err = parseWhole(v, -20, 19); return err }},
	{name: "pty", group: groupPool,
		text: "tasks write to terminals: colours, progress bars",
		set:  func(o *Options, _ string) error { o.Pool.PTY = true; return nil }},
	{name: "tty", group: groupPool,
		text: "one task at a time, with the terminal, for prompts",
		set:  func(o *Options, _ string) error { o.Pool.TTY = true; return nil }},
	{name: "shell", value: "PATH", group: groupPool,
		text: "run the command in this shell",
		set:  func(o *Options, v string) (err error) { o.Command.Shell, err = parseText(v); return err }},
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
			v, err := parseChoice(v, protocols)
			o.Coproc.Protocol = task.LineProtocol + task.Protocol(slices.Index(protocols, v))
			return err
		}},
	{name: "worker-window", value: "N", group: groupPool,
		text: "up to N records in a worker at once (1)",
		set:  func(o *Options, v string) (err error) { o.Coproc.Window, err = parseWhole(v, 1, 1<<16); return err }},
	{name: "worker-start", value: "WHEN", group: groupPool, choices: starts,
		text: "lazy (default), with the first record, or eager",
		set: func(o *Options, v string) error {
			v, err := parseChoice(v, starts)
			o.Coproc.Eager = v == "eager"
			return err
		}},
	{name: "worker-ready", value: "REGEX", group: groupPool,
		text: "wait for a line of the worker that matches",
		set:  func(o *Options, v string) (err error) { o.Coproc.Ready, err = parseReady(v); return err }},
	{name: "worker-start-timeout", value: "DUR", group: groupPool,
		text: "replace a worker that is not ready after DUR",
		set: func(o *Options, v string) (err error) {
			if o.Coproc.Start, err = parseDuration(v); err == nil && o.Coproc.Start == 0 {
				err = errors.New("write a time in which a worker can start, such as 1m")
			}
			return err
		}},
	{name: "worker-max", value: "N", group: groupPool,
		text: "a fresh worker after N records",
		set: func(o *Options, v string) (err error) {
			o.Coproc.Max, err = parseWhole(v, 1, math.MaxInt)
			return err
		}},
	{name: "worker-age", value: "DUR", group: groupPool,
		text: "a fresh worker after DUR",
		set: func(o *Options, v string) (err error) {
			if o.Coproc.Age, err = parseDuration(v); err == nil && o.Coproc.Age == 0 {
				err = errors.New("write a time in which a worker can start, such as 10m")
			}
			return err
		}},

	{name: "retries", value: "N", group: groupFailure,
		text: "N more attempts after the first",
		set: func(o *Options, v string) (err error) {
			o.Failure.Retries, err = parseWhole(v, 0, math.MaxInt)
			return err
		}},
	{name: "retry-delay", value: "DUR", group: groupFailure,
		text: "wait before the first retry (1s), then doubling",
		set:  func(o *Options, v string) (err error) { o.Failure.RetryDelay, err = parseDuration(v); return err }},
	{name: "retry-max-delay", value: "DUR", group: groupFailure,
		text: "longest wait before a retry (1m)",
		set:  func(o *Options, v string) (err error) { o.Failure.RetryMaxDelay, err = parseDuration(v); return err }},
	{name: "retry-on", value: "LIST", group: groupFailure,
		text: "exit:1-99, signal, timeout, start, answer, any",
		set:  func(o *Options, v string) (err error) { o.Failure.RetryOn, err = parseRetryOn(v); return err }},
	{name: "timeout", value: "DUR", group: groupFailure,
		text: "end an attempt after DUR",
		set:  func(o *Options, v string) (err error) { o.Failure.Timeout, err = parseDuration(v); return err }},
	{name: "kill-after", value: "DUR", group: groupFailure,
		text: "KILL comes DUR (5s) after TERM",
		set:  func(o *Options, v string) (err error) { o.Failure.KillAfter, err = parseDuration(v); return err }},
	{name: "halt", value: "WHEN", group: groupFailure,
		text: "never, or such as now,fail=1 or soon,done=10%",
		set:  func(o *Options, v string) (err error) { o.Failure.Halt, err = parseHalt(v); return err }},
	{name: "fail-fast", group: groupFailure,
		text: "same as --halt now,fail=1",
		set:  func(o *Options, _ string) (err error) { o.Failure.Halt, err = parseHalt("now,fail=1"); return err }},
	{name: "deadline", value: "WHEN", group: groupFailure,
		text: "end the run after such as 90m, or at 06:00",
		set: func(o *Options, v string) (err error) {
			o.Failure.Deadline, err = parseDeadline(v, time.Now())
			return err
		}},

	{name: "keep-order", short: "k", group: groupOutput,
		text: "results in input order",
		set:  func(o *Options, _ string) error { o.Output.KeepOrder = true; return nil }},
	{name: "output", value: "MODE", group: groupOutput, choices: modes,
		text: "group (default), line, raw or none",
		set:  func(o *Options, v string) (err error) { o.Output.Mode, err = parseChoice(v, modes); return err }},
	{name: "line-buffer", group: groupOutput, means: "output=line",
		text: "same as --output line"},
	{name: "ungroup", short: "u", group: groupOutput, means: "output=raw",
		text: "same as --output raw"},
	{name: "tag", group: groupOutput,
		text: "begin each line with the record",
		set:  func(o *Options, _ string) error { o.Output.Tag = true; return nil }},
	{name: "tag-string", value: "TEMPLATE", group: groupOutput,
		text: "begin each line with this",
		set:  func(o *Options, v string) (err error) { o.Output.TagString, err = parseText(v); return err }},
	{name: "json", group: groupOutput,
		text: "print a JSON object a result",
		set:  func(o *Options, _ string) error { o.Output.JSON = true; return nil }},
	{name: "results", value: "DIR", group: groupOutput,
		text: "keep each task's results in a directory of DIR",
		set:  func(o *Options, v string) (err error) { o.Output.Results, err = parseText(v); return err }},
	{name: "joblog", value: "FILE", group: groupOutput,
		text: "a line a task, as GNU parallel does; +FILE appends",
		set: func(o *Options, v string) (err error) {
			v, o.Output.Append = strings.CutPrefix(v, "+")
			o.Output.Joblog, err = parseText(v)
			return err
		}},
	{name: "junit", value: "FILE", group: groupOutput,
		text: "write a test report in JUnit's XML at the end",
		set:  func(o *Options, v string) (err error) { o.Output.JUnit, err = parseText(v); return err }},
	{name: "ci", value: "SERVER", group: groupOutput, choices: servers,
		text: "CI server: auto (default), github, gitlab or none",
		set:  func(o *Options, v string) (err error) { o.Show.CI, err = parseChoice(v, servers); return err }},
	{name: "progress", value: "WHEN", group: groupOutput, choices: whens,
		text: "a bar: auto (on a terminal), always, full, never",
		set:  func(o *Options, v string) (err error) { o.Show.Progress, err = parseProgress(v); return err }},
	{name: "bar", group: groupOutput, means: "progress=always",
		text: "same as --progress always"},
	{name: "quiet", short: "q", group: groupOutput,
		text: "no lines about failures, nor a digest at the end",
		set:  func(o *Options, _ string) error { o.Show.Quiet = true; return nil }},
	{name: "quiet-success", group: groupOutput,
		text: "show only tasks that failed; nothing if none did",
		set:  func(o *Options, _ string) error { o.Output.FailedOnly = true; return nil }},
	{name: "verbose", short: "t", group: groupOutput,
		text: "each command on stderr before it runs",
		set:  func(o *Options, _ string) error { o.Show.Verbose = true; return nil }},
	{name: "dry-run", group: groupOutput,
		text: "print the commands, run nothing",
		set:  func(o *Options, _ string) error { o.Show.DryRun = true; return nil }},

	{name: "state", value: "DIR", group: groupState,
		text: "keep a journal in DIR; go on where it stopped",
		set:  func(o *Options, v string) (err error) { o.State.Dir, err = parseText(v); return err }},
	{name: "replay", group: groupState,
		text: "show the results of earlier runs, too",
		set:  func(o *Options, _ string) error { o.State.Replay = true; return nil }},
	{name: "retry-failed", group: groupState,
		text: "run again what failed in earlier runs",
		set:  func(o *Options, _ string) error { o.State.RetryFailed = true; return nil }},
	{name: "state-reset", group: groupState,
		text: "begin anew in a DIR that holds another run",
		set:  func(o *Options, _ string) error { o.State.Reset = true; return nil }},

	{name: "max-queued", value: "N", group: groupServe,
		text: "at most N tasks wait (100000)",
		set: func(o *Options, v string) (err error) {
			o.Serve.MaxQueued, err = parseWhole(v, 1, math.MaxInt)
			return err
		}},
	{name: "idle-exit", value: "DUR", group: groupServe,
		text: "end after DUR without a task",
		set: func(o *Options, v string) (err error) {
			if o.Serve.IdleExit, err = parseDuration(v); err == nil && o.Serve.IdleExit == 0 {
				err = errors.New("write a time that others can add a task in, such as 10m")
			}
			return err
		}},
	{name: "keep", value: "DUR", group: groupServe,
		text: "with --state: forget ended tasks after DUR (24h)",
		set:  func(o *Options, v string) (err error) { o.Serve.Keep, err = parseDuration(v); return err }},

	{name: "engine", value: "URL", group: groupEngine,
		text: "run the tasks on the workers of a NATS server",
		set:  func(o *Options, v string) (err error) { o.Engine.URL, err = parseText(v); return err }},
	{name: "queue", value: "NAME", group: groupEngine,
		text: "which workers of the engine (default)",
		set:  func(o *Options, v string) (err error) { o.Engine.Queue, err = parseQueue(v); return err }},
	{name: "ssh", short: "S", value: "HOSTS", group: groupEngine,
		text: "run on 8/host,user@host,: over ssh; or a FILE",
		set: func(o *Options, v string) error {
			v, err := parseText(v)
			o.Engine.Hosts = append(o.Engine.Hosts, v)
			return err
		}},
	{name: "connect-timeout", value: "DUR", group: groupEngine,
		text: "--ssh: end when no host is there for DUR (30s)",
		set:  func(o *Options, v string) (err error) { o.Engine.Reach, err = parseDuration(v); return err }},
	{name: "env", value: "NAME", group: groupEngine,
		text: "tasks there have this variable, too",
		set: func(o *Options, v string) error {
			v, err := parseVariable(v)
			o.Engine.Env = append(o.Engine.Env, v)
			return err
		}},
	{name: "sign", value: "FILE", group: groupEngine,
		text: "sign commands with the key in FILE",
		set:  func(o *Options, v string) (err error) { o.Engine.Sign, err = parseText(v); return err }},
	{name: "detach", group: groupEngine,
		text: "hand the tasks over, print the run's name and end",
		set:  func(o *Options, _ string) error { o.Engine.Detach = true; return nil }},
	{name: "basefile", value: "FILE", group: groupEngine,
		text: "copy FILE to every host first",
		set: func(o *Options, v string) error {
			v, err := parseText(v)
			o.Engine.BaseFiles = append(o.Engine.BaseFiles, v)
			return err
		}},
	{name: "transfer", group: groupEngine, means: "transfer-file={}",
		text: "same as --transfer-file {}"},
	{name: "transfer-file", value: "FILE", group: groupEngine,
		text: "copy this file to the task's host",
		set: func(o *Options, v string) error {
			v, err := parseText(v)
			o.Engine.Transfer = append(o.Engine.Transfer, v)
			return err
		}},
	{name: "return", value: "TEMPLATE", group: groupEngine,
		text: "copy this file back when the task has ended",
		set: func(o *Options, v string) error {
			v, err := parseText(v)
			o.Engine.Return = append(o.Engine.Return, v)
			return err
		}},
	{name: "cleanup", group: groupEngine,
		text: "remove copied files from the hosts",
		set:  func(o *Options, _ string) error { o.Engine.Cleanup = true; return nil }},
	{name: "labels", value: "LIST", group: groupEngine,
		text: "crew worker: topics of these names run there alone",
		set:  func(o *Options, v string) (err error) { o.Engine.Labels, err = parseLabels(v); return err }},
	{name: "worker-ttl", value: "DUR", group: groupEngine,
		text: "a worker counts as lost when silent for DUR (10s)",
		set: func(o *Options, v string) (err error) {
			if o.Engine.TTL, err = parseDuration(v); err == nil && o.Engine.TTL < time.Second {
				err = errors.New("write a time of at least 1s")
			}
			return err
		}},
	{name: "allow-commands", group: groupEngine,
		text: "crew worker: run commands that are signed",
		set:  func(o *Options, _ string) error { o.Engine.Commands = true; return nil }},
	{name: "trust", value: "FILE", group: groupEngine,
		text: "crew worker: whose signatures count",
		set: func(o *Options, v string) error {
			v, err := parseText(v)
			o.Engine.Trust = append(o.Engine.Trust, v)
			return err
		}},

	{name: "name", value: "NAME", group: groupOther,
		text: "what crew ctl calls the run",
		set:  func(o *Options, v string) (err error) { o.Control.Name, err = parseName(v); return err }},
	{name: "no-control", group: groupOther,
		text: "make no socket for crew ctl",
		set:  func(o *Options, _ string) error { o.Control.Off = true; return nil }},
	{name: "help", short: "h", group: groupOther,
		text: "print this; -h: what is used most, on one screen",
		set:  func(o *Options, _ string) error { o.ask = askHelp; return nil }},
	{name: "version", short: "V", group: groupOther,
		text: "print the version",
		set:  func(o *Options, _ string) error { o.ask = askVersion; return nil }},
	{name: "completion", value: "SHELL", group: groupOther, choices: shells,
		text: "print a script that completes for bash, zsh or fish",
		set: func(o *Options, v string) error {
			v, err := parseChoice(v, shells)
			o.ask = v
			return err
		}},
}

// serving and working stand in Options.uses for the words serve and worker, so that
// rules can name them like options. There is an option --worker, too.
var (
	serving = option{name: "serve", set: func(o *Options, _ string) error { o.Serve.On = true; return nil }}
	working = option{name: "crew-worker", set: func(o *Options, _ string) error { o.Engine.Worker = true; return nil }}
)

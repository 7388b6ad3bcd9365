package cli

import (
	"cmp"
	"errors"
	"math"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"crew/runner/input"
	"crew/runner/kernel"
	"crew/runner/task"
	"crew/sched"
)

// options is the flag table, in the order of --help. The linker lays it out, so it
// takes no time at start-up.
var options = [...]option{
	{group: "Tasks in", name: "arg-file", short: "a", value: "FILE",
		text: "records from FILE, - is stdin; several one by one",
		set:  func(o *Options, v string) error { return add(&o.Input.Files, v, parseText) }},
	{name: "null", short: "0", text: "records end with a NUL byte",
		set: func(o *Options, _ string) error { o.Input.Delim = "\x00"; return nil }},
	{name: "delimiter", short: "d", value: "STR", text: `records end with STR; knows \n \t \0 \xHH`,
		set: func(o *Options, v string) error { return set(&o.Input.Delim, v, input.ParseDelimiter) }},
	{name: "colsep", short: "C", value: "REGEX", text: "cut records into columns at REGEX",
		set: func(o *Options, v string) error { return set(&o.Input.Colsep, v, input.ParseColsep) }},
	{name: "csv", text: "records are rows of CSV",
		set: func(o *Options, _ string) error { o.Input.CSV = true; return nil }},
	{name: "header", text: "the first record names the columns",
		set: func(o *Options, _ string) error { o.Input.Header = true; return nil }},
	{name: "input", value: "FORMAT", choices: "lines json",
		text: "lines (default), or json: an object a line",
		set:  func(o *Options, v string) error { o.Input.JSON = v == "json"; return nil }},
	{name: "max-args", short: "n", value: "N",
		text: "N records in one command; 0 takes one, adds none",
		set: func(o *Options, v string) error {
			n, err := parseWhole(v, 0, math.MaxInt)
			o.Command.MaxArgs, o.Command.NoArgs = max(1, n), n == 0
			return err
		}},
	{name: "max-chars", short: "s", value: "N", text: "as many records as fit a command of N bytes",
		set: func(o *Options, v string) error { return setWhole(&o.Command.MaxChars, v, 1) }},
	{name: "spread", short: "X", text: "as many as fit; workers share the last ones evenly",
		set: func(o *Options, _ string) error { o.Command.Spread = true; return nil }},
	{name: "no-run-if-empty", short: "r", text: "skip empty records",
		set: func(o *Options, _ string) error { o.Input.SkipEmpty = true; return nil }},
	{name: "eof", short: "E", value: "STR", text: "stop at the record STR",
		set: func(o *Options, v string) error { o.Input.EOF = v; return nil }},
	{name: "shard", value: "K/N", text: "take share K of the records, which N runs share",
		set: func(o *Options, v string) error { return set(&o.Input.Shard, v, parseShard) }},
	{name: "times", value: "PATH", text: "how long commands took: a joblog, --json, --state",
		set: func(o *Options, v string) error {
			if v == "-" {
				return errors.New("give a file or a directory: standard input is for records")
			}
			o.Input.Times = append(o.Input.Times, "")
			return setText(&o.Input.Times[len(o.Input.Times)-1], v)
		}},
	{name: "replace", short: "I", value: "STR", text: "STR stands for the record in place of {}",
		set: func(o *Options, v string) error { return setText(&o.Command.Replace, v) }},
	{name: "pipe", text: "cut a stream into blocks, each a task's stdin",
		set: func(o *Options, _ string) error { o.Pipe.On = true; return nil }},
	{name: "block", value: "SIZE", text: "about SIZE bytes in a block (1M); -N: N a worker",
		set: func(o *Options, v string) error { return set(&o.Pipe.Block, v, parseBlock) }},
	{name: "records", short: "N", value: "N",
		text: "N records in a block; without --pipe the same as -n",
		set:  func(o *Options, v string) error { return setWhole(&o.Pipe.Records, v, 1) }},
	{name: "recend", value: "STR", text: `records of blocks end with STR (\n); knows \n \t \0`,
		set: func(o *Options, v string) error { return set(&o.Pipe.End, v, parseMark) }},
	{name: "recstart", value: "STR", text: "records of blocks begin with STR",
		set: func(o *Options, v string) error { return set(&o.Pipe.Start, v, parseMark) }},
	{name: "stdin", text: "give the record to the task's standard input",
		set: func(o *Options, _ string) error { o.Command.Stdin = true; return nil }},

	{group: "How tasks run", name: "jobs", short: "jP", value: "N",
		text: "workers: N, N%, +N, -N, 0 for most, or a FILE",
		set:  func(o *Options, v string) error { return setText(&o.Pool.Jobs, v) }},
	{name: "sched", value: "POLICY", choices: "fifo round-robin least-busy keyed topic fair",
		text: "fifo, round-robin, least-busy, keyed, topic or fair",
		set:  func(o *Options, v string) error { o.Sched.Policy = v; return nil }},
	{name: "key", value: "TEMPLATE", text: "what policy and limits go by, such as '{1}'",
		set: func(o *Options, v string) error { return setText(&o.Sched.Key, v) }},
	{name: "cost", value: "TEMPLATE", text: "a number: how heavy a task is",
		set: func(o *Options, v string) error { return setText(&o.Sched.Cost, v) }},
	{name: "topics", value: "LIST", text: "workers for each key: mail=2,db=1,*=5, or auto",
		set: func(o *Options, v string) error { return set(&o.Sched.Topics, v, sched.ParseTopics) }},
	{name: "per-key", value: "N", text: "at most N tasks of one key at once",
		set: func(o *Options, v string) error { return setWhole(&o.Sched.PerKey, v, 1) }},
	{name: "priority", value: "TEMPLATE", text: "higher starts first, from -1000 to 1000 (0)",
		set: func(o *Options, v string) error { return setText(&o.Terms.Priority, v) }},
	{name: "weight", value: "TEMPLATE", text: "a whole number: the places a task takes (1)",
		set: func(o *Options, v string) error { return setText(&o.Terms.Weight, v) }},
	{name: "cap", value: "NAME=N", text: "a limit by name, or gpu:0,1,3; repeatable",
		set: func(o *Options, v string) error { return addCap(&o.Terms.Caps, v) }},
	{name: "needs", value: "TEMPLATE", text: "what a task takes of them: gpu, or db:2,net",
		set: func(o *Options, v string) error { return setText(&o.Terms.Needs, v) }},
	{name: "rate", value: "N/PERIOD", text: "at most N starts in it: 100/s, 10/1m,burst=5",
		set: func(o *Options, v string) error { return set(&o.Terms.Rate, v, parseRate) }},
	{name: "key-rate", value: "N/PERIOD", text: "the same for each key",
		set: func(o *Options, v string) error { return set(&o.Terms.KeyRate, v, parseRate) }},
	{name: "buffer", value: "N", text: "have N tasks wait (2 x jobs, >= 64; 4096 by key)",
		set: func(o *Options, v string) (err error) { o.Pool.Buffer, err = parseWhole(v, 1, 1<<30); return err }},
	{name: "delay", value: "DUR", text: "at least DUR between starts",
		set: func(o *Options, v string) error { return set(&o.Pool.Delay, v, task.ParseDuration) }},
	{name: "jitter", value: "DUR", text: "wait a random time up to DUR before the first start",
		set: func(o *Options, v string) error { return set(&o.Pool.Jitter, v, task.ParseDuration) }},
	{name: "load", value: "N", text: "start while fewer than N, N% of CPUs, are busy",
		set: func(o *Options, v string) error { return set(&o.Machine.Load, v, parseLoad) }},
	{name: "memfree", value: "SIZE", text: "start while SIZE, or N%, of memory is free",
		set: func(o *Options, v string) error { return set(&o.Machine.MemFree, v, parseMemFree) }},
	{name: "order", value: "ORDER", choices: "input longest-first shortest-first",
		text: "longest-first or shortest-first, by cost or time",
		set: func(o *Options, v string) error {
			if o.Sched.Order = v; v == "input" {
				o.Sched.Order = ""
			}
			return nil
		}},
	{name: "lock", value: "FILE", text: "exit with 75 if another run holds it",
		set: func(o *Options, v string) error { return setText(&o.Pool.Lock, v) }},
	{name: "lock-wait", value: "DUR", text: "with --lock: wait for the other run up to DUR",
		set: func(o *Options, v string) error { return set(&o.Pool.LockWait, v, task.ParseDuration) }},
	{name: "jobserver", value: "WHEN", alone: "share", choices: "share join no",
		text: "share the places as make -j does; =no: join none",
		set:  func(o *Options, v string) error { o.Jobserver.Mode = v; return nil }},
	{name: "jobserver-style", value: "FORM", choices: "auto fifo pipe",
		text: "auto (default), fifo, or pipe for make before 4.4",
		set:  func(o *Options, v string) error { o.Jobserver.Style = v; return nil }},
	{name: "workdir", value: "DIR", text: "run tasks in DIR",
		set: func(o *Options, v string) error { return setText(&o.Pool.Workdir, v) }},
	{name: "nice", value: "N", text: "add N to the tasks' niceness",
		set: func(o *Options, v string) (err error) { o.Pool.Nice, err = parseWhole(v, -20, 19); return err }},
	{name: "pty", text: "tasks write to terminals: colours, progress bars",
		set: func(o *Options, _ string) error { o.Pool.PTY = true; return nil }},
	{name: "tty", text: "one task at a time, with the terminal, for prompts",
		set: func(o *Options, _ string) error { o.Pool.TTY = true; return nil }},
	{name: "shell", value: "PATH", text: "run the command in this shell",
		set: func(o *Options, v string) error { return setText(&o.Command.Shell, v) }},
	{name: "worker", value: "CMD", text: "give the records to long-lived processes",
		set: func(o *Options, v string) (err error) {
			if o.Coproc.Words, err = parseText(v); isNumber(v) {
				err = errors.New("write the command of a worker; -j N says how many there are")
			}
			return err
		}},
	{name: "worker-protocol", value: "NAME", choices: protocols,
		text: "line (default), nul or json",
		set: func(o *Options, v string) error {
			o.Coproc.Protocol = task.LineProtocol + task.Protocol(slices.Index(strings.Fields(protocols), v))
			return nil
		}},
	{name: "worker-window", value: "N", text: "up to N records in a worker at once (1)",
		set: func(o *Options, v string) (err error) { o.Coproc.Window, err = parseWhole(v, 1, 1<<16); return err }},
	{name: "worker-start", value: "WHEN", choices: "lazy eager",
		text: "lazy (default), with the first record, or eager",
		set:  func(o *Options, v string) error { o.Coproc.Eager = v == "eager"; return nil }},
	{name: "worker-ready", value: "REGEX", text: "wait for a line of the worker that matches",
		set: func(o *Options, v string) error { return set(&o.Coproc.Ready, v, parseReady) }},
	{name: "worker-start-timeout", value: "DUR",
		text: "replace a worker that is not ready after DUR",
		set:  func(o *Options, v string) error { return setDuration(&o.Coproc.Start, v, time.Microsecond) }},
	{name: "worker-max", value: "N", text: "a fresh worker after N records",
		set: func(o *Options, v string) error { return setWhole(&o.Coproc.Max, v, 1) }},
	{name: "worker-age", value: "DUR", text: "a fresh worker after DUR",
		set: func(o *Options, v string) error { return setDuration(&o.Coproc.Age, v, time.Microsecond) }},

	{group: "When tasks fail", name: "retries", value: "N", text: "N more attempts after the first",
		set: func(o *Options, v string) error { return setWhole(&o.Failure.Retries, v, 0) }},
	{name: "retry-delay", value: "DUR", text: "wait before the first retry (1s), then doubling",
		set: func(o *Options, v string) error { return set(&o.Failure.RetryDelay, v, task.ParseDuration) }},
	{name: "retry-max-delay", value: "DUR", text: "longest wait before a retry (1m)",
		set: func(o *Options, v string) error { return set(&o.Failure.RetryMaxDelay, v, task.ParseDuration) }},
	{name: "retry-on", value: "LIST", text: "exit:N, signal, timeout, start, output, memory, any",
		set: func(o *Options, v string) error { return set(&o.Failure.RetryOn, v, parseRetryOn) }},
	{name: "timeout", value: "DUR", text: "end an attempt after DUR",
		set: func(o *Options, v string) error { return set(&o.Failure.Timeout, v, task.ParseDuration) }},
	{name: "idle-timeout", value: "DUR", text: "end an attempt that writes nothing for DUR",
		set: func(o *Options, v string) error { return set(&o.Failure.Idle, v, task.ParseDuration) }},
	{name: "kill-after", value: "DUR", text: "KILL comes DUR (5s) after TERM",
		set: func(o *Options, v string) error { return set(&o.Failure.KillAfter, v, task.ParseDuration) }},
	{name: "flaky-fail", text: "status 123 also if a task passed only in a retry",
		set: func(o *Options, _ string) error { o.Failure.FlakyFail = true; return nil }},
	{name: "halt", value: "WHEN", text: "such as now,fail=1, soon,done=10% or pause,fail=3",
		set: func(o *Options, v string) error { return set(&o.Failure.Halt, v, parseHalt) }},
	{name: "fail-fast", text: "at the first failure end all (--halt now,fail=1)",
		set: func(o *Options, _ string) error { return set(&o.Failure.Halt, "now,fail=1", parseHalt) }},
	{name: "deadline", value: "WHEN", text: "end the run after such as 90m, or at 06:00",
		set: func(o *Options, v string) error { return set(&o.Failure.Deadline, v, parseDeadline) }},

	{group: "Results out", name: "keep-order", short: "k", text: "results in input order",
		set: func(o *Options, _ string) error { o.Output.KeepOrder = true; return nil }},
	{name: "output", value: "MODE", choices: "group line raw none", text: "group (default), line, raw or none",
		set: func(o *Options, v string) error { o.Output.Mode = v; return nil }},
	{name: "line-buffer", means: "output=line", text: "same as --output line"},
	{name: "ungroup", short: "u", means: "output=raw", text: "same as --output raw"},
	{name: "tag", text: "begin each line with the record",
		set: func(o *Options, _ string) error { o.Output.Tag = true; return nil }},
	{name: "tag-string", value: "TEMPLATE", text: "begin each line with this",
		set: func(o *Options, v string) error { return setText(&o.Output.TagString, v) }},
	{name: "json", text: "print a JSON object a result",
		set: func(o *Options, _ string) error { o.Output.JSON = true; return nil }},
	{name: "results", value: "DIR", text: "keep each task's results in a directory of DIR",
		set: func(o *Options, v string) error { return setText(&o.Output.Results, v) }},
	{name: "joblog", value: "FILE", text: "a line a task, as GNU parallel does; +FILE appends",
		set: func(o *Options, v string) (err error) {
			v, o.Output.Append = strings.CutPrefix(v, "+")
			o.Output.Joblog, err = parseText(v)
			return err
		}},
	{name: "junit", value: "FILE", text: "write a test report in JUnit's XML at the end",
		set: func(o *Options, v string) error { return setText(&o.Output.JUnit, v) }},
	{name: "report", value: "FILE", text: "write an HTML page about the run at the end",
		set: func(o *Options, v string) error { return setText(&o.After.Report, v) }},
	{name: "trace", value: "FILE", text: "write a trace for Perfetto or chrome://tracing",
		set: func(o *Options, v string) error { return setText(&o.After.Trace, v) }},
	{name: "notify", value: "CMD", text: "run CMD at the end, with the digest as its input",
		set: func(o *Options, v string) error { return setText(&o.After.Notify, v) }},
	{name: "ci", value: "SERVER", choices: "auto github gitlab none",
		text: "CI server: auto (default), github, gitlab or none",
		set:  func(o *Options, v string) error { o.Show.CI = v; return nil }},
	{name: "progress", value: "WHEN", choices: whens,
		text: "a bar: auto (on a terminal), always, never",
		set:  func(o *Options, v string) error { return set(&o.Show.Progress, v, parseProgress) }},
	{name: "bar", means: "progress=always", text: "same as --progress always"},
	{name: "quiet", short: "q", text: "no lines about failures, nor a digest at the end",
		set: func(o *Options, _ string) error { o.Show.Quiet = true; return nil }},
	{name: "quiet-success", text: "show only tasks that failed; nothing if none did",
		set: func(o *Options, _ string) error { o.Output.FailedOnly = true; return nil }},
	{name: "verbose", short: "t", text: "each command on stderr before it runs",
		set: func(o *Options, _ string) error { o.Show.Verbose = true; return nil }},
	{name: "dry-run", text: "print the commands, run nothing",
		set: func(o *Options, _ string) error { o.Show.DryRun = true; return nil }},

	{group: "Outputs", name: "makes", value: "TEMPLATE",
		text: "make this file, as {out}, unless it is up to date",
		set:  func(o *Options, v string) error { return add(&o.Makes.Outs, v, parseText) }},
	{name: "stdout-to", value: "TEMPLATE", text: "make it of the task's standard output",
		set: func(o *Options, v string) error { return setText(&o.Makes.Stdout, v) }},
	{name: "reads", value: "TEMPLATE", text: "what it is made from; repeatable",
		set: func(o *Options, v string) error { return add(&o.Makes.Reads, v, parseText) }},
	{name: "always-make", text: "make what is up to date, too",
		set: func(o *Options, _ string) error { o.Makes.Always = true; return nil }},

	{group: "Lasting state", name: "state", value: "DIR",
		text: "keep a journal in DIR; go on where it stopped",
		set:  func(o *Options, v string) error { return setText(&o.State.Dir, v) }},
	{name: "replay", text: "show the results of earlier runs, too",
		set: func(o *Options, _ string) error { o.State.Replay = true; return nil }},
	{name: "retry-failed", text: "run again what failed in earlier runs",
		set: func(o *Options, _ string) error { o.State.RetryFailed = true; return nil }},
	{name: "rerun-changed", text: "run all again if a program in the command changed",
		set: func(o *Options, _ string) error { o.State.Changed = true; return nil }},
	{name: "state-reset", text: "begin anew in a DIR that holds another run",
		set: func(o *Options, _ string) error { o.State.Reset = true; return nil }},

	{group: "Serving a queue", name: "max-queued", value: "N",
		text: "at most N tasks wait (100000)",
		set:  func(o *Options, v string) error { return setWhole(&o.Serve.MaxQueued, v, 1) }},
	{name: "idle-exit", value: "DUR", text: "end after DUR without a task",
		set: func(o *Options, v string) error { return setDuration(&o.Serve.IdleExit, v, time.Microsecond) }},
	{name: "keep", value: "DUR", text: "with --state: forget ended tasks after DUR (24h)",
		set: func(o *Options, v string) error { return set(&o.Serve.Keep, v, task.ParseDuration) }},

	{group: "Other machines", name: "engine", value: "URL",
		text: "run the tasks on the workers of a NATS server",
		set:  func(o *Options, v string) error { return setText(&o.Engine.URL, v) }},
	{name: "queue", value: "NAME", text: "which workers of the engine (default)",
		set: func(o *Options, v string) error { return set(&o.Engine.Queue, v, parseQueue) }},
	{name: "ssh", short: "S", value: "HOSTS", text: "run on 8/host,user@host,: over ssh; or a FILE",
		set: func(o *Options, v string) error { return add(&o.Engine.Hosts, v, parseText) }},
	{name: "connect-timeout", value: "DUR", text: "--ssh: end when no host is there for DUR (30s)",
		set: func(o *Options, v string) error { return set(&o.Engine.Reach, v, task.ParseDuration) }},
	{name: "env", value: "NAME", text: "pass this variable to remote tasks",
		set: func(o *Options, v string) error { return add(&o.Engine.Env, v, parseVariable) }},
	{name: "sign", value: "FILE", text: "sign commands with the key in FILE",
		set: func(o *Options, v string) error { return setText(&o.Engine.Sign, v) }},
	{name: "detach", text: "hand the tasks over, print the run's name and end",
		set: func(o *Options, _ string) error { o.Engine.Detach = true; return nil }},
	{name: "basefile", value: "FILE", text: "copy FILE to every host first",
		set: func(o *Options, v string) error { return add(&o.Engine.BaseFiles, v, parseText) }},
	{name: "transfer", means: "transfer-file={}", text: "same as --transfer-file {}"},
	{name: "transfer-file", value: "FILE", text: "copy this file to the task's host",
		set: func(o *Options, v string) error { return add(&o.Engine.Transfer, v, parseText) }},
	{name: "return", value: "TEMPLATE", text: "copy this file back when the task has ended",
		set: func(o *Options, v string) error { return add(&o.Engine.Return, v, parseText) }},
	{name: "cleanup", text: "remove copied files from the hosts",
		set: func(o *Options, _ string) error { o.Engine.Cleanup = true; return nil }},
	{name: "labels", value: "LIST", text: "crew worker: topics of these names run there alone",
		set: func(o *Options, v string) error { return set(&o.Engine.Labels, v, parseLabels) }},
	{name: "offers", value: "LIST", text: "crew worker: what it has for --needs: gpu=2,mem=16",
		set: func(o *Options, v string) error { return addOffers(&o.Terms.Caps, v) }},
	{name: "worker-ttl", value: "DUR", text: "a worker counts as lost when silent for DUR (10s)",
		set: func(o *Options, v string) error { return setDuration(&o.Engine.TTL, v, time.Second) }},
	{name: "allow-commands", text: "crew worker: run commands that are signed",
		set: func(o *Options, _ string) error { o.Engine.Commands = true; return nil }},
	{name: "trust", value: "FILE", text: "crew worker: whose signatures count",
		set: func(o *Options, v string) error { return add(&o.Engine.Trust, v, parseText) }},

	{group: "Other", name: "name", value: "NAME", text: "what crew ctl calls the run",
		set: func(o *Options, v string) error { return set(&o.Control.Name, v, parseName) }},
	{name: "no-control", text: "make no socket for crew ctl",
		set: func(o *Options, _ string) error { o.Control.Off = true; return nil }},
	{name: "help", short: "h", text: "print this; -h: what is used most, on one screen",
		set: func(o *Options, _ string) error { o.asksHelp = true; return nil }},
	{name: "version", short: "V", text: "print the version",
		set: func(o *Options, _ string) error { o.Print = versionText(); return nil }},
	{name: "completion", value: "SHELL", choices: "bash zsh fish",
		text: "print a script that completes for bash, zsh or fish",
		set:  func(o *Options, v string) error { o.Print = completionScript(v); return nil }},

	{name: "run", value: "RUN", of: "ctl: status log explain wait watch top pause resume resize cancel retry hold release move drain stop",
		text: "the pid or the name of the run",
		set:  func(o *Options, v string) error { o.Ctl.Run = v; return nil }},
	{name: "to", value: "RUN", of: "ctl: add", text: "the crew serve, or engine:URL/QUEUE",
		set: func(o *Options, v string) error { o.Ctl.Run = v; return nil }},
	{name: "follow", short: "f", of: "ctl: log", text: "go on until the task ends",
		set: func(o *Options, _ string) error { o.Ctl.Follow = true; return nil }},
	{name: "rest", of: "ctl: drain", text: "first run everything that was read",
		set: func(o *Options, _ string) error { o.Ctl.Rest = true; return nil }},
	{name: "only", value: "KIND", of: "ctl: explain", choices: "waiting running failed ended", text: "waiting, running, failed or ended ones alone",
		set: func(o *Options, v string) error { o.Ctl.Only = v; return nil }},
	{name: "limit", value: "N", of: "ctl: explain", text: "at most N (1000): the first, or the latest to end",
		set: func(o *Options, v string) (err error) { o.Ctl.N, err = parseWhole(v, 1, 1000); return err }},
	{name: "key", value: "KEY", of: "ctl: wait cancel add; engine: cancel", text: "the key of the tasks",
		set: func(o *Options, v string) error { key := task.Bytes(v); o.Ctl.Key = &key; return nil }},
	{name: "all", of: "ctl: wait cancel", text: "all tasks so far that have not ended",
		set: func(o *Options, _ string) error { o.Ctl.All = true; return nil }},
	{name: "all", of: "ctl: stop", text: "all of your runs; they are listed first",
		set: func(o *Options, _ string) error { o.Ctl.All = true; return nil }},
	{name: "timeout", value: "DUR", of: "ctl: wait", text: "end with status 124 after DUR",
		set: func(o *Options, v string) error { return set(&o.Ctl.Timeout, v, task.ParseDuration) }},
	{name: "timeout", value: "DUR", of: "ctl: add", text: "end an attempt after DUR; 0 for no limit",
		set: func(o *Options, v string) error {
			err := set(&o.Ctl.Timeout, v, task.ParseDuration)
			if o.Ctl.Timeout == 0 {
				o.Ctl.Timeout = -1 // 0 is the run's own
			}
			return err
		}},
	{name: "in", value: "DUR", of: "ctl: add", text: "start it in such as 2h, and not before",
		set: func(o *Options, v string) error { return set(&o.Ctl.At, v, parseIn) }},
	{name: "at", value: "WHEN", of: "ctl: add", text: "start it at such as 22:00 or '2027-01-31 06:00'",
		set: func(o *Options, v string) error { return set(&o.Ctl.At, v, parseAt) }},
	{name: "priority", value: "N", of: "ctl: add", text: "higher ones start first, from -1000 to 1000",
		set: func(o *Options, v string) error {
			n, err := parseWhole(v, -task.MaxPriority, task.MaxPriority)
			o.Ctl.Priority = &n
			return err
		}},
	{name: "note", value: "TEXT", of: "ctl: add", text: "a note that explain, status and top show",
		set: func(o *Options, v string) error { return setText(&o.Ctl.Note, v) }},
	{name: "after", value: "TASK", of: "ctl: add",
		text: "wait until this one succeeded; repeatable",
		set:  func(o *Options, v string) error { return add(&o.Ctl.After, v, parseTask) }},
	{name: "wait", of: "ctl: add", text: "show the output, end with the task's status",
		set: func(o *Options, _ string) error { o.Ctl.Wait = true; return nil }},
	{name: "block", of: "ctl: add", text: "wait while the queue is full",
		set: func(o *Options, _ string) error { o.Ctl.Block = true; return nil }},
	{name: "null", short: "0", of: "ctl: add", text: "records of - end with a NUL byte",
		set: func(o *Options, _ string) error { o.Ctl.Null = true; return nil }},

	{name: "engine", value: "URL", of: "engine: init dispatch invite revoke status pause resume cancel drain log attach",
		text: "the NATS server, or the name of a NATS context",
		set:  func(o *Options, v string) error { return setText(&o.Engine.URL, v) }},
	{name: "dir", value: "DIR", of: "engine: serve invite revoke", text: "where the hub keeps everything",
		set: func(o *Options, v string) error { return setText(&o.Hub.Dir, v) }},
	{name: "listen", value: "HOST:PORT", of: "engine: serve",
		text: "where it listens (127.0.0.1:4222)",
		set:  func(o *Options, v string) error { return setText(&o.Hub.Listen, v) }},
	{name: "host", value: "NAME", of: "engine: serve",
		text: "by which clients find it (its own); repeatable",
		set:  func(o *Options, v string) error { return add(&o.Hub.Hosts, v, parseHost) }},
	{name: "tls-cert", value: "FILE", of: "engine: serve",
		text: "its certificate (it makes one)",
		set:  func(o *Options, v string) error { return setText(&o.Hub.Cert, v) }},
	{name: "tls-key", value: "FILE", of: "engine: serve", text: "the key of the certificate",
		set: func(o *Options, v string) error { return setText(&o.Hub.Key, v) }},
	{name: "all", of: "engine: drain", text: "all workers",
		set: func(o *Options, _ string) error { o.Ctl.All = true; return nil }},
	{name: "queue", value: "NAME", of: "engine: drain", text: "only workers of this queue",
		set: func(o *Options, v string) error { return set(&o.Ctl.Queue, v, parseQueue) }},
	{name: "submitter", of: "engine: invite", text: "it may submit runs, not work",
		set: func(o *Options, _ string) error { o.Hub.Invite.Submitter = true; return nil }},
	{name: "expires", value: "DUR", of: "engine: invite", text: "when the credentials end (never)",
		set: func(o *Options, v string) error { return setDuration(&o.Hub.Invite.For, v, time.Second) }},
	{name: "max-output", value: "SIZE", of: "engine: serve init",
		text: "output in the stream; workers then wait (1G)",
		set: func(o *Options, v string) error {
			err := set(&o.Hub.MaxOutput, v, task.ParseSize)
			if err == nil && o.Hub.MaxOutput < 1<<20 {
				err = errors.New("one message would fill it: write 1M or more")
			}
			return err
		}},
	{name: "replicas", value: "N", of: "engine: init",
		text: "how many servers of a cluster keep each message (1)",
		set:  func(o *Options, v string) (err error) { o.Hub.Replicas, err = parseWhole(v, 1, 5); return err }},

	{name: "trace", of: "report", text: "print a trace for Perfetto, not a page",
		set: func(o *Options, _ string) error { o.Look.Trace = true; return nil }},
	{name: "listen", value: "HOST:PORT", of: "web",
		text: "where it listens (127.0.0.1, any port)",
		set:  func(o *Options, v string) error { return setText(&o.Look.Listen, v) }},
	{name: "token-file", value: "FILE", of: "web",
		text: "keep the token of its URL in FILE",
		set:  func(o *Options, v string) error { return setText(&o.Look.TokenFile, v) }},
	{name: "json", of: "ctl; engine: status; state", text: "print lines of JSON",
		set: func(o *Options, _ string) error { o.Ctl.JSON = true; return nil }},
	{name: "help", short: "h", of: "ctl; engine; state; report; web", text: "print this",
		set: func(o *Options, _ string) error { o.asksHelp = true; return nil }},
}

// version is the version of a release, which .ci/release has the linker fill in.
var version string

// versionText returns what --version prints: the version of the release or, in any
// other build, the version of the module that the go command has recorded. The form for
// other systems than Linux adds the word portable.
func versionText() string {
	name := version
	if info, ok := debug.ReadBuildInfo(); name == "" && ok {
		name = strings.Trim(info.Main.Version, "()")
	}
	text := "crew " + cmp.Or(name, "devel")
	if kernel.Portable {
		text += " portable"
	}
	return text + "\n"
}

// long returns the option with a long name of crew's or of its peers, or nil. If c has
// runs, the option may be one that it does not take.
func (c *command) long(name string) *option {
	o := c.option(func(o *option) bool { return sameName(o.name, name) })
	if o == nil && c.hasRun() {
		o = accepted(name)
	}
	return o
}

// short is like long, for a letter.
func (c *command) short(letter byte) *option {
	o := c.option(func(o *option) bool { return strings.IndexByte(o.short, letter) >= 0 })
	if o == nil && c.hasRun() {
		o = accepted(string(letter))
	}
	return o
}

// option returns the option for which is holds: one of the command's own or, if it has
// runs, one of theirs.
func (c *command) option(is func(*option) bool) (ofRuns *option) {
	for i := range options {
		o := &options[i]
		switch {
		case !is(o):
		case o.of == "" && c.hasRun():
			ofRuns = o
		case o.of != "" && c.takes(o):
			return o
		}
	}
	return ofRuns
}

// long returns the option of runs with a name of crew's or of its peers, or nil.
func long(name string) *option { return commands[0].long(name) }

// optionNames returns the options of the command in their long form.
func (c *command) optionNames() (names []string) {
	for i := range options {
		if o := &options[i]; c.takes(o) {
			names = append(names, "--"+o.name)
		}
	}
	return names
}

package cli

import (
	"cmp"
	"errors"
	"math"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"crew/runner/input"
	"crew/runner/kernel"
	"crew/runner/task"
	"crew/sched"
)

// The commands that take the options of runs, as the table has them.
const (
	runs       = "run serve"
	all        = "run serve worker"
	shown      = "run serve engine-attach"
	everywhere = "run serve worker engine-attach"

	// Those that name a run, or a NATS server.
	named = "ctl-status ctl-log ctl-explain ctl-wait ctl-watch ctl-top ctl-pause ctl-resume ctl-resize ctl-cancel " +
		"ctl-retry ctl-hold ctl-release ctl-move ctl-drain ctl-stop"
	linked = "engine-init engine-invite engine-revoke engine-status engine-cancel engine-drain engine-attach"
)

// options returns the table of options, in the order of --help, for those who do not set any.
var options = sync.OnceValue(func() []*option { return new(Options).rows() })

// rows returns the table of options, bound to the places in o that they set. A row with
// nothing but a name is a heading.
func (o *Options) rows() []*option {
	jobserver := choice(&o.Jobserver.Mode, "share join no")
	jobserver.alone = "share"
	return []*option{
		{name: "Tasks in"},
		{"arg-file", "a", "FILE", "run", "records from FILE, - is stdin; several one by one", texts(&o.Input.Files)},
		{"null", "0", "", "run", "records end with a NUL byte", as(&o.Input.Delim, "\x00")},
		{"delimiter", "d", "STR", "run", `records end with STR; knows \n \t \0 \xHH`, parsed(&o.Input.Delim, input.ParseDelimiter)},
		{"colsep", "C", "REGEX", runs, "cut records into columns at REGEX", parsed(&o.Input.Colsep, input.ParseColsep)},
		{"csv", "", "", runs, "records are rows of CSV", as(&o.Input.CSV, true)},
		{"header", "", "", "run", "the first record names the columns", as(&o.Input.Header, true)},
		{"input", "", "FORMAT", all, "lines (default), or json: an object a line", toggle(&o.Input.JSON, "lines json")},
		{"max-args", "n", "N", all, "N records in one command; 0 takes one, adds none", by(func(v string) error {
			n, err := parseWhole(v, 0, math.MaxInt)
			o.Command.MaxArgs, o.Command.NoArgs = max(1, n), n == 0
			return err
		})},
		{"max-chars", "s", "N", "run", "as many records as fit a command of N bytes", whole(&o.Command.MaxChars, 1, math.MaxInt)},
		{"spread", "X", "", "run", "as many as fit; workers share the last ones evenly", as(&o.Command.Spread, true)},
		{"no-run-if-empty", "r", "", "run", "skip empty records", as(&o.Input.SkipEmpty, true)},
		{"eof", "E", "STR", "run", "stop at the record STR", word(&o.Input.EOF)},
		{"shard", "", "K/N", "run", "take share K of the records, which N runs share", parsed(&o.Input.Shard, parseShard)},
		{"times", "", "PATH", "run", "how long commands took: a joblog, --json, --state", by(func(v string) error {
			if v == "-" {
				return errors.New("give a file or a directory: standard input is for records")
			}
			return add(&o.Input.Times, v, parseText)
		})},
		{"replace", "I", "STR", all, "STR stands for the record in place of {}", text(&o.Command.Replace)},
		{"pipe", "", "", "run", "cut a stream into blocks, each a task's stdin", as(&o.Pipe.On, true)},
		{"block", "", "SIZE", "run", "about SIZE bytes in a block (1M); -N: N a worker", parsed(&o.Pipe.Block, parseBlock)},
		{"records", "N", "N", "run", "N records in a block; without --pipe the same as -n", whole(&o.Pipe.Records, 1, math.MaxInt)},
		{"recend", "", "STR", "run", `records of blocks end with STR (\n); knows \n \t \0`, parsed(&o.Pipe.End, parseMark)},
		{"recstart", "", "STR", "run", "records of blocks begin with STR", parsed(&o.Pipe.Start, parseMark)},
		{"stdin", "", "", all, "give the record to the task's standard input", as(&o.Command.Stdin, true)},

		{name: "How tasks run"},
		{"jobs", "jP", "N", all, "workers: N, N%, +N, -N, 0 for most, or a FILE", text(&o.Pool.Jobs)},
		{"sched", "", "POLICY", runs, "fifo, round-robin, least-busy, keyed, topic or fair",
			choice(&o.Sched.Policy, "fifo round-robin least-busy keyed topic fair")},
		{"key", "", "TEMPLATE", runs, "what policy and limits go by, such as '{1}'", text(&o.Sched.Key)},
		{"cost", "", "TEMPLATE", runs, "a number: how heavy a task is", text(&o.Sched.Cost)},
		{"topics", "", "LIST", runs, "workers for each key: mail=2,db=1,*=5, or auto", parsed(&o.Sched.Topics, sched.ParseTopics)},
		{"per-key", "", "N", runs, "at most N tasks of one key at once", whole(&o.Sched.PerKey, 1, math.MaxInt)},
		{"priority", "", "TEMPLATE", runs, "higher starts first, from -1000 to 1000 (0)", text(&o.Terms.Priority)},
		{"weight", "", "TEMPLATE", runs, "a whole number: the places a task takes (1)", text(&o.Terms.Weight)},
		{"cap", "", "NAME=N", runs, "a limit by name, or gpu:0,1,3; repeatable", by(func(v string) error { return addUnits(&o.Terms.Caps, v, "--cap") })},
		{"needs", "", "TEMPLATE", runs, "what a task takes of them: gpu, or db:2,net", text(&o.Terms.Needs)},
		{"rate", "", "N/PERIOD", runs, "at most N starts in it: 100/s, 10/1m,burst=5", parsed(&o.Terms.Rate, parseRate)},
		{"key-rate", "", "N/PERIOD", runs, "the same for each key", parsed(&o.Terms.KeyRate, parseRate)},
		{"buffer", "", "N", "run", "have N tasks wait (2 x jobs, >= 64; 4096 by key)", whole(&o.Pool.Buffer, 1, 1<<30)},
		{"delay", "", "DUR", all, "at least DUR between starts", duration(&o.Pool.Delay, 0)},
		{"jitter", "", "DUR", all, "wait a random time up to DUR before the first start", duration(&o.Pool.Jitter, 0)},
		{"load", "", "N", runs, "start while fewer than N, N% of CPUs, are busy", parsed(&o.Machine.Load, parseLoad)},
		{"memfree", "", "SIZE", runs, "start while SIZE, or N%, of memory is free", parsed(&o.Machine.MemFree, parseMemFree)},
		{"order", "", "ORDER", "run", "longest-first or shortest-first, by cost or time",
			among("input longest-first shortest-first", by(func(v string) error {
				if o.Sched.Order = v; v == "input" {
					o.Sched.Order = ""
				}
				return nil
			}))},
		{"lock", "", "FILE", all, "exit with 75 if another run holds it", text(&o.Pool.Lock)},
		{"lock-wait", "", "DUR", all, "with --lock: wait for the other run up to DUR", duration(&o.Pool.LockWait, 0)},
		{"jobserver", "", "WHEN", all, "share the places as make -j does; =no: join none", jobserver},
		{"jobserver-style", "", "FORM", all, "auto (default), fifo, or pipe for make before 4.4", choice(&o.Jobserver.Style, "auto fifo pipe")},
		{"workdir", "", "DIR", all, "run tasks in DIR", text(&o.Pool.Workdir)},
		{"nice", "", "N", all, "add N to the tasks' niceness", whole(&o.Pool.Nice, -20, 19)},
		{"pty", "", "", all, "tasks write to terminals: colours, progress bars", as(&o.Pool.PTY, true)},
		{"tty", "", "", "run", "one task at a time, with the terminal, for prompts", as(&o.Pool.TTY, true)},
		{"shell", "", "PATH", all, "run the command in this shell", text(&o.Command.Shell)},
		{"worker", "", "CMD", all, "give the records to long-lived processes", by(func(v string) (err error) {
			if o.Coproc.Words, err = parseText(v); isNumber(v) {
				err = errors.New("write the command of a worker; -j N says how many there are")
			}
			return err
		})},
		{"worker-protocol", "", "NAME", all, "line (default), nul or json", among(protocols, by(func(v string) error {
			o.Coproc.Protocol = task.LineProtocol + task.Protocol(slices.Index(strings.Fields(protocols), v))
			return nil
		}))},
		{"worker-window", "", "N", all, "up to N records in a worker at once (1)", whole(&o.Coproc.Window, 1, 1<<16)},
		{"worker-start", "", "WHEN", all, "lazy (default), with the first record, or eager", toggle(&o.Coproc.Eager, "lazy eager")},
		{"worker-ready", "", "REGEX", all, "wait for a line of the worker that matches", parsed(&o.Coproc.Ready, parseReady)},
		{"worker-start-timeout", "", "DUR", all, "replace a worker that is not ready after DUR", duration(&o.Coproc.Start, time.Microsecond)},
		{"worker-max", "", "N", all, "a fresh worker after N records", whole(&o.Coproc.Max, 1, math.MaxInt)},
		{"worker-age", "", "DUR", all, "a fresh worker after DUR", duration(&o.Coproc.Age, time.Microsecond)},

		{name: "When tasks fail"},
		{"retries", "", "N", runs, "N more attempts after the first", whole(&o.Failure.Retries, 0, math.MaxInt)},
		{"retry-delay", "", "DUR", runs, "wait before the first retry (1s), then doubling", duration(&o.Failure.RetryDelay, 0)},
		{"retry-max-delay", "", "DUR", runs, "longest wait before a retry (1m)", duration(&o.Failure.RetryMaxDelay, 0)},
		{"retry-on", "", "LIST", runs, "exit:N, signal, timeout, start, output, memory, any", parsed(&o.Failure.RetryOn, parseRetryOn)},
		{"timeout", "", "DUR", runs, "end an attempt after DUR", duration(&o.Failure.Timeout, 0)},
		{"idle-timeout", "", "DUR", runs, "end an attempt that writes nothing for DUR", duration(&o.Failure.Idle, 0)},
		{"kill-after", "", "DUR", all, "KILL comes DUR (5s) after TERM", duration(&o.Failure.KillAfter, 0)},
		{"flaky-fail", "", "", runs, "status 123 also if a task passed only in a retry", as(&o.Failure.FlakyFail, true)},
		{"halt", "", "WHEN", runs, "such as now,fail=1, soon,done=10% or pause,fail=3", parsed(&o.Failure.Halt, parseHalt)},
		{"fail-fast", "", "", runs, "at the first failure end all (--halt now,fail=1)", as(&o.Failure.Halt, Halt{When: "now", On: "fail", N: 1})},
		{"deadline", "", "WHEN", runs, "end the run after such as 90m, or at 06:00", parsed(&o.Failure.Deadline, parseDeadline)},

		{name: "Results out"},
		{"keep-order", "k", "", "run engine-attach", "results in input order", as(&o.Output.KeepOrder, true)},
		{"output", "", "MODE", shown, "group (default), line, raw or none", choice(&o.Output.Mode, "group line raw none")},
		{"line-buffer", "", "", shown, "same as --output line", spells("output=line")},
		{"ungroup", "u", "", shown, "same as --output raw", spells("output=raw")},
		{"tag", "", "", shown, "begin each line with the record", as(&o.Output.Tag, true)},
		{"tag-string", "", "TEMPLATE", shown, "begin each line with this", text(&o.Output.TagString)},
		{"json", "", "", shown, "print a JSON object a result", as(&o.Output.JSON, true)},
		{"results", "", "DIR", shown, "keep each task's results in a directory of DIR", text(&o.Output.Results)},
		{"joblog", "", "FILE", shown, "a line a task, as GNU parallel does; +FILE appends", by(func(v string) (err error) {
			v, o.Output.Append = strings.CutPrefix(v, "+")
			o.Output.Joblog, err = parseText(v)
			return err
		})},
		{"junit", "", "FILE", shown, "write a test report in JUnit's XML at the end", text(&o.Output.JUnit)},
		{"report", "", "FILE", shown, "write an HTML page about the run at the end", text(&o.After.Report)},
		{"trace", "", "FILE", shown, "write a trace for Perfetto or chrome://tracing", text(&o.After.Trace)},
		{"notify", "", "CMD", shown, "run CMD at the end, with the digest as its input", text(&o.After.Notify)},
		{"ci", "", "SERVER", shown, "CI server: auto (default), github, gitlab or none", choice(&o.Show.CI, "auto github gitlab none")},
		{"progress", "", "WHEN", everywhere, "a bar: auto (on a terminal), always, never", among(whens, parsed(&o.Show.Progress, parseProgress))},
		{"bar", "", "", everywhere, "same as --progress always", spells("progress=always")},
		{"quiet", "q", "", everywhere, "no lines about failures, nor a digest at the end", as(&o.Show.Quiet, true)},
		{"quiet-success", "", "", shown, "show only tasks that failed; nothing if none did", as(&o.Output.FailedOnly, true)},
		{"verbose", "t", "", all, "each command on stderr before it runs", as(&o.Show.Verbose, true)},
		{"dry-run", "", "", "run", "print the commands, run nothing", as(&o.Show.DryRun, true)},

		{name: "Outputs"},
		{"makes", "", "TEMPLATE", runs, "make this file, as {out}, unless it is up to date", texts(&o.Makes.Outs)},
		{"stdout-to", "", "TEMPLATE", runs, "make it of the task's standard output", text(&o.Makes.Stdout)},
		{"reads", "", "TEMPLATE", runs, "what it is made from; repeatable", texts(&o.Makes.Reads)},
		{"always-make", "", "", runs, "make what is up to date, too", as(&o.Makes.Always, true)},

		{name: "Lasting state"},
		{"state", "", "DIR", runs, "keep a journal in DIR; go on where it stopped", text(&o.State.Dir)},
		{"replay", "", "", "run", "show the results of earlier runs, too", as(&o.State.Replay, true)},
		{"retry-failed", "", "", "run", "run again what failed in earlier runs", as(&o.State.RetryFailed, true)},
		{"rerun-changed", "", "", runs, "run all again if a program in the command changed", as(&o.State.Changed, true)},
		{"state-reset", "", "", runs, "begin anew in a DIR that holds another run", as(&o.State.Reset, true)},

		{name: "Serving a queue"},
		{"max-queued", "", "N", "serve", "at most N tasks wait (100000)", whole(&o.Serve.MaxQueued, 1, math.MaxInt)},
		{"idle-exit", "", "DUR", "serve", "end after DUR without a task", duration(&o.Serve.IdleExit, time.Microsecond)},
		{"keep", "", "DUR", "serve", "with --state: forget ended tasks after DUR (24h)", duration(&o.Serve.Keep, 0)},

		{name: "Other machines"},
		{"engine", "", "URL", "run worker", "run the tasks on the workers of a NATS server", text(&o.Engine.URL)},
		{"queue", "", "NAME", "run worker", "which workers of the engine (default)", parsed(&o.Engine.Queue, parseQueue)},
		{"ssh", "S", "HOSTS", "run", "run on 8/host,user@host,: over ssh; or a FILE", texts(&o.Engine.Hosts)},
		{"connect-timeout", "", "DUR", "run", "--ssh: end when no host is there for DUR (30s)", duration(&o.Engine.Reach, 0)},
		{"env", "", "NAME", "run", "pass this variable to remote tasks", each(&o.Engine.Env, parseVariable)},
		{"sign", "", "FILE", "run", "sign commands with the key in FILE", text(&o.Engine.Sign)},
		{"detach", "", "", "run", "hand the tasks over, print the run's name and end", as(&o.Engine.Detach, true)},
		{"basefile", "", "FILE", "run", "copy FILE to every host first", texts(&o.Engine.BaseFiles)},
		{"transfer", "", "", "run", "same as --transfer-file {}", spells("transfer-file={}")},
		{"transfer-file", "", "FILE", "run", "copy this file to the task's host", texts(&o.Engine.Transfer)},
		{"return", "", "TEMPLATE", "run", "copy this file back when the task has ended", texts(&o.Engine.Return)},
		{"cleanup", "", "", "run", "remove copied files from the hosts", as(&o.Engine.Cleanup, true)},
		{"labels", "", "LIST", "worker", "crew worker: topics of these names run there alone", parsed(&o.Engine.Labels, parseLabels)},
		{"offers", "", "LIST", "worker", "crew worker: what it has for --needs: gpu=2,mem=16",
			by(func(v string) error { return addOffers(&o.Terms.Caps, v) })},
		{"worker-ttl", "", "DUR", "run worker", "a worker counts as lost when silent for DUR (10s)", duration(&o.Engine.TTL, time.Second)},
		{"allow-commands", "", "", "worker", "crew worker: run commands that are signed", as(&o.Engine.Commands, true)},
		{"trust", "", "FILE", "worker", "crew worker: whose signatures count", texts(&o.Engine.Trust)},

		{name: "Other"},
		{"name", "", "NAME", all, "what crew ctl calls the run", parsed(&o.Control.Name, parseName)},
		{"no-control", "", "", "run worker", "make no socket for crew ctl", as(&o.Control.Off, true)},
		{"help", "h", "", all, "print this; -h: what is used most, on one screen", as(&o.asksHelp, true)},
		{"version", "V", "", all, "print the version", by(func(string) error { o.Print = versionText(); return nil })},
		{"completion", "", "SHELL", all, "print a script that completes for bash, zsh or fish",
			among("bash zsh fish", by(func(v string) error { o.Print = completionScript(v); return nil }))},
		{"run", "", "RUN", named + " ctl-add", "the pid or the name of the run", word(&o.Ctl.Run)},
		{"to", "", "RUN", "ctl-add", "the crew serve, or engine:URL/QUEUE", word(&o.Ctl.Run)},
		{"follow", "f", "", "ctl-log", "go on until the task ends", as(&o.Ctl.Follow, true)},
		{"rest", "", "", "ctl-drain", "first run everything that was read", as(&o.Ctl.Rest, true)},
		{"only", "", "KIND", "ctl-explain", "waiting, running, failed or ended ones alone", choice(&o.Ctl.Only, "waiting running failed ended")},
		{"limit", "", "N", "ctl-explain", "at most N (1000): the first, or the latest to end", whole(&o.Ctl.N, 1, 1000)},
		{"key", "", "KEY", "ctl-wait ctl-cancel ctl-add", "the key of the tasks",
			by(func(v string) error { key := task.Bytes(v); o.Ctl.Key = &key; return nil })},
		{"all", "", "", "ctl-wait ctl-cancel", "all tasks so far that have not ended", as(&o.Ctl.All, true)},
		{"all", "", "", "ctl-stop", "all of your runs; they are listed first", as(&o.Ctl.All, true)},
		{"timeout", "", "DUR", "ctl-wait", "end with status 124 after DUR", duration(&o.Ctl.Timeout, 0)},
		{"timeout", "", "DUR", "ctl-add", "end an attempt after DUR; 0 for no limit", by(func(v string) (err error) {
			if o.Ctl.Timeout, err = task.ParseDuration(v); o.Ctl.Timeout == 0 {
				o.Ctl.Timeout = -1 // 0 is the run's own
			}
			return err
		})},
		{"in", "", "DUR", "ctl-add", "start it in such as 2h, and not before", parsed(&o.Ctl.At, parseIn)},
		{"at", "", "WHEN", "ctl-add", "start it at such as 22:00 or '2027-01-31 06:00'", parsed(&o.Ctl.At, parseAt)},
		{"priority", "", "N", "ctl-add", "higher ones start first, from -1000 to 1000", by(func(v string) error {
			n, err := parseWhole(v, -task.MaxPriority, task.MaxPriority)
			o.Ctl.Priority = &n
			return err
		})},
		{"note", "", "TEXT", "ctl-add", "a note that explain, status and top show", text(&o.Ctl.Note)},
		{"after", "", "TASK", "ctl-add", "wait until this one succeeded; repeatable", each(&o.Ctl.After, parseTask)},
		{"wait", "", "", "ctl-add", "show the output, end with the task's status", as(&o.Ctl.Wait, true)},
		{"block", "", "DUR", "ctl-add", "wait up to DUR for room, or for the next crew serve", duration(&o.Ctl.Block, 0)},
		{"null", "0", "", "ctl-add", "records of - end with a NUL byte", as(&o.Ctl.Null, true)},
		{"engine", "", "URL", linked, "the NATS server, or the name of a NATS context", text(&o.Engine.URL)},
		{"dir", "", "DIR", "engine-serve engine-invite engine-revoke", "where the hub keeps everything", text(&o.Hub.Dir)},
		{"listen", "", "HOST:PORT", "engine-serve", "where it listens (127.0.0.1:4222)", text(&o.Hub.Listen)},
		{"host", "", "NAME", "engine-serve", "by which clients find it (its own); repeatable", each(&o.Hub.Hosts, parseHost)},
		{"tls-cert", "", "FILE", "engine-serve", "its certificate (it makes one)", text(&o.Hub.Cert)},
		{"tls-key", "", "FILE", "engine-serve", "the key of the certificate", text(&o.Hub.Key)},
		{"all", "", "", "engine-drain", "all workers", as(&o.Ctl.All, true)},
		{"queue", "", "NAME", "engine-drain", "only workers of this queue", parsed(&o.Ctl.Queue, parseQueue)},
		{"submitter", "", "", "engine-invite", "it may submit runs, not work", as(&o.Hub.Invite.Submitter, true)},
		{"expires", "", "DUR", "engine-invite", "when the credentials end (never)", duration(&o.Hub.Invite.For, time.Second)},
		{"max-output", "", "SIZE", "engine-serve engine-init", "output in the stream; workers then wait (1G)", by(func(v string) (err error) {
			if o.Hub.MaxOutput, err = task.ParseSize(v); err == nil && o.Hub.MaxOutput < 1<<20 {
				err = errors.New("one message would fill it: write 1M or more")
			}
			return err
		})},
		{"replicas", "", "N", "engine-init", "how many servers of a cluster keep each message (1)", whole(&o.Hub.Replicas, 1, 5)},
		{"trace", "", "", "report", "print a trace for Perfetto, not a page", as(&o.Look.Trace, true)},
		{"listen", "", "HOST:PORT", "web", "where it listens (127.0.0.1, any port)", text(&o.Look.Listen)},
		{"token-file", "", "FILE", "web", "keep the token of its URL in FILE", text(&o.Look.TokenFile)},
		{"json", "", "", "ctl engine-status state", "print lines of JSON", as(&o.Ctl.JSON, true)},
		{"help", "h", "", "ctl engine state report web", "print this", as(&o.asksHelp, true)},
	}
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
	for _, o := range options() {
		switch {
		case !is(o):
		case c.takes(o):
			return o
		case o.ofRuns() && c.hasRun():
			ofRuns = o
		}
	}
	return ofRuns
}

// long returns the option of runs with a name of crew's or of its peers, or nil.
func long(name string) *option { return commands[0].long(name) }

// optionNames returns the options of the command in their long form.
func (c *command) optionNames() (names []string) {
	for _, o := range options() {
		if c.takes(o) {
			names = append(names, "--"+o.name)
		}
	}
	return names
}

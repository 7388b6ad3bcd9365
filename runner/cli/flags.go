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
	linked = "engine-invite engine-revoke engine-status engine-cancel engine-drain engine-attach"
)

// options returns the table of options, in the order of --help, for those who do not set any.
var options = sync.OnceValue(func() (all []*option) {
	for _, r := range new(Options).rows() {
		all = append(all, r.named())
	}
	return all
})

// rows returns the table of options, bound to the places in o that they set. A row with
// nothing but a form is a heading.
func (o *Options) rows() []row {
	in, cmd, worker, pipe, pool, order, terms := &o.Input, &o.Command, &o.Coproc, &o.Pipe, &o.Pool, &o.Sched, &o.Terms
	fail, out, show, state, engine, ctl, adds, hub := &o.Failure, &o.Output, &o.Show, &o.State, &o.Engine, &o.Ctl, &o.Ctl.Adds, &o.Hub
	jobserver := choice(&o.Jobserver.Mode, "share join no")
	jobserver.alone = "share"
	return []row{
		{form: "Tasks in"},
		{"-a, --arg-file FILE", "run", "records from FILE, - is stdin; several one by one", texts(&in.Files)},
		{"-0, --null", "run", "records end with a NUL byte", as(&in.Delim, "\x00")},
		{"-d, --delimiter STR", "run", `records end with STR; knows \n \t \0 \xHH`, parsed(&in.Delim, input.ParseDelimiter)},
		{"-C, --colsep REGEX", runs, "cut records into columns at REGEX", parsed(&in.Colsep, input.ParseColsep)},
		{"--csv", runs, "records are rows of CSV", on(&in.CSV)},
		{"--header", "run", "the first record names the columns", on(&in.Header)},
		{"--input FORMAT", all, "lines (default), or json: an object a line", toggle(&in.JSON, "lines json")},
		{"-n, --max-args N", all, "N records in one command; 0 takes one, adds none", by(func(v string) error {
			n, err := parseWhole(v, 0, math.MaxInt)
			cmd.MaxArgs, cmd.NoArgs = max(1, n), n == 0
			return err
		})},
		{"-s, --max-chars N", "run", "as many records as fit a command of N bytes", whole(&cmd.MaxChars, 1, math.MaxInt)},
		{"-X, --spread", "run", "as many as fit; workers share the last ones evenly", on(&cmd.Spread)},
		{"-r, --no-run-if-empty", "run", "skip empty records", on(&in.SkipEmpty)},
		{"-E, --eof STR", "run", "stop at the record STR", word(&in.EOF)},
		{"--shard K/N", "run", "take share K of the records, which N runs share", parsed(&in.Shard, parseShard)},
		{"--times PATH", "run", "how long commands took: a joblog, --json, --state", by(func(v string) error {
			if v == "-" {
				return errors.New("give a file or a directory: standard input is for records")
			}
			return add(&in.Times, v, parseText)
		})},
		{"-I, --replace STR", all, "STR stands for the record in place of {}", text(&cmd.Replace)},
		{"--pipe", "run", "cut a stream into blocks, each a task's stdin", on(&pipe.On)},
		{"--block SIZE", "run", "about SIZE bytes in a block (1M); -N: N a worker", parsed(&pipe.Block, parseBlock)},
		{"-N, --records N", "run", "N records in a block; without --pipe the same as -n", whole(&pipe.Records, 1, math.MaxInt)},
		{"--recend STR", "run", `records of blocks end with STR (\n); knows \n \t \0`, parsed(&pipe.End, parseMark)},
		{"--recstart STR", "run", "records of blocks begin with STR", parsed(&pipe.Start, parseMark)},
		{"--stdin", all, "give the record to the task's standard input", on(&cmd.Stdin)},

		{form: "How tasks run"},
		{"-j, -P, --jobs N", all, "workers: N, N%, +N, -N, 0 for most, or a FILE", text(&pool.Jobs)},
		{"--sched POLICY", runs, "fifo, round-robin, least-busy, keyed, topic or fair",
			choice(&order.Policy, "fifo round-robin least-busy keyed topic fair")},
		{"--key TEMPLATE", runs, "what policy and limits go by, such as '{1}'", text(&order.Key)},
		{"--cost TEMPLATE", runs, "a number: how heavy a task is", text(&order.Cost)},
		{"--topics LIST", runs, "workers for each key: mail=2,db=1,*=5, or auto", parsed(&order.Topics, sched.ParseTopics)},
		{"--per-key N", runs, "at most N tasks of one key at once", whole(&order.PerKey, 1, math.MaxInt)},
		{"--priority TEMPLATE", runs, "higher starts first, from -1000 to 1000 (0)", text(&terms.Priority)},
		{"--weight TEMPLATE", runs, "a whole number: the places a task takes (1)", text(&terms.Weight)},
		{"--cap NAME=N", runs, "a limit by name, or gpu:0,1,3; repeatable", by(func(v string) error { return addUnits(&terms.Caps, v, "--cap") })},
		{"--needs TEMPLATE", runs, "what a task takes of them: gpu, or db:2,net", text(&terms.Needs)},
		{"--rate N/PERIOD", runs, "at most N starts in it: 100/s, 10/1m,burst=5", parsed(&terms.Rate, parseRate)},
		{"--key-rate N/PERIOD", runs, "the same for each key", parsed(&terms.KeyRate, parseRate)},
		{"--buffer N", "run", "have N tasks wait (2 x jobs, >= 64; 4096 by key)", whole(&pool.Buffer, 1, 1<<30)},
		{"--delay DUR", all, "at least DUR between starts", duration(&pool.Delay, 0)},
		{"--jitter DUR", all, "wait a random time up to DUR before the first start", duration(&pool.Jitter, 0)},
		{"--load N", runs, "start while fewer than N, N% of CPUs, are busy", parsed(&o.Machine.Load, parseLoad)},
		{"--memfree SIZE", runs, "start while SIZE, or N%, of memory is free", parsed(&o.Machine.MemFree, parseMemFree)},
		{"--order ORDER", "run", "longest-first or shortest-first, by cost or time",
			among("input longest-first shortest-first", by(func(v string) error {
				if order.Order = v; v == "input" {
					order.Order = ""
				}
				return nil
			}))},
		{"--lock FILE", all, "exit with 75 if another run holds it", text(&pool.Lock)},
		{"--lock-wait DUR", all, "with --lock: wait for the other run up to DUR", duration(&pool.LockWait, 0)},
		{"--jobserver[=WHEN]", all, "share the places as make -j does; =no: join none", jobserver},
		{"--jobserver-style FORM", all, "auto (default), fifo, or pipe for make before 4.4", choice(&o.Jobserver.Style, "auto fifo pipe")},
		{"--workdir DIR", all, "run tasks in DIR", text(&pool.Workdir)},
		{"--nice N", all, "add N to the tasks' niceness", whole(&pool.Nice, -20, 19)},
		{"--pty", all, "tasks write to terminals: colours, progress bars", on(&pool.PTY)},
		{"--tty", "run", "one task at a time, with the terminal, for prompts", on(&pool.TTY)},
		{"--shell PATH", all, "run the command in this shell", text(&cmd.Shell)},
		{"--worker CMD", all, "give the records to long-lived processes", by(func(v string) (err error) {
			if worker.Words, err = parseText(v); isNumber(v) {
				err = errors.New("write the command of a worker; -j N says how many there are")
			}
			return err
		})},
		{"--worker-protocol NAME", all, "line (default), nul or json", among(protocols, by(func(v string) error {
			worker.Protocol = task.LineProtocol + task.Protocol(slices.Index(strings.Fields(protocols), v))
			return nil
		}))},
		{"--worker-window N", all, "up to N records in a worker at once (1)", whole(&worker.Window, 1, 1<<16)},
		{"--worker-start WHEN", all, "lazy (default), with the first record, or eager", toggle(&worker.Eager, "lazy eager")},
		{"--worker-ready REGEX", all, "wait for a line of the worker that matches", parsed(&worker.Ready, parseReady)},
		{"--worker-start-timeout DUR", all, "replace a worker that is not ready after DUR", duration(&worker.Start, time.Microsecond)},
		{"--worker-max N", all, "a fresh worker after N records", whole(&worker.Max, 1, math.MaxInt)},
		{"--worker-age DUR", all, "a fresh worker after DUR", duration(&worker.Age, time.Microsecond)},

		{form: "When tasks fail"},
		{"--retries N", runs, "N more attempts after the first", whole(&fail.Retries, 0, math.MaxInt)},
		{"--retry-delay DUR", runs, "wait before the first retry (1s), then doubling", duration(&fail.RetryDelay, 0)},
		{"--retry-max-delay DUR", runs, "longest wait before a retry (1m)", duration(&fail.RetryMaxDelay, 0)},
		{"--retry-on LIST", runs, "exit:N, signal, timeout, start, output, memory, any", parsed(&fail.RetryOn, parseRetryOn)},
		{"--timeout DUR", runs, "end an attempt after DUR", duration(&fail.Timeout, 0)},
		{"--idle-timeout DUR", runs, "end an attempt that writes nothing for DUR", duration(&fail.Idle, 0)},
		{"--kill-after DUR", all, "KILL comes DUR (5s) after TERM", duration(&fail.KillAfter, 0)},
		{"--flaky-fail", runs, "status 123 also if a task passed only in a retry", on(&fail.FlakyFail)},
		{"--halt WHEN", runs, "such as now,fail=1, soon,done=10% or pause,fail=3", parsed(&fail.Halt, parseHalt)},
		{"--fail-fast", runs, "at the first failure end all (--halt now,fail=1)", as(&fail.Halt, Halt{When: "now", On: "fail", N: 1})},
		{"--deadline WHEN", runs, "end the run after such as 90m, or at 06:00", parsed(&fail.Deadline, parseDeadline)},

		{form: "Results out"},
		{"-k, --keep-order", "run engine-attach", "results in input order", on(&out.KeepOrder)},
		{"--output MODE", shown, "group (default), line, raw or none", choice(&out.Mode, "group line raw none")},
		{"--line-buffer", shown, "same as --output line", spells("output=line")},
		{"-u, --ungroup", shown, "same as --output raw", spells("output=raw")},
		{"--tag", shown, "begin each line with the record", on(&out.Tag)},
		{"--tag-string TEMPLATE", shown, "begin each line with this", text(&out.TagString)},
		{"--json", shown, "print a JSON object a result", on(&out.JSON)},
		{"--results DIR", shown, "keep each task's results in a directory of DIR", text(&out.Results)},
		{"--joblog FILE", shown, "a line a task, as GNU parallel does; +FILE appends", by(func(v string) (err error) {
			v, out.Append = strings.CutPrefix(v, "+")
			out.Joblog, err = parseText(v)
			return err
		})},
		{"--junit FILE", shown, "write a test report in JUnit's XML at the end", text(&out.JUnit)},
		{"--report FILE", shown, "write an HTML page about the run at the end", text(&o.After.Report)},
		{"--trace FILE", shown, "write a trace for Perfetto or chrome://tracing", text(&o.After.Trace)},
		{"--notify CMD", shown, "run CMD at the end, with the digest as its input", text(&o.After.Notify)},
		{"--ci SERVER", shown, "CI server: auto (default), github, gitlab or none", choice(&show.CI, "auto github gitlab none")},
		{"--progress WHEN", everywhere, "a bar: auto (on a terminal), always, never", among(whens, parsed(&show.Progress, parseProgress))},
		{"--bar", everywhere, "same as --progress always", spells("progress=always")},
		{"-q, --quiet", everywhere, "no lines about failures, nor a digest at the end", on(&show.Quiet)},
		{"--quiet-success", shown, "show only tasks that failed; nothing if none did", on(&out.FailedOnly)},
		{"-t, --verbose", all, "each command on stderr before it runs", on(&show.Verbose)},
		{"--dry-run", "run", "print the commands, run nothing", on(&show.DryRun)},

		{form: "Outputs"},
		{"--makes TEMPLATE", runs, "make this file, as {out}, unless it is up to date", texts(&o.Makes.Outs)},
		{"--stdout-to TEMPLATE", runs, "make it of the task's standard output", text(&o.Makes.Stdout)},
		{"--reads TEMPLATE", runs, "what it is made from; repeatable", texts(&o.Makes.Reads)},
		{"--always-make", runs, "make what is up to date, too", on(&o.Makes.Always)},

		{form: "Lasting state"},
		{"--state DIR", runs, "keep a journal in DIR; go on where it stopped", text(&state.Dir)},
		{"--replay", "run", "show the results of earlier runs, too", on(&state.Replay)},
		{"--retry-failed", "run", "run again what failed in earlier runs", on(&state.RetryFailed)},
		{"--rerun-changed", runs, "run all again if a program in the command changed", on(&state.Changed)},
		{"--state-reset", runs, "begin anew in a DIR that holds another run", on(&state.Reset)},

		{form: "Serving a queue"},
		{"--max-queued N", "serve", "at most N tasks wait (100000)", whole(&o.Serve.MaxQueued, 1, math.MaxInt)},
		{"--idle-exit DUR", "serve", "end after DUR without a task", duration(&o.Serve.IdleExit, time.Microsecond)},
		{"--keep DUR", "serve", "with --state: forget ended tasks after DUR (24h)", duration(&o.Serve.Keep, 0)},

		{form: "Other machines"},
		{"--engine URL", all, "run the tasks on the workers of a NATS server", text(&engine.URL)},
		{"--queue NAME", all, "which workers of the engine (default)", parsed(&engine.Queue, parseQueue)},
		{"-S, --ssh HOSTS", runs, "run on 8/host,user@host,: over ssh; or a FILE", texts(&engine.Hosts)},
		{"--connect-timeout DUR", runs, "end when no host takes tasks for DUR (30s)", duration(&engine.Reach, 0)},
		{"--env NAME", runs, "pass this variable to remote tasks", each(&engine.Env, parseVariable)},
		{"--sign FILE", runs, "sign commands with the key in FILE", text(&engine.Sign)},
		{"--detach", "run", "hand the tasks over, print the run's name and end", on(&engine.Detach)},
		{"--basefile FILE", runs, "copy FILE to every host first", texts(&engine.BaseFiles)},
		{"--transfer", runs, "same as --transfer-file {}", spells("transfer-file={}")},
		{"--transfer-file FILE", runs, "copy this file to the task's host", texts(&engine.Transfer)},
		{"--return TEMPLATE", runs, "copy this file back when the task has ended", texts(&engine.Return)},
		{"--cleanup", runs, "remove copied files from the hosts", on(&engine.Cleanup)},
		{"--labels LIST", "worker", "crew worker: topics of these names run there alone", parsed(&engine.Labels, parseLabels)},
		{"--offers LIST", "worker", "crew worker: what it has for --needs: gpu=2,mem=16",
			by(func(v string) error { return addOffers(&terms.Caps, v) })},
		{"--worker-ttl DUR", all, "a worker counts as lost when silent for DUR (10s)", duration(&engine.TTL, time.Second)},
		{"--allow-commands", "worker", "crew worker: run commands that are signed", on(&engine.Commands)},
		{"--trust FILE", "worker", "crew worker: whose signatures count", texts(&engine.Trust)},

		{form: "Other"},
		{"--name NAME", all, "what crew ctl calls the run", parsed(&o.Control.Name, parseName)},
		{"--no-control", "run worker", "make no socket for crew ctl", on(&o.Control.Off)},
		{"-h, --help", all, "print this; -h: what is used most, on one screen", on(&o.asksHelp)},
		{"-V, --version", all, "print the version", by(func(string) error { o.Print = versionText(); return nil })},
		{"--completion SHELL", all, "print a script that completes for bash, zsh or fish",
			among("bash zsh fish", by(func(v string) error { o.Print = completionScript(v); return nil }))},
		{"--run RUN", named + " ctl-add", "the pid or the name of the run", word(&ctl.Run)},
		{"--to RUN", "ctl-add", "the crew serve, or engine:URL/QUEUE", word(&ctl.Run)},
		{"-f, --follow", "ctl-log", "go on until the task ends", on(&ctl.Follow)},
		{"--rest", "ctl-drain", "first run everything that was read", on(&ctl.Rest)},
		{"--only KIND", "ctl-explain", "waiting, running, failed or ended ones alone", choice(&ctl.Only, "waiting running failed ended")},
		{"--limit N", "ctl-explain", "at most N (1000): the first, or the latest to end", whole(&ctl.N, 1, 1000)},
		{"--key KEY", "ctl-wait ctl-cancel ctl-add", "the key of the tasks",
			by(func(v string) error { key := task.Bytes(v); ctl.Key = &key; return nil })},
		{"--all", "ctl-wait ctl-cancel", "all tasks so far that have not ended", on(&ctl.All)},
		{"--all", "ctl-stop", "all of your runs; they are listed first", on(&ctl.All)},
		{"--timeout DUR", "ctl-wait", "end with status 124 after DUR", duration(&ctl.Timeout, 0)},
		{"--timeout DUR", "ctl-add", "end an attempt after DUR; 0 for no limit", by(func(v string) error {
			d, err := task.ParseDuration(v)
			if adds.Timeout = task.Seconds(d); d == 0 {
				adds.Timeout = -1 // 0 is the run's own
			}
			return err
		})},
		{"--in DUR", "ctl-add", "start it in such as 2h, and not before", parsed(&adds.At, parseIn)},
		{"--at WHEN", "ctl-add", "start it at such as 22:00 or '2027-01-31 06:00'", parsed(&adds.At, parseAt)},
		{"--priority N", "ctl-add", "higher ones start first, from -1000 to 1000", by(func(v string) error {
			n, err := parseWhole(v, -task.MaxPriority, task.MaxPriority)
			adds.Priority = &n
			return err
		})},
		{"--note TEXT", "ctl-add", "a note that explain, status and top show", text(&adds.Note)},
		{"--after TASK", "ctl-add", "wait until this one succeeded; repeatable", each(&adds.After, parseTask)},
		{"--wait", "ctl-add", "show the output, end with the task's status", on(&ctl.Wait)},
		{"--block DUR", "ctl-add", "wait up to DUR for room, or for the next crew serve", duration(&ctl.Block, 0)},
		{"-0, --null", "ctl-add", "records of - end with a NUL byte", on(&ctl.Null)},
		{"--engine URL", linked, "the NATS server, or the name of a NATS context", text(&engine.URL)},
		{"--dir DIR", "engine-serve engine-invite engine-revoke", "where the hub keeps everything", text(&hub.Dir)},
		{"--listen HOST:PORT", "engine-serve", "where it listens (127.0.0.1:4222)", text(&hub.Listen)},
		{"--host NAME", "engine-serve", "by which clients find it (its own); repeatable", each(&hub.Hosts, parseHost)},
		{"--tls-cert FILE", "engine-serve", "its certificate (it makes one)", text(&hub.Cert)},
		{"--tls-key FILE", "engine-serve", "the key of the certificate", text(&hub.Key)},
		{"--all", "engine-drain", "all workers", on(&ctl.All)},
		{"--queue NAME", "engine-drain", "only workers of this queue", parsed(&ctl.Queue, parseQueue)},
		{"--submitter", "engine-invite", "it may submit runs, not work", on(&hub.Invite.Submitter)},
		{"--expires DUR", "engine-invite", "when the credentials end (never)", duration(&hub.Invite.For, time.Second)},
		{"--max-output SIZE", "engine-serve", "output of runs that are handed over (1G)", by(func(v string) (err error) {
			if hub.MaxOutput, err = task.ParseSize(v); err == nil && hub.MaxOutput < 1<<20 {
				err = errors.New("one message would fill it: write 1M or more")
			}
			return err
		})},
		{"--trace", "report", "print a trace for Perfetto, not a page", on(&o.Look.Trace)},
		{"--listen HOST:PORT", "web", "where it listens (127.0.0.1, any port)", text(&o.Look.Listen)},
		{"--token-file FILE", "web", "keep the token of its URL in FILE", text(&o.Look.TokenFile)},
		{"--json", "ctl engine-status state", "print lines of JSON", on(&ctl.JSON)},
		{"-h, --help", "ctl engine state report web", "print this", on(&o.asksHelp)},
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

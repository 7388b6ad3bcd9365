package cli

import (
	"time"

	"crew/runner/decide/core"
	"crew/runner/decide/task"
	"crew/runner/read/input"
	"crew/sched"
)

// Options is a parsed and checked command line. The tags of its fields describe the options that set them, in
// the order of --help; see option.
type Options struct {
	Do         string      // the command, such as DoRun or "ctl log"
	Print      string      // text to print instead of running; "" for none
	Completion *Completion // completion to print instead of running; nil for none

	Input   Input `heading:"Input"`
	Command Command
	Pipe    Pipe

	Pool      Pool `heading:"How tasks run"`
	Jobserver Jobserver
	Sched     Sched
	Terms     Terms
	Queue     core.Queue // the parts that options set; Caps are sorted by name
	Machine   Machine
	Coproc    Coproc

	Failure Failure `heading:"When tasks fail"`
	Output  Output  `heading:"Output"`
	After   After
	Show    Show
	Makes   Makes   `heading:"Output files"`
	State   State   `heading:"State and resuming"`
	Serve   Serve   `heading:"Serving a queue"`
	Engine  Engine  `heading:"Other machines"`
	Control Control `heading:"Other"`

	Help bool     `row:"-h, --help | all | print this; -h: the common options, on one screen"`
	_    struct{} `row:"-V, --version | all | print the version" to:"Print" by:"version"`
	_    struct{} `row:"--completion SHELL | all | print a completion script for bash, zsh or fish | bash zsh fish" to:"Print" by:"completion"`

	Ctl  Ctl
	Hub  Hub
	Look Look
	_    struct{} `row:"-h, --help | ctl engine state report web | print this" to:"Help"`

	command *command
	uses    []use // the options that were given, in order
}

// Input configures where records come from and how they are split. CSV and JSON stand for the Kind.
type Input struct {
	input.Config          // the parts that options set
	_            struct{} `row:"-a, --arg-file FILE | run | read records from FILE (- is stdin); repeatable" to:"Input.Files"`
	_            struct{} `row:"-0, --null | run | records end with a NUL byte | \x00" to:"Input.Delimiter"`
	_            struct{} `row:"-d, --delimiter STR | run | records end with STR; knows \\n \\t \\0 \\xHH" to:"Input.Delimiter" by:"delimiter"`
	_            struct{} `row:"-C, --colsep REGEX | runs | split records into columns at REGEX" to:"Input.Colsep" by:"colsep"`
	CSV          bool     `row:"--csv | runs | records are rows of CSV"`
	_            struct{} `row:"--header[=N] | run | the first record (of N) names the columns | 1.." to:"Input.Header"`
	_            struct{} `row:"--skip N | run | leave out the first N records of each file | 1.." to:"Input.Skip"`
	JSON         bool     `row:"--input FORMAT | run serve worker detached | lines (default), or json: one object per line | lines json"`
	_            struct{} `row:"-r, --no-run-if-empty | run | skip empty records" to:"Input.SkipEmpty"`
	_            struct{} `row:"-E, --eof STR | run | stop reading at the record STR | any" to:"Input.EOF"`
	Shard        Shard    `row:"--shard K/N | run | run every Nth record, from K; hash:K/N: by hash" by:"shard"`
	Times        []string `row:"--times PATH | run | durations of earlier runs: joblog, --json, --state"`
}

// Shard is the part of the records that the run takes. The zero Shard stands for all records.
type Shard struct {
	Number, Of int  // Number from 1
	Hash       bool // a record's content determines its share, not its position
}

// ByPosition reports whether the share of a record depends on how many records precede it.
func (s Shard) ByPosition() bool { return s.Of > 0 && !s.Hash }

// Command configures the command that runs for a record. Without Words, each record is a command line. A
// MaxArgs of 0 allows as many records as fit into MaxChars, and a MaxChars of 0 stands for the limit of the
// system.
type Command struct {
	Words    []string
	Literal  bool   // after --: words like ; are arguments
	MaxArgs  int    `row:"-n, --max-args N | all | up to N records per command; 0: leave them out | 0.."`
	NoArgs   bool   // -n0: the record is not inserted
	MaxChars int    `row:"-s, --max-chars N | run | as many records per command as fit in N bytes | 1.."`
	Spread   bool   `row:"-X, --spread | run | as many records as fit, shared out evenly"`
	Replace  string `row:"-I, --replace STR | all | use STR instead of {} for the record"`
	Stdin    bool   `row:"--stdin | all | give the record to the task on its stdin"`
	Shell    string // "" to use a shell only for shell syntax
}

// Batches reports whether a command can take several records.
func (c Command) Batches() bool { return c.MaxArgs != 1 || c.MaxChars > 0 }

// Pipe configures how a stream is split into blocks. Block is a number of bytes or, if negative, of blocks per
// worker. A Block, Records, Start or End with its zero value sets no condition.
type Pipe struct {
	On      bool   `row:"--pipe | run | cut a stream into blocks, one per task, on stdin"`
	Block   int64  `row:"--block SIZE | run | about SIZE bytes per block (1M); -N: N per worker" by:"block"`
	Records int    `row:"-N, --records N | run | N records per block; without --pipe, same as -n | 1.."`
	End     string `row:"--recend STR | run | with --pipe: records end with STR (\\n)" by:"mark"`
	Start   string `row:"--recstart STR | run | with --pipe: records begin with STR" by:"mark"`
}

// Pool configures the workers. Jobs is the number of workers as typed, or the name of a file that holds it; ""
// stands for the default.
type Pool struct {
	Jobs     string        `row:"-j, -P, --jobs N | all | workers: N, N%, +N, -N, 0 (most), auto, or a FILE"`
	Least    int           `row:"--min-jobs N | all | with -j auto: at least N workers (1) | 1.."`
	Most     int           `row:"--max-jobs N | all | with -j auto: at most N workers (32 per processor) | 1.."`
	_        struct{}      `row:"--buffer N | run detached | read N records ahead (2 per worker, at least 64) | 1..1073741824" to:"Queue.Buffer"`
	Delay    time.Duration `row:"--delay DUR | run serve worker detached | wait at least DUR between two starts"`
	Jitter   time.Duration `row:"--jitter DUR | run serve worker detached | wait a random time up to DUR before the first start"`
	Lock     string        `row:"--lock FILE | all | exit with 75 if another run holds the lock FILE"`
	LockWait time.Duration `row:"--lock-wait DUR | all | with --lock: wait up to DUR for the other run"`
	Workdir  string        `row:"--workdir DIR | all | run tasks in DIR; templates such as {//} work, too"`
	Dirs     string        // Workdir, if it is a template
	Env      []string      `row:"--setenv NAME=VALUE | runs | set a variable for tasks; VALUE is a template" by:"setting"`
	Nice     int           `row:"--nice N | all | add N to the niceness of tasks | -20..19"`
	PTY      bool          `row:"--pty | all | let tasks write to a terminal: colours, bars"`
	TTY      bool          `row:"--tty | run | one task at a time, with the terminal, for prompts"`
	_        struct{}      `row:"--shell PATH | all | run the command in this shell" to:"Command.Shell"`
}

// Jobserver configures whether the run shares its places for tasks with make or its own tasks.
type Jobserver struct {
	Mode  string `row:"--jobserver[=WHEN] | all | share the workers with make -j; =no: join none | share join no"`
	Style string `row:"--jobserver-style FORM | all | auto (default), fifo, or pipe (make before 4.4) | auto fifo pipe"`
}

// Sched configures the order of tasks and which worker runs them. An Order of "" is the order of the input.
type Sched struct {
	Policy string       `row:"--sched POLICY | detachable | fifo, round-robin, least-busy, keyed, topic or fair | fifo round-robin least-busy keyed topic fair"`
	Key    string       `row:"--key TEMPLATE | detachable | what policies and limits group by, e.g. '{1}'"`
	Cost   string       `row:"--cost TEMPLATE | detachable | how heavy a task is: a number (1)"`
	Topics sched.Topics `row:"--topics LIST | detachable | workers per key: mail=2,db=1,*=5, or auto" by:"topics"`
	_      struct{}     `row:"--per-key N | detachable | run at most N tasks of one key at once | 1.." to:"Queue.PerKey"`
	Order  string       `row:"--order ORDER | run detached | longest-first or shortest-first, by cost or time | input longest-first shortest-first"`
}

// Terms configures the conditions for a task to start, in addition to an idle worker.
type Terms struct {
	Priority string   `row:"--priority TEMPLATE | detachable | -1000 to 1000 (0); higher starts first"`
	Weight   string   `row:"--weight TEMPLATE | detachable | how many workers a task occupies (1)"`
	_        struct{} `row:"--cap NAME=N | detachable | a named limit: gpu=3, or gpu:0,1,3; repeatable" to:"Queue.Caps" by:"cap"`
	Needs    string   `row:"--needs TEMPLATE | detachable | what a task takes of --cap: gpu, or db:2,net"`
	_        struct{} `row:"--rate N/PERIOD | detachable | start at most N tasks per PERIOD: 100/s, 10/1m" to:"Queue.Rate" by:"rate"`
	_        struct{} `row:"--key-rate N/PERIOD | detachable | the same limit for each key" to:"Queue.KeyRate" by:"rate"`
}

// Machine configures bounds on the load and the free memory of this machine, beyond which no task starts. A zero
// amount sets no bound.
type Machine struct {
	Load    Amount `row:"--load N | runs | start nothing at a load of N or more, or N% of CPUs" by:"load"`
	MemFree Amount `row:"--memfree SIZE | runs | start nothing while less than SIZE or N% is free" by:"memfree"`
}

// Coproc configures persistent workers, which read the records. Words is their command; "" stands for no
// persistent workers.
type Coproc struct {
	Words    string        `row:"--worker CMD | all | give the records to long-lived processes"`
	Protocol task.Protocol `row:"--worker-protocol NAME | all | line (default), nul or json | line nul json"`
	Window   int           `row:"--worker-window N | all | send a worker up to N records at once (1) | 1..65536"`
	Eager    bool          `row:"--worker-start WHEN | all | lazy (default): with the first record; or eager | lazy eager"`
	Life     task.Life
	_        struct{} `row:"--worker-ready REGEX | all | wait until the worker prints a matching line" to:"Coproc.Life.Ready" by:"ready"`
	_        struct{} `row:"--worker-start-timeout DUR | all | replace a worker that is not ready after DUR | 1us.." to:"Coproc.Life.Start"`
	_        struct{} `row:"--worker-max N | all | replace a worker after N records | 1.." to:"Coproc.Life.Records"`
	_        struct{} `row:"--worker-age DUR | all | replace a worker after DUR | 1us.." to:"Coproc.Life.Age"`
}

// Failure configures time limits, retries and the early end of a run. Retry.MaxDelay is at least Retry.Delay.
type Failure struct {
	Retry     core.Retry
	Limit     core.Limit
	Halt      core.Halt
	_         struct{}   `row:"--retries N | detachable | retry a failed task up to N times | 0.." to:"Failure.Retry.Max"`
	_         struct{}   `row:"--retry-delay DUR | detachable | wait before the first retry (1s); then it doubles" to:"Failure.Retry.Delay"`
	_         struct{}   `row:"--retry-max-delay DUR | detachable | longest wait before a retry (1m)" to:"Failure.Retry.MaxDelay"`
	RetryOn   RetryOn    `row:"--retry-on LIST | detachable | exit:N, signal, timeout, start, too-much, ..., any" by:"retry-on"`
	_         struct{}   `row:"--timeout DUR | detachable | kill an attempt after DUR" to:"Failure.Limit.Timeout"`
	_         struct{}   `row:"--idle-timeout DUR | runs | kill an attempt that prints nothing for DUR" to:"Failure.Limit.Idle"`
	Bound     task.Bound `row:"--output-max SIZE | detachable | kill an attempt that prints more; cut:SIZE cuts it" by:"bound"`
	_         struct{}   `row:"--kill-after DUR | run serve worker detached | time between SIGTERM and SIGKILL (5s)" to:"Failure.Limit.KillAfter"`
	FlakyFail bool       `row:"--flaky-fail | detachable | exit with 123 also if a task passed only on retry"`
	_         struct{}   `row:"--halt WHEN | detachable | stop early: now,fail=1 soon,done=10% pause,fail=3" to:"Failure.Halt" by:"halt"`
	_         struct{}   `row:"--fail-fast | detachable | stop at the first failure; exit with its status | now,fail=1" to:"Failure.Halt" by:"halt"`
	_         struct{}   `row:"--deadline WHEN | detachable | end the run after 90m, for example, or at 06:00" to:"Failure.Limit" by:"deadline"`
}

// Output configures where results go. FailedOnly also silences crew itself if all tasks succeed.
type Output struct {
	KeepOrder  bool     `row:"-k, --keep-order | run engine-attach | print results in input order"`
	Mode       string   `row:"--output MODE | shown | group (default), line, raw or none | group line raw none"`
	_          struct{} `row:"--line-buffer | shown | same as --output line | output=line"`
	_          struct{} `row:"-u, --ungroup | shown | same as --output raw | output=raw"`
	FailedOnly bool     `row:"--quiet-success | shown | print failed tasks only; nothing if all is well"`
	Tag        bool     `row:"--tag | shown | prefix each line with the record"`
	TagString  string   `row:"--tag-string TEMPLATE | shown | prefix each line with TEMPLATE"`
	JSON       bool     `row:"--json | shown | print one JSON object per result"`
	Results    string   `row:"--results DIR | shown | save each task's output in a directory under DIR"`
	Joblog     string   `row:"--joblog FILE | shown | log a line per task, as parallel; +FILE appends"`
	Append     bool     // append to Joblog
	JUnit      string   `row:"--junit FILE | shown | write a JUnit XML report at the end"`
}

// After configures reports and commands after the run. Notify is a shell command.
type After struct {
	Report string `row:"--report FILE | shown | write an HTML report at the end"`
	Trace  string `row:"--trace FILE | shown | write a trace for Perfetto or chrome://tracing"`
	Notify string `row:"--notify CMD | shown | run CMD at the end, with the summary on its stdin"`
}

// Show configures the messages that crew prints in addition to the results.
type Show struct {
	CI       string   `row:"--ci SERVER | shown | CI server: auto (default), github, gitlab or none | auto github gitlab none"`
	Progress string   `row:"--progress WHEN | everywhere | a bar: auto (on a terminal), always, never | auto always never"`
	_        struct{} `row:"--bar | everywhere | same as --progress always | progress=always"`
	Quiet    bool     `row:"-q, --quiet | everywhere | no failure messages and no summary"`
	Verbose  bool     `row:"-t, --verbose | all | print each command to stderr before it runs"`
	DryRun   bool     `row:"--dry-run | run | print the commands, run nothing"`
}

// Makes configures the files that tasks make. Without Reads, they are made from the columns that name files.
type Makes struct {
	Outs   []string `row:"--makes TEMPLATE | runs | a file that the task makes; skip it if up to date"`
	Stdout string   `row:"--stdout-to TEMPLATE | runs | make this file from the task's standard output"`
	Reads  []string `row:"--reads TEMPLATE | runs | a file that the task reads; repeatable"`
	Always bool     `row:"--always-make | runs | run tasks that are up to date, too"`
}

// Any reports whether tasks make files that crew knows of.
func (m *Makes) Any() bool { return len(m.Outs) > 0 || m.Stdout != "" }

// State configures the journal.
type State struct {
	Dir         string `row:"--state DIR | runs | keep a journal in DIR; resume where it stopped"`
	Replay      bool   `row:"--replay | run | also print the results of earlier runs"`
	RetryFailed bool   `row:"--retry-failed | run | when resuming, run failed tasks again"`
	Changed     bool   `row:"--rerun-changed | runs | run all again if a program in the command changed"`
	Reset       bool   `row:"--state-reset | runs | discard the run in DIR and start over"`
}

// Serve configures crew serve.
type Serve struct {
	Feed core.Feed
	_    struct{}      `row:"--max-queued N | serve | let at most N tasks wait (100000) | 1.." to:"Serve.Feed.MaxQueued"`
	_    struct{}      `row:"--idle-exit DUR | serve | exit after DUR without a task | 1us.." to:"Serve.Feed.IdleExit"`
	Keep time.Duration `row:"--keep DUR | serve | with --state: forget ended tasks after DUR (24h)"`
}

// Engine configures runs on other machines and crew worker. URL can also be the name of a NATS context.
type Engine struct {
	URL   string        `row:"--engine URL | all | run tasks on the workers of this NATS server"`
	Queue string        `row:"--queue NAME | all | the queue of workers to use (default)" by:"queue"`
	Hosts []string      `row:"-S, --ssh HOSTS | runs | run over ssh on 8/web1,ada@web2,: or a FILE of them"`
	Reach time.Duration `row:"--connect-timeout DUR | runs | give up if no host is reached for DUR (30s)"`

	// of a run

	Env       []string `row:"--env NAME | runs | pass this variable to remote tasks" by:"variable"`
	Sign      string   `row:"--sign FILE | runs | sign commands with the key in FILE"`
	Detach    bool     `row:"--detach | run | leave the run to the hub, print its name and exit"`
	BaseFiles []string `row:"--basefile FILE | runs | copy FILE to every host first"`
	_         struct{} `row:"--transfer | runs | same as --transfer-file {} | transfer-file={}"`
	Transfer  []string `row:"--transfer-file FILE | runs | copy this file to the host of the task"`
	Return    []string `row:"--return TEMPLATE | runs | copy this file back after the task"`
	Cleanup   bool     `row:"--cleanup | runs | remove the copied files from the hosts"`

	// of crew worker

	Labels   []string      `row:"--labels LIST | worker | crew worker: topics that run only on such workers" by:"labels"`
	_        struct{}      `row:"--offers LIST | worker | crew worker: what it has for --needs: gpu=2,mem=16" to:"Queue.Caps" by:"offers"`
	TTL      time.Duration `row:"--worker-ttl DUR | all | consider a worker lost after DUR of silence (10s) | 1s.."`
	Commands bool          `row:"--allow-commands | worker | crew worker: run commands that are signed"`
	Trust    []string      `row:"--trust FILE | worker | crew worker: file of public keys to trust"`
}

// Control configures the control of the run through crew ctl. If Off is set, there is no socket.
type Control struct {
	Name string `row:"--name NAME | all | name of the run, for crew ctl" by:"name"`
	Off  bool   `row:"--no-control | run worker | make no socket for crew ctl"`
}

// Ctl configures crew ctl, and the other commands that share its operands: crew engine, crew state and crew
// report. Run is the run, the file of crew engine key, or the directory of crew state; "" stands for the only
// run. Work holds the words to add, the workers of crew engine drain, or the files and directories of crew
// report, where "-" is stdin.
type Ctl struct {
	task.Request        // without Op and Add; see Adds
	Run          string `row:"--run RUN | named | the process ID or the name of the run | any"`

	_       struct{}      `row:"-f, --follow | ctl-log | keep printing until the task ends" to:"Ctl.Follow"`
	_       struct{}      `row:"--rest | ctl-drain | first run everything that was read" to:"Ctl.Rest"`
	_       struct{}      `row:"--only KIND | ctl-explain | only waiting, running, failed or ended tasks | waiting running failed ended" to:"Ctl.Only"`
	_       struct{}      `row:"--limit N | ctl-explain | at most N tasks: the first, or the last to end | 1..1000" to:"Ctl.N"`
	_       struct{}      `row:"--key KEY | ctl-wait ctl-cancel ctl-send | the key of the tasks | any" to:"Ctl.Key"`
	_       struct{}      `row:"--all | ctl-wait ctl-cancel | all tasks that were read and have not ended" to:"Ctl.All"`
	_       struct{}      `row:"--all | ctl-drain ctl-stop | all of your runs, after listing them" to:"Ctl.All"`
	_       struct{}      `row:"--all | engine-drain | all workers" to:"Ctl.All"`
	Timeout time.Duration `row:"--timeout DUR | ctl-wait | give up with status 124 after DUR"`

	// of add

	_         struct{}      `row:"--to RUN | ctl-add | the name of the crew serve, or engine:URL/NAME | any" to:"Ctl.Run"`
	_         struct{}      `row:"--key KEY | ctl-add | give the tasks this key | any" to:"Ctl.Adds.Key"`
	_         struct{}      `row:"--in DUR | ctl-add | start it no sooner than DUR from now" to:"Ctl.Adds.At" by:"in"`
	_         struct{}      `row:"--at WHEN | ctl-add | start it no sooner than 22:00 or 2027-01-31 06:00" to:"Ctl.Adds.At" by:"at"`
	_         struct{}      `row:"--timeout DUR | ctl-add | kill an attempt after DUR; 0 for no limit" to:"Ctl.Adds.Timeout" by:"limit"`
	_         struct{}      `row:"--priority N | ctl-add | -1000 to 1000; higher starts first | -1000..1000" to:"Ctl.Adds.Priority"`
	_         struct{}      `row:"--note TEXT | ctl-add | a note for explain, status and top to show" to:"Ctl.Adds.Note"`
	_         struct{}      `row:"--after TASK | ctl-add | start it when TASK has succeeded; repeatable" to:"Ctl.Adds.After" by:"task"`
	_         struct{}      `row:"--after-any TASK | ctl-add | start it when TASK has ended in any way; repeatable" to:"Ctl.Adds.AfterAny" by:"task"`
	_         struct{}      `row:"--unique[=KEY] | ctl-add | not while the same task (or KEY) waits or runs | any" to:"Ctl.Adds.Unique"`
	_         struct{}      `row:"--wait | ctl-add | print the output, exit with the task's status" to:"Ctl.Wait"`
	Adds      task.Addition // the terms of the added tasks
	Work      []string
	NoCommand error         // why Work was probably not meant as a command
	Stdin     bool          // add the records of standard input
	Null      bool          `row:"-0, --null | ctl-add | records of - end with a NUL byte"`
	Block     time.Duration `row:"--block DUR | ctl-add | wait up to DUR for room or for the next crew serve"`

	// of the engine; a Queue of "" stands for none, and for all queues in crew engine drain

	URL   string
	Queue string   `row:"--queue NAME | engine-drain | only workers of this queue" by:"queue"`
	JSON  bool     `row:"--json | ctl engine-status state | print lines of JSON"`
	_     struct{} `row:"--engine URL | linked | the NATS server, or the name of a NATS context" to:"Engine.URL"`
}

// Hub configures crew engine serve, init, invite and revoke. If Hosts is nil, the hub uses its own host name,
// and a MaxOutput of 0 stands for the default.
type Hub struct {
	Dir       string   `row:"--dir DIR | engine-serve engine-invite engine-revoke | the directory of the hub"`
	Listen    string   `row:"--listen HOST:PORT | engine-serve | the address to listen on (127.0.0.1:4222)"`
	Hosts     []string `row:"--host NAME | engine-serve | a name by which clients find the hub; repeatable" by:"host"`
	Cert      string   `row:"--tls-cert FILE | engine-serve | the hub's certificate (by default it makes one)"`
	Key       string   `row:"--tls-key FILE | engine-serve | the key of the certificate"`
	MaxOutput int64    `row:"--max-output SIZE | engine-serve | how much output of detached runs to keep (1G)" by:"output"`
	Invite    Invite
}

// Invite configures crew engine invite. For is how long the credentials are valid; 0 means for ever.
type Invite struct {
	Submitter bool          `row:"--submitter | engine-invite | let it submit runs instead of working"`
	For       time.Duration `row:"--expires DUR | engine-invite | the credentials end after DUR (never) | 1s.."`
}

// Look configures crew report and crew web.
type Look struct {
	Trace     bool   `row:"--trace | report | print a trace for Perfetto, not a page"`
	Metrics   bool   `row:"--openmetrics | report | print a queue's figures over time for Prometheus"`
	Listen    string `row:"--listen HOST:PORT | web | the address to listen on (127.0.0.1, any port)"`
	TokenFile string `row:"--token-file FILE | web | keep the token of the URL in FILE"`
}

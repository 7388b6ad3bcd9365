package cli

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRefusals(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		// unknown options and missing values
		{"--retires 3 cat", "unknown option --retires: did you mean --retries?"},
		{"--retry 3 cat", "unknown option --retry: did you mean --retries N?"},
		{"--max-a 3 cat", "unknown option --max-a: did you mean --max-args?"},
		{"--jbos 3 cat", "unknown option --jbos: did you mean --jobs?"},
		{"--keep-orde cat", "unknown option --keep-orde: did you mean --keep-order?"},
		{"--tagstrin=x cat", "unknown option --tagstrin: did you mean --tag-string?"},
		{"--frobnicate cat", "unknown option --frobnicate: see crew --help"},
		{"-kw cat", "unknown option -w in -kw: see crew --help"},
		{"-kM cat", "unknown option -M in -kM: write ssh in the command, as in crew ssh {} uptime :::: HOSTS"},
		{"-quiet cat", "unknown option -i in -quiet: did you mean --quiet?"},
		{"--keep-order=yes cat", "--keep-order takes no value: write --keep-order alone"},
		{"--halt", "--halt needs a value: write --halt WHEN"},
		{"-kx touch ran ::: b", "unknown option -x in -kx: a command that is too long fails by itself: drop it, or add --fail-fast"},
		{"—jobs=4 touch ran ::: a", "—jobs=4 begins with a dash that is no hyphen: write --jobs=4"},
		{"-k –j4 touch ran ::: a", "–j4 begins with a dash that is no hyphen: write -j4"},
		{"--worker jq --unbuffered -c .user", "unknown option --unbuffered: if it is the worker's, quote the whole command: --worker 'jq --unbuffered ...'"},
		{"--worker mawk -Winteractive", "unknown option -W in -Winteractive: if it is the worker's, quote the whole command: --worker 'mawk -Winteractive ...'"},
		{"--pipe --header : wc", "--header takes no value: drop the : behind it"},

		// bad values
		{"-0n1x8 cat", `bad value "1x8" for -n: write a whole number from 0 up`},
		{"-s 0 cat", `bad value "0" for -s: write a whole number from 1 up`},
		{"--rate 100 cat", `bad value "100" for --rate: write up to 1000000 starts and a time, such as 100/s, 5000/h or 10/1m30s,burst=5`},
		{"--cap gpu cat", `bad value "gpu" for --cap: write NAME=N or NAME:UNIT,UNIT, such as gpu=3 or gpu:0,1,3`},
		{"--cap gpu=3 --cap GPU:0 cat", `bad value "GPU:0" for --cap: there is --cap gpu already, and both would be CREW_GPU`},
		{"--cap gpu=3 cat", "--cap needs --needs: add --needs NAME, or no task takes any of it"},
		{"--cap gpu=3 --input json cat", "--cap needs --needs: add --needs NAME, or no task takes any of it"},
		{"--needs gpu cat", "--needs needs --cap: add --cap NAME=N for each name"},
		{"--needs gpu -S host cat", "--needs needs --cap: add --cap NAME=N for each name"},
		{"--offers gpu=2 cat", "--offers needs crew worker: write crew worker before the options"},
		{"worker --offers gpu=2,mem cat", `bad value "gpu=2,mem" for --offers: write NAME=N or NAME:UNIT,UNIT, such as gpu=3 or gpu:0,1,3`},
		{"worker --offers gpu=2 --offers mem=1,GPU:a cat", `bad value "mem=1,GPU:a" for --offers: there is --offers gpu already, and both would be CREW_GPU`},
		{"--key-rate 1/s cat", "--key-rate needs a key: add --key TEMPLATE, such as --key '{1}'"},
		{"ctl add --priority 1001 cat", `bad value "1001" for --priority: write a whole number from -1000 to 1000`},
		{"--retries 1.5 cat", `bad value "1.5" for --retries: write a whole number from 0 up`},
		{"--nice 20 cat", `bad value "20" for --nice: write a whole number from -20 to 19`},
		{"--timeout 5x cat", `bad value "5x" for --timeout: write a time such as 10, 1.5s, 500ms, 2m or 1d, at most 36500d`},
		{"-C [ cat", `bad value "[" for -C: missing closing ]`},
		{"-C x* cat", `bad value "x*" for -C: write a pattern that matches at least one byte, such as , or \| or ' +'`},
		{`-d '\q' cat`, `bad value "\\q" for -d: write one or more bytes; \n, \t, \0, \\ and \xHH are known`},
		{"--input=xml", `bad value "xml" for --input: write lines or json`},
		{"--sched lifo cat", `bad value "lifo" for --sched: write fifo, round-robin, least-busy, keyed, topic or fair`},
		{"--output= cat", `bad value "" for --output: write group, line, raw or none`},
		{"--halt later cat", `bad value "later" for --halt: write never, or such as now,fail=1, soon,done=10% or pause,fail=3`},
		{"--topics x cat", `bad value "x" for --topics: write auto, or each topic once with its workers: mail=2,db=1,*=5`},
		{"--retry-on never cat", `bad value "never" for --retry-on: write a list of exit, exit:N, exit:N-M, signal, timeout, start, answer, output, memory, any; N is from 1 to 255`},
		{"--deadline 25:00 touch ::: ran", `bad value "25:00" for --deadline: write a time such as 90m, 06:00, '2027-01-31 06:00' or 2027-01-31T06:00:00Z`},
		{"--joblog + true ::: a", `bad value "+" for --joblog: write something there; it is empty`},
		{"--buffer 0 true ::: a", `bad value "0" for --buffer: write a whole number from 1 to 1073741824`},
		{"--kill-after=-1 true ::: a", `bad value "-1" for --kill-after: write a time such as 10, 1.5s, 500ms, 2m or 1d, at most 36500d`},
		{"--progress touch ran ::: a", `bad value "touch" for --progress: write auto, always or never, or --bar touch`},
		{"--worker 4 ls", `bad value "4" for --worker: write the command of a worker; -j N says how many there are`},
		{"--worker cat --worker-window 0", `bad value "0" for --worker-window: write a whole number from 1 to 65536`},
		{"--worker cat --worker-ready x --worker-start-timeout 0", `bad value "0" for --worker-start-timeout: write a time of at least 1µs`},
		{"--pipe --block 0 wc", `bad value "0" for --block: write a number of bytes such as 64K, 1M or 2G, or -N for N blocks of a file for each worker`},
		{"--pipe --block -0 wc", `bad value "-0" for --block: write a number of bytes such as 64K, 1M or 2G, or -N for N blocks of a file for each worker`},
		{"--pipe --block 9999999999T wc", `bad value "9999999999T" for --block: write a number of bytes such as 64K, 1M or 2G, or -N for N blocks of a file for each worker`},
		{"-a '' true", `bad value "" for -a: write something there; it is empty`},
		{"--timeout 1000000h true ::: a", `bad value "1000000h" for --timeout: write a time such as 10, 1.5s, 500ms, 2m or 1d, at most 36500d`},
		{"-n 99999999999999999999 true ::: a", `bad value "99999999999999999999" for -n: write a whole number from 0 to 9223372036854775807`},
		{"--halt 2 true ::: a", `bad value "2" for --halt: write now,fail=1`},
		{"--queue a.b touch ran ::: a", `bad value "a.b" for --queue: write up to 64 letters, digits, - and _ that are not a number`},

		// two that do not go together
		{"-j4 --engine nats://hub cat", "-j and --engine do not go together: each worker has its own, as in crew worker -j 4: drop -j"},
		{"--csv -0 cat", "--csv and -0 do not go together: rows of CSV end with a newline: drop -0"},
		{"--input json --csv", "--input json and --csv do not go together: an object has its own names: drop --csv"},
		{"-u --tag cat", "-u and --tag do not go together: raw output is not looked into: use --output line"},
		{"--input json ::: a ::: b", "--input json and a product do not go together: give one source, with -a, ::: or ::::"},
		{"--input json :::: f g", "--input json and a product do not go together: give one source, with -a, ::: or ::::"},
		{"serve -a f cat", "serve and -a do not go together: crew ctl add brings the tasks: drop -a, and write crew ctl add - < FILE"},
		{"serve -n2 cat", "serve and -n do not go together: each value that crew ctl add brings is a task: drop -n"},
		{"-j50% -S web1 cat", "-j 50% and -S do not go together: write how many tasks each host runs, as in -j 8 or -S 8/web1"},
		{"--env A --engine e cat", "--engine without --sign and --env do not go together: workers run their own command, in the directory and environment that they were started with: add --sign FILE, or drop --env"},
		{"serve cat ::: a", "serve and values on the command line do not go together: crew ctl add brings them: drop what follows the command"},
		{"serve --halt soon,fail=10% cat", "serve and --halt soon,fail=10% do not go together: the number of tasks is not known: write a number instead of the percentage"},
		{"--halt pause,fail=3 --no-control cat", "--no-control and --halt pause,fail=3 do not go together: without a socket nobody can resume the run: drop one of them"},
		{"worker --engine e --halt pause,fail=3 cat", "worker and --halt do not go together: submitters say what becomes of a failure: give them --halt"},
		{"--shard 1/2 --times times echo {#} ::: a", "--times and {#} in the command do not go together: that differs from run to run: have a shell expand $CREW_SEQ instead"},
		{"--shard 1/2 --times a --key {} echo {} ::: a", "--times and --key do not go together: a key says which share it is in: drop one of them"},
		{"--order longest-first --times a echo {%} ::: a", "--times and {%} in the command do not go together: that differs from run to run: have a shell expand $CREW_WORKER instead"},
		{"--order longest-first --times a --stdin cat", "--times and --stdin do not go together: all tasks have the same command then, so it does not say how long they take: drop one of them"},
		{"--order longest-first --times a --cost {} cat", "--times and --cost do not go together: --cost says how long tasks take: drop one of them"},
		{"--times a cat", "--times needs --shard or --order: add --shard K/N, or --order longest-first"},
		{"--order longest-first --times - cat", "bad value \"-\" for --times: give a file or a directory: standard input is for records"},
		{"serve --times a cat", "serve and --times do not go together: it runs whatever is added: drop --times"},
		{"--shard 1/2 --times b --times times --joblog ./times echo ::: a", "--times and --joblog do not go together: the file is the same, but all shares read it and each writes its own: put the logs together when all have ended"},
		{"engine attach -k r1 --retries 2", "engine attach and --retries do not go together: the tasks have run or run already: drop --retries"},
		{"--engine e --detach -t cat", "--detach and -t do not go together: the tasks run later: drop -t"},
		{"engine attach r1 -u", "engine attach and -u do not go together: the engine keeps the results: use --output group"},
		{"--worker cat -u", "--worker and -u do not go together: an answer is no output until it is whole: use --output line, or quote the worker's command together with its options"},
		{"--worker cat ls -l", "--worker and the command ls do not go together: the records go to the worker: drop it, or put it into --worker '...'"},
		{"--worker-window 4 -S host cat", "--worker-window needs --worker: add --worker CMD"},
		{"--worker cat --worker-max 4 --engine hub", "--engine without --sign and --worker-max do not go together: it is for each crew worker, whose process answers: give it there, or add --sign FILE"},
		{"--pipe -L2 wc", "--pipe and -L do not go together: a block goes to standard input, not into the command: write -N N for N records in a block"},
		{"--pipe wc ::: a", "--pipe and values on the command line do not go together: give the stream on standard input, or files with -a FILE"},
		{"--pipe --recend '' --header wc", "--recend and --header do not go together: without ends there are no records, of which one could be the header: drop --header"},
		{"--pipe --worker wc -k", "--pipe --worker and -k do not go together: a worker reads many blocks, and its output belongs to none: drop -k, or --worker"},
		{"--pipe --worker wc -S web1", "--pipe --worker and -S do not go together: workers that read many blocks run on this machine: drop -S, or --worker"},
		{"worker --engine nowhere: -k touch ran", "worker and -k do not go together: results go to the submitters: give them -k"},

		// one that needs another
		{"--transfer cat", "--transfer needs --engine or --ssh: add one of them: no file travels here"},
		{"--worker-ttl 5s --engine e cat", "--worker-ttl needs crew worker or --ssh: give it to each crew worker"},
		{"--input json --sched keyed cat", "--sched keyed needs a key: add --key TEMPLATE, such as --key '{1}'"},
		{"--sched fair cat", "--sched fair needs a key: add --key TEMPLATE, such as --key '{1}'"},
		{"--order shortest-first cat", "--order shortest-first needs the costs of tasks, or how long they took before: add --cost TEMPLATE, --state DIR, or --times PATH"},
		{"--order longest-first --input json cat", "--order longest-first needs the costs of tasks, or how long they took before: add --cost TEMPLATE, --state DIR, or --times PATH"},
		{"--cost {} cat", "--cost needs a policy or an order that goes by it: add --sched least-busy, --sched fair or --order longest-first"},
		{"--sched topic --key {} cat", "--sched topic needs topics: add --topics LIST, or --topics auto"},
		{"--stdin", "--stdin needs a command: without one each record is a command line: add a command, or drop --stdin"},
		{"-I @ ::: a", "-I needs a command: without one each record is a command line: add a command, or drop -I"},
		{"--max-queued 5 cat", "--max-queued needs crew serve: write crew serve before the options"},
		{"serve --keep 5 cat", "--keep needs --state: add --state DIR"},
		{"--retries 2 --retry-on timeout cat", "--retry-on timeout needs a timeout: add --timeout DUR"},
		{"--retry-on memory cat", "--retry-on memory needs --memfree: add --memfree SIZE"},
		{"--memfree 1G --retry-on memory,exit cat", "--retry-on needs --retries: add --retries N"},
		{"--memfree 1G --retry-on memory --pipe --worker cat", "--pipe --worker and --retry-on memory do not go together: a worker reads many blocks, and its output belongs to none: drop --retry-on, or --worker"},
		{"--jobserver-style pipe true ::: 1", "--jobserver-style pipe needs --jobserver: add --jobserver"},
		{"worker --engine nowhere: -j2", "worker needs a command, for which runs bring the values: write it after the options, or add --allow-commands --trust FILE to run those that are signed"},

		// the command and other operands
		{"--replace mv {} {}.bak", "--replace mv needs a place in the command: drop it, as {} stands for the record without it"},
		{"-I= cat ::::", ":::: names no file: write :::: FILE, or ::: for values on the command line"},
		{":::: f -j2", "-j2 is among the files of ::::: options come before the command; ./-j2 is a file"},
		{"cat :::+ a", "the first group of values is linked to nothing: begin with ::: or ::::"},
		{"--retries 2 --retry-delay 9 --retry-max-delay 3 cat", "--retry-delay and --retry-max-delay do not go together: the first wait would be the longest: lower --retry-delay"},
		{"engine attach", "crew engine attach needs the name of a run: write crew engine attach [options] RUN"},
		{"engine attach r1 -k r2", `"r2" is one word too many: write crew engine attach [options] RUN`},
		{"touch {} && echo {} ::: ran", "'&&' would be an argument, because a command of several words runs without a shell: write 'touch {} && echo {}' for one, or -- before the command to keep the word"},
		{"grep 'a b' {} | wc -l ::: ran", `'|' would be an argument, because a command of several words runs without a shell: write 'grep '\''a b'\'' {} | wc -l' for one, or -- before the command to keep the word`},
		{"cat {} > ran ::: ran", "'>' would be an argument, because a command of several words runs without a shell: write 'cat {} > ran' for one, or -- before the command to keep the word"},

		// the verbs of ctl and engine
		{"ctl", "crew ctl needs a verb, such as ls or status: see crew ctl --help"},
		{"ctl frob", `crew ctl knows no "frob": see crew ctl --help`},
		{"ctl statsu", `crew ctl knows no "statsu": did you mean status?`},
		{"ctl statsu --json 1", `crew ctl knows no "statsu": did you mean status?`},
		{"worker --engine nats://h -S h echo", "worker and -S do not go together: it is for runs, which workers carry out: give them -S"},
		{"ctl kill 1", `crew ctl knows no "kill": write crew ctl cancel`},
		{"ctl re", `crew ctl knows no "re": did you mean resume, resize, retry or release?`},
		{"ctl ls mine", `"mine" is one word too many: write crew ctl ls`},
		{"ctl log", "crew ctl log needs the number of a task: write crew ctl log [options] TASK"},
		{"ctl log 1 2", "crew ctl log takes one task: if the first is a run, write --run 1 2"},
		{"ctl explain 0", `"0" is no number of a task: write crew ctl explain [options] [TASK...]`},
		{"ctl log --rest 1", "crew ctl log has no option --rest: it takes --run, --follow, --json or --help"},
		{"ctl log -fx 1", "crew ctl log has no option -x: it takes --run, --follow, --json or --help"},
		{"ctl resize", "crew ctl resize needs a number: write crew ctl resize [options] N|+N|-N [RUN]"},
		{"ctl resize 0", "a run has at least one worker: write crew ctl pause to start nothing"},
		{"ctl resize 2x", `"2x" is no number of workers: write a number from 1, or +N or -N for more or fewer`},
		{"ctl cancel", "crew ctl cancel needs the number of a task: write crew ctl cancel [options] TASK...|--key KEY|--all"},
		{"ctl add", "there is nothing to add: write values or a command, or - for the lines of standard input"},
		{"ctl add -0 a", "-0 is for the records of standard input: add -, or drop -0"},
		{"ctl add --to engine:hub --wait a", "--wait and an engine's queue do not go together: crew engine attach RUN shows what became of the tasks: drop --wait"},
		{"ctl add --to engine:nats://hub:4222/a.b a", "bad queue in --to engine:nats://hub:4222/a.b: write up to 64 letters, digits, - and _ that are not a number"},
		{"ctl add --after x a", `bad value "x" for --after: write the number that add has printed for the task`},
		{"--name 12 true ::: a", `bad value "12" for --name: write up to 64 letters, digits and -_. that are not a number`},
		{"--name 'a b' true ::: a", `bad value "a b" for --name: write up to 64 letters, digits and -_. that are not a number`},
		{"ctl --json ls", "crew ctl has no option --json: options follow the verb, as in crew ctl VERB [options] ..."},
		{"engine", "crew engine needs a verb, such as serve or status: see crew engine --help"},
		{"engine serv", `crew engine knows no "serv": did you mean serve?`},
		{"engine init here", `"here" is one word too many: write crew engine init [options]`},
		{"engine key", "crew engine key needs the name of a file: write crew engine key FILE"},
		{"engine key --json k", "crew engine key has no option --json: it takes --help"},
		{"engine init --max-output 3X", `bad value "3X" for --max-output: write a number of bytes such as 512M or 4G`},
		{"engine serve --dir d --max-output 512K", `bad value "512K" for --max-output: one message would fill it: write 1M or more`},
		{"engine serve", "engine serve needs a directory: add --dir DIR"},
		{"engine serve --dir d --tls-key k", "--tls-key needs --tls-cert: give both"},
	} {
		t.Run(c.line, func(t *testing.T) {
			args, err := shellWords(c.line)
			require.NoError(t, err)
			_, err = saidArgs(args, "")
			require.EqualError(t, err, c.want)
			require.ErrorAs(t, err, new(*UsageError))
		})
	}
}

// Each rule refuses a command line for which its conditions hold.
func TestRules(t *testing.T) {
	refused := func(rule string, conds ...string) {
		c, args := lineOf(conds)
		l, err := c.split(args)
		require.NoError(t, err, args)
		o, err := c.read(l)
		require.NoError(t, err, args)
		all := o.refusals()
		i := slices.IndexFunc(all, func(r refusal) bool { return r.rule == rule })
		require.GreaterOrEqual(t, i, 0, "%s %s is not refused", c.name, args)
		require.NotContains(t, all[i].Hint, "%s")
	}
	for _, c := range clashes {
		for cond := range strings.FieldsSeq(c.conds) {
			for other := range strings.FieldsSeq(c.others) {
				refused(cond+" "+other, cond, other)
			}
		}
	}
	for _, n := range needs {
		for cond := range strings.FieldsSeq(n.conds) {
			refused(cond+" "+n.others, cond)
		}
	}
}

// lineOf returns a command line for which conditions hold.
func lineOf(conds []string) (c *command, args []string) {
	name, operands := DoRun, ""
	for _, cond := range conds {
		if of, found := strings.CutPrefix(cond, "crew-"); found {
			name = strings.Replace(of, "-", " ", 1)
		}
		switch cond {
		case "crew-engine-attach":
			operands = " RUN"
		case "+tls-cert", "+tls-key":
			name = "engine serve"
		case "+dir":
			name, operands = "engine invite", " NAME"
		case "tasks":
			name, operands = "ctl cancel", " 1"
		case "+all":
			name = "ctl cancel"
		case "+only":
			name = "ctl explain"
		case "far", "+in":
			name, operands = "ctl add", " a"
		}
	}
	c = commandNamed(name)
	for _, cond := range conds {
		if words, found := states[cond]; found {
			if strings.HasPrefix(words, "-") {
				args = append(args, strings.Fields(words)...)
			} else {
				operands += " " + words
			}
		} else if !strings.HasPrefix(cond, "crew-") {
			args = append(args, optionOf(c, cond))
		}
	}
	return c, append(args, strings.Fields(operands)...)
}

// states are words for conditions that are no option.
var states = map[string]string{
	"command": "cat", "values": "::: a", "product": "::: a ::: b", "numbered": "{#}", "placed": "{%}",
	"numbered-key": "--key={#}", "times-joblog": "--joblog=X", "times-of-shares": "--shard=1/2 --times=X", "times-of-order": "--times=X", "jobs-of-all": "-j0", "submitting": "--engine=hub",
	"unsigned": "--engine=hub", "far-pty": "--ssh=X --pty", "filters": "--pipe --worker=cat", "halt-share": "--halt=now,fail=1%", "halt-pause": "--halt=pause,fail=1",
	"tasks": "", "replace-unused": "--replace=X {}", "short-max-delay": "--retry-max-delay=1ms", "far": "--to=engine:hub", "unseen": "--name=X",
	"retry-timeout": "--retry-on=timeout", "retry-answer": "--retry-on=answer", "retry-output": "--retry-on=output", "retry-memory": "--retry-on=memory", "retry-memory-alone": "--retry-on=memory", "unasked-worker": "--worker=cat",
}

// values are those of options, by the name of the option or that of its value.
var values = map[string]string{
	"N": "2", "DUR": "5", "REGEX": ",", "SIZE": "1M", "K/N": "1/2", "topics": "a=1", "retry-on": "exit",
	"halt": "never", "deadline": "9m", "at": "23:59:59", "TASK": "1", "NAME=N": "x=1", "offers": "x=1", "N/PERIOD": "1/s",
}

// optionOf returns the option for which a condition holds.
func optionOf(c *command, cond string) string {
	name, value, exact := strings.Cut(cond, "=")
	name, other := strings.CutSuffix(strings.TrimPrefix(name, "+"), "!")
	o := c.long(name)
	switch {
	case o.value == "":
		return "--" + name
	case exact && !other:
	case o.choices != "":
		choices := strings.Fields(o.choices)
		value = choices[(slices.Index(choices, value)+1)%len(choices)]
	default:
		value = cmp.Or(values[name], values[o.value], "X")
	}
	return "--" + name + "=" + value
}

// What does not go with CREW_OPTS is refused by name.
func TestCrewOptsClash(t *testing.T) {
	const topics = "--sched topic --key {} --topics *=2"
	for _, c := range []struct{ env, line, want string }{
		{"-k", "-u cat", "-u and -k (from CREW_OPTS) do not go together: raw output cannot wait its turn: use --output group, or write CREW_OPTS= before crew"},
		{"-j3 " + topics, "cat", "-j (from CREW_OPTS) and --topics (from CREW_OPTS) do not go together: the topics have their own workers: drop -j, or write CREW_OPTS= before crew"},
		{topics, "-j4 cat", "-j and --topics (from CREW_OPTS) do not go together: the topics have their own workers: drop -j, or write CREW_OPTS= before crew"},
		{topics, "-j4 --topics a=1 cat", "-j and --topics do not go together: the topics have their own workers: drop -j"},
		{"-k", "serve cat", "serve and -k (from CREW_OPTS) do not go together: the first task would hold back the results of all others: drop -k, or write CREW_OPTS= before crew"},
		{"-n2", "", "-n (from CREW_OPTS) needs a command: without one each record is a command line: add a command, or drop -n, or write CREW_OPTS= before crew"},
		{"--retry-delay 5s", "cat", "--retry-delay (from CREW_OPTS) needs --retries: add --retries N, or write CREW_OPTS= before crew"},
		{"--worker cat", "--pipe cat", "--worker (from CREW_OPTS) and "},
	} {
		t.Run(c.env+" + "+c.line, func(t *testing.T) {
			_, err := said(t, c.line, c.env)
			require.ErrorContains(t, err, c.want)
			require.ErrorAs(t, err, new(*UsageError))
		})
	}
	// The command line adds to it, and another value of an option counts instead.
	o, err := said(t, "--retries 1 --output group cat", "--retry-delay 5s -k -u")
	require.NoError(t, err)
	require.Equal(t, "--retry-delay=5s --keep-order --output=raw --retries=1 --output=group", strings.Join(words(o.uses), " "))
}

func TestRefusalIsOneLine(t *testing.T) {
	for _, args := range [][]string{{"--x\ny"}, {"-\n"}, {"-k\xff"}, {"--timeout", "a\nb", "cat"}, {"-C", "[\n", "cat"}} {
		_, err := saidArgs(args, "")
		require.Error(t, err)
		require.NotContains(t, err.Error(), "\n")
	}
}

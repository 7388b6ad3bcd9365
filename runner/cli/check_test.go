package cli

import (
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
		{"-w cat", "unknown option -w: see crew --help"},
		{"-kw cat", "unknown option -w in -kw: see crew --help"},
		{"-kM cat", "unknown option -M in -kM: write ssh in the command, as in crew ssh {} uptime :::: HOSTS"},
		{"-quiet cat", "unknown option -i in -quiet: did you mean --quiet?"},
		{"--keep-order=yes cat", "--keep-order takes no value: write --keep-order alone"},
		{"-j", "-j needs a value: write -j N"},
		{"-kj", "-j needs a value: write -j N"},
		{"--halt", "--halt needs a value: write --halt WHEN"},
		{"-j4 --engine nats://hub cat", "-j and --engine do not go together: each worker has its own, as in crew worker -j 4: drop -j"},

		{"--replace mv {} {}.bak", "--replace mv is nowhere in the command: drop --replace, as {} stands for the record without it"},

		// bad values
		{"-0n1x8 cat", `bad value "1x8" for -n: write a whole number from 0 up`},
		{"-n -1 cat", `bad value "-1" for -n: write a whole number from 0 up`},
		{"-s 0 cat", `bad value "0" for -s: write a whole number from 1 up`},
		{"--retries 1.5 cat", `bad value "1.5" for --retries: write a whole number from 0 up`},
		{"--nice 20 cat", `bad value "20" for --nice: write a whole number from -20 to 19`},
		{"--timeout 5x cat", `bad value "5x" for --timeout: write a time such as 10, 1.5s, 500ms, 2m or 1d, at most 36500d`},
		{"--timeout 5x --delay y cat", `bad value "5x" for --timeout: write a time such as 10, 1.5s, 500ms, 2m or 1d, at most 36500d`},
		{"-C [ cat", `bad value "[" for -C: missing closing ]`},
		{"-C x* cat", `bad value "x*" for -C: write a pattern that matches at least one byte, such as , or \| or ' +'`},
		{`-d \q cat`, `bad value "\\q" for -d: write one or more bytes; \n, \t, \0, \\ and \xHH are known`},
		{"--input=xml", `bad value "xml" for --input: write lines or json`},
		{"--sched lifo cat", `bad value "lifo" for --sched: write fifo, round-robin, least-busy, keyed or topic`},
		{"--output= cat", `bad value "" for --output: write group, line, raw or none`},
		{"--completion tcsh", `bad value "tcsh" for --completion: write bash, zsh or fish`},
		{"--halt later cat", `bad value "later" for --halt: write never, or such as now,fail=1 or soon,done=10%`},
		{"--topics x cat", `bad value "x" for --topics: write auto, or each topic once with its workers: mail=2,db=1,*=5`},
		{"--retry-on never cat", `bad value "never" for --retry-on: write a list of exit, exit:N, exit:N-M, signal, timeout, start, answer, any; N is from 1 to 255`},
		{"-I= cat ::::", ":::: names no file: write :::: FILE, or ::: for values on the command line"},
		{"--results= cat", `bad value "" for --results: write something there; it is empty`},

		// two that do not go together
		{"-0 -d x cat", `-0 and -d do not go together: -0 is -d '\0': keep one of them`},
		{"--csv -0 cat", "--csv and -0 do not go together: rows of CSV end with a newline: drop -0"},
		{"--csv --delimiter x cat", "--csv and --delimiter do not go together: rows of CSV end with a newline: drop -d"},
		{"--csv -C , cat", "--csv and -C do not go together: --csv cuts at commas: drop --csv or -C"},
		{"--input json --csv", "--input json and --csv do not go together: an object has its own names: drop --csv"},
		{"--input json -C ,", "--input json and -C do not go together: an object has its own names: drop -C"},
		{"--input json --header", "--input json and --header do not go together: an object has its own names: drop --header"},
		{"--input json -0", "--input json and -0 do not go together: an object ends with its line: drop -0"},
		{"--input json -d x", "--input json and -d do not go together: an object ends with its line: drop -d"},
		{"--input json -n2 cat", "--input json and -n do not go together: an object is one task: drop -n"},
		{"--input json -s2 cat", "--input json and -s do not go together: an object is one task: drop -s"},
		{"-n0 -s9 cat", "-n and -s do not go together: -n0 puts nothing in that could grow: drop -s"},
		{"-n0 --stdin cat", "-n and --stdin do not go together: -n0 gives nothing, --stdin the record: drop one of them"},
		{"-s9 --stdin cat", "-s and --stdin do not go together: --stdin leaves the command as it is: drop -s"},
		{"--fail-fast --halt never cat", "--fail-fast and --halt do not go together: --fail-fast is --halt now,fail=1: keep one of them"},
		{"--output raw -k cat", "--output raw and -k do not go together: raw output cannot wait its turn: use --output group"},
		{"-u --tag cat", "-u and --tag do not go together: raw output is not looked into: use --output line"},
		{"-u --tag-string x cat", "-u and --tag-string do not go together: raw output is not looked into: use --output line"},
		{"-u --json cat", "-u and --json do not go together: raw output is not kept: use --output group"},
		{"-u --results r cat", "-u and --results do not go together: raw output is not kept: use --output group"},
		{"--line-buffer --json cat", "--line-buffer and --json do not go together: an object holds the whole output: use --output group"},
		{"--output none --tag cat", "--output none and --tag do not go together: there are no lines to tag: drop --tag"},
		{"--output none --tag-string x cat", "--output none and --tag-string do not go together: there are no lines to tag: drop --tag-string"},
		{"--tag --tag-string x cat", "--tag and --tag-string do not go together: --tag-string says it all: drop --tag"},
		{"--json --tag cat", "--json and --tag do not go together: an object holds the record already: drop --tag"},
		{"--json --tag-string x cat", "--json and --tag-string do not go together: a line of JSON cannot begin with it: drop --tag-string"},
		{"--dry-run --json cat", "--dry-run and --json do not go together: nothing runs, so there are no results: drop one of them"},
		{"--dry-run --results r cat", "--dry-run and --results do not go together: nothing runs, so there are no results: drop one of them"},
		{"--dry-run --joblog l cat", "--dry-run and --joblog do not go together: nothing runs, so there is nothing to log: drop one of them"},
		{"-j2 --sched topic --key {} --topics a=1 cat", "-j and --topics do not go together: the topics have their own workers: drop -j"},
		{"--input json ::: a ::: b", "--input json and a product do not go together: give one source, with -a, ::: or ::::"},
		{"--input json :::: f g", "--input json and a product do not go together: give one source, with -a, ::: or ::::"},
		{"--input json -a f ::: a", "--input json and a product do not go together: give one source, with -a, ::: or ::::"},
		{"serve -a f cat", "serve and -a do not go together: crew ctl add brings the tasks: drop -a, and write crew ctl add - < FILE"},
		{"serve -0 cat", "serve and -0 do not go together: what crew ctl add brings is cut already: drop -0"},
		{"serve --header cat", "serve and --header do not go together: no record comes first: write {1} for the first column"},
		{"serve -n2 cat", "serve and -n do not go together: each value that crew ctl add brings is a task: drop -n"},
		{"serve -E x cat", "serve and -E do not go together: each value that crew ctl add brings is a task: drop -E"},
		{"serve --buffer 9 cat", "serve and --buffer do not go together: the queue takes what crew ctl add brings: write --max-queued N"},
		{"serve -k cat", "serve and -k do not go together: the first task would hold back the results of all others: drop -k"},
		{"serve --tty cat", "serve and --tty do not go together: the tasks are of others, who have terminals of their own: drop --tty"},
		{"serve --dry-run cat", "serve and --dry-run do not go together: others add tasks so that they run: drop --dry-run"},
		{"serve --state d --replay cat", "serve and --replay do not go together: results are shown once: drop --replay"},
		{"serve --state d --retry-failed cat", "serve and --retry-failed do not go together: crew ctl retry runs failed tasks again: drop --retry-failed"},
		{"--engine e -S web1 cat", "--engine and -S do not go together: the tasks run on workers that are there, or on those that crew starts: drop one of them"},
		{"serve --engine e cat", "serve and --engine do not go together: crew serve runs its tasks here: drop --engine"},
		{"serve -S web1 cat", "serve and -S do not go together: crew serve runs its tasks here: drop -S"},
		{"-S web1 --sign k cat", "-S and --sign do not go together: the workers that crew starts trust this run: drop --sign"},
		{"-S web1 --queue q cat", "-S and --queue do not go together: the workers that crew starts are for this run alone: drop --queue"},
		{"-S web1 --detach cat", "-S and --detach do not go together: the workers that crew starts end with this run: use --engine"},
		{"--tty --engine e cat", "--tty and --engine do not go together: this terminal is not there: drop one of them"},
		{"--tty -S web1 cat", "--tty and -S do not go together: this terminal is not there: drop one of them"},
		{"-u --engine e cat", "-u and --engine do not go together: output comes back in pieces: use --output line"},
		{"--output raw -S web1 cat", "--output raw and -S do not go together: output comes back in pieces: use --output line"},
		{"--nice 5 --engine e cat", "--engine and --nice do not go together: give it to each crew worker: drop --nice"},
		{"--nice 5 -S web1 cat", "--nice and -S do not go together: put nice -n before the command: drop --nice"},
		{"-j50% -S web1 cat", "-j 50% and -S do not go together: write how many tasks each host runs, as in -j 8 or -S 8/web1"},
		{"-j0 -S web1 cat", "-j 0 and -S do not go together: write how many tasks each host runs, as in -j 8 or -S 8/web1"},
		{"--env A --engine e cat", "--engine without --sign and --env do not go together: workers run their own command, in the directory and environment that they were started with: add --sign FILE, or drop --env"},
		{"--workdir / --engine e cat", "--engine without --sign and --workdir do not go together: workers run their own command, in the directory and environment that they were started with: add --sign FILE, or drop --workdir"},
		{"--queue q cat", "--queue needs --engine: add --engine URL"},
		{"--env A cat", "--env needs --engine or --ssh: add one of them: tasks here have the whole environment"},
		{"--sign k cat", "--sign needs --engine: add --engine URL"},
		{"--detach cat", "--detach needs --engine: add --engine URL"},
		{"--basefile f cat", "--basefile needs --engine or --ssh: add one of them: tasks here find the file where it is"},
		{"--transfer cat", "--transfer needs --engine or --ssh: add one of them: tasks here find the file where it is"},
		{"--transfer-file {} cat", "--transfer-file needs --engine or --ssh: add one of them: tasks here find the file where it is"},
		{"--return {}.out cat", "--return needs --engine or --ssh: add one of them: what tasks write here is here"},
		{"--cleanup cat", "--cleanup needs --engine or --ssh: add one of them: nothing is copied here"},
		{"--connect-timeout 5s cat", "--connect-timeout needs --ssh: add --ssh HOSTS"},
		{"--connect-timeout 5s --engine e cat", "--engine and --connect-timeout do not go together: the tasks run on workers that are there, or on those that crew starts: drop one of them"},
		{"--worker-ttl 5s cat", "--worker-ttl needs crew worker or --ssh: give it to each crew worker"},
		{"--worker-ttl 5s --engine e cat", "--worker-ttl needs crew worker or --ssh: give it to each crew worker"},
		{"serve cat ::: a", "serve and values on the command line do not go together: crew ctl add brings them: drop what follows the command"},
		{"serve --halt soon,fail=10% cat", "serve and --halt soon,fail=10% do not go together: the number of tasks is not known: write a number instead of the percentage"},
		{"cat :::+ a", "the first group of values is linked to nothing: begin with ::: or ::::"},

		// one that needs another
		{"--retry-delay 1 cat", "--retry-delay needs --retries: add --retries N"},
		{"--retry-max-delay 1 cat", "--retry-max-delay needs --retries: add --retries N"},
		{"--retry-on any cat", "--retry-on needs --retries: add --retries N"},
		{"--sched keyed cat", "--sched keyed needs a key: add --key TEMPLATE, such as --key '{1}'"},
		{"--sched topic --topics auto cat", "--sched topic needs a key: add --key TEMPLATE, such as --key '{1}'"},
		{"--input json --sched keyed cat", "--sched keyed needs a key: add --key TEMPLATE, such as --key '{1}'"},
		{"--input json --retries 2 --retry-on timeout cat", "--retry-on timeout needs a timeout: add --timeout DUR"},
		{"--sched topic --key {} cat", "--sched topic needs topics: add --topics LIST, or --topics auto"},
		{"--topics auto cat", "--topics needs the topic policy: add --sched topic"},
		{"--per-key 2 cat", "--per-key needs a key: add --key TEMPLATE, such as --key '{1}'"},
		{"--cost {} cat", "--cost needs a policy that goes by it: add --sched least-busy"},
		{"--stdin", "--stdin needs a command: without one each record is a command line: add a command, or drop --stdin"},
		{"-n0", "-n needs a command: without one each record is a command line: add a command, or drop -n"},
		{"-I @ ::: a", "-I needs a command: without one each record is a command line: add a command, or drop -I"},
		{"--csv", "--csv needs a command: without one each record is a command line: add a command, or drop --csv"},
		{"--max-queued 5 cat", "--max-queued needs crew serve: write crew serve before the options"},
		{"--idle-exit 5 cat", "--idle-exit needs crew serve: write crew serve before the options"},
		{"--state d --keep 5 cat", "--keep needs crew serve: write crew serve before the options"},
		{"serve --keep 5 cat", "--keep needs --state: add --state DIR"},
		{"--retries 2 --retry-delay 9 --retry-max-delay 3 cat", "--retry-max-delay 3s is less than the first wait, 9s: lower --retry-delay"},
		{"--retries 2 --retry-on timeout cat", "--retry-on timeout needs a timeout: add --timeout DUR"},
	} {
		t.Run(c.line, func(t *testing.T) {
			_, err := said(t, c.line, "")
			require.EqualError(t, err, c.want)
			require.ErrorAs(t, err, new(*UsageError))
		})
	}
}

// What the command line makes impossible in CREW_OPTS is left out, one thing
// after another; what is wrong in CREW_OPTS alone is named.
func TestCrewOptsGiveWay(t *testing.T) {
	const topics = "--sched topic --key {} --topics *=2"
	for _, c := range []struct{ env, line, words string }{
		// the other value of the same option takes away what one needs
		{topics, "--sched fifo cat", "--sched=topic --key={} --sched=fifo"},
		{"--cost {} --sched least-busy", "--sched fifo cat", "--sched=least-busy --sched=fifo"},
		// what a queue has no use for
		{"-k --buffer 9 --tag", "serve cat", "--tag"},
		{"--input json --per-key 2", "--input lines cat", "--input=json --input=lines"},
		{"--input json --retries 2 --retry-on timeout", "--input lines cat", "--input=json --retries=2 --input=lines"},
		{"--state d --order longest-first --replay", "--dry-run cat", "--dry-run"},

		// workers are the command line's
		{topics, "-j4 cat", "--key={} --jobs=4"},
		{"-j4", topics + " cat", "--sched=topic --key={} --topics=*=2"},
		{"-j4 --topics auto", "--sched topic --key {} cat", "--jobs=4 --topics=auto --sched=topic --key={}"},
		{"--sched topic --key {} --topics auto", "-j4 cat", "--sched=topic --key={} --topics=auto --jobs=4"},
		{"-j missing", topics + " cat", "--sched=topic --key={} --topics=*=2"},

		// what needs a command, and sources
		{"-n2 -k", "", "--keep-order"},
		{"-C , --header --stdin", "::: true", ""},
		{"--csv -I @ -s 99", "", ""},
		{"--input json", "cat ::: a ::: b", ""},

		// waits
		{"--retry-max-delay 1s --retries 1", "--retry-delay 5s cat", "--retries=1 --retry-delay=5s"},
		{"--retry-delay 5s --retries 1", "--retry-max-delay 1s cat", "--retries=1 --retry-max-delay=1s"},

		// what the command line adds to
		{"--retry-delay 5s", "--retries 1 cat", "--retry-delay=5s --retries=1"},
		{"-k -u", "--output group cat", "--keep-order --output=raw --output=group"},
		{"--topics *=2", "--sched topic --key {} cat", "--topics=*=2 --sched=topic --key={}"},
	} {
		t.Run(c.env+" + "+c.line, func(t *testing.T) {
			o, err := said(t, c.line, c.env)
			require.NoError(t, err)
			require.Equal(t, strings.Fields(c.words), append([]string{}, words(o.uses)...))
		})
	}

	for _, c := range []struct{ env, line, want string }{
		{"-j3 " + topics, "cat", "-j (from CREW_OPTS) and --topics (from CREW_OPTS) do not go together: the topics have their own workers: drop -j"},
		{"-j3 " + topics, "-j4 cat", "-j (from CREW_OPTS) and --topics (from CREW_OPTS) do not go together: the topics have their own workers: drop -j"},
		{"-0 -d ,", "-d x cat", `-0 (from CREW_OPTS) and -d (from CREW_OPTS) do not go together: -0 is -d '\0': keep one of them`},
		{"--retry-delay 5s", "cat", "--retry-delay (from CREW_OPTS) needs --retries: add --retries N"},
		{"--retry-max-delay .5 --retries 1", "cat", "--retry-max-delay 500ms (from CREW_OPTS) is less than the first wait, 1s: lower --retry-delay"},
		{"--retry-on timeout --retries 1", "cat", "--retry-on timeout (from CREW_OPTS) needs a timeout: add --timeout DUR"},
		{topics, "-j4 --sched topic cat", "--sched topic needs topics: add --topics LIST, or --topics auto"},
		{topics, "-j4 --topics a=1 cat", "-j and --topics do not go together: the topics have their own workers: drop -j"},
		{"-u", "-0 -d x cat", `-0 and -d do not go together: -0 is -d '\0': keep one of them`},
		{"--delay x -n2", "-0 -d x", `bad value "x" for --delay (from CREW_OPTS): write a time such as 10, 1.5s, 500ms, 2m or 1d, at most 36500d`},
	} {
		t.Run(c.env+" + "+c.line, func(t *testing.T) {
			_, err := said(t, c.line, c.env)
			require.EqualError(t, err, c.want)
			require.ErrorAs(t, err, new(*UsageError))
		})
	}
}

func TestRefusalIsOneLine(t *testing.T) {
	for _, args := range [][]string{{"--x\ny"}, {"-\n"}, {"-k\xff"}, {"--timeout", "a\nb", "cat"}, {"-C", "[\n", "cat"}} {
		_, err := saidArgs(args, "")
		require.Error(t, err)
		require.NotContains(t, err.Error(), "\n")
	}
}

// Every condition names options of the table, and values that they take.
func TestConditions(t *testing.T) {
	var conds []string
	for _, c := range clashes {
		conds = append(append(conds, c.cond), strings.Fields(c.others)...)
	}
	for _, n := range needs {
		conds = append(append(conds, strings.Fields(n.conds)...), strings.Fields(n.others)...)
	}
	conds = append(conds, droppedAgain[:]...)
	for _, cond := range conds {
		if slices.Contains([]string{"crew-serve", "crew-worker", "crew-attach", "command", "values", "product", "submitting", "unsigned", "filters", "halt-share", "unseen", "retry-timeout", "retry-answer"}, cond) {
			continue
		}
		name, value, exact := strings.Cut(cond, "=")
		o := long(strings.TrimSuffix(name, "!"))
		require.NotNil(t, o, cond)
		if exact && o.choices != nil {
			require.Contains(t, o.choices, value)
		}
	}
}

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
		{`-d '\q' cat`, `bad value "\\q" for -d: write one or more bytes; \n, \t, \0, \\ and \xHH are known`},
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

		// batch n
		{"-n x echo", `bad value "x" for -n: write a whole number from 0 up`},

		// deadline drain
		{"--deadline 25:00 touch ::: ran", `bad value "25:00" for --deadline: write a time such as 90m, 06:00 or 2027-01-31T06:00:00Z`},
		{"worker --deadline 1h --engine nats://localhost touch", "worker and --deadline do not go together: submitters say what becomes of a failure: give them --deadline"},

		// input colsep
		{"-C ( echo ::: a", `bad value "(" for -C: missing closing )`},

		// input delimiter
		{"-d '' echo ::: a", `bad value "" for -d: write one or more bytes; \n, \t, \0, \\ and \xHH are known`},

		// input shard times
		{"--shard-times times echo ::: a", "--shard-times needs --shard: add --shard K/N"},
		{"--shard 1/2 --shard-times times --key {} echo ::: a", "--shard-times and --key do not go together: a key says which share it is in: drop one of them"},
		{"--shard 1/2 --shard-times times -n2 echo ::: a", "--shard-times and -n do not go together: times are known of commands with one record: drop -n"},
		{"--shard 1/2 --shard-times times echo {#} ::: a", "--shard-times and {#} in the command do not go together: that differs from run to run: have a shell expand $CREW_SEQ instead"},
		{"--shard 1/2 --shard-times times 'echo {%}' ::: a", "--shard-times and {%} in the command do not go together: that differs from run to run: have a shell expand $CREW_WORKER instead"},
		{"--shard 1/2 --shard-times times --joblog ./times echo ::: a", "--shard-times and --joblog do not go together: the file is the same, but all shares read it and each writes its own: put the logs together when all have ended"},

		// lock refused
		{"--lock-wait 1m touch ::: ran", "--lock-wait needs --lock: add --lock FILE"},
		{"--lock '' touch ::: ran", `bad value "" for --lock: write something there; it is empty`},

		// make jobserver
		{"--jobserver -S web1 true ::: 1", "--jobserver and -S do not go together: tasks on other machines share none of these places: drop --jobserver"},
		{"--jobserver-style pipe true ::: 1", "--jobserver-style pipe needs --jobserver: add --jobserver"},
		{"--jobserver=maybe true ::: 1", `bad value "maybe" for --jobserver: write share, join or no`},

		// output group
		{"--output=grup echo ::: a", `bad value "grup" for --output: write group, line, raw or none`},

		// output joblog
		{"--joblog + true ::: a", `bad value "+" for --joblog: write something there; it is empty`},

		// output junit
		{"--dry-run --junit report.xml touch ::: ran", "--dry-run and --junit do not go together: nothing runs, so there is nothing to log: drop one of them"},

		// output quiet success
		{"--quiet-success --output line touch ::: ran", "--quiet-success and --output line do not go together: lines come before the end of their task is known: use --output group"},
		{"--quiet-success -u touch ::: ran", "--quiet-success and -u do not go together: lines come before the end of their task is known: use --output group"},
		{"--tty --quiet-success touch ::: ran", "--quiet-success and --tty do not go together: tasks write to the terminal themselves: drop one of them"},

		// place other
		{"-I '' echo ::: x", `bad value "" for -I: write something there; it is empty`},

		// pool buffer
		{"--buffer 0 true ::: a", `bad value "0" for --buffer: write a whole number from 1 to 1073741824`},

		// pool delay
		{"--delay 5x true", `bad value "5x" for --delay: write a time such as 10, 1.5s, 500ms, 2m or 1d, at most 36500d`},

		// pool jitter
		{"--jitter soon touch ::: ran", `bad value "soon" for --jitter: write a time such as 10, 1.5s, 500ms, 2m or 1d, at most 36500d`},

		// pool jobs
		{"-j '' true ::: a", `bad value "" for -j: write something there; it is empty`},

		// progress plain
		{"--progress sometimes true ::: a", `bad value "sometimes" for --progress: write auto, always, full or never`},

		// retry give up
		{"--retries x true", `bad value "x" for --retries: write a whole number from 0 up`},

		// retry max delay
		{"--retries 1 --retry-delay 2m --retry-max-delay 1m true ::: a", "--retry-max-delay 1m0s is less than the first wait, 2m0s: lower --retry-delay"},

		// sched perkey
		{"--per-key 0 --key x true ::: a", `bad value "0" for --per-key: write a whole number from 1 up`},

		// sched topic
		{"--sched topic --key {} --topics a true ::: a", `bad value "a" for --topics: write auto, or each topic once with its workers: mail=2,db=1,*=5`},

		// state order
		{"--state run --order shortest echo ::: a", `bad value "shortest" for --order: write input or longest-first`},

		// state refused
		{"--replay echo ::: a", "--replay needs --state: add --state DIR"},
		{"--state run --replay --output line echo ::: a", "--replay and --output line do not go together: lines are not kept: use --output group"},
		{"--state run --order longest-first --sched keyed --key {} echo ::: a", "--order longest-first and --sched keyed do not go together: each policy has its own order: drop --sched"},
		{"--order longest-first echo ::: a", "--order longest-first needs --state, which knows how long tasks took: add --state DIR"},
		{"--state run --dry-run echo ::: a", "--dry-run and --state do not go together: nothing runs, so there is nothing to record: drop one of them"},

		// timeout task
		{"--timeout soon true ::: a", `bad value "soon" for --timeout: write a time such as 10, 1.5s, 500ms, 2m or 1d, at most 36500d`},
		{"--kill-after=-1 true ::: a", `bad value "-1" for --kill-after: write a time such as 10, 1.5s, 500ms, 2m or 1d, at most 36500d`},

		// usage detach
		{"--engine nats://127.0.0.1:1 --detach --retries 2 true ::: a", "--detach and --retries do not go together: nobody is there to see a failure: drop --retries"},
		{"--engine nats://127.0.0.1:1 --detach -k true ::: a", "--detach and -k do not go together: crew engine attach shows the results: give it -k"},
		{"--engine nats://127.0.0.1:1 --detach --sched keyed --key {} true ::: a", "--detach and --sched keyed do not go together: workers take tasks in input order, as they are free: drop --sched"},
		{"--engine nats://127.0.0.1:1 --detach --sign k true ::: a", "--detach and --sign do not go together: a signature holds for minutes: start workers with the command of their own, and drop --sign"},
		{"engine attach", "crew engine attach needs the name of a run: write crew engine attach [options] RUN"},
		{"engine attach r1 -k r2", `"r2" is one word too many: write crew engine attach [options] RUN`},
		{"engine attach -k r1 --retries 2", "engine attach and --retries do not go together: the tasks have run or run already: drop --retries"},
		{"engine attach r1 -u", "engine attach and -u do not go together: the engine keeps the results: use --output group"},

		// usage peers
		{"--nonall -S web1 touch ran ::: a", "unknown option --nonall: write ssh in the command, as in crew ssh {} uptime :::: HOSTS"},
		{"--pipe --regexp touch ran", "unknown option --regexp: --recend STR and --recstart STR are text: change the ends of records first, as with sed"},
		{"--load 80% touch ran", "unknown option --load: -j FILE is read again when it changes: write fewer workers into FILE, or 0 for a pause"},
		{"--link touch ran ::: a ::: b", "unknown option --link: write :::+ or ::::+ for values in step"},
		{"-kx touch ran ::: b", "unknown option -x in -kx: a command that is too long fails by itself: drop it, or add --fail-fast"},
		{"--no-fail-fast touch ran ::: a", "unknown option --no-fail-fast: a failure stops nothing without --fail-fast: drop it"},
		{"--keep-going touch ran ::: a", "unknown option --keep-going: a failure stops nothing without --fail-fast: drop it"},
		{"--no-progress touch ran ::: a", "unknown option --no-progress: write --progress never"},
		{"--progress touch ran ::: a", `bad value "touch" for --progress: write auto, always, full or never, or --bar touch`},
		{"-l 1 touch ran ::: a", "unknown option -l: write -L N for N lines; instead of make's limit of the load, -j FILE is read again when it changes"},
		{"--load-average 1 touch ran ::: a", "unknown option --load-average: -j FILE is read again when it changes: write fewer workers into FILE, or 0 for a pause"},
		{"--output-sync touch ran ::: a", "unknown option --output-sync: the output of a task is shown in one block anyway: drop it"},
		{"--no-capture touch ran ::: a", "unknown option --no-capture: did you mean -u, which leaves the output to the tasks?"},
		{"--test-threads 4 touch ran ::: a", "unknown option --test-threads: did you mean -j N?"},
		{"--slow-timeout 4 touch ran ::: a", "unknown option --slow-timeout: did you mean --timeout DUR?"},
		{"--partition 1/4 touch ran ::: a", "unknown option --partition: did you mean --shard K/N?"},
		{"—jobs=4 touch ran ::: a", "—jobs=4 begins with a dash that is no hyphen: write --jobs=4"},
		{"-k –j4 touch ran ::: a", "–j4 begins with a dash that is no hyphen: write -j4"},
		{"--replace touch {} ::: ran", "--replace touch is nowhere in the command: drop --replace, as {} stands for the record without it"},

		// usage persistent
		{"--worker cat -n2", "--worker and -n do not go together: a worker takes one record after another: drop -n"},
		{"--worker cat -s99", "--worker and -s do not go together: a worker takes one record after another: drop -s"},
		{"--worker cat --stdin", "--worker and --stdin do not go together: a worker reads its records from standard input: drop --stdin"},
		{"--worker cat --tty ::: a", "--worker and --tty do not go together: the terminal would be its standard input, which has the records: drop one of them"},
		{"--worker cat -u", "--worker and -u do not go together: an answer is no output until it is whole: use --output line, or quote the worker's command together with its options"},
		{"--worker cat ls -l", "--worker and the command ls do not go together: the records go to the worker: drop it, or put it into --worker '...'"},
		{"--worker jq --unbuffered -c .user", "unknown option --unbuffered: if it is the worker's, quote the whole command: --worker 'jq --unbuffered ...'"},
		{"--worker mawk -Winteractive", "unknown option -W in -Winteractive: if it is the worker's, quote the whole command: --worker 'mawk -Winteractive ...'"},
		{"--worker ''", `bad value "" for --worker: write something there; it is empty`},
		{"--worker 4 ls", `bad value "4" for --worker: write the command of a worker; -j N says how many there are`},
		{"--worker cat --worker-protocol xml", `bad value "xml" for --worker-protocol: write line, nul or json`},
		{"--worker cat --worker-window 0", `bad value "0" for --worker-window: write a whole number from 1 to 65536`},
		{"--worker cat --worker-max 0", `bad value "0" for --worker-max: write a whole number from 1 up`},
		{"--worker cat --worker-age 0", `bad value "0" for --worker-age: write a time of at least 1ms`},
		{"--worker cat --worker-ready (", `bad value "(" for --worker-ready: missing closing )`},
		{"--worker cat --worker-ready x --worker-start-timeout 0", `bad value "0" for --worker-start-timeout: write a time of at least 1ms`},
		{"--worker cat --worker-start-timeout 1m ::: a", "--worker-start-timeout needs --worker-ready: add --worker-ready REGEX, by which crew knows that a worker has started"},
		{"--worker-start-timeout 1m cat ::: a", "--worker-start-timeout needs --worker: add --worker CMD"},
		{"--worker cat --worker-start now", `bad value "now" for --worker-start: write lazy or eager`},
		{"--worker-window 2 cat", "--worker-window needs --worker: add --worker CMD"},
		{"--worker-protocol json cat", "--worker-protocol json needs --worker: add --worker CMD"},
		{"--retries 1 --retry-on answer cat", "--retry-on answer needs --worker: add --worker CMD"},

		// usage persistent far
		{"--worker cat --worker-window 4 -S host", "-S and --worker-window do not go together: a worker on another machine has one record at a time: drop --worker-window, or have more workers"},
		{"--worker cat --worker-start eager --engine hub", "--engine and --worker-start eager do not go together: workers on other machines start with their first records: drop --worker-start"},
		{"worker --worker cat --worker-window 4", "worker and --worker-window do not go together: a worker on another machine has one record at a time: drop --worker-window, or have more workers"},
		{"--worker cat --worker-max 4 --engine hub", "--engine without --sign and --worker-max do not go together: it is for each crew worker, whose process answers: give it there, or add --sign FILE"},
		{"--worker cat --worker-ready x --worker-start-timeout 1m --engine hub", "--engine without --sign and --worker-ready do not go together: it is for each crew worker, whose process answers: give it there, or add --sign FILE"},

		// usage pipe
		{"--pipe -0 wc", `--pipe and -0 do not go together: write --recend '\0'`},
		{"--pipe -d, wc", "--pipe and -d do not go together: --recend STR says what ends a record: drop -d"},
		{"--pipe -n2 wc", "--pipe and -n do not go together: a block goes to standard input, not into the command: write -N N for N records in a block"},
		{"--pipe -L2 wc", "--pipe and -L do not go together: a block goes to standard input, not into the command: write -N N for N records in a block"},
		{"--pipe -s99 wc", "--pipe and -s do not go together: a block goes to standard input, not into the command: write -N N for N records in a block"},
		{"--pipe --stdin wc", "--pipe and --stdin do not go together: each task has its block on standard input: drop --stdin"},
		{"--pipe --csv wc", "--pipe and --csv do not go together: blocks are not looked into, but for the ends of records: drop --csv"},
		{"--pipe -C, wc", "--pipe and -C do not go together: blocks are not looked into, but for the ends of records: drop -C"},
		{"--pipe --input json wc", "--pipe and --input json do not go together: blocks are not looked into, but for the ends of records: drop --input"},
		{"--pipe -r wc", "--pipe and -r do not go together: without input nothing runs anyway: drop -r"},
		{"--pipe -E x wc", "--pipe and -E do not go together: blocks are not looked into: cut the stream before, as with sed '/^STR$/,$d'"},
		{"--pipe --tty wc", "--pipe and --tty do not go together: tasks read their blocks, not the terminal: drop one of them"},
		{"--pipe wc ::: a", "--pipe and values on the command line do not go together: give the stream on standard input, or files with -a FILE"},
		{"--pipe --recend '' --header wc", "--recend and --header do not go together: without ends there are no records, of which one could be the header: drop --header"},
		{"serve --pipe wc", "serve and --pipe do not go together: crew ctl add brings values, not a stream: drop --pipe"},
		{"worker --engine x --pipe wc", "worker and --pipe do not go together: submitters bring the records: give them --pipe"},
		{"--pipe", "--pipe needs a command: without one each record is a command line: add a command, or drop --pipe"},
		{"--block 1M wc", "--block needs --pipe: add --pipe"},
		{"--recend x wc", "--recend needs --pipe: add --pipe"},
		{"--recstart x wc", "--recstart needs --pipe: add --pipe"},
		{"--records 2 wc", "--records needs --pipe: add --pipe"},
		{"--pipe --block 1X wc", `bad value "1X" for --block: write a number of bytes such as 64K, 1M or 2G, or -N for N blocks of a file for each worker`},
		{"--pipe --block 0 wc", `bad value "0" for --block: write a number of bytes such as 64K, 1M or 2G, or -N for N blocks of a file for each worker`},
		{"--pipe --block '' wc", `bad value "" for --block: write a number of bytes such as 64K, 1M or 2G, or -N for N blocks of a file for each worker`},
		{"--pipe --block -0 wc", `bad value "-0" for --block: write a number of bytes such as 64K, 1M or 2G, or -N for N blocks of a file for each worker`},
		{"--pipe --block 9999999999T wc", `bad value "9999999999T" for --block: write a number of bytes such as 64K, 1M or 2G, or -N for N blocks of a file for each worker`},
		{`--pipe --recend '\q' wc`, `bad value "\\q" for --recend: write one or more bytes; \n, \t, \0, \\ and \xHH are known`},
		{"--pipe -N0 wc", `bad value "0" for -N: write a whole number from 1 up`},
		{"--pipe --worker wc -k", "--pipe --worker and -k do not go together: a worker reads many blocks, and its output belongs to none: drop -k, or --worker"},
		{"--pipe --worker wc --retries 2", "--pipe --worker and --retries do not go together: a worker reads many blocks, and its output belongs to none: drop --retries, or --worker"},
		{"--pipe --worker wc --state s", "--pipe --worker and --state do not go together: a worker reads many blocks, and its output belongs to none: drop --state, or --worker"},
		{"--pipe --worker wc -S web1", "--pipe --worker and -S do not go together: workers that read many blocks run on this machine: drop -S, or --worker"},
		{"--pipe --round-robin wc", "unknown option --round-robin: --pipe --worker 'CMD' spreads blocks over long-lived processes"},
		{"--pipe --cat wc", "unknown option --cat: a task's standard input, which /dev/stdin names as a file, has the record with --stdin, the block with --pipe"},
		{"--pipe --header : wc", "--header takes no value: drop the : behind it"},

		// usage serve
		{"serve --no-control touch ran", "serve and --no-control do not go together: tasks come by the socket: drop --no-control"},

		// usage tty
		{"--tty -j2 true ::: a", "--tty and -j do not go together: only one task at a time has the terminal: drop -j"},
		{"--tty -k true ::: a", "--tty and -k do not go together: tasks write to the terminal themselves: drop -k"},
		{"--tty --line-buffer true ::: a", "--tty and --line-buffer do not go together: tasks write to the terminal themselves: drop one of them"},
		{"--tty --stdin true ::: a", "--tty and --stdin do not go together: tasks read the terminal: drop one of them"},

		// usage unknown
		{"--max-arg 3 true ::: a", "unknown option --max-arg: did you mean --max-args?"},

		// usage value
		{"--timeout", "--timeout needs a value: write --timeout DUR"},
		{"--tag-string '' true ::: a", `bad value "" for --tag-string: write something there; it is empty`},
		{"--workdir '' true ::: a", `bad value "" for --workdir: write something there; it is empty`},
		{"-a '' true", `bad value "" for -a: write something there; it is empty`},
		{"--kill-after 9223372036 true ::: a", `bad value "9223372036" for --kill-after: write a time such as 10, 1.5s, 500ms, 2m or 1d, at most 36500d`},
		{"--timeout 1000000h true ::: a", `bad value "1000000h" for --timeout: write a time such as 10, 1.5s, 500ms, 2m or 1d, at most 36500d`},
		{"-n 99999999999999999999 true ::: a", `bad value "99999999999999999999" for -n: write a whole number from 0 to 9223372036854775807`},
		{"--retries 1 --retry-on exit:256 true ::: a", `bad value "exit:256" for --retry-on: write a list of exit, exit:N, exit:N-M, signal, timeout, start, answer, any; N is from 1 to 255`},
		{"--halt 2 true ::: a", `bad value "2" for --halt: write now,fail=1`},

		// usage worker
		{"worker --engine nowhere: -k touch ran", "worker and -k do not go together: results go to the submitters: give them -k"},
		{"worker --engine nowhere: --retries 2 touch ran", "worker and --retries do not go together: submitters say what becomes of a failure: give them --retries"},
		{"worker --engine nowhere: -a list touch ran", "worker and -a do not go together: submitters bring the records: give them -a"},
		{"worker --engine nowhere: touch ran ::: a", "worker and values on the command line do not go together: runs with --engine bring them: drop what follows the command"},
		{"worker --engine nowhere: -j2", "worker needs a command, for which runs bring the values: write it after the options, or add --allow-commands --trust FILE to run those that are signed"},
		{"worker --engine nowhere: --allow-commands", "--allow-commands needs --trust: add --trust FILE, with the public keys whose commands it runs"},
		{"--labels gpu touch ran ::: a", "--labels needs crew worker: write crew worker before the options"},
		{"--queue a.b touch ran ::: a", `bad value "a.b" for --queue: write up to 64 letters, digits, - and _ that are not a number`},

		// words operators
		{"touch {} ; echo ::: ran", "';' would be an argument, because a command of several words runs without a shell: write 'touch {} ; echo' for one, or -- before the command to keep the word"},
		{"touch {} && echo {} ::: ran", "'&&' would be an argument, because a command of several words runs without a shell: write 'touch {} && echo {}' for one, or -- before the command to keep the word"},
		{"grep 'a b' {} | wc -l ::: ran", `'|' would be an argument, because a command of several words runs without a shell: write 'grep '\''a b'\'' {} | wc -l' for one, or -- before the command to keep the word`},
		{"cat {} || touch x ::: ran", "'||' would be an argument, because a command of several words runs without a shell: write 'cat {} || touch x' for one, or -- before the command to keep the word"},
		{"cat {} > ran ::: ran", "'>' would be an argument, because a command of several words runs without a shell: write 'cat {} > ran' for one, or -- before the command to keep the word"},
		{"cat < {} ::: ran", "'<' would be an argument, because a command of several words runs without a shell: write 'cat < {}' for one, or -- before the command to keep the word"},
		{"make test && touch ran ::: ran", "'&&' would be an argument, because a command of several words runs without a shell: write 'make test && touch ran' for one, or -- before the command to keep the word"},
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
	const states = "command values product numbered placed numbered-key times-joblog jobs-of-all submitting unsigned " +
		"filters halt-share tasks far unseen retry-timeout retry-answer"
	var conds []string
	for _, c := range clashes {
		conds = append(append(conds, strings.Fields(c.conds)...), strings.Fields(c.others)...)
	}
	for _, n := range needs {
		conds = append(append(conds, strings.Fields(n.conds)...), strings.Fields(n.others)...)
	}

	for _, cond := range conds {
		if strings.HasPrefix(cond, "crew-") || hasWord(states, cond) {
			continue
		}
		name, value, exact := strings.Cut(cond, "=")
		name = strings.TrimSuffix(name, "!")
		i := slices.IndexFunc(options[:], func(o option) bool { return o.name == name })
		require.GreaterOrEqual(t, i, 0, cond)
		o := options[i]
		if exact && o.choices != nil {
			require.Contains(t, o.choices, value)
		}
	}
}

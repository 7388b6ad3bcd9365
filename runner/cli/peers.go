package cli

import (
	"slices"
	"strings"
)

// peerOption is one or more options of xargs, GNU parallel, make or nextest that crew
// does not have by that name.
type peerOption struct {
	names string // without dashes, separated by blanks
	means string // the name of the option here, or name=value; "" if there is none
	hint  string // what to do instead
}

// peerOptions are all such options of xargs 4.9 and parallel 20221122, some of later
// versions, and those of make and nextest that are looked for. A dash within a name does
// not count.
var peerOptions = [...]peerOption{
	// Other spellings of what crew has.
	{names: "max-procs", means: "jobs"},
	{names: "max-lines L", means: "max-args"},
	{names: "max-replace-args", means: "records"},
	{names: "spreadstdin pipe-part", means: "pipe"},
	{names: "block-size", means: "block"},
	{names: "line-buffered lb", means: "output=line"},
	{names: "group", means: "output=group"},
	{names: "eta", means: "progress=always"},
	{names: "dr", means: "dry-run"},
	{names: "jl", means: "joblog"},
	{names: "res result", means: "results"},
	{names: "wd", means: "workdir"},
	{names: "halt-on-error", means: "halt"},
	{names: "load-average max-load", means: "load"},
	{names: "shell-completion", means: "completion"},
	{names: "tsv", means: "colsep=\t"},

	// Records and how they go into a command.
	{names: "l", hint: "write -L N for N lines; make's limit of the load is --load N"},
	{names: "m", hint: "did you mean -X? Text around {} in a word is repeated for each record"},
	{names: "xargs", hint: "-X puts as many records as fit into one command, and has the workers share the last ones"},
	{names: "x exit", hint: "a command that is too long fails by itself: drop it, or add --fail-fast"},
	{names: "e", hint: "write -E STR"},
	{names: "i", hint: "{} stands for the record without it; -I STR names another string"},
	{names: "link xapply link-input-source xapply-input-source", hint: "write :::+ or ::::+ for values in step"},
	{names: "arg-sep arg-file-sep", hint: "write ::: before values and :::: before files"},
	{names: "trim", hint: "trim the records first: sed 's/^ *//; s/ *$//' FILE | crew ..."},
	{names: "shuf", hint: "shuffle the records first: shuf FILE | crew ..."},
	{names: "filter", hint: "leave records out first: grep PATTERN FILE | crew ..."},
	{names: "skip-first-line", hint: "write tail -n +2 FILE | crew ..., or --header if it names columns"},
	{names: "plus rpl parens", hint: `use the shell for other parts of a value: crew 'x={}; echo "${x%%.*}"'`},
	{names: "extensionreplace er basenamereplace bnr dirnamereplace dnr basenameextensionreplace bner " +
		"seqreplace slotreplace",
		hint: "{.} {/} {//} {/.} {#} and {%} have no other names; -I STR renames {} alone"},
	{names: "template tmpl", hint: "put the file into the command, as a here-document"},
	{names: "quote", hint: "words and values need no more quoting: drop it"},
	{names: "shell-quote shell_quote", hint: "--dry-run prints commands quoted for a shell"},
	{names: "show-limits max-line-length-allowed", hint: "getconf ARG_MAX prints the limit"},

	// Standard input.
	{names: "block-timeout bt", hint: "a smaller --block, or -N N, ends a block earlier"},
	{names: "round-robin round", hint: "--pipe --worker 'CMD' spreads blocks over long-lived processes"},
	{names: "regexp regex", hint: "--recend STR and --recstart STR are text: change the ends of records first, as with sed"},
	{names: "remove-rec-sep rrs", hint: "blocks keep what ends records: drop it, and have the command remove it"},
	{names: "cat fifo", hint: "a task's standard input, which /dev/stdin names as a file, has the record with --stdin, the block with --pipe"},
	{names: "tee", hint: "read the file in each command: crew 'grep {} < FILE' ::: ..."},
	{names: "bin group-by", hint: "--sched keyed --key TEMPLATE runs what belongs together in order"},
	{names: "open-tty o", hint: "--tty gives the terminal to the tasks, one at a time"},

	// How tasks run.
	{names: "test-threads", hint: "did you mean -j N?"},
	{names: "partition", hint: "did you mean --shard K/N?"},
	{names: "memsuspend noswap",
		hint: "did you mean --memfree SIZE? With --retry-on memory it ends a task and runs it again, instead of suspending it"},
	{names: "limit", hint: "-j FILE is read again when it changes: write fewer workers into FILE, or 0 for a pause"},
	{names: "total-jobs total", hint: "crew counts its tasks itself: drop it"},
	{names: "process-slot-var", hint: "{%} and CREW_WORKER are the worker's number"},
	{names: "number-of-cpus number-of-cores number-of-sockets number-of-threads use-cpus-instead-of-cores " +
		"use-sockets-instead-of-threads use-cores-instead-of-threads",
		hint: "nproc and lscpu print the number of processors: write -j N"},
	{names: "semaphore semaphore-name id semaphore-timeout st fg bg wait", hint: "--lock FILE --lock-wait DUR lets one run in at a time; crew serve -j N runs what others add; --cap NAME=N limits tasks of one run"},
	{names: "record-env session", hint: "tasks have crew's environment: write export NAME before"},
	{names: "_parset", hint: "read results with x=$(crew -k ...), or with --results DIR"},
	{names: "embed", hint: "crew is one file: copy it beside the script"},
	{names: "shebang hashbang shebang-wrap", hint: "write #!/usr/bin/env -S crew -a as the first line of a list of commands"},

	// Other machines.
	{names: "onall nonall filter-hosts filter-host hostgroups hostgroup hostgrp hgrp " +
		"ssh-delay controlmaster M",
		hint: "write ssh in the command, as in crew ssh {} uptime :::: HOSTS"},
	{names: "sshlogin", hint: "did you mean -S HOSTS?"},
	{names: "sshlogin-file slf", hint: "did you mean -S ./FILE?"},
	{names: "transfer-files tf", hint: "did you mean --transfer-file FILE?"},
	{names: "bf", hint: "did you mean --basefile FILE?"},
	{names: "trc", hint: "write --transfer --return TEMPLATE --cleanup"},
	{names: "rsync-opts", hint: "--transfer and --return need no rsync: drop it"},
	{names: "sql sql-master sql-worker sql-and-worker", hint: "--joblog FILE and --json record what tasks did"},

	// Failures.
	{names: "no-fail-fast keep-going", hint: "a failure stops nothing without --fail-fast: drop it"},
	{names: "slow-timeout", hint: "did you mean --timeout DUR?"},
	{names: "retry", hint: "did you mean --retries N?"},
	{names: "term-seq", hint: "--kill-after DUR is the time from SIGTERM to SIGKILL"},
	{names: "resume", hint: "a run with --state DIR goes on where it stopped"},
	{names: "resume-failed", hint: "did you mean --retry-failed, with --state DIR?"},

	// Results.
	{names: "interactive p", hint: "write --dry-run > FILE, edit FILE, then crew -a FILE"},
	{names: "v", hint: "did you mean -t, which prints each command on stderr?"},
	{names: "no-progress", hint: "write --progress never"},
	{names: "no-capture", hint: "did you mean -u, which leaves the output to the tasks?"},
	{names: "output-sync O", hint: "the output of a task is shown in one block anyway: drop it"},
	{names: "silent", hint: "commands are printed with -t alone: drop it"},
	{names: "no-keep-order no-k", hint: "without -k results come as tasks end: drop both"},
	{names: "output-as-files files", hint: "--results DIR keeps outputs in files"},
	{names: "latest-line ll tmux tmux-pane", hint: "--output line --tag shows the lines of all tasks as they come"},
	{names: "color colour ctag ctag-string", hint: "--tag begins each line with the record, without colour"},
	{names: "color-failed colour-failed color-fail colour-fail cf",
		hint: "the digest at the end shows what failed: drop it"},
	{names: "compress compress-program decompress-program use-compress-program use-decompress-program",
		hint: "drop it, or let TMPDIR name a larger disk"},
	{names: "tmpdir tempdir", hint: "set TMPDIR in the environment"},

	// The program.
	{names: "will-cite nn no-notice bibtex citation", hint: "crew asks for no citation: drop it"},
	{names: "plain profile J", hint: "CREW_OPTS in the environment holds options for every run"},
	{names: "gnu tollef", hint: "there is one mode: drop it"},
	{names: "min-version", hint: "--version prints the version"},
	{names: "debug D bug", hint: "-t prints each command, --results DIR keeps what it wrote"},
}

// peer returns the row that has name, or nil.
func peer(name string) *peerOption {
	for i := range peerOptions {
		p := &peerOptions[i]
		if slices.ContainsFunc(strings.Fields(p.names), func(s string) bool { return sameName(s, name) }) {
			return p
		}
	}
	return nil
}

// accepted returns the option that peers spell name, or nil.
func accepted(name string) *option {
	p := peer(name)
	switch {
	case p == nil || p.means == "":
		return nil
	case strings.Contains(p.means, "="):
		return &option{name: name, setter: spells(p.means)}
	}
	return long(p.means)
}

// sameName reports whether two names differ in dashes alone, as in dry-run and
// dryrun.
func sameName(a, b string) bool {
	for a != "" && b != "" && a[0] == b[0] {
		a, b = strings.TrimLeft(a[1:], "-"), strings.TrimLeft(b[1:], "-")
	}
	return a == b
}

// WholeLines returns the -L that people coming from xargs may expect to split lines
// at blanks, as they typed it, or "".
func (o *Options) WholeLines() string {
	u := o.given("max-args")
	values := func(g Group) bool { return !g.Files }
	if u == nil || u.spelled != "-L" && u.spelled != "--max-lines" || slices.ContainsFunc(o.Input.Groups, values) {
		return ""
	}
	if cut := func(u use) bool { return hasWord("null delimiter colsep csv", u.opt.name) }; slices.ContainsFunc(o.uses, cut) {
		return ""
	}
	return u.spelled
}

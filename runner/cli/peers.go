package cli

import (
	"slices"
	"strings"

	"crew/runner/input"
)

// peerOption is one or more options of xargs, GNU parallel, make or nextest that crew
// does not have by that name.
type peerOption struct {
	names string // without dashes, separated by blanks
	says  string // the option here, as a name or name=value, or what to do instead
}

// spellings and advice are all such options of xargs 4.9 and parallel 20221122, some of later
// versions, and those of make and nextest that are looked for. A dash within a name does
// not count.
var spellings = [...]peerOption{
	{"max-procs", "jobs"},
	{"max-lines L", "max-args"},
	{"max-replace-args", "records"},
	{"spreadstdin pipe-part", "pipe"},
	{"block-size", "block"},
	{"line-buffered lb", "output=line"},
	{"group", "output=group"},
	{"eta", "progress=always"},
	{"dr", "dry-run"},
	{"jl", "joblog"},
	{"res result", "results"},
	{"wd", "workdir"},
	{"halt-on-error", "halt"},
	{"load-average max-load", "load"},
	{"shell-completion", "completion"},
	{"tsv", "colsep=\t"},
}

// advice has the options that crew does without.
var advice = [...]peerOption{
	// Records and how they go into a command.
	{"l", "write -L N for N lines; make's limit of the load is --load N"},
	{"m", "did you mean -X? Text around {} in a word is repeated for each record"},
	{"xargs", "-X puts as many records as fit into one command, and has the workers share the last ones"},
	{"x exit", "a command that is too long fails by itself: drop it, or add --fail-fast"},
	{"e", "write -E STR"},
	{"i", "{} stands for the record without it; -I STR names another string"},
	{"link xapply link-input-source xapply-input-source", "write :::+ or ::::+ for values in step"},
	{"arg-sep arg-file-sep", "write ::: before values and :::: before files"},
	{"trim", "trim the records first: sed 's/^ *//; s/ *$//' FILE | crew ..."},
	{"shuf", "shuffle the records first: shuf FILE | crew ..."},
	{"filter", "leave records out first: grep PATTERN FILE | crew ..."},
	{"skip-first-line", "write tail -n +2 FILE | crew ..., or --header if it names columns"},
	{"plus rpl parens", `use the shell for other parts of a value: crew 'x={}; echo "${x%%.*}"'`},
	{"extensionreplace er basenamereplace bnr dirnamereplace dnr basenameextensionreplace bner " +
		"seqreplace slotreplace",
		"{.} {/} {//} {/.} {#} and {%} have no other names; -I STR renames {} alone"},
	{"template tmpl", "put the file into the command, as a here-document"},
	{"quote", "words and values need no more quoting: drop it"},
	{"shell-quote shell_quote", "--dry-run prints commands quoted for a shell"},
	{"show-limits max-line-length-allowed", "getconf ARG_MAX prints the limit"},

	// Standard input.
	{"block-timeout bt", "a smaller --block, or -N N, ends a block earlier"},
	{"round-robin round", "--pipe --worker 'CMD' spreads blocks over long-lived processes"},
	{"regexp regex", "--recend STR and --recstart STR are text: change the ends of records first, as with sed"},
	{"remove-rec-sep rrs", "blocks keep what ends records: drop it, and have the command remove it"},
	{"cat fifo", "a task's standard input, which /dev/stdin names as a file, has the record with --stdin, the block with --pipe"},
	{"tee", "read the file in each command: crew 'grep {} < FILE' ::: ..."},
	{"bin group-by", "--sched keyed --key TEMPLATE runs what belongs together in order"},
	{"open-tty o", "--tty gives the terminal to the tasks, one at a time"},

	// How tasks run.
	{"test-threads", "did you mean -j N?"},
	{"partition", "did you mean --shard K/N?"},
	{"memsuspend noswap",
		"did you mean --memfree SIZE? With --retry-on memory it ends a task and runs it again, instead of suspending it"},
	{"limit", "-j FILE is read again when it changes: write fewer workers into FILE, or 0 for a pause"},
	{"total-jobs total", "crew counts its tasks itself: drop it"},
	{"process-slot-var", "{%} and CREW_WORKER are the worker's number"},
	{"number-of-cpus number-of-cores number-of-sockets number-of-threads use-cpus-instead-of-cores " +
		"use-sockets-instead-of-threads use-cores-instead-of-threads",
		"nproc and lscpu print the number of processors: write -j N"},
	{"semaphore semaphore-name id semaphore-timeout st fg bg wait", "--lock FILE --lock-wait DUR lets one run in at a time; crew serve -j N runs what others add; --cap NAME=N limits tasks of one run"},
	{"record-env session", "tasks have crew's environment: write export NAME before"},
	{"_parset", "read results with x=$(crew -k ...), or with --results DIR"},
	{"embed", "crew is one file: copy it beside the script"},
	{"shebang hashbang shebang-wrap", "write #!/usr/bin/env -S crew -a as the first line of a list of commands"},

	// Other machines.
	{"onall nonall filter-hosts filter-host hostgroups hostgroup hostgrp hgrp " +
		"ssh-delay controlmaster M",
		"write ssh in the command, as in crew ssh {} uptime :::: HOSTS"},
	{"sshlogin", "did you mean -S HOSTS?"},
	{"sshlogin-file slf", "did you mean -S ./FILE?"},
	{"transfer-files tf", "did you mean --transfer-file FILE?"},
	{"bf", "did you mean --basefile FILE?"},
	{"trc", "write --transfer --return TEMPLATE --cleanup"},
	{"rsync-opts", "--transfer and --return need no rsync: drop it"},
	{"sql sql-master sql-worker sql-and-worker", "--joblog FILE and --json record what tasks did"},

	// Failures.
	{"no-fail-fast keep-going", "a failure stops nothing without --fail-fast: drop it"},
	{"slow-timeout", "did you mean --timeout DUR?"},
	{"retry", "did you mean --retries N?"},
	{"term-seq", "--kill-after DUR is the time from SIGTERM to SIGKILL"},
	{"resume", "a run with --state DIR goes on where it stopped"},
	{"resume-failed", "did you mean --retry-failed, with --state DIR?"},

	// Results.
	{"interactive p", "write --dry-run > FILE, edit FILE, then crew -a FILE"},
	{"v", "did you mean -t, which prints each command on stderr?"},
	{"no-progress", "write --progress never"},
	{"no-capture", "did you mean -u, which leaves the output to the tasks?"},
	{"output-sync O", "the output of a task is shown in one block anyway: drop it"},
	{"silent", "commands are printed with -t alone: drop it"},
	{"no-keep-order no-k", "without -k results come as tasks end: drop both"},
	{"output-as-files files", "--results DIR keeps outputs in files"},
	{"latest-line ll tmux tmux-pane", "--output line --tag shows the lines of all tasks as they come"},
	{"color colour ctag ctag-string", "--tag begins each line with the record, without colour"},
	{"color-failed colour-failed color-fail colour-fail cf",
		"the digest at the end shows what failed: drop it"},
	{"compress compress-program decompress-program use-compress-program use-decompress-program",
		"drop it, or let TMPDIR name a larger disk"},
	{"tmpdir tempdir", "set TMPDIR in the environment"},

	// The program.
	{"will-cite nn no-notice bibtex citation", "crew asks for no citation: drop it"},
	{"plain profile J", "CREW_OPTS in the environment holds options for every run"},
	{"gnu tollef", "there is one mode: drop it"},
	{"min-version", "--version prints the version"},
	{"debug D bug", "-t prints each command, --results DIR keeps what it wrote"},
}

// peer returns what rows say of an option, or "".
func peer(name string, rows []peerOption) string {
	for _, p := range rows {
		if slices.ContainsFunc(strings.Fields(p.names), func(s string) bool { return sameName(s, name) }) {
			return p.says
		}
	}
	return ""
}

// accepted returns the option that peers spell name, or nil.
func accepted(name string) *option {
	means := peer(name, spellings[:])
	switch {
	case means == "":
		return nil
	case strings.Contains(means, "="):
		return &option{name: name, means: means}
	}
	return long(means)
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
	values := func(g input.Group) bool { return g.File == "" }
	if u == nil || u.spelled != "-L" && u.spelled != "--max-lines" || slices.ContainsFunc(o.Input.Groups, values) {
		return ""
	}
	if cut := func(u use) bool { return hasWord("null delimiter colsep csv", u.opt.name) }; slices.ContainsFunc(o.uses, cut) {
		return ""
	}
	return u.spelled
}

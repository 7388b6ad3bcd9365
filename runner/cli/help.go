package cli

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"
)

const helpHead = `Usage: crew [options] [--] command [args...] [::: values...]...
       crew [options]        each record is a shell command line
       crew serve [options] [command [args...]]   run what crew ctl add brings
       crew worker [options] [command [args...]]   run what --engine brings
       crew ctl VERB         see and steer runs: crew ctl --help
       crew engine VERB      other machines: crew engine --help
       crew state DIR        what a run with --state did: crew state --help
       crew help [TOPIC]     this; TOPIC is one of these words, or an option

Runs a command for each record of its input, several at a time.
Options end at the first word that is none: the rest is the command's.

  ::: a b      values on the command line    :::: FILE    values from a file
  :::+ ::::+   in step with the group before; other groups give the product

  {} record   {.} no extension   {/} basename   {//} dirname   {/.} both
  {1} column or source 1, {-1} the last, {1/.} and so on; {name} with --header
  {#} task number   {%} worker number   {host} its machine
`

const helpTail = `
Times are seconds, or such as 500ms, 2m, 1d.

Examples:
  find . -name '*.log' -print0 | crew -0 gzip -9 {}
  crew 'convert {} -resize 50% {.}.png' ::: *.jpg
  crew -k --tag ping -c1 {} :::: hosts
  crew --csv --header 'mail -s {subject} {to} < {file}' < list.csv
  crew --retries 2 --timeout 30 curl -fsSO {} < urls
  crew -k --worker 'jq --unbuffered -c .user' < events.json

Exit status: 0 all well, 1 crew could not go on, 2 usage, 123 a task failed,
126 the command cannot be executed, 127 not found, 128+N ended by signal N.
See crew(1) for the rest.
`

// shortHead, the options of shortOptions and shortTail are what -h prints, on one screen.
const (
	shortHead = `Usage: crew [options] [--] command [args...] [::: values...]...
{} record  {.} no extension  {/} basename  {//} dirname  {1} column  {#} number
`
	shortOptions = "arg-file null colsep header max-args replace pipe jobs lock retries timeout fail-fast " +
		"keep-order tag results joblog quiet dry-run state ssh"
	shortTail = "The rest: crew --help, crew help TOPIC, man crew. Running crews: crew ctl --help\n"
)

const serveHead = `Usage: crew serve [options] [command [args...]]

Runs what crew ctl add brings: values for the command or, without one, commands.
`

const workerHead = `Usage: crew worker [options] [command [args...]]

Runs the tasks of other crews, which --engine brings.
`

const wordTail = "\nSee crew --help for what the words of a command are, and crew(1) for the rest.\n"

const textColumn = 29 // where the descriptions of options begin

// helpText returns what --help prints.
func helpText() string {
	return helpHead + optionRows(true, func(*option) bool { return true }) + helpTail
}

// optionRows returns the rows of --help for the options that are wanted.
func optionRows(headings bool, wanted func(*option) bool) string {
	var b strings.Builder
	var in group
	for i := range options {
		o := &options[i]
		if !wanted(o) {
			continue
		}
		if headings && o.group != in {
			in = o.group
			fmt.Fprintf(&b, "\n%s:\n", in)
		}
		forms := o.forms()
		if len(forms) >= textColumn {
			b.WriteString(forms + "\n")
			forms = ""
		}
		fmt.Fprintf(&b, "%-*s%s\n", textColumn, forms, o.text)
	}
	return b.String()
}

// help returns what the options ask for with u, which is -h or --help.
func (o *Options) help(u *use) string {
	for head, word := range map[string]*option{serveHead: &serving, workerHead: &working} {
		if o.given(word.name) != nil {
			return head + optionRows(true, word.takes) + wordTail
		}
	}
	if u.spelled == "-h" {
		short := strings.Fields(shortOptions)
		return shortHead + optionRows(false, func(o *option) bool { return slices.Contains(short, o.name) }) + shortTail
	}
	return helpText()
}

// takes reports whether an option goes with word, which is serving or working, by the
// rules that refuse options.
func (word *option) takes(o *option) bool {
	names := func(conds, name string) bool { // with any value
		return slices.ContainsFunc(strings.Fields(conds), func(c string) bool {
			c, _, _ = strings.Cut(c, "=")
			return strings.TrimSuffix(c, "!") == name
		})
	}
	refused := func(name string) bool {
		return slices.ContainsFunc(clashes[:], func(c clash) bool {
			return c.cond == word.name && names(c.others, name) || names(c.cond, name) && names(c.others, word.name)
		})
	}
	met := func(cond string) bool {
		return cond == word.name || cond != serving.name && cond != working.name && !refused(cond)
	}
	name, _, _ := strings.Cut(cmp.Or(o.means, o.name), "=")
	return !refused(name) && !slices.ContainsFunc(needs[:], func(n need) bool {
		return slices.Contains(strings.Fields(n.conds), name) && !slices.ContainsFunc(strings.Fields(n.others), met)
	})
}

// helpCommand runs "crew help [TOPIC]" and returns its exit status.
func helpCommand(args []string, stdin, stdout, stderr *os.File, programs Programs) int {
	topic := strings.Join(args[2:], " ")
	is := func(o *option) bool {
		return "--"+o.name == topic || o.name == topic || len(topic) == 2 && topic[0] == '-' && strings.Contains(o.short, topic[1:])
	}
	switch rows := optionRows(false, is); {
	case topic == "" || slices.Contains(ownWords, args[2]):
		return Main(append(slices.Concat(args[:1], args[2:]), "--help"), stdin, stdout, stderr, programs)
	case rows != "":
		if _, err := io.WriteString(stdout, rows); err != nil {
			return complain(stderr, fmt.Errorf("write to stdout: %w", err))
		}
		return statusOK
	}
	return complain(stderr, &usageError{
		fmt.Sprintf("there is no help on %q", topic),
		"name an option or one of " + strings.Join(ownWords, ", ") + "; to run a program called help, write crew -- help",
	})
}

// forms returns the option's names and value as --help lists them.
func (o *option) forms() string {
	s := "  "
	for _, letter := range o.short {
		s += "-" + string(letter) + ", "
	}
	if o.short == "" {
		s = "      "
	}
	s += "--" + o.name
	if o.alone != "" {
		s += "[=" + o.value + "]"
	} else if o.value != "" {
		s += " " + o.value
	}
	return s
}

// version is the version of a release, which .ci/release has the linker fill in.
var version string

// versionText returns what --version prints: the version of the release or, in any
// other build, the version of the module that the go command has recorded.
func versionText() string {
	name := version
	if info, ok := debug.ReadBuildInfo(); name == "" && ok {
		name = strings.Trim(info.Main.Version, "()")
	}
	return "crew " + cmp.Or(name, "devel") + "\n"
}

package cli

import (
	"cmp"
	"fmt"
	"runtime/debug"
	"strings"
)

const helpHead = `Usage: crew [options] [--] command [args...] [::: values...]...
       crew [options]        each record is a shell command line
       crew serve [options] [command [args...]]   run what crew ctl add brings
       crew ctl VERB         see and steer runs: crew ctl --help
       crew worker [options] [command [args...]]   run what --engine brings
       crew engine VERB      other machines: crew engine --help

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

const textColumn = 29 // where the descriptions of options begin

// helpText returns what --help prints.
func helpText() string {
	var b strings.Builder
	b.WriteString(helpHead)
	var in group
	for i := range options {
		o := &options[i]
		if o.group != in {
			in = o.group
			fmt.Fprintf(&b, "\n%s:\n", in)
		}
		fmt.Fprintf(&b, "%-*s%s\n", textColumn, o.forms(), o.text)
	}
	b.WriteString(helpTail)
	return b.String()
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

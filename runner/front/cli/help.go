package cli

import (
	"fmt"
	"strings"
)

const helpHead = `Usage: crew [options] [--] command [args...] [::: values...]...
       crew [options]        each record is a shell command line
       crew serve [options] [command [args...]]    a queue: crew serve --help
       crew worker [options] [command [args...]]   a worker of a hub
       crew ctl VERB         inspect and control runs: crew ctl --help
       crew engine VERB      hubs and workers: crew engine --help
       crew state DIR        summary of a run with --state: crew state --help
       crew report FILE      HTML report of runs: crew report --help
       crew web              your runs in a browser: crew web --help
       crew help [TOPIC]     help on a topic: crew help retry, crew help ctl add

Runs a command for each record of its input, in parallel. A record is a line of
stdin by default. Options end at the first word that is not an option.

  ::: a b      values on the command line    :::: FILE    values from a file
  :::+ ::::+   in step with the group before; without +, every combination

  {} record   {.} no extension   {/} basename   {//} dirname   {/.} both
  {1} column or source 1, {-1} the last, {1/.} and so on; {name} with --header
  {#} task number   {%} worker number   {host} machine of the task
`

const helpTail = `
DUR is in seconds, or has a unit: 500ms, 2m, 1h30m, 1d. CREW_OPTS holds your
default options.

Examples:
  find . -name '*.log' -print0 | crew -0 gzip -9 {}
  crew 'convert {} -resize 50% {.}.png' ::: *.jpg
  crew -k --tag ping -c1 {} :::: hosts
  crew --csv --header 'mail -s {subject} {to} < {file}' < list.csv
  crew --retries 2 --timeout 30 curl -fsSO {} < urls
  crew -k --worker 'jq --unbuffered -c .user' < events.json

Exit status: 0 all tasks succeeded, 1 crew itself failed, 2 usage, 123 a task
failed, 126 the command cannot be executed, 127 not found, 128+N signal N.
See crew(1), or crew help TOPIC; crew help topics lists the topics.
`

// The parts of -h: shortHead, the rows of shortOptions, and shortTail. They fit on one screen.
const (
	shortHead = `Usage: crew [options] [--] command [args...] [::: values...]...
{} record  {.} no extension  {/} basename  {//} dirname  {1} column  {#} number
`
	shortOptions = "arg-file null colsep header max-args replace pipe jobs lock retries timeout fail-fast " +
		"keep-order tag results joblog quiet dry-run state ssh"
	shortTail = "The rest: crew --help, crew help TOPIC, man crew. Running crews: crew ctl --help\n"
)

// The last lines of the help of some commands.
const (
	wordTail = `
See crew --help for the placeholders of a command.
`
	ctlTail = `
RUN is the process ID or the --name of a run. Leave it out if only one runs.
--json prints the replies as lines of JSON.
See crew ctl VERB --help.
`
	engineTail = `
URL is nats://hub:4222, for example, or the name or the file of a NATS context.
Without --engine, NATS_URL is used.
See crew engine VERB --help.
`
)

const textColumn = 29 // column of the descriptions of options

// helpText returns the text of crew --help.
func helpText() string {
	return helpHead + optionRows(true, func(o *option) bool { return o.ofRuns() }) + helpTail
}

// help returns the text of --help or, if short, of -h.
func (c *command) help(short bool) string {
	switch {
	case c.name == DoRun && short:
		return shortHead + optionRows(false, func(o *option) bool { return o.ofRuns() && hasWord(shortOptions, o.name) }) + shortTail
	case c.name == DoRun:
		return helpText()
	}
	text := "Usage: " + c.usage() + "\n\n" + strings.ToUpper(c.text[:1]) + c.text[1:] + ".\n"
	switch {
	case c.operands == takesCommand:
		text += optionRows(true, c.takes) + wordTail
	case c.name == "ctl":
		text += "\n" + c.verbRows() + ctlTail
	case c.name == "engine":
		text += "\n" + c.verbRows() + engineTail
	default:
		text += "\nOptions:\n" + optionRows(false, c.takes) + "\n"
	}
	return text + strings.ReplaceAll("See PAGE(1) for the rest: man PAGE, or crew help PAGE.\n", "PAGE", c.page())
}

// verbRows returns the rows of the help for the verbs of the command.
func (c *command) verbRows() string {
	var b strings.Builder
	for _, verb := range c.verbs() {
		v := commandNamed(c.name + " " + verb)
		b.WriteString(helpRow(strings.TrimSpace(verb+" "+v.operands), v.text))
	}
	return b.String()
}

// helpRow returns a row of the help, on two lines if forms do not fit into the first column.
func helpRow(forms, text string) string {
	if len(forms) >= textColumn-2 {
		forms += "\n" + strings.Repeat(" ", textColumn)
	}
	return fmt.Sprintf("  %-*s%s\n", textColumn-2, forms, text)
}

// optionRows returns the rows of the help for the options that are wanted.
func optionRows(headings bool, wanted func(*option) bool) string {
	var b strings.Builder
	heading := ""
	for _, o := range options() {
		if o.commands == "" && headings {
			heading = "\n" + o.form + ":\n"
		}
		if !wanted(o) {
			continue
		}
		b.WriteString(heading)
		heading = ""
		forms := o.form
		if o.short == "" {
			forms = "    " + o.form
		}
		b.WriteString(helpRow(forms, o.text))
	}
	return b.String()
}

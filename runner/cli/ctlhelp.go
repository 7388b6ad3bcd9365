package cli

import (
	"fmt"
	"strings"
)

const ctlHelpHead = `Usage: crew ctl VERB [options] ...

Sees, steers and feeds the crews that run.

`

const ctlHelpTail = `
RUN is the pid of a crew or the name that --name gave it. It can be left out
while only one runs. --json prints the replies as lines of JSON.
See crew ctl VERB --help, and crew(1) for the rest.
`

// helpText returns what --help prints, for all verbs or for the given one.
func (c *ctl) helpText() string {
	var b strings.Builder
	if c.verb == nil {
		b.WriteString(c.tool.head)
		for _, v := range c.tool.verbs {
			fmt.Fprintf(&b, "  %-*s%s\n", textColumn-2, strings.TrimSpace(v.name+" "+v.operands), v.text)
		}
		b.WriteString(c.tool.tail)
		return b.String()
	}
	fmt.Fprintf(&b, "Usage: %s\n\n%s.\n\nOptions:\n", c.tool.usage(c.verb), sentence(c.verb.text))
	for i := range ctlOptions {
		if o := &ctlOptions[i]; c.verb.takes(o) {
			row := option{name: o.name, short: o.short, value: o.value}
			fmt.Fprintf(&b, "%-*s%s\n", textColumn, row.forms(), o.text)
		}
	}
	for name := range strings.FieldsSeq(c.verb.also()) {
		o := long(name)
		fmt.Fprintf(&b, "%-*s%s\n", textColumn, o.forms(), o.text)
	}
	return b.String()
}

// also returns the names of options of runs that v takes, too.
func (v *verb) also() string {
	if v.name == attaching.name {
		return attachOptions
	}
	return ""
}

// sentence returns text with a capital letter.
func sentence(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

// usage returns how v is written.
func (t *tool) usage(v *verb) string {
	words := []string{t.name, v.name}
	if v.options != "" && v.options != "json" {
		words = append(words, "[options]")
	}
	return strings.TrimSpace(strings.Join(append(words, v.operands), " "))
}

// optionNames returns the options of v in their long form.
func (v *verb) optionNames() (names []string) {
	for i := range ctlOptions {
		if o := &ctlOptions[i]; v.takes(o) {
			names = append(names, "--"+o.name)
		}
	}
	for name := range strings.FieldsSeq(v.also()) {
		names = append(names, "--"+name)
	}
	return names
}

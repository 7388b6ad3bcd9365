package cli

import (
	"fmt"
	"strings"
)

// row is a row of the flag table. The parser, --help and the completion use it, and
// a test compares the man page with it.
type row struct {
	form string // the names and the value, as --help has them
	of   string // the commands that take it, with a hyphen before a verb, or a tool with all its verbs
	text string // description in --help
	setter
}

// option is a row with its form taken apart.
type option struct {
	row
	name  string // long, without dashes; "" of a heading
	short string // letters of the short forms
	value string // name of the value; "" if the option takes none
}

// named takes the form apart.
func (r row) named() *option {
	letters, rest, _ := strings.Cut(r.form, "--")
	name, value, _ := strings.Cut(strings.Replace(rest, "[=", " ", 1), " ")
	o := &option{row: r, name: name, value: strings.TrimSuffix(value, "]")}
	for ; strings.HasPrefix(letters, "-"); letters = letters[len("-x, "):] {
		o.short += letters[1:2]
	}
	return o
}

// ofRuns reports whether the option is one of those that run tasks.
func (o *option) ofRuns() bool {
	return hasWord(o.of, DoRun) || hasWord(o.of, DoServe) || hasWord(o.of, DoWork)
}

// use is one occurrence of an option.
type use struct {
	opt     *option
	spelled string // as typed, such as -k, for messages
	value   string // "" if the option takes none
	env     bool   // it comes from CREW_OPTS
}

// word returns the option as one word: --name or --name=value.
func (u use) word() string {
	if u.opt.value == "" {
		return "--" + u.opt.name
	}
	return "--" + u.opt.name + "=" + u.value
}

// String returns the option as typed, and says so if it comes from CREW_OPTS.
func (u use) String() string {
	if u.env {
		return u.spelled + " (from CREW_OPTS)"
	}
	return u.spelled
}

// withValue is like String, with the value after the option.
func (u use) withValue() string {
	u.spelled += " " + u.value
	return u.String()
}

// withChoice is like String, with the value if it is one of a closed set.
func (u use) withChoice() string {
	if u.opt.alone != "" && u.value != u.opt.alone {
		u.spelled += "=" + u.value
		return u.String()
	}
	if u.opt.choices == "" || u.opt.alone != "" || u.spelled != "--"+u.opt.name {
		return u.String()
	}
	return u.withValue()
}

func missingValue(u use) error {
	return &UsageError{u.spelled + " needs a value", "write " + u.spelled + " " + u.opt.value}
}

// bad returns the error of a value of the option.
func (u use) bad(err error) error {
	return &UsageError{fmt.Sprintf("bad value %q for %s", u.value, u), err.Error()}
}

// typed returns the option as typed if that is short, or else its shortest form.
func (u use) typed() string {
	switch {
	case len(u.spelled) == 2:
		return u.spelled
	case u.opt.set == nil: // of state
		return u.spelled
	}
	return u.opt.typed()
}

// typed returns the option's shortest form.
func (o *option) typed() string {
	if o.short != "" {
		return "-" + o.short[:1]
	}
	return "--" + o.name
}

// command is a row of the command table. The parser, the help and the completion use
// it, and a test compares the man page with it.
type command struct {
	name     string // all its words: "ctl log"
	operands string // as the help has them, one of the constants below
	text     string // description in the help
}

// UsageError is a mistake in how crew was called, found before anything ran.
type UsageError struct {
	Msg  string // what is wrong
	Hint string // what to write instead; can be ""
}

// Error returns the message and the hint on one line.
func (e *UsageError) Error() string {
	if e.Hint == "" {
		return e.Msg
	}
	return e.Msg + ": " + e.Hint
}

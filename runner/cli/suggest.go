package cli

import (
	"fmt"
	"strings"

	"crew/runner/task"
)

// unknownLong returns the error for an unknown long option.
func (c *command) unknownLong(spelled string) error {
	if !c.hasRun() {
		return c.hasNo(spelled)
	}
	return &UsageError{"unknown option " + quoteOption(spelled), didYouMean(strings.TrimPrefix(spelled, "--"))}
}

// unknownShort returns the error for the unknown short option arg[i], or for a
// long option with a single dash.
func (c *command) unknownShort(arg string, i int) error {
	if !c.hasRun() {
		return c.hasNo("-" + arg[i:i+1])
	}
	msg, hint := "unknown option "+quoteOption("-"+arg[i:i+1]), seeHelp
	if len(arg) > 2 {
		msg += " in " + quoteOption(arg)
	}
	if p := peer(arg[i : i+1]); p != nil {
		hint = p.hint
	}
	if len(arg) > 3 && len(nearest(arg[1:])) > 0 {
		hint = didYouMean(arg[1:])
	}
	return &UsageError{msg, hint}
}

// hasNo returns the error for an unknown option of a command that has few.
func (c *command) hasNo(spelled string) error {
	hint := "it takes " + oneOf(c.optionNames())
	if c.operands == takesVerb {
		hint = "options follow the verb, as in " + c.usage()
	}
	return &UsageError{"crew " + c.name + " has no option " + quoteOption(spelled), hint}
}

// optionNames returns the options of the command in their long form.
func (c *command) optionNames() (names []string) {
	for i := range options {
		if o := &options[i]; c.takes(o) {
			names = append(names, "--"+o.name)
		}
	}
	return names
}

const seeHelp = "see crew --help"

// didYouMean returns a hint for an unknown option.
func didYouMean(name string) string {
	if p := peer(name); p != nil {
		return p.hint
	}
	switch near := nearest(name); len(near) {
	case 0:
		return seeHelp
	case 1:
		return "did you mean " + near[0] + "?"
	default:
		return "did you mean " + oneOf(near) + "?"
	}
}

// quoteOption returns an option as typed, quoted if it holds special characters.
func quoteOption(s string) string {
	if q := fmt.Sprintf("%q", s); q[1:len(q)-1] != s {
		return q
	}
	return s
}

// nearest returns the options whose names begin with name, if they are few, or
// else the one that is most similar. It returns nil if none is similar.
func nearest(name string) []string {
	var begins, best []string
	least := max(1, len(name)/3) + 1
	for i := range options {
		o := &options[i]
		if o.of != "" {
			continue
		}
		if o.name == name { // with a single dash
			return []string{"--" + name}
		}
		if name != "" && strings.HasPrefix(o.name, name) {
			begins = append(begins, "--"+o.name)
		}
		if d := task.Distance(name, o.name); d < least {
			best, least = []string{"--" + o.name}, d
		}
	}
	if len(begins) > 0 && len(begins) < 5 {
		return begins
	}
	return best
}

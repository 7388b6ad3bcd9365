package cli

import (
	"cmp"
	"slices"
	"strings"

	"crew/runner/decide/task"
)

// unknownLong returns the error for an unknown long option.
func (c *command) unknownLong(spelled string) error {
	if !c.takesRunOptions() {
		return c.errNoOption(spelled)
	}
	return &UsageError{"unknown option " + spelled, optionHint(strings.TrimPrefix(spelled, "--"))}
}

// unknownShort returns the error for the unknown short option arg[i], which may start a long option with a
// single dash.
func (c *command) unknownShort(arg string, i int) error {
	if !c.takesRunOptions() {
		return c.errNoOption("-" + arg[i:i+1])
	}
	msg, hint := "unknown option -"+arg[i:i+1], cmp.Or(lookupPeer(arg[i:i+1], meansAdvice), seeHelp)
	if len(arg) > 2 {
		msg += " in " + arg
	}
	return &UsageError{msg, hint}
}

// errNoOption returns the error for an unknown option of a command with few options.
func (c *command) errNoOption(spelled string) error {
	hint := "see crew " + c.name + " --help"
	if c.operands == takesVerb {
		hint = "options follow the verb, as in " + c.usage()
	}
	return &UsageError{"crew " + c.name + " has no option " + spelled, hint}
}

const seeHelp = "see crew --help"

// didYouMean returns a hint for a word that is not in names: the most similar name, after dashes, or other if
// there is none.
func didYouMean(word string, names []string, dashes, other string) string {
	if near := task.Nearest(word, names); near != "" {
		return "did you mean " + dashes + near + "?"
	}
	return other
}

// optionHint returns a hint for an unknown long option of runs.
func optionHint(name string) string {
	if hint := lookupPeer(name, meansAdvice); hint != "" {
		return hint
	}
	var names []string
	for _, o := range options() {
		if o.ofRuns() {
			names = append(names, o.name)
		}
	}
	return didYouMean(name, names, "--", seeHelp)
}

// usage returns the usage line of the command.
func (c *command) usage() string {
	words := []string{"crew", c.name}
	own := slices.DeleteFunc(c.optionNames(), func(name string) bool { return name == "--json" || name == "--help" })
	switch {
	case c.operands == takesVerb:
		return strings.Join(append(words, takesVerb, "[options] ..."), " ")
	case len(own) > 0:
		words = append(words, "[options]")
	}
	return strings.TrimSpace(strings.Join(append(words, c.operands), " "))
}

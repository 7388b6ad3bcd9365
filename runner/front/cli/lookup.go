package cli

import (
	"cmp"
	"runtime/debug"
	"strings"

	"crew/runner/exec/kernel"
)

// version is the version of a release. .ci/release sets it through the linker.
var version string

// versionText returns the text of --version: the version of the release or, in any other build, the version
// of the module that the go command has recorded. The portable form of crew adds the word portable.
func versionText() string {
	name := version
	if info, ok := debug.ReadBuildInfo(); name == "" && ok {
		name = strings.Trim(info.Main.Version, "()")
	}
	text := "crew " + cmp.Or(name, "devel")
	if kernel.Portable {
		text += " portable"
	}
	return text + "\n"
}

// long returns the option with a long name, of crew or of another tool, or nil. If c takes the options of
// runs, the result may be an option of runs that c does not take.
func (c *command) long(name string) *option {
	return c.option(name, func(o *option) bool { return sameName(o.name, name) })
}

// short is like long for a letter.
func (c *command) short(letter byte) *option {
	return c.option(string(letter), func(o *option) bool { return strings.IndexByte(o.short, letter) >= 0 })
}

// option returns an option that satisfies is, or that another tool spells this way. It prefers the options of
// c and, if c takes the options of runs, falls back to all of those.
func (c *command) option(spelled string, is func(*option) bool) (ofRuns *option) {
	dashed := "-" + spelled[:min(1, len(spelled))]
	for _, f := range taggedFields() {
		if !strings.Contains(string(f.tag), dashed) {
			continue
		}
		switch o := f.parse(); {
		case !is(o):
		case c.takes(o):
			return o
		case o.ofRuns() && c.takesRunOptions():
			ofRuns = o
		}
	}
	if ofRuns == nil && c.takesRunOptions() {
		ofRuns = peerOption(spelled)
	}
	return ofRuns
}

// long returns the option of runs with a long name, of crew or of another tool, or nil.
func long(name string) *option { return commands[0].long(name) }

// optionNames returns the options that c takes, in their long form.
func (c *command) optionNames() (names []string) {
	for _, o := range options() {
		if c.takes(o) {
			names = append(names, "--"+o.name)
		}
	}
	return names
}

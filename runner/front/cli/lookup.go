package cli

import (
	"cmp"
	"runtime/debug"
	"strings"

	"crew/runner/exec/kernel"
)

// version is the version of a release, which .ci/release has the linker fill in.
var version string

// versionText returns what --version prints: the version of the release or, in any
// other build, the version of the module that the go command has recorded. The form for
// other systems than Linux adds the word portable.
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

// long returns the option with a long name of crew's or of its peers, or nil. If c has
// runs, the option may be one that it does not take.
func (c *command) long(name string) *option {
	return c.option(name, func(o *option) bool { return sameName(o.name, name) })
}

// short is like long, for a letter.
func (c *command) short(letter byte) *option {
	return c.option(string(letter), func(o *option) bool { return strings.IndexByte(o.short, letter) >= 0 })
}

// option returns the option for which is holds, or which peers spell so: one of the command's own or,
// if it has runs, one of theirs.
func (c *command) option(spelled string, is func(*option) bool) (ofRuns *option) {
	for _, o := range options() {
		switch {
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

// long returns the option of runs with a name of crew's or of its peers, or nil.
func long(name string) *option { return commands[0].long(name) }

// optionNames returns the options of the command in their long form.
func (c *command) optionNames() (names []string) {
	for _, o := range options() {
		if c.takes(o) {
			names = append(names, "--"+o.name)
		}
	}
	return names
}

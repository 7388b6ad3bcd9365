package cli

import (
	_ "embed" // the options of peers
	"slices"
	"strings"

	"crew/runner/read/input"
)

// peers has all options of xargs 4.9 and parallel 20221122, some of later versions, and those of make
// and nextest that are looked for, which crew does not have by that name: first what they are here,
// as a name or name=value, and then what to do instead of those that crew does without.
//
//go:embed peers.txt
var peers string

// What is between the names of an option of peers, separated by blanks, and what it is here or what to
// do instead. A dash within a name does not count.
const (
	meansOption = " = "
	meansAdvice = ": "
)

// peer returns what there is about an option of peers, or about an option of crew with a value of theirs,
// as name=value, or "".
func lookupPeer(name, about string) string {
	for line := range strings.Lines(peers) {
		names, says, _ := strings.Cut(strings.TrimSpace(line), about)
		if says != "" && slices.ContainsFunc(strings.Fields(names), func(s string) bool { return s == name || !strings.Contains(s, "=") && sameName(s, name) }) {
			return says
		}
	}
	return ""
}

// accepted returns the option that peers spell name, or nil.
func peerOption(name string) *option {
	known := lookupPeer(name, meansOption)
	switch {
	case known == "":
		return nil
	case strings.Contains(known, "="):
		return &option{name: name, means: known}
	}
	return long(known)
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
	if u == nil || u.spelled != "-L" && u.spelled != "--max-lines" || slices.ContainsFunc(o.Input.Groups, values) || o.Any("null delimiter colsep csv") {
		return ""
	}
	return u.spelled
}

package cli

import (
	_ "embed" // the options of peers
	"slices"
	"strings"

	"crew/runner/read/input"
)

// peers lists options of other tools that crew does not have under the same name: all options of xargs 4.9
// and parallel 20221122, some of later versions, and options of make and nextest that users look for. The
// first lines map them to an option of crew, as name or name=value. The other lines say what to do instead.
//
//go:embed peers.txt
var peers string

// The separators in lines of peers. They stand between the names of a foreign option and what follows: the
// same option of crew, or advice. Dashes inside a name do not count.
const (
	meansOption = " = "
	meansAdvice = ": "
)

// lookupPeer returns what peers says about an option of another tool, or about name=value for an option of
// crew with a value that another tool takes, or "". about is meansOption or meansAdvice.
func lookupPeer(name, about string) string {
	for line := range strings.Lines(peers) {
		names, says, _ := strings.Cut(strings.TrimSpace(line), about)
		if says != "" && slices.ContainsFunc(strings.Fields(names), func(s string) bool { return s == name || !strings.Contains(s, "=") && sameName(s, name) }) {
			return says
		}
	}
	return ""
}

// peerOption returns the option that other tools call name, or nil.
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

// WholeLines returns -L as it was typed if the user may expect it to split lines at blanks, as xargs does,
// otherwise "".
func (o *Options) WholeLines() string {
	u := o.given("max-args")
	values := func(g input.Group) bool { return g.File == "" }
	if u == nil || u.spelled != "-L" && u.spelled != "--max-lines" || slices.ContainsFunc(o.Input.Groups, values) || o.Any("null delimiter colsep csv") {
		return ""
	}
	return u.spelled
}

// sameName reports whether two names differ only in dashes, like dry-run and dryrun.
func sameName(a, b string) bool {
	for a != "" && b != "" && a[0] == b[0] {
		a, b = strings.TrimLeft(a[1:], "-"), strings.TrimLeft(b[1:], "-")
	}
	return a == b
}

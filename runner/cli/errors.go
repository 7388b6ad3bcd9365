package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"crew/runner/task"
)

// usageError is a mistake in how crew was called, found before anything was
// opened or run.
type usageError struct {
	msg  string // what is wrong
	hint string // what to write instead; names an option where one helps; "" where msg says it all
}

// Error is the message and the hint on one line.
func (e *usageError) Error() string {
	if e.hint == "" {
		return e.msg
	}
	return e.msg + ": " + e.hint
}

// complain prints err as crew's one line about it and returns the exit status
// that goes with it: 2 for a mistake in usage, 1 for anything else.
func complain(w io.Writer, err error) int {
	// Nothing can be said when stderr itself is gone; the status still tells.
	_, _ = fmt.Fprintf(w, "crew: %v\n", err)
	if isUsage(err) {
		return statusUsage
	}
	return statusTrouble
}

// isUsage says whether err is, or wraps, a mistake in usage.
func isUsage(err error) bool {
	var u *usageError
	return errors.As(err, &u)
}

// whyNoShell is the hint for a command that is not found, where its first word
// was meant for a shell.
func (c Command) whyNoShell() string {
	if len(c.Words) < 2 || !strings.ContainsAny(c.Words[0], " \t\n;&|<>$`") {
		return ""
	}
	return "; words run without a shell: write " + task.Quote(strings.Join(c.Words, " ")) + " for one"
}

// Package report writes what CI servers read about a run: a JUnit report, workflow
// commands and a summary in Markdown.
package report

import (
	"cmp"
	"fmt"
	"strings"

	"crew/runner/task"
)

const (
	nameBytes    = 1000 // of the name of a test case, at most
	commandBytes = 200  // of a command
	traceLines   = 20   // of the end of an output
)

// label returns the text that identifies a task: its tag, its records or, without any,
// its command or number.
func label(t *task.Task, r *task.Result) string {
	if t.Tag != "" {
		return t.TagOn(r.Worker, r.Host, r.Units)
	}
	if t.Block != nil {
		return t.Block.Place()
	}
	var words []string
	for _, columns := range t.Records {
		words = append(words, columns...)
	}
	if name := strings.Join(words, " "); t.Object == "" && strings.TrimSpace(name) != "" {
		return name
	}
	return cmp.Or(command(t, r), fmt.Sprintf("task %d", t.ID))
}

// command returns the start of a task's command.
func command(t *task.Task, r *task.Result) string {
	return t.ShortCommandLine(t.ArgvIn(r), commandBytes)
}

// Package report writes reports of a run for CI servers: JUnit XML, workflow commands and a summary in
// Markdown.
package report

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"crew/runner/decide/task"
	"crew/runner/keep/trust"
)

const (
	nameBytes    = 1000 // longest name of a test case
	commandBytes = 200  // longest command
	traceLines   = 20   // lines of the end of an output
)

// command returns the start of a task's command.
func command(t *task.Task, r *task.Result) string {
	return t.ShortCommandLine(t.ArgvIn(r), commandBytes)
}

// maxSummary is GitHub's limit for the file of a step's summary.
const maxSummary = 1 << 20

// escapeHTML escapes text inside <pre>, where Markdown does not apply.
var escapeHTML = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// summary returns the summary of the run in Markdown. Output of tasks is in <pre>, so it is shown
// unchanged.
func (c *CI) summary(s *task.Stats) string {
	n, what := s.ByOutcome[task.OK], "succeeded"
	if failed := s.Failed(); failed > 0 {
		n, what = failed, "failed"
	}
	if skipped := s.ByOutcome[task.Skipped]; skipped > 0 {
		what += fmt.Sprintf(", %d skipped,", skipped)
	}
	text := fmt.Sprintf("### crew: %d of %s %s in %s\n\n", n, task.Count(s.Admitted, "task"), what, task.Span(s.Elapsed(s.Last)))
	pre := func(t string) string { return "<pre>" + escapeHTML.Replace(t) + "</pre>\n\n" }
	if c.cfg.Command != "" {
		text += pre(task.Printable(task.Shorten(c.cfg.Command, commandBytes)))
	}
	if digest := cmp.Or(c.cfg.Digest(), c.failure); digest != "" {
		text += pre("\n" + digest)
	}
	if c.flaky != nil {
		text += fmt.Sprintf("#### Flaky: %d\n\n", s.Flaky) + pre("\n"+lines(c.flaky))
	}
	if c.slowest != nil {
		text += "#### Slowest\n\n" + pre("\n"+lines(c.slowest))
	}
	return text
}

// appendSummary appends text to the file of a step's summary. It returns an error if the file would
// become too large for GitHub to show, or is a FIFO without a reader.
func appendSummary(path, text string) error {
	f, err := trust.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|syscall.O_NONBLOCK, 0o666)
	if err != nil {
		return fmt.Errorf("%w: set GITHUB_STEP_SUMMARY to a file that can be written, or give --ci none", err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	if st.Size()+int64(len(text)) > maxSummary {
		return errors.New(path + " is full: GitHub shows no more than 1 MiB")
	}
	_, err = f.WriteString(text)
	return err
}

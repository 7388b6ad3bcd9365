package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"crew/runner/decide/task"
)

const (
	ciTasks   = 10 // failed tasks that have an annotation, as GitHub shows no more; and tasks in each list of the summary
	ciSlowest = 5
	ciLines   = 5 // of the output of each
)

// CIConfig configures a CI.
type CIConfig struct {
	Command string // of the run, as it was typed
	Dir     string // working directory of tasks that have none of their own
	Root    string // of the repository, which annotations name files from; "" for Dir
	Summary string // file to which the summary is appended; "" for none

	Say    func(text string) // prints whole lines on stderr
	Notice func(text string) // prints a line of crew's own
}

// CI tells GitHub Actions what has failed: as annotations, which are lines on stderr,
// and in a summary in Markdown. It says so when the run is over. What it keeps until
// then is bounded.
type CI struct {
	cfg           CIConfig
	failed, flaky []told
	slowest       []told // the slowest first
}

// told is a task that the annotations or the summary tell of.
type told struct {
	id         uint64
	took       time.Duration
	text       string // of the summary
	annotation string
}

// NewCI returns a CI.
func NewCI(cfg CIConfig) *CI { return &CI{cfg: cfg} }

// Consume notes the tasks to tell of. It never returns an error.
func (c *CI) Consume(events []task.Event) error {
	for i := range events {
		switch e := &events[i]; {
		case e.Kind == task.Retried:
			e.Result.Tail = []byte(strings.Join(outputEnd(e.Result), "\n")) // the outputs are closed when the task ends
		case e.Kind == task.Finished && !e.Result.Known():
			c.finished(e.Task, e.Result)
		}
	}
	return nil
}

func (c *CI) finished(t *task.Task, r *task.Result) {
	tell := func(what string, lines []string) told {
		x := told{id: t.ID, took: r.Duration(), text: fmt.Sprintf("task %d: %s: %s\n", t.ID, what, printable(t, r))}
		for _, l := range lines {
			x.text += "  | " + l + "\n"
		}
		return x
	}
	if took := r.Duration(); took > 0 && (len(c.slowest) < ciSlowest || took > c.slowest[ciSlowest-1].took) {
		c.slowest = append(c.slowest, tell(task.Span(took), nil))
		slices.SortStableFunc(c.slowest, func(a, b told) int { return cmp.Compare(b.took, a.took) })
		c.slowest = c.slowest[:min(len(c.slowest), ciSlowest)]
	}
	switch {
	case r.Outcome.Failed() && len(c.failed) < ciTasks:
		lines := outputEnd(r)
		x := tell(r.Verdict(), lines)
		x.annotation = c.annotation(t, r, lines)
		c.failed = append(c.failed, x)
	case r.Flaky() && len(c.flaky) < ciTasks:
		before := r.Failures()
		c.flaky = append(c.flaky, tell(r.FlakyVerdict(), task.LastLines(before[len(before)-1].Tail, ciLines)))
	}
}

// outputEnd returns the last lines of an attempt's output.
func outputEnd(r *task.Result) []string {
	tail, _ := r.OutputTail()
	return task.LastLines(tail, ciLines)
}

func printable(t *task.Task, r *task.Result) string { return task.Printable(command(t, r)) }

// Close prints the annotations and appends the summary. It never returns an error: a
// summary that cannot be written is worth a line, and not a run that fails.
func (c *CI) Close(s task.Stats) error {
	for _, list := range [...][]told{c.failed, c.flaky} {
		slices.SortFunc(list, func(a, b told) int { return cmp.Compare(a.id, b.id) })
	}
	text := ""
	for _, x := range c.failed {
		text += x.annotation
	}
	c.cfg.Say(text)
	if c.cfg.Summary != "" && s.Admitted > 0 {
		if err := appendSummary(c.cfg.Summary, c.summary(&s)); err != nil {
			c.cfg.Notice("write the summary for CI: " + err.Error())
		}
	}
	return nil
}

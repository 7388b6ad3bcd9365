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
	ciTasks   = 10 // failed tasks with an annotation, as GitHub shows no more; also tasks per list of the summary
	ciSlowest = 5  // tasks in the list of the slowest
	ciLines   = 5  // lines of output per task
)

// CIConfig configures a CI.
type CIConfig struct {
	Command string // command line of the run, as typed
	Dir     string // working directory of tasks that have none of their own
	Root    string // root of the repository; paths in annotations are relative to it; "" means Dir
	Summary string // file to which the summary is appended; "" for none

	Say    func(text string) // prints whole lines on stderr
	Notice func(text string) // prints a notice of crew
}

// CI reports the failures of a run to GitHub Actions once the run is over: as annotations, which are
// lines on stderr, and in a summary in Markdown. Its memory is bounded.
type CI struct {
	cfg           CIConfig
	failed, flaky []ciTask
	slowest       []ciTask // the slowest first
}

// ciTask is a task in the annotations or the summary.
type ciTask struct {
	id         uint64
	took       time.Duration
	text       string // for the summary
	annotation string
}

// NewCI returns a CI for one run.
func NewCI(cfg CIConfig) *CI { return &CI{cfg: cfg} }

// Consume collects the tasks to report. It never returns an error.
func (c *CI) Consume(events []task.Event) error {
	for i := range events {
		switch e := &events[i]; {
		case e.Kind == task.Retried:
			e.Result.Tail = []byte(strings.Join(outputEnd(e.Result), "\n")) // the outputs are closed when the task ends
		case e.Kind == task.Finished && !e.Result.FromEarlierRun():
			c.finished(e.Task, e.Result)
		}
	}
	return nil
}

func (c *CI) finished(t *task.Task, r *task.Result) {
	tell := func(what string, lines []string) ciTask {
		x := ciTask{id: t.ID, took: r.Duration(), text: fmt.Sprintf("task %d: %s: %s\n", t.ID, what, printable(t, r))}
		for _, l := range lines {
			x.text += "  | " + l + "\n"
		}
		return x
	}
	if took := r.Duration(); took > 0 && (len(c.slowest) < ciSlowest || took > c.slowest[ciSlowest-1].took) {
		c.slowest = append(c.slowest, tell(task.Span(took), nil))
		slices.SortStableFunc(c.slowest, func(a, b ciTask) int { return cmp.Compare(b.took, a.took) })
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

// Close prints the annotations and appends the summary. It never returns an error: if the summary
// cannot be written, it prints a notice and the run does not fail.
func (c *CI) Close(s task.Stats) error {
	for _, list := range [...][]ciTask{c.failed, c.flaky} {
		slices.SortFunc(list, func(a, b ciTask) int { return cmp.Compare(a.id, b.id) })
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

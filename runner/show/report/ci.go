package report

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"crew/runner/decide/task"
)

const (
	ciTasks   = 10 // failed tasks with an annotation, as GitHub shows no more; also flaky tasks in the summary
	ciSlowest = 5  // tasks in the list of the slowest
	ciLines   = 5  // lines of output per task
)

// CIConfig configures a CI.
type CIConfig struct {
	Command string // command line of the run, as typed
	Dir     string // working directory of tasks that have none of their own
	Root    string // root of the repository; paths in annotations are relative to it; "" means Dir
	Summary string // file to which the summary is appended; "" for none

	Digest func() string     // text about failed and flaky tasks, called by Close
	Say    func(text string) // prints whole lines on stderr
	Notice func(text string) // prints a notice of crew
}

// CI reports the failures of a run to GitHub Actions once the run is over: as annotations, which are
// lines on stderr, and in a summary in Markdown. Its memory is bounded.
type CI struct {
	cfg     CIConfig
	failed  []ciTask // with an annotation
	flaky   []ciTask
	slowest []ciTask // the slowest first
	failure string   // the first failure, for the summary of a run that has no digest
}

// ciTask is a task with a line in the annotations or the summary.
type ciTask struct {
	id   uint64
	took time.Duration
	line string
}

// NewCI returns a CI for one run.
func NewCI(cfg CIConfig) *CI { return &CI{cfg: cfg} }

// Consume collects the tasks to report. It never returns an error.
func (c *CI) Consume(events []task.Event) error {
	for i := range events {
		if e := &events[i]; e.Kind == task.Finished && !e.Result.FromEarlierRun() {
			c.finished(e.Task, e.Result)
		}
	}
	return nil
}

func (c *CI) finished(t *task.Task, r *task.Result) {
	line := func(what string) string { return fmt.Sprintf("task %d: %s: %s\n", t.ID, what, printable(t, r)) }
	if took := r.Duration(); took > 0 && (len(c.slowest) < ciSlowest || took > c.slowest[ciSlowest-1].took) {
		c.slowest = append(c.slowest, ciTask{t.ID, took, line(task.Span(took))})
		slices.SortStableFunc(c.slowest, func(a, b ciTask) int { return cmp.Compare(b.took, a.took) })
		c.slowest = c.slowest[:min(len(c.slowest), ciSlowest)]
	}
	switch {
	case r.Outcome.Failed() && len(c.failed) < ciTasks:
		c.failed = append(c.failed, ciTask{id: t.ID, line: c.annotation(t, r)})
		c.failure = cmp.Or(c.failure, line(r.Verdict()))
	case r.Flaky() && len(c.flaky) < ciTasks:
		c.flaky = append(c.flaky, ciTask{id: t.ID, line: line(r.FlakyVerdict())})
	}
}

func printable(t *task.Task, r *task.Result) string { return task.Printable(command(t, r)) }

// Close prints the annotations and appends the summary. It never returns an error: if the summary
// cannot be written, it prints a notice and the run does not fail.
func (c *CI) Close(s task.Stats) error {
	for _, list := range [...][]ciTask{c.failed, c.flaky} {
		slices.SortFunc(list, func(a, b ciTask) int { return cmp.Compare(a.id, b.id) })
	}
	c.cfg.Say(lines(c.failed))
	if c.cfg.Summary != "" && s.Admitted > 0 {
		if err := appendSummary(c.cfg.Summary, c.summary(&s)); err != nil {
			c.cfg.Notice("write the summary for CI: " + err.Error())
		}
	}
	return nil
}

func lines(list []ciTask) (text string) {
	for _, x := range list {
		text += x.line
	}
	return text
}

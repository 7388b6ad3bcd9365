package sink

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"crew/runner/decide/task"
)

const (
	digestTasks        = 10  // failed tasks that are shown
	digestLines        = 5   // lines of output for each
	digestAttempts     = 3   // earlier attempts for each
	digestEarlierLines = 2   // lines of output for each earlier attempt
	digestFlaky        = 3   // flaky tasks that are shown, and tasks that wait for a retry
	digestCommand      = 200 // bytes of a command
	digestSubject      = 60  // bytes of a command in the first line, which may become the subject of a mail
	digestAlikeTasks   = 5   // tasks named that failed like another one
	digestLabel        = 30  // bytes of the name of each
	digestLongRun      = time.Second
	digestCountWait    = 500 * time.Millisecond // how long to wait for the number of tasks
)

// Digest prints a summary on stderr when the run is over: the failures and how to run them again
// and, if the run ended early, how many tasks were done and how to continue. After a run without
// failures, it prints something only if tasks were flaky or left processes behind or, on a
// terminal, if the run took a second or more or skipped tasks.
//
// It keeps the text of ten failures, so its memory is bounded, and shows them in input order. Of
// failures that differ only in the task, it shows the first one and the number of others. It
// ignores errors of stderr.
type Digest struct {
	// FailedOnly means to print nothing if every task succeeded. Set it before Consume.
	FailedOnly bool
	// FlakyFail means that a flaky task makes the run fail. Set it before Close.
	FlakyFail bool
	// Quiet means to print nothing; the digest is available from Text. Set it before Close.
	Quiet bool
	// MissingHosts returns lines about machines that could not be used. It may be nil. Set it
	// before Close.
	MissingHosts func() []string
	// Stats are the totals of the run. Close sets them.
	Stats task.Stats

	// state

	screen        *Screen
	input         Input
	rerun         rerun
	failures      []failure // the first tasks that failed, or did not run because others failed
	waiting       []failure // the first tasks that were still waiting for a retry
	flaky         []failure // the first tasks that failed and then succeeded
	failedBefore  int64     // number of failures in earlier runs
	unretried     int64     // number of tasks that were still waiting for a retry
	unreplaced    int64     // how many of these had a last attempt that was lost or ended for memory
	cancelled     int64     // tasks that a command cancelled
	skippedByDeps int64     // tasks that did not run because they depend on others
	leaks         leftovers // processes that held a task's output open
	killed        leftovers // processes that were killed when their task ended
	daemons       leftovers // processes that became daemons and were left alone
	cut           leftovers // tasks that lost output
	cause         string    // why the run drains; see task.Event.Text
	moreInput     bool      // the input was not read to its end and may have more tasks
	badCommand    bool      // a command could not be executed at all
	hasDeps       bool      // a list of the failures would lack tasks that they depend on
	printed       string    // the text that Close printed, or would have printed if not Quiet
}

// failure is a failed task, or another one that the digest describes, and its text.
type failure struct {
	id          uint64
	short       string // its command as the first line shows it
	text        string
	likeness    string   // equal for tasks that failed in the same way; see likenessOf
	alike       int64    // number of other tasks that failed in the same way
	alikeLabels []string // labels of the first of these
}

// NewDigest returns a Digest that writes to screen. If cfg.Line is nil, it does not say how to run
// the failed tasks again.
func NewDigest(screen *Screen, in Input, cfg RerunConfig) *Digest {
	return &Digest{screen: screen, input: in, rerun: rerun{cfg: cfg}}
}

// Consume notes failures. It never returns an error.
func (d *Digest) Consume(events []task.Event) error {
	for i := range events {
		switch e := &events[i]; e.Kind {
		case task.Draining, task.Stopping:
			d.cause = e.Text
			if d.input.Tasks != nil {
				d.input.Tasks(0) // begin to count, so that the number is known at the end
			}
		case task.Admitted:
			d.rerun.noteRead(e.Task)
		case task.InputEnd:
			d.input.Tasks = nil // all tasks have been counted
		case task.Retried:
			tail, _ := e.Result.OutputTail() // the output will be closed when the task is finished
			e.Result.Tail = []byte(strings.Join(task.LastLines(tail, digestLines), "\n"))
		case task.Finished:
			d.finished(e)
		}
	}
	return nil
}

func (d *Digest) finished(e *task.Event) {
	t, r := e.Task, e.Result
	switch o := r.Outcome; {
	case o.Failed() && r.Earlier:
		d.failedBefore++
	case o.Failed():
		d.badCommand = d.badCommand || r.BadCommand
		d.addToRerun(t)
		d.noteFailure(t, r)
	case r.FromEarlierRun():
	case r.Flaky():
		d.flaky = describeEarlier(d.flaky, fmt.Sprintf("flaky task %d: %s", t.ID, r.FlakyVerdict()), t, r)
	case o == task.Cancelled && r.Final:
		d.cancelled++
	case o == task.NotRun, o == task.Cancelled:
		d.addToRerun(t)
		if o == task.Cancelled {
			break
		}
		if r.Final {
			d.skippedByDeps++
			d.noteFailure(t, r)
		} else if n := len(r.Before); n > 0 {
			last := r.Before[n-1]
			if d.unretried++; last.Outcome.Replaced() {
				d.unreplaced++
			}
			d.waiting = describeEarlier(d.waiting, fmt.Sprintf("task %d waits for a retry: %s", t.ID, last.Verdict()+task.AttemptSuffix(last.Attempt)), t, r)
		}
	}
	for _, a := range append(r.Before[:len(r.Before):len(r.Before)], r) {
		if r.FromEarlierRun() || a != r && a.Earlier {
			continue
		}
		d.killed.add(t.ID, a.Left != "", a.Left)
		d.leaks.add(t.ID, a.Leaked && a.Left == "", "")
		d.daemons.add(t.ID, a.Daemons != "", a.Daemons)
		if a.Cut > 0 { // Size takes longer than all else here
			d.cut.add(t.ID, true, task.Size(a.Cut))
		}
	}
}

// addToRerun adds t to the tasks to run again.
func (d *Digest) addToRerun(t *task.Task) {
	d.rerun.add(t)
	d.hasDeps = d.hasDeps || len(t.Terms().Awaited()) > 0
}

// noteFailure notes a failure, if it is one of the first or similar to one of these.
func (d *Digest) noteFailure(t *task.Task, r *task.Result) {
	like := likenessOf(r)
	i := slices.IndexFunc(d.failures, func(f failure) bool { return f.likeness == like })
	switch {
	case i < 0 && len(d.failures) < digestTasks:
		d.failures = append(d.failures, d.describe(t, r, like))
	case i >= 0:
		f := &d.failures[i]
		if f.alike++; f.alike <= digestAlikeTasks {
			f.alikeLabels = append(f.alikeLabels, t.Label(digestLabel))
		} else if f.alike == digestAlikeTasks+1 {
			f.alikeLabels = append(f.alikeLabels, "…")
		}
	}
}

// likenessOf returns a text that is equal for failures that differ only in the task and the time.
func likenessOf(r *task.Result) string {
	tail, _ := r.OutputTail()
	why := ""
	if r.Err != nil {
		why = r.Err.Error()
	}
	like := fmt.Sprintln(r.Outcome, r.Code, r.Signal, r.Host, why) + quoted(tail, digestLines)
	for _, a := range r.Before {
		like += fmt.Sprintln(a.Outcome, a.Code, a.Signal, a.Earlier) + quoted(a.Tail, digestEarlierLines)
	}
	return like
}

// Close prints the digest. It never returns an error. It prints no failures if the run ended
// because its command cannot be executed at all, which cli reports.
func (d *Digest) Close(s task.Stats) error {
	if d.Stats, d.printed = s, d.report(s); !d.Quiet {
		d.screen.Say(d.printed)
	}
	return nil
}

// Text returns the digest without colours, or "" if there is none. Call it after Close.
func (d *Digest) Text() string { return uncoloured(d.printed) }

// TotalsLine returns the line with the totals of the run, likewise. Call it after Close.
func (d *Digest) TotalsLine() string { return uncoloured(d.firstLine(&d.Stats)) }

func uncoloured(text string) string { return string(task.Uncoloured([]byte(text))) }

// report returns the text that Close prints.
func (d *Digest) report(s task.Stats) string {
	switch {
	case d.badCommand && s.Draining && d.cause == "" && s.Failed() == s.ByOutcome[task.StartFailed] && s.ByOutcome[task.OK] == 0:
		d.rerun.removeFile()
		return d.hostLines(&s)
	case d.cause == brokenPipe: // expected in a pipe: print only how much was not done
		d.rerun.removeFile()
		if line, short, _ := d.unfinished(&s); short {
			return "crew: stdout was closed: " + task.Printable(line) + "\n"
		}
		return ""
	}
	for _, list := range [...][]failure{d.failures, d.waiting, d.flaky} { // in input order
		slices.SortFunc(list, func(a, b failure) int { return cmp.Compare(a.id, b.id) })
	}
	text := ""
	line, short, left := d.unfinished(&s)
	skipped := s.WithoutEarlier().ByOutcome[task.Skipped]
	long := s.Admitted > 0 && s.Elapsed(s.Last) >= digestLongRun
	switch ok := s.Failed() == 0; {
	case short:
		text = "crew: " + line + "\n"
	case ok && d.FailedOnly && !(d.FlakyFail && s.Flaky > 0):
		return ""
	case !ok, s.Flaky > 0, (long || skipped > 0) && isTerminal(d.screen.err.w):
		text = d.firstLine(&s)
	}
	more := s.Failed() + d.skippedByDeps - d.failedBefore
	for _, f := range d.failures {
		text += f.text + f.alikeLine()
		more -= 1 + f.alike
	}
	if more > 0 {
		text += fmt.Sprintf("crew: … and %d more\n", more)
	}
	if d.failedBefore > 0 {
		text += fmt.Sprintf("crew: %d failed in an earlier run", d.failedBefore)
		if d.rerun.cfg.Line != nil {
			text += ": --retry-failed runs " + them(d.failedBefore) + " again"
		}
		text += "\n"
	}
	for _, f := range slices.Concat(d.waiting, d.flaky) {
		text += f.text
	}
	text += d.leaks.text("left processes that kept the output open%s")
	text += d.killed.text("left processes behind, which were killed%s: use setsid for processes that should stay")
	text += d.daemons.text("left daemons running%s")
	text += d.cut.text("lost output beyond --output-max%s")
	return text + d.hostLines(&s) + d.nextSteps(&s, short && left)
}

// nextSteps says how to run the tasks that did not succeed again: "run it again: …", by rerun.lines, with
// the command line of cli.Rerun.Line. early means that the run ended early
// and another one can continue it.
func (d *Digest) nextSteps(s *task.Stats, early bool) string {
	if early && d.input.Resumable {
		d.rerun.removeFile()
		if d.rerun.cfg.State && s.Failed() > 0 {
			return "crew: to resume, run the same command again; add --retry-failed to retry failures, too\n"
		}
		return "crew: to resume, run the same command again\n"
	}
	rest := ""
	if early && d.moreInput {
		rest = d.rerun.unreadLine()
	}
	if d.hasDeps {
		d.rerun.discardAll("their dependencies would be missing")
	}
	return d.rerun.lines() + rest
}

// hostLines returns lines about missing machines, unless no task needed a machine.
func (d *Digest) hostLines(s *task.Stats) (text string) {
	if d.MissingHosts == nil || s.Admitted > 0 && s.ByOutcome[task.Skipped] == s.Admitted {
		return ""
	}
	for _, line := range d.MissingHosts() {
		text += "crew: " + task.Printable(line) + "\n"
	}
	return text
}

// unfinished describes the tasks of a run that did not run all of them. short is false if the run
// was complete, and left reports whether another run could continue it.
func (d *Digest) unfinished(s *task.Stats) (line string, short, left bool) {
	if !s.Draining && s.InputEnd && s.ByOutcome[task.NotRun]+s.ByOutcome[task.Cancelled] == 0 {
		return "", false, false
	}
	n := d.input.Tally(s, digestCountWait)
	d.moreInput = !s.InputEnd && (!n.Known || n.Total > s.Admitted)
	if d.input.Elsewhere && strings.HasPrefix(d.cause, "SIG") {
		return fmt.Sprintf("%d of %s shown; the run was not stopped, and the same command shows it from the beginning",
			n.Done, task.Count(n.Total, "task")), true, false
	}
	waiting := n.waiting - d.unretried - d.skippedByDeps
	if n.Known && n.cancelled+n.waiting == 0 {
		return "", false, false
	}
	least := ""
	switch {
	case n.Known:
	case n.Total == 0:
		return "interrupted before any task was read", true, false
	default:
		least = "at least "
	}
	line = fmt.Sprintf("%d of %s%s done in %s", n.Done-s.Failed(), least, task.Count(n.Total, "task"), task.Span(s.Elapsed(s.Last)))
	line += d.counts(s, n.doneBefore, item{s.Failed(), "%d failed"}, item{n.cancelled - d.cancelled, "%d interrupted"},
		item{d.cancelled, "%d cancelled"}, item{d.unretried, "%d waiting for a retry"}, item{d.skippedByDeps, "%d not run"}, item{waiting, least + "%d not started"})
	if !n.Known && n.waiting == 0 {
		line += ", the rest of the input not read"
	}
	return line, true, !n.Known || n.cancelled+n.waiting > d.cancelled+d.skippedByDeps
}

// item is one of the numbers in a line.
type item struct {
	n    int64
	text string // contains %d for n
}

// counts lists the items that are not 0, and the usual numbers, after a semicolon.
func (d *Digest) counts(s *task.Stats, before int64, items ...item) (line string) {
	restarted := s.Lost - s.ByOutcome[task.Lost] + s.EndedForMemory - s.ByOutcome[task.Memory] - d.unreplaced // attempts that replaced others
	skipped := s.WithoutEarlier().ByOutcome[task.Skipped]
	sep := "; "
	flaky := "%d flaky"
	if d.FlakyFail {
		flaky += " (failures by --flaky-fail)"
	}
	for _, x := range append(items, item{s.Retried, "%d retried"}, item{s.Flaky, flaky},
		item{restarted, "%d restarted"}, item{skipped, "%d skipped"}, item{before, "%d done before"}) {
		if x.n > 0 {
			line += fmt.Sprintf(sep+x.text, x.n)
			sep = ", "
		}
	}
	return line
}

// firstLine returns the first line about a run that was not cut short.
func (d *Digest) firstLine(s *task.Stats) string {
	line, command := task.Count(s.Admitted, "task"), ""
	if failed := s.Failed(); failed > 0 {
		line = d.screen.red(fmt.Sprintf("%d of %s failed", failed, line))
	}
	if len(d.failures) > 0 && d.failures[0].short != "" {
		command = ": " + d.failures[0].short
		if s.Failed() > 1 {
			command += ", …"
		}
	}
	return "crew: " + line + " in " + task.Span(s.Elapsed(s.Last)) + d.counts(s, s.Resumed()) + command + "\n"
}

// describe returns the text about a failure: a line about the task, the end of its output, and the
// earlier attempts that ended in another way or with other output.
func (d *Digest) describe(t *task.Task, r *task.Result, like string) failure {
	short := t.ShortCommandLine(t.ArgvIn(r), digestSubject)
	short = task.Printable(cmp.Or(t.LabelBeside(short), short))
	short = task.Shorten(strings.ReplaceAll(short, "\t", " "), digestSubject)

	cmd, record := t.ShortCommandLine(t.ArgvIn(r), digestCommand), ""
	if !t.NoArgs && t.Block == nil && t.Protocol == task.NoProtocol { // otherwise the rest of the line identifies the task
		if record = t.LabelBeside(cmd); record != "" {
			record = " (" + record + ")"
		}
	}
	text := "crew: " + d.screen.red(fmt.Sprintf("task %d%s: %s", t.ID, record, r.Verdict()+task.AttemptSuffix(r.Attempt)))
	if t.Block != nil {
		text += ", " + task.Printable(t.Block.Place())
	}
	text += afterColon(cmd) + "\n"
	tail, err := r.OutputTail()
	if err != nil {
		text += "crew:   its output cannot be read: " + task.Printable(err.Error()) + "\n"
	}
	text += quoted(tail, digestLines)
	if n := r.EarlierAttempts(); n > digestAttempts {
		text += "crew:   " + task.Count(int64(n), "earlier attempt") + "\n"
	}
	last := quoted(tail, digestEarlierLines)
	for _, a := range r.Before[max(0, len(r.Before)-digestAttempts):] {
		lines := quoted(a.Tail, digestEarlierLines)
		if a.Outcome == r.Outcome && a.Code == r.Code && a.Signal == r.Signal && (lines == last || a.Earlier) {
			continue
		}
		text += fmt.Sprintf("crew:   attempt %d: %s\n", a.Attempt, a.Verdict())
		if lines != last {
			text += lines
		}
	}
	return failure{id: t.ID, short: short, text: text, likeness: like}
}

// alikeLine returns a line about the other tasks that failed in the same way, or "".
func (f *failure) alikeLine() string {
	if f.alike == 0 {
		return ""
	}
	return "crew:   and " + task.Count(f.alike, "more task") + " with the same result: " + strings.Join(f.alikeLabels, ", ") + "\n"
}

// describeEarlier adds a text about a task that failed before its last result r, if the list has
// room: text, the command, and the end of the output of the last failed attempt.
func describeEarlier(list []failure, text string, t *task.Task, r *task.Result) []failure {
	if len(list) == digestFlaky {
		return list
	}
	text = "crew: " + text + afterColon(t.ShortCommandLine(t.ArgvIn(r), digestCommand)) + "\n"
	return append(list, failure{id: t.ID, text: text + quoted(r.Before[len(r.Before)-1].Tail, digestEarlierLines)})
}

// afterColon returns a colon and the command, or "" if the command is empty.
func afterColon(cmd string) string {
	if cmd == "" {
		return ""
	}
	return ": " + task.Printable(cmd)
}

// quoted formats the last n lines of an output.
func quoted(tail []byte, n int) (text string) {
	for _, l := range task.LastLines(tail, n) {
		text += "crew:   | " + l + "\n"
	}
	return text
}

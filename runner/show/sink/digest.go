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
	digestTasks   = 10  // failed tasks that are described
	digestLines   = 5   // lines of its output for each
	digestBefore  = 3   // earlier attempts for each
	digestFew     = 2   // lines of output for each of these
	digestFlaky   = 3   // flaky tasks that are named, and tasks that wait for a retry
	digestCommand = 200 // bytes of a command
	digestSubject = 60  // bytes of a command in the first line, which may become a mail's subject
	digestAlike   = 5   // tasks that are named of those that failed like another one
	digestLabel   = 30  // bytes of the name of each
	digestLong    = time.Second
	digestCount   = 500 * time.Millisecond // how long to wait for the number of tasks
)

// Digest says on stderr, when the run is over, what failed and how to run it
// again, and after a run that has ended early what became of all tasks and how to go
// on. After a run without failures it prints something else only if tasks were flaky or
// left something behind, and on a terminal if the run took a second or more, or skipped tasks.
//
// It keeps ten failures as short text, so its memory is bounded, and shows them in input
// order. Of failures that differ in nothing but the task, it shows the first one and says
// how many are alike. Errors of stderr are ignored.
type Digest struct {
	// FailedOnly, which may be set before Consume, means to print nothing after a run in
	// which every task succeeded.
	FailedOnly bool
	// FlakyFail, which may be set before Close, means that the run fails if a task is flaky.
	FlakyFail bool
	// Quiet, which may be set before Close, means to print nothing at all: only Text tells.
	Quiet bool
	// FailuresShown, which may be set before Close, means that each failure had a line of its own when
	// it happened, so the first line names none.
	FailuresShown bool
	// MissingHosts, which may be set before Close, returns lines about machines that were
	// not there.
	MissingHosts func() []string
	// Stats are the totals of the run, after Close.
	Stats task.Stats

	screen *Screen
	input  Input
	rerun  rerun
	failed []described // the first tasks that failed, or were not run since others did
	waits  []described // the first tasks that did not get the retry they were waiting for
	flaky  []described // the first tasks that failed and then passed
	before int64       // failures that an earlier run has shown
	undone int64       // the number of waits
	gone   int64       // those of them whose last attempt another would have replaced
	ended  int64       // tasks that a command cancelled
	vain   int64       // tasks that were not run since they come after others
	leaks  remains     // left behind by tasks, and held their output
	left   remains     // left behind by tasks, and killed
	stays  remains     // made itself a daemon, and stays
	why    string      // why the run drains; see task.Event
	unread bool        // the input was not read to its end, and there may be more
	first  string      // what its first line says of the command that failed
	bad    bool        // a command could not be executed at all
	tied   bool        // a list of tasks would lack some that they come after
	told   string      // what Close has printed, or would have
}

// described is a failed task and what the digest shows of it.
type described struct {
	id    uint64
	short string // its command, as the first line has it
	text  string
	like  string   // what tasks that failed alike share; see likeness
	more  int64    // of these
	some  []string // the labels of the first ones
}

// NewDigest returns a Digest that writes through screen. If cfg.Line is nil, it
// does not say how to run the failed tasks again.
func NewDigest(screen *Screen, in Input, cfg RerunConfig) *Digest {
	return &Digest{screen: screen, input: in, rerun: rerun{cfg: cfg}}
}

// Consume notes what has failed. It never returns an error.
func (d *Digest) Consume(events []task.Event) error {
	for i := range events {
		switch e := &events[i]; e.Kind {
		case task.Draining, task.Stopping:
			d.why = e.Text
			if d.input.Tasks != nil {
				d.input.Tasks(0) // so the number is known in the end
			}
		case task.Admitted:
			d.rerun.read(e.Task)
		case task.InputEnd:
			d.input.Tasks = nil // all are counted
		case task.Retried:
			tail, _ := e.Result.OutputTail() // which will be closed when the task is finished
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
		d.before++
	case o.Failed():
		d.bad = d.bad || r.BadCommand
		d.again(t)
		d.fail(t, r)
	case r.Known():
	case r.Flaky():
		d.flaky = describeEarlier(d.flaky, fmt.Sprintf("flaky task %d: %s", t.ID, r.FlakyVerdict()), t, r)
	case o == task.Cancelled && r.Final:
		d.ended++
	case o == task.NotRun, o == task.Cancelled:
		d.again(t)
		if o == task.Cancelled {
			break
		}
		if r.Final {
			d.vain++
			d.fail(t, r)
		} else if n := len(r.Before); n > 0 {
			last := r.Before[n-1]
			if d.undone++; last.Outcome.Replaced() {
				d.gone++
			}
			d.waits = describeEarlier(d.waits, fmt.Sprintf("task %d waits for a retry: %s", t.ID, last.Verdict()+task.LaterAttempt(last.Attempt)), t, r)
		}
	}
	for _, a := range append(r.Before[:len(r.Before):len(r.Before)], r) {
		if r.Known() || a != r && a.Earlier {
			continue
		}
		d.left.add(t.ID, a.Left != "", a.Left)
		d.leaks.add(t.ID, a.Leaked && a.Left == "", "")
		d.stays.add(t.ID, a.Daemons != "", a.Daemons)
	}
}

// again has a task run again.
func (d *Digest) again(t *task.Task) {
	d.rerun.add(t)
	d.tied = d.tied || len(t.Terms().After) > 0
}

// fail notes a failure, if it is one of the first or like one of them.
func (d *Digest) fail(t *task.Task, r *task.Result) {
	like := likeness(r)
	i := slices.IndexFunc(d.failed, func(f described) bool { return f.like == like })
	switch {
	case i < 0 && len(d.failed) < digestTasks:
		d.failed = append(d.failed, d.describe(t, r, like))
	case i >= 0:
		f := &d.failed[i]
		if f.more++; f.more <= digestAlike {
			f.some = append(f.some, t.Label(digestLabel))
		} else if f.more == digestAlike+1 {
			f.some = append(f.some, "…")
		}
	}
}

// likeness returns what is equal for failures that differ in nothing but the task and its
// time.
func likeness(r *task.Result) string {
	tail, _ := r.OutputTail()
	why := ""
	if r.Err != nil {
		why = r.Err.Error()
	}
	like := fmt.Sprintln(r.Outcome, r.Code, r.Signal, r.Host, why) + quoted(tail, digestLines)
	for _, a := range r.Before {
		like += fmt.Sprintln(a.Outcome, a.Code, a.Signal, a.Earlier) + quoted(a.Tail, digestFew)
	}
	return like
}

// Close prints the digest. It never returns an error. It prints nothing if the run
// ended because its command cannot be executed at all, which cli reports.
func (d *Digest) Close(s task.Stats) error {
	d.Stats, d.told = s, d.all(s)
	text := d.told
	if d.FailuresShown {
		text = strings.Replace(text, d.first+"\n", "\n", 1)
	}
	if !d.Quiet {
		d.screen.Say(text)
	}
	return nil
}

// Text returns the digest after Close, without colours; "" if there was nothing to print.
func (d *Digest) Text() string { return string(task.Uncoloured([]byte(d.told))) }

// TotalsLine returns the line about a run without failures, after Close.
func (d *Digest) TotalsLine() string { return d.head(&d.Stats) }

// all returns what Close prints.
func (d *Digest) all(s task.Stats) string {
	switch {
	case d.bad && s.Draining && d.why == "" && s.Failed() == s.Of(task.StartFailed) && s.Of(task.OK) == 0:
		d.rerun.drop()
		return d.missing(&s)
	case d.why == brokenPipe: // say what did not happen, and no more: few ask for it
		d.rerun.drop()
		if line, short, _ := d.cut(&s); short {
			return "crew: nobody reads stdout any more: " + task.Printable(line) + "\n"
		}
		return ""
	}
	for _, list := range [...][]described{d.failed, d.waits, d.flaky} { // as in the input
		slices.SortFunc(list, func(a, b described) int { return cmp.Compare(a.id, b.id) })
	}
	text := ""
	line, short, left := d.cut(&s)
	_, _, skipped := s.Here()
	long := s.Admitted > 0 && s.Elapsed(s.Last) >= digestLong
	switch ok := s.Failed() == 0; {
	case short:
		text = "crew: " + line + "\n"
	case ok && d.FailedOnly && !(d.FlakyFail && s.Flaky > 0):
		return ""
	case !ok, s.Flaky > 0, (long || skipped > 0) && isTerminal(d.screen.err.w):
		text = d.head(&s)
	}
	more := s.Failed() + d.vain - d.before
	for _, f := range d.failed {
		text += f.text + f.alike()
		more -= 1 + f.more
	}
	if more > 0 {
		text += fmt.Sprintf("crew: … and %d more\n", more)
	}
	if d.before > 0 {
		text += fmt.Sprintf("crew: %d failed in an earlier run", d.before)
		if d.rerun.cfg.Line != nil {
			text += ": --retry-failed runs them again"
		}
		text += "\n"
	}
	for _, f := range slices.Concat(d.waits, d.flaky) {
		text += f.text
	}
	text += d.leaks.text("left something running that held the output open%s")
	text += d.left.text("left processes behind, which were killed%s: start with setsid what is to stay")
	text += d.stays.text("left daemons behind, which stay%s")
	return text + d.missing(&s) + d.goOn(&s, short && left)
}

// goOn says how to run again what has no success, after a run that has or has not ended early.
func (d *Digest) goOn(s *task.Stats, early bool) string {
	if early && d.input.Resumable {
		d.rerun.drop()
		if d.rerun.cfg.State && s.Failed() > 0 {
			return "crew: to go on, give the same command again; --retry-failed runs again what failed, too\n"
		}
		return "crew: to go on, give the same command again\n"
	}
	rest := ""
	if early && d.unread {
		rest = d.rerun.rest()
	}
	if d.tied {
		d.rerun.give("what they come after would be missing")
	}
	return d.rerun.text() + rest
}

// missing returns lines about machines that were not there, unless no task needed any.
func (d *Digest) missing(s *task.Stats) (text string) {
	if d.MissingHosts == nil || s.Admitted > 0 && s.Of(task.Skipped) == s.Admitted {
		return ""
	}
	for _, line := range d.MissingHosts() {
		text += "crew: " + task.Printable(line) + "\n"
	}
	return text
}

// cut returns what became of the tasks of a run that did not run all of them. short
// is false if it did, and left reports whether another run could go on.
func (d *Digest) cut(s *task.Stats) (line string, short, left bool) {
	if !s.Draining && s.InputEnd && s.Of(task.NotRun)+s.Of(task.Cancelled) == 0 {
		return "", false, false
	}
	n := d.input.tally(s, digestCount)
	d.unread = !s.InputEnd && (!n.known || n.total > s.Admitted)
	if d.input.Elsewhere && strings.HasPrefix(d.why, "SIG") {
		return fmt.Sprintf("%d of %s shown; the run is left as it is, and the same command shows it from the beginning",
			n.done, task.Count(n.total, "task")), true, false
	}
	waiting := n.waiting - d.undone - d.vain
	if n.known && n.cancelled+n.waiting == 0 {
		return "", false, false
	}
	least := ""
	switch {
	case n.known:
	case n.total == 0:
		return "interrupted before any task was read", true, false
	default:
		least = "at least "
	}
	line = fmt.Sprintf("%d of %s%s done in %s", n.done-s.Failed(), least, task.Count(n.total, "task"), task.Span(s.Elapsed(s.Last)))
	line += d.list(s, n.before, item{s.Failed(), "%d failed"}, item{n.cancelled - d.ended, "%d interrupted"},
		item{d.ended, "%d cancelled"}, item{d.undone, "%d waiting for a retry"}, item{d.vain, "%d not run"}, item{waiting, least + "%d not started"})
	if !n.known && n.waiting == 0 {
		line += ", the rest of the input not read"
	}
	return line, true, !n.known || n.cancelled+n.waiting > d.ended+d.vain
}

// item is a number of tasks in a list.
type item struct {
	n    int64
	text string // with %d for n
}

// list lists the items that are not 0, and some of every run, behind a semicolon.
func (d *Digest) list(s *task.Stats, before int64, items ...item) (line string) {
	restarted := s.Lost - s.Of(task.Lost) + s.Relieved - s.Of(task.Memory) - d.gone // attempts that took the place of others
	_, _, skipped := s.Here()
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

// head returns the first line about a run that has come to its end.
func (d *Digest) head(s *task.Stats) string {
	line := task.Count(s.Admitted, "task")
	if failed := s.Failed(); failed > 0 {
		line = d.screen.red(fmt.Sprintf("%d of %s failed", failed, line))
	}
	if len(d.failed) > 0 && d.failed[0].short != "" {
		d.first = ": " + d.failed[0].short
		if s.Failed() > 1 {
			d.first += ", …"
		}
	}
	return "crew: " + line + " in " + task.Span(s.Elapsed(s.Last)) + d.list(s, s.Resumed()) + d.first + "\n"
}

// describe returns a failure as the digest shows it: a line about it, the end of its output,
// and the attempts before that ended in another way or with other lines.
func (d *Digest) describe(t *task.Task, r *task.Result, like string) described {
	short := t.ShortCommandLine(t.ArgvIn(r), digestSubject)
	short = task.Printable(cmp.Or(t.Beside(short), short))
	short = task.Shorten(strings.ReplaceAll(short, "\t", " "), digestSubject)

	cmd, record := t.ShortCommandLine(t.ArgvIn(r), digestCommand), ""
	if !t.NoArgs && t.Block == nil && t.Protocol == task.NoProtocol { // else the rest tells it
		if record = t.Beside(cmd); record != "" {
			record = " (" + record + ")"
		}
	}
	text := "crew: " + d.screen.red(fmt.Sprintf("task %d%s: %s", t.ID, record, r.Verdict()+task.LaterAttempt(r.Attempt)))
	if t.Block != nil {
		text += ", " + task.Printable(t.Block.Place())
	}
	text += afterColon(cmd) + "\n"
	tail, err := r.OutputTail()
	if err != nil {
		text += "crew:   its output cannot be read: " + task.Printable(err.Error()) + "\n"
	}
	text += quoted(tail, digestLines)
	if n := r.Tries(); n > digestBefore {
		text += "crew:   " + task.Count(int64(n), "attempt") + " before\n"
	}
	last := quoted(tail, digestFew)
	for _, a := range r.Before[max(0, len(r.Before)-digestBefore):] {
		lines := quoted(a.Tail, digestFew)
		if a.Outcome == r.Outcome && a.Code == r.Code && a.Signal == r.Signal && (lines == last || a.Earlier) {
			continue
		}
		text += fmt.Sprintf("crew:   attempt %d: %s\n", a.Attempt, a.Verdict())
		if lines != last {
			text += lines
		}
	}
	return described{id: t.ID, short: short, text: text, like: like}
}

// alike returns a line about the tasks that failed like this one, if there are any.
func (f *described) alike() string {
	if f.more == 0 {
		return ""
	}
	return "crew:   and " + task.Count(f.more, "more task") + " in the same way: " + strings.Join(f.some, ", ") + "\n"
}

// describeEarlier adds a text about a task with, of how it failed before it got result r,
// its command and the end of its output, if it is one of the first.
func describeEarlier(list []described, text string, t *task.Task, r *task.Result) []described {
	if len(list) == digestFlaky {
		return list
	}
	text = "crew: " + text + afterColon(t.ShortCommandLine(t.ArgvIn(r), digestCommand)) + "\n"
	return append(list, described{id: t.ID, text: text + quoted(r.Before[len(r.Before)-1].Tail, digestFew)})
}

// afterColon returns a command, if there is one, behind a colon.
func afterColon(cmd string) string {
	if cmd == "" {
		return ""
	}
	return ": " + task.Printable(cmd)
}

// quoted returns the last n lines of an output as the digest shows them.
func quoted(tail []byte, n int) (text string) {
	for _, l := range task.LastLines(tail, n) {
		text += "crew:   | " + l + "\n"
	}
	return text
}

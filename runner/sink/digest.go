package sink

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"crew/runner/task"
)

const (
	digestTasks   = 10      // failed tasks that are described
	digestLines   = 5       // lines of stderr of each
	digestTail    = 4 << 10 // bytes of stderr that are looked at for them
	digestBefore  = 3       // earlier attempts of each that are told of
	digestFew     = 2       // lines of stderr of each of these
	digestWidth   = 160     // characters of a line of stderr
	digestCommand = 200     // bytes of a command
	digestLong    = time.Second
)

// Digest says on stderr, when the run is over, what failed and how to run it
// again. It prints nothing after a run without failures, except where tasks
// were cancelled or not run or left something behind, and on a terminal after a
// run of a second or more.
//
// It keeps the first ten failures, each as short text, so its memory does not
// grow with the run, and shows them in the order of input. Errors of stderr are
// ignored.
type Digest struct {
	screen *Screen
	failed []told   // the first failures
	before int64    // failures that an earlier run has shown
	undone int64    // tasks that waited for a retry and got none
	leaks  int64    // tasks that left behind what held their output
	leaked []uint64 // the first of them
	rerun  *rerun
	mute   bool
	bad    bool                // a command could not be executed at all
	untold bool                // why the run drains
	tails  map[uint64][]string // of tasks that are retried: the end of stderr of each attempt that failed
}

// told is what is shown of a failed task.
type told struct {
	id   uint64
	text string
}

// NewDigest makes a Digest that writes through screen. Without cfg.Line there
// is no line to run the failed tasks again.
func NewDigest(screen *Screen, cfg RerunConfig) *Digest {
	d := &Digest{screen: screen, tails: map[uint64][]string{}}
	if cfg.Line != nil {
		d.rerun = &rerun{cfg: cfg}
	}
	return d
}

// Consume takes down what has failed. It never returns an error.
func (d *Digest) Consume(events []task.Event) error {
	for i := range events {
		switch e := &events[i]; e.Kind {
		case task.Draining, task.Stopping:
			d.mute = d.mute || e.Text == brokenPipe
			d.untold = d.untold || e.Kind == task.Draining && e.Text == ""
		case task.Retried:
			tail, _ := stderrTail(e.Result)
			d.tails[e.ID] = append(d.tails[e.ID], fewLines(tail))
		case task.Finished:
			tails := d.tails[e.ID]
			delete(d.tails, e.ID)
			if e.Result.Outcome == task.NotRun && len(e.Result.Before) > 0 {
				d.undone++
			}
			if e.Task.Done == nil && leaked(e.Result) {
				d.leaks++
				if len(d.leaked) < digestTasks {
					d.leaked = append(d.leaked, e.ID)
				}
			}
			if !e.Result.Outcome.Failed() {
				continue
			}
			if e.Result.Earlier {
				d.before++
				continue
			}
			d.bad = d.bad || e.Result.BadCommand
			if len(d.failed) < digestTasks {
				d.failed = append(d.failed, told{e.ID, describe(e.Task, e.Result, tails)})
			}
			if d.rerun != nil {
				d.rerun.add(e.Task)
			}
		}
	}
	return nil
}

// leaked says whether an attempt of the task left something behind.
func leaked(r *task.Result) bool {
	return r.Leaked || slices.ContainsFunc(r.Before, func(b *task.Result) bool { return b.Leaked })
}

// Close prints the digest. It never returns an error. Where the run ended
// because its one command cannot be executed there is nothing to tell beyond
// that, which is said elsewhere.
func (d *Digest) Close(s task.Stats) error {
	if d.mute || d.bad && d.untold && s.Failed() == s.Of(task.StartFailed) && s.Of(task.OK) == 0 {
		if d.rerun != nil {
			d.rerun.drop()
		}
		return nil
	}
	text := d.head(&s)
	if n := s.Failed(); n > 0 {
		slices.SortFunc(d.failed, func(a, b told) int { return cmp.Compare(a.id, b.id) })
		for _, f := range d.failed {
			text += f.text
		}
		if more := n - d.before - int64(len(d.failed)); more > 0 {
			text += fmt.Sprintf("crew: … and %d more\n", more)
		}
		if d.before > 0 {
			text += fmt.Sprintf("crew: %d failed in an earlier run: --retry-failed runs them again\n", d.before)
		}
	}
	if d.leaks > 0 {
		slices.Sort(d.leaked)
		text += "crew: " + count(d.leaks, "task") + " left something running that held the output open" + ids(d.leaked, d.leaks) + "\n"
	}
	if d.rerun != nil {
		text += d.rerun.text()
	}
	d.screen.say(text)
	return nil
}

// head is the first line: how many of how many.
func (d *Digest) head(s *task.Stats) string {
	passed := s.Last.Sub(s.Start)
	failed, cancelled, notRun := s.Failed(), s.Of(task.Cancelled), s.Of(task.NotRun)
	var line string
	switch {
	case failed > 0:
		line = fmt.Sprintf("%d of %s failed", failed, count(s.Admitted, "task"))
	case cancelled+notRun > 0:
		line = fmt.Sprintf("%d of %s done", s.Of(task.OK), count(s.Admitted, "task"))
	case s.Admitted > 0 && passed >= digestLong && isTerminal(d.screen.err):
		line = count(s.Admitted, "task")
	default:
		return ""
	}
	line = "crew: " + line + " in " + span(passed)
	sep := "; "
	unrun := "not run"
	if d.undone > 0 {
		unrun += fmt.Sprintf(" (%d after a failed attempt)", d.undone)
	}
	for _, c := range []struct {
		n    int64
		what string
	}{{notRun, unrun}, {cancelled, "cancelled"}, {s.Retried, "retried"}, {s.Resumed(), "done before"}} {
		if c.n > 0 {
			line += sep + strconv.FormatInt(c.n, 10) + " " + c.what
			sep = ", "
		}
	}
	return line + "\n"
}

// describe is what the digest shows of one failure: a line about it and the last
// lines of its stderr. tails are those of the attempts that failed before.
func describe(t *task.Task, r *task.Result, tails []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "crew: task %d: %s", t.ID, verdict(t, r))
	if r.Attempt > 1 {
		fmt.Fprintf(&b, ", attempt %d", r.Attempt)
	}
	if cmd := commandLine(t, r); cmd != "" {
		b.WriteString(": " + harmless(task.Shorten(cmd, digestCommand)))
	}
	b.WriteByte('\n')
	tail, err := stderrTail(r)
	if err != nil {
		fmt.Fprintf(&b, "crew:   its stderr cannot be read: %s\n", harmless(err.Error()))
	}
	for _, l := range lastLines(tail, digestLines) {
		b.WriteString("crew:   | " + l + "\n")
	}
	describeBefore(&b, t, r, tails)
	return b.String()
}

// describeBefore is what the digest shows of the attempts before the last,
// where they ended otherwise or wrote something else to stderr at their end.
func describeBefore(b *strings.Builder, t *task.Task, r *task.Result, tails []string) {
	from := max(0, len(r.Before)-digestBefore)
	if from > 0 {
		fmt.Fprintf(b, "crew:   %s before\n", count(int64(from), "attempt"))
	}
	last, _ := stderrTail(r)
	same := fewLines(last)
	for i, a := range r.Before[from:] {
		lines := ""
		if from+i < len(tails) {
			lines = tails[from+i]
		}
		if a.Outcome == r.Outcome && a.Code == r.Code && a.Signal == r.Signal && lines == same {
			continue
		}
		fmt.Fprintf(b, "crew:   attempt %d: %s\n", a.Attempt, verdict(t, a))
		if lines != "" && lines != same {
			b.WriteString("crew:   | " + strings.ReplaceAll(lines, "\n", "\ncrew:   | ") + "\n")
		}
	}
}

// fewLines are the last lines of tail, fit to be shown.
func fewLines(tail []byte) string { return strings.Join(lastLines(tail, digestFew), "\n") }

// verdict is how a task ended, in words.
func verdict(t *task.Task, r *task.Result) string {
	after := " after " + span(r.Duration())
	switch r.Outcome {
	case task.Exit:
		return "exit " + strconv.Itoa(r.Code) + after
	case task.Signal:
		return "killed by " + signalName(r.Signal) + after
	case task.Timeout:
		if t.Timeout > 0 {
			after = " after " + t.Timeout.String()
		}
		return "timed out" + after
	case task.StartFailed:
		if r.Err == nil {
			return "not started"
		}
		return "not started: " + harmless(task.Shorten(r.Err.Error(), digestCommand))
	}
	return r.Outcome.String() + after
}

func signalName(n int) string {
	if name := unix.SignalName(syscall.Signal(n)); name != "" {
		return name
	}
	return "signal " + strconv.Itoa(n)
}

// commandLine is the command of a finished task, also where it never ran.
func commandLine(t *task.Task, r *task.Result) string {
	if len(r.Argv) > 0 {
		return t.CommandLine(r.Argv)
	}
	return t.CommandLine(t.Argv)
}

func stderrTail(r *task.Result) ([]byte, error) {
	if r.Stderr != nil {
		return r.Stderr.Tail(digestTail)
	}
	return r.Tail, nil
}

// lastLines are the last n lines of tail that are not empty, each made fit to
// be shown.
func lastLines(tail []byte, n int) []string {
	var lines []string
	for l := range bytes.SplitSeq(tail, []byte("\n")) {
		if l = bytes.TrimRight(l, "\r \t"); len(l) > 0 {
			lines = append(lines, string(l))
		}
	}
	lines = lines[max(0, len(lines)-n):]
	for i, l := range lines {
		lines[i] = harmless(task.Shorten(l, digestWidth))
	}
	return lines
}

// harmless is s with everything that could move a terminal's cursor, colour it
// or break the line written as an escape. Tabs stay.
func harmless(s string) string {
	if strings.IndexFunc(s, unprintable) < 0 && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case unprintable(r):
			q := strconv.QuoteRune(r)
			b.WriteString(q[1 : len(q)-1])
		default:
			b.WriteString(s[:n])
		}
		s = s[n:]
	}
	return b.String()
}

func unprintable(r rune) bool { return r != '\t' && !unicode.IsPrint(r) }

// span is a duration as people read it.
func span(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// count is a number of things: "1 task", "2 tasks".
func count(n int64, what string) string {
	s := strconv.FormatInt(n, 10) + " " + what
	if n != 1 {
		s += "s"
	}
	return s
}

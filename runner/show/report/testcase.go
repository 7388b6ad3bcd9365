package report

import (
	"cmp"
	"encoding/xml"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/text/runes"
	"golang.org/x/text/transform"

	"crew/runner/decide/task"
)

// testCase writes the test case of a task, with its elements in the order of Surefire's schema.
func (j *JUnit) testCase(t *task.Task, r *task.Result) error {
	j.counts.tests++
	shown, others, again := r, r.Failures(), "rerun"
	failed := r.Outcome.Failed()
	if failed {
		shown, others = others[0], others[1:]
	} else if r.Outcome == task.OK {
		again = "flaky"
	}
	j.begin("testcase", "name", cmp.Or(t.TagOn(r.Worker, r.Host, r.Units), t.Label(nameBytes)), "classname", class(t, r), "time", seconds(shown.Duration()))
	for _, x := range [...]struct {
		element, again string
		errors         bool
		count          *int64
	}{{"failure", again + "Failure", false, &j.counts.failures}, {"error", again + "Error", true, &j.counts.errors}} {
		if failed && isError(shown) == x.errors {
			*x.count++
			j.attempt(x.element, t, shown, false)
		}
		for _, other := range others {
			if isError(other) == x.errors {
				j.attempt(x.again, t, other, true)
			}
		}
		if !failed && r.Outcome != task.OK && !x.errors {
			j.counts.skipped++
			j.begin("skipped", "message", skippedText(r))
			j.end("skipped")
		}
	}
	j.outputs(shown)
	j.end("testcase")
	_, err := j.w.Write(nil) // the error of any write until now
	return cmp.Or(j.unread, err)
}

// isError reports whether an attempt failed for a reason other than its command.
func isError(r *task.Result) bool {
	return r.Outcome == task.StartFailed || r.Outcome == task.Lost || r.Outcome == task.BadAnswer || r.Outcome == task.Memory
}

// skippedText says why a task neither succeeded nor failed in this run.
func skippedText(r *task.Result) string {
	if r.Outcome == task.Cancelled || r.Outcome == task.Skipped || r.Err != nil {
		return r.Verdict()
	}
	return "not run: the run ended before"
}

// class returns the name of a task's program, or crew for a shell command. Dots are replaced, because
// readers would take the part before a dot as the class's package.
func class(t *task.Task, r *task.Result) string {
	argv := t.ArgvIn(r)
	if t.Shell || len(argv) == 0 {
		return "crew"
	}
	return strings.ReplaceAll(filepath.Base(argv[0]), ".", "_")
}

func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', 3, 64) }

// begin begins an element with attributes, given as pairs of name and value. Errors show up in a later
// Write or Flush.
func (j *JUnit) begin(element string, attributes ...string) {
	start := xml.StartElement{Name: xml.Name{Local: element}}
	for pair := range slices.Chunk(attributes, 2) {
		start.Attr = append(start.Attr, xml.Attr{Name: xml.Name{Local: pair[0]}, Value: pair[1]})
	}
	_ = j.xml.EncodeToken(start)
}

func (j *JUnit) end(element string) {
	_ = j.xml.EncodeToken(xml.EndElement{Name: xml.Name{Local: element}})
}

// attempt writes an element about a failed attempt, with the command and the end of its output as the
// stack trace. If other is true, the test case shows another attempt, and the element also gets the
// whole outputs.
func (j *JUnit) attempt(element string, t *task.Task, r *task.Result, other bool) {
	tail, err := r.OutputTail()
	j.unread = cmp.Or(j.unread, err)
	lines := append([]string{command(t, r)}, task.LastLines(tail, traceLines)...)
	j.begin(element, "message", r.Verdict(), "type", r.Outcome.String())
	if other {
		j.begin("stackTrace")
	}
	_ = j.xml.EncodeToken(xml.CharData(strings.Join(lines, "\n") + "\n"))
	if other {
		j.end("stackTrace")
		j.outputs(r)
	}
	j.end(element)
}

// outputs writes the outputs of an attempt that are not empty.
func (j *JUnit) outputs(r *task.Result) {
	for _, x := range [...]struct {
		element string
		output  task.Output
	}{{"system-out", r.Stdout}, {"system-err", r.Stderr}} {
		if task.Length(x.output) == 0 {
			continue
		}
		j.begin(x.element)
		text := transform.NewWriter(xmlText{j.xml}, runes.ReplaceIllFormed()) // joins characters that are split between writes
		_, err := x.output.WriteTo(text)
		j.unread = cmp.Or(j.unread, err, text.Close())
		j.end(x.element)
	}
}

// xmlText is an io.Writer of character data. Characters that XML 1.0 does not allow (section 2.2)
// become U+FFFD.
type xmlText struct{ *xml.Encoder }

func (x xmlText) Write(p []byte) (int, error) { return len(p), x.EncodeToken(xml.CharData(p)) }

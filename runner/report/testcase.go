package report

import (
	"cmp"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"crew/runner/task"
)

// testCase writes the case of a task, with its elements in the order that Surefire's
// schema wants.
func (j *JUnit) testCase(t *task.Task, r *task.Result) error {
	j.counts.tests++
	shown, others, again := r, r.Failures(), "rerun"
	element := "" // for how the attempt that the case shows failed
	switch {
	case r.Outcome.Failed():
		shown, others = others[0], others[1:]
		if element = "failure"; isError(shown) {
			element = "error"
			j.counts.errors++
		} else {
			j.counts.failures++
		}
	case r.Outcome == task.OK:
		again = "flaky"
	default:
		element = "skipped"
		j.counts.skipped++
	}
	j.open("  <testcase", "name", task.Shorten(label(t, r), nameBytes), "classname", class(t, r), "time", seconds(shown.Duration()))
	j.w.WriteString(">\n")
	if element == "failure" {
		j.failure(element, t, shown)
	}
	j.attempts(again+"Failure", t, others, false)
	if element == "skipped" {
		j.open("   <skipped", "message", skippedText(r))
		j.w.WriteString("/>\n")
	}
	if element == "error" {
		j.failure(element, t, shown)
	}
	j.attempts(again+"Error", t, others, true)
	j.outputs("   ", shown)
	_, err := j.w.WriteString("  </testcase>\n") // of any write until now
	return cmp.Or(j.unread, err)
}

// isError reports whether an attempt failed for another reason than what its command
// did.
func isError(r *task.Result) bool {
	return r.Outcome == task.StartFailed || r.Outcome == task.Lost || r.Outcome == task.BadAnswer
}

// skippedText says why a task has neither succeeded nor failed.
func skippedText(r *task.Result) string {
	if r.Outcome == task.Cancelled {
		return r.Verdict()
	}
	return "not run: the run ended before"
}

// class returns the name of a task's program, or crew if it is a shell. What comes before
// a dot would be the class's package.
func class(t *task.Task, r *task.Result) string {
	argv := t.ArgvIn(r)
	if t.Shell || len(argv) == 0 {
		return "crew"
	}
	return strings.ReplaceAll(filepath.Base(argv[0]), ".", "_")
}

func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', 3, 64) }

// open writes the beginning of a tag with attributes, which are pairs of name and value.
func (j *JUnit) open(tag string, attributes ...string) {
	j.w.WriteString(tag)
	j.text.attribute = true
	for i := 0; i < len(attributes); i += 2 {
		j.w.WriteString(" " + attributes[i] + `="`)
		j.content(attributes[i+1])
		j.w.WriteString(`"`)
	}
	j.text.attribute = false
}

// content writes a string as text or as the value of an attribute.
func (j *JUnit) content(s string) {
	j.text.Write([]byte(s))
	j.text.end()
}

// failure writes an element about a failed attempt, with the command and the end of
// its output.
func (j *JUnit) failure(element string, t *task.Task, r *task.Result) {
	j.reason(element, r)
	j.trace(t, r)
	j.w.WriteString("</" + element + ">\n")
}

// reason writes the beginning of an element about how an attempt failed.
func (j *JUnit) reason(element string, r *task.Result) {
	j.open("   <"+element, "message", r.Verdict(), "type", r.Outcome.String())
	j.w.WriteString(">")
}

// trace writes what stands in place of a stack trace.
func (j *JUnit) trace(t *task.Task, r *task.Result) {
	j.content(command(t, r) + "\n")
	tail, err := r.OutputTail()
	j.unread = cmp.Or(j.unread, err)
	for _, l := range task.LastLines(tail, traceLines) {
		j.content(l + "\n")
	}
}

// attempts writes an element for each attempt of the list that is an error or, if errors
// is false, for each that is not.
func (j *JUnit) attempts(element string, t *task.Task, list []*task.Result, errors bool) {
	for _, r := range list {
		if isError(r) != errors {
			continue
		}
		j.reason(element, r)
		j.w.WriteString("\n    <stackTrace>")
		j.trace(t, r)
		j.w.WriteString("</stackTrace>\n")
		j.outputs("    ", r)
		j.w.WriteString("   </" + element + ">\n")
	}
}

// outputs writes the outputs of an attempt, if there are any.
func (j *JUnit) outputs(indent string, r *task.Result) {
	for _, x := range [...]struct {
		element string
		output  task.Output
	}{{"system-out", r.Stdout}, {"system-err", r.Stderr}} {
		if task.Length(x.output) == 0 {
			continue
		}
		j.w.WriteString(indent + "<" + x.element + ">")
		_, err := x.output.WriteTo(&j.text)
		j.unread = cmp.Or(j.unread, err)
		j.text.end()
		j.w.WriteString("</" + x.element + ">\n")
	}
}

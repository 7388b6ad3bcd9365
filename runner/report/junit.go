package report

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/xml"
	"errors"
	"fmt"
	"strings"
	"time"

	"crew/runner/task"
	"crew/runner/trust"
)

// JUnit writes a report of the run as JUnit XML, in the form of Maven Surefire: one
// test suite with a test case for each task that has finished.
//
// As with Surefire, the case of a failed task shows its first attempt, and
// rerunFailure and rerunError the others; that of a task that passed at last shows the
// attempt that passed, and flakyFailure and flakyError those before. Outputs are
// copied in a stream. The file appears when it is complete: Close renames it.
type JUnit struct {
	path, suite string
	file        *trust.Whole
	head        int // bytes that the head may take
	w           *bufio.Writer
	xml         *xml.Encoder // writes to w
	counts      counts
	unread      error // the first error of an output
	err         error // the first error
}

// most exceeds every number in the head of a report, and its time in milliseconds.
const most = 1_000_000_000_000

// counts are the attributes of the test suite.
type counts struct{ tests, failures, errors, skipped int64 }

// OpenJUnit begins a report of a test suite. The caller must call Drop in the end. If
// path is a symbolic link, the file that it names is replaced.
func OpenJUnit(path, suite string) (*JUnit, error) {
	j := &JUnit{path: path, suite: cmp.Or(task.Shorten(suite, nameBytes), "crew")}
	f, err := trust.CreateWhole(path)
	if _, untrusted := errors.AsType[*trust.Error](err); untrusted {
		return nil, fmt.Errorf("write JUnit report: %w", err)
	}
	if err != nil {
		return nil, j.fail(err)
	}
	j.file, j.path = f, f.Path
	j.w = bufio.NewWriterSize(j.file, 64<<10)
	j.xml = xml.NewEncoder(j.w)
	j.xml.Indent("  ", " ")
	j.head = len(j.heading(counts{most, most, most, most}, most*time.Millisecond, time.Now()))
	j.w.WriteString(strings.Repeat(" ", j.head))
	return j, nil
}

// Consume writes the cases of the tasks that have finished.
func (j *JUnit) Consume(events []task.Event) error {
	for i := range events {
		if e := &events[i]; e.Kind == task.Finished && j.err == nil {
			if err := j.testCase(e.Task, e.Result); err != nil {
				j.err = j.fail(err)
			}
		}
	}
	return j.err
}

// Close completes the report and puts it in place. After an error it leaves the old
// file, if there is one.
func (j *JUnit) Close(s task.Stats) error {
	defer j.Drop()
	if j.err != nil || j.file.File == nil {
		return nil // Consume has returned it
	}
	_ = j.xml.Flush()
	j.w.WriteString("\n </testsuite>\n</testsuites>\n")
	err := j.w.Flush() // of any write until now
	if err == nil {
		head := j.heading(j.counts, s.Elapsed(s.Last), s.Start)
		pad := strings.Repeat(" ", j.head-len(head))
		_, err = j.file.WriteAt([]byte(strings.TrimSuffix(head, ">\n")+pad+">\n"), 0)
	}
	if err == nil {
		err = j.file.Complete()
	}
	if err != nil {
		return j.fail(err)
	}
	return nil
}

// Drop removes what is not complete. It may be repeated.
func (j *JUnit) Drop() { j.file.Drop() }

func (j *JUnit) fail(err error) error {
	return fmt.Errorf("write JUnit report %s: %w", j.path, task.WithoutPath(err))
}

// heading returns the beginning of the file. Only the suite has the attributes
// skipped and timestamp, as Jenkins' schema has it.
func (j *JUnit) heading(n counts, took time.Duration, start time.Time) string {
	var suite bytes.Buffer
	_ = xml.EscapeText(&suite, []byte(j.suite)) // a Buffer takes all
	numbers := fmt.Sprintf(`tests="%d" failures="%d" errors="%d" time="%s"`, n.tests, n.failures, n.errors, seconds(took))
	return fmt.Sprintf("%s<testsuites name=\"crew\" %s>\n <testsuite name=\"%s\" %s skipped=\"%d\" timestamp=\"%s\">\n",
		xml.Header, numbers, &suite, numbers, n.skipped, start.UTC().Format(time.RFC3339))
}

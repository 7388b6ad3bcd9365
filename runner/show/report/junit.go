package report

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/xml"
	"errors"
	"fmt"
	"time"

	"crew/runner/decide/task"
	"crew/runner/keep/trust"
)

// JUnit writes a report of the run as JUnit XML, in the format of Maven Surefire: one test suite with a
// test case for each task that finished.
//
// As with Surefire, the case of a failed task shows its first attempt, and rerunFailure and rerunError
// show the others. The case of a task that passed in the end shows the attempt that passed, and
// flakyFailure and flakyError show the earlier ones. Outputs are streamed. The file appears once it is
// complete: Close renames it.
type JUnit struct {
	path, suite string
	file        *trust.AtomicFile
	w           *bufio.Writer
	xml         *xml.Encoder // writes to w
	counts      counts
	unread      error // the first error of reading an output
	err         error // the first error
}

// counts are the attributes of the test suite.
type counts struct{ tests, failures, errors, skipped int64 }

// OpenJUnit begins a report with a test suite of the given name, "" for crew. The caller must call Drop
// in the end. If path is a symbolic link, the target is replaced.
func OpenJUnit(path, suite string) (*JUnit, error) {
	j := &JUnit{path: path, suite: cmp.Or(task.Shorten(suite, nameBytes), "crew")}
	f, err := trust.CreateAtomic(path)
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
	j.w.WriteString(j.heading(0, time.Time{}))
	return j, nil
}

// Consume writes the test cases of tasks that finished.
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

// Close completes the report and puts it in place. After an error the old file, if any, stays.
func (j *JUnit) Close(s task.Stats) error {
	defer j.Drop()
	if j.err != nil || j.file.File == nil {
		return nil // Consume has returned the error
	}
	_ = j.xml.Flush()
	j.w.WriteString("\n </testsuite>\n</testsuites>\n")
	err := j.w.Flush() // the error of any write until now
	if err == nil {
		_, err = j.file.WriteAt([]byte(j.heading(s.Elapsed(s.Last), s.Start)), 0)
	}
	if err == nil {
		err = j.file.Commit()
	}
	if err != nil {
		return j.fail(err)
	}
	return nil
}

// Drop removes an incomplete report. It may be called more than once.
func (j *JUnit) Drop() { j.file.Drop() }

func (j *JUnit) fail(err error) error {
	return fmt.Errorf("write JUnit report %s: %w", j.path, task.WithoutPath(err))
}

// heading returns the beginning of the file. It has the same length whatever the counts are, so Close
// can overwrite it. As in Jenkins' schema, only the suite has the attributes skipped and timestamp.
func (j *JUnit) heading(took time.Duration, start time.Time) string {
	var suite bytes.Buffer
	_ = xml.EscapeText(&suite, []byte(j.suite)) // never fails for a Buffer
	n := &j.counts
	numbers := fmt.Sprintf(`tests="%d" failures="%d" errors="%d" time="%s"`, n.tests, n.failures, n.errors, seconds(took))
	more := fmt.Sprintf(`%s skipped="%d" timestamp="%s"`, numbers, n.skipped, start.UTC().Format(time.RFC3339))
	return fmt.Sprintf("%s<testsuites name=\"crew\" %-100s>\n <testsuite name=\"%s\" %-160s>\n", xml.Header, numbers, &suite, more)
}

package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/spool"
	"crew/runner/task"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// ended returns the Finished event of a task whose attempts ended so.
func ended(record string, attempts ...task.Result) task.Event {
	t := &task.Task{ID: 1, Argv: []string{"bin/job", record}, Records: [][]string{{record}}}
	last := len(attempts) - 1
	for i := range attempts {
		a := &attempts[i]
		a.Task, a.Attempt, a.Start, a.End = t, i+1, start, start.Add(time.Duration(i+1)*100*time.Millisecond)
		if i < last {
			attempts[last].Before = append(attempts[last].Before, a)
		}
	}
	return task.Event{Kind: task.Finished, At: start, ID: 1, Task: t, Result: &attempts[last], Attempt: last + 1}
}

// write returns the report of the events, which xmllint has found valid where it is
// installed.
func write(t *testing.T, suite string, events ...task.Event) string {
	path := filepath.Join(t.TempDir(), "report.xml")
	j, err := OpenJUnit(path, suite)
	require.NoError(t, err)
	defer j.Drop()
	var s task.Stats
	for i := range events {
		s.Apply(&events[i])
	}
	require.NoError(t, j.Consume(events))
	require.NoFileExists(t, path, "before it is complete")
	require.NoError(t, j.Close(s))
	names, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, names, 1)
	if xmllint, err := exec.LookPath("xmllint"); err == nil {
		out, err := exec.Command(xmllint, "--noout", "--schema", "../../testdata/junit.xsd", path).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}

func TestJUnitCases(t *testing.T) {
	ok := task.Result{Outcome: task.OK, Stdout: spool.Text("fine\n")}
	exit := task.Result{Outcome: task.Exit, Code: 3, Stdout: spool.Text("out\n"), Stderr: spool.Text("bad <&>\n")}
	timeout := task.Result{Outcome: task.Timeout, Signal: 15}
	unstarted := task.Result{Outcome: task.StartFailed, Code: 127, Err: errors.New("no such file")}
	lost := task.Result{Outcome: task.Lost, Host: "web1"}
	unrun, cancelled := task.Result{Outcome: task.NotRun}, task.Result{Outcome: task.Cancelled, Stdout: spool.Text("half")}

	cases := func(e task.Event) string {
		text := write(t, "job {}", e)
		from, to := strings.Index(text, "  <testcase"), strings.Index(text, " </testsuite>")
		return text[from:to]
	}
	const outputs = "   <system-out>out\n</system-out>\n   <system-err>bad &lt;&amp;&gt;\n</system-err>\n"
	require.Equal(t, `  <testcase name="a" classname="job" time="0.100">`+"\n   <system-out>fine\n</system-out>\n  </testcase>\n",
		cases(ended("a", ok)))
	require.Equal(t, `  <testcase name="b" classname="job" time="0.100">
   <failure message="exit 3 after 100ms" type="exit">bin/job b
bad &lt;&amp;&gt;
</failure>
`+outputs+"  </testcase>\n", cases(ended("b", exit)))
	require.Equal(t, `  <testcase name="c" classname="job" time="0.100">
   <failure message="exit 3 after 100ms" type="exit">bin/job c
bad &lt;&amp;&gt;
</failure>
   <rerunFailure message="timed out after 300ms" type="timeout">
    <stackTrace>bin/job c
</stackTrace>
   </rerunFailure>
   <rerunError message="not started: no such file" type="start-failed">
    <stackTrace>bin/job c
</stackTrace>
   </rerunError>
`+outputs+"  </testcase>\n", cases(ended("c", exit, unstarted, timeout)), "the first attempt, then those like it")
	require.Equal(t, `  <testcase name="d" classname="job" time="0.300">
   <flakyFailure message="exit 3 after 100ms" type="exit">
    <stackTrace>bin/job d
bad &lt;&amp;&gt;
</stackTrace>
    <system-out>out
</system-out>
    <system-err>bad &lt;&amp;&gt;
</system-err>
   </flakyFailure>
   <system-out>fine
</system-out>
  </testcase>
`, cases(ended("d", exit, lost, ok)), "a lost worker is not the task's failure")
	require.Equal(t, `  <testcase name="e" classname="job" time="0.100">
   <rerunFailure message="exit 3 after 200ms" type="exit">
    <stackTrace>bin/job e
bad &lt;&amp;&gt;
</stackTrace>
    <system-out>out
</system-out>
    <system-err>bad &lt;&amp;&gt;
</system-err>
   </rerunFailure>
   <error message="not started: no such file" type="start-failed">bin/job e
</error>
  </testcase>
`, cases(ended("e", unstarted, exit)))
	require.Contains(t, cases(ended("f", unrun)), `<skipped message="not run: the run ended before"></skipped>`)
	require.Contains(t, cases(ended("g", cancelled)), "<skipped message=\"cancelled after 100ms\"></skipped>\n   <system-out>half</system-out>")
	require.Contains(t, cases(ended("h", exit, unrun)), "</rerunFailure>\n   <skipped ", "it never had its retry")
	require.Contains(t, cases(ended("i", lost)), `<error message="lost with web1 after 100ms" type="lost">`)

	require.Contains(t, cases(ended("j", task.Result{Outcome: task.Skipped})), `<skipped message="skipped (up to date)"></skipped>`)
	require.Contains(t, cases(ended("k", task.Result{Outcome: task.NoOutput, Err: errors.New("k.png was not made")})),
		`<failure message="made no output after 100ms: k.png was not made" type="no-output">`)

	text := write(t, "job {}", ended("a", ok), ended("b", exit), ended("c", unstarted), ended("d", unrun), ended("e", exit, ok))
	require.Contains(t, text, `<testsuite name="job {}" tests="5" failures="1" errors="1" time="0.000" skipped="1" timestamp="2026-01-02T03:04:05Z"`)
	require.Contains(t, write(t, ""), `<testsuite name="crew" tests="0" failures="0" errors="0" `)
}

func TestJUnitNames(t *testing.T) {
	of := func(change func(*task.Task)) string {
		e := ended("a", task.Result{Outcome: task.OK})
		change(e.Task)
		_, rest, _ := strings.Cut(write(t, "", e), "<testcase ")
		attributes, _, _ := strings.Cut(rest, " time=")
		return attributes
	}
	require.Equal(t, `name="a" classname="job"`, of(func(*task.Task) {}))
	require.Equal(t, `name="a b c" classname="job"`, of(func(t *task.Task) { t.Records = [][]string{{"a", "b"}, {"c"}} }))
	require.Equal(t, `name="t" classname="job"`, of(func(t *task.Task) { t.Tag = "t" }))
	require.Equal(t, `name="bin/job a" classname="job"`, of(func(t *task.Task) { t.Records = nil }))
	require.Equal(t, `name="bin/job a" classname="job"`, of(func(t *task.Task) { t.Object, t.Records[0][0] = "{}", "{}" }))
	require.Equal(t, `name="a" classname="python3_11"`, of(func(t *task.Task) { t.Argv[0] = "/usr/bin/python3.11" }))
	require.Equal(t, `name="task 1" classname="crew"`, of(func(t *task.Task) { t.Records, t.Argv = nil, nil }))
	require.Equal(t, `name="echo &lt;a&gt;" classname="crew"`, of(func(t *task.Task) {
		t.Records, t.Argv, t.Shell = nil, []string{"sh", "-c", "echo <a>"}, true
	}))
}

// TestJUnitHostile: whatever tasks write, the report is XML, and what XML can hold
// arrives.
func TestJUnitHostile(t *testing.T) {
	hostile := "]]><x a=\"&lt;\">\r\n\t\x00\x1b[31m\xff\xc3(\ud7ff\ufffe\uffff\U0010ffff\xed\xa0\x80é\xe2\x82"
	clean := "]]><x a=\"&lt;\">\r\n\t\ufffd\ufffd[31m\ufffd\ufffd(\ud7ff\ufffd\ufffd\U0010ffff\ufffd\ufffd\ufffdé"
	e := ended(hostile, task.Result{Outcome: task.StartFailed, Err: errors.New(hostile), Stdout: spool.Text(hostile), Stderr: spool.Text(hostile)})
	text := write(t, hostile, e)
	var got struct {
		Suite struct {
			Name string `xml:"name,attr"`
			Case struct {
				Name string `xml:"name,attr"`
				Out  string `xml:"system-out"`
				Err  string `xml:"system-err"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	require.NoError(t, xml.Unmarshal([]byte(text), &got), text)
	for _, s := range []string{got.Suite.Name, got.Suite.Case.Name, got.Suite.Case.Out, got.Suite.Case.Err} {
		require.Equal(t, clean, strings.TrimRight(s, "\ufffd"))
	}
}

// FuzzXMLText: it does not matter where writes are cut.
func FuzzXMLText(f *testing.F) {
	f.Add([]byte("a<\xe2\x82\xac>\r\n\x00\xff&\"]]>"), 3)
	f.Add([]byte("\xed\xa0\x80\xef\xbf\xbf\xe2\x82"), 1)
	f.Fuzz(func(t *testing.T, p []byte, size int) {
		var whole, cut bytes.Buffer
		enc := xml.NewEncoder(&whole)
		require.NoError(t, enc.EncodeToken(xml.CharData(p)))
		require.NoError(t, enc.Flush())
		enc = xml.NewEncoder(&cut)
		x := xmlText{enc: enc}
		for part := range slices.Chunk(p, max(1, size%16)) {
			_, err := x.Write(part)
			require.NoError(t, err)
		}
		x.close()
		require.NoError(t, enc.Flush())
		require.Equal(t, whole.String(), cut.String())
	})
}

type unreadable struct{ spool.Text }

func (unreadable) WriteTo(io.Writer) (int64, error) { return 0, errors.New("disk gone") }

func TestJUnitKeepsTheOldFile(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "old.xml"), filepath.Join(dir, "link.xml")
	require.NoError(t, os.WriteFile(path, []byte("old"), 0o666))
	require.NoError(t, os.Symlink(path, link))
	j, err := OpenJUnit(link, "")
	require.NoError(t, err)
	bad := ended("a", task.Result{Outcome: task.OK, Stdout: unreadable{spool.Text("x")}})
	require.EqualError(t, j.Consume([]task.Event{bad}), "write JUnit report "+path+": disk gone")
	require.NoError(t, j.Close(task.Stats{}))
	j.Drop()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "old", string(text))

	j, err = OpenJUnit(link, "")
	require.NoError(t, err)
	require.NoError(t, j.Close(task.Stats{}))
	text, err = os.ReadFile(path)
	require.NoError(t, err)
	require.Contains(t, string(text), "<testsuites", "the link's file is replaced")
	names, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, names, 2)

	_, err = OpenJUnit(os.DevNull, "")
	require.EqualError(t, err, "write JUnit report /dev/null: not a regular file: name one that can be replaced as a whole")
	_, err = OpenJUnit(filepath.Join(dir, "no", "x.xml"), "")
	require.EqualError(t, err, "write JUnit report "+filepath.Join(dir, "no", "x.xml")+": no such file or directory: name a file in a directory that you can write to")
}

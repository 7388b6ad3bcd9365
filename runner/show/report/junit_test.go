package report

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/decide/task"
	"crew/runner/exec/spool"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// ended returns the Finished event of a task with the given attempts.
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

// write returns the report of the events. If xmllint is installed, it checks that the report is valid.
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
		out, err := exec.Command(xmllint, "--noout", "--schema", "../../../testdata/junit.xsd", path).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	return crewtest.ReadFile(t, path)
}

// TestJUnitHostile checks that the report is valid XML whatever tasks write. Outputs keep every character
// that XML allows.
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
	require.Equal(t, e.Task.Label(nameBytes), got.Suite.Case.Name)
	for _, s := range []string{got.Suite.Name, got.Suite.Case.Out, got.Suite.Case.Err} {
		require.Equal(t, clean, strings.TrimRight(s, "\ufffd"))
	}
}

type unreadable struct{ spool.Text }

func (unreadable) WriteTo(io.Writer) (int64, error) { return 0, errors.New("disk gone") }

// TestJUnitKeepsTheOldFile checks that an incomplete report leaves the old file, and that a complete one
// replaces the target of a symbolic link.
func TestJUnitKeepsTheOldFile(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "old.xml"), filepath.Join(dir, "link.xml")
	crewtest.WriteFile(t, path, "old", 0o666)
	require.NoError(t, os.Symlink(path, link))
	for _, broken := range []bool{true, false} {
		j, err := OpenJUnit(link, "")
		require.NoError(t, err)
		if broken {
			bad := ended("a", task.Result{Outcome: task.OK, Stdout: unreadable{spool.Text("x")}})
			require.EqualError(t, j.Consume([]task.Event{bad}), "write JUnit report "+path+": disk gone")
		}
		require.NoError(t, j.Close(task.Stats{}))
		j.Drop()
		require.Equal(t, broken, crewtest.ReadFile(t, path) == "old")
		names, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Len(t, names, 2)
	}
}

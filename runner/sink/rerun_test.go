package sink

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/task"
)

// failedTask is the end of a failed task with these records.
func failedTask(records ...[]string) task.Event {
	e := ended(1, task.Result{Outcome: task.Exit, Code: 1})
	e.Task.Records = records
	return e
}

// crewLine spells the line as the command line would: options first.
func crewLine(options, values string) string {
	return strings.Join(strings.Fields("crew -k "+options+" job "+values), " ")
}

// rerunOf is what stands behind "run them again: " and the other lines after
// it.
func rerunOf(t *testing.T, cfg RerunConfig, events ...task.Event) (line, rest string) {
	if cfg.Line == nil {
		cfg.Line = crewLine
	}
	_, after, found := strings.Cut(digestOf(t, cfg, events...), "crew: run them again: ")
	if !found {
		return "", after
	}
	line, rest, _ = strings.Cut(after, "\n")
	return line, rest
}

func TestRerunInOneLine(t *testing.T) {
	for _, c := range []struct {
		name   string
		cfg    RerunConfig
		events []task.Event
		want   string
	}{
		{"a column", RerunConfig{}, []task.Event{failedTask([]string{"a b"}), failedTask([]string{"it's"}, []string{""})},
			`crew -k job ::: 'a b' 'it'\''s' ''`},
		{"columns", RerunConfig{Columns: true}, []task.Event{failedTask([]string{"a", "b"}), failedTask([]string{"c"})},
			`crew -k job ::: a c :::+ b ''`},
		{"header", RerunConfig{Columns: true, Header: func() []string { return []string{"x", "y z"} }},
			[]task.Event{failedTask([]string{"a", "b"})}, `crew -k job ::: x a :::+ 'y z' b`},
	} {
		t.Run(c.name, func(t *testing.T) {
			line, rest := rerunOf(t, c.cfg, c.events...)
			require.Equal(t, c.want, line)
			require.Empty(t, rest)
		})
	}
}

func TestRerunLineIsForTheShell(t *testing.T) {
	values := []string{"a b", "it's", "", "$HOME `x`", "~", "é", "*", "-n", "\\"}
	line, _ := rerunOf(t, RerunConfig{}, failedTask([][]string{{values[0]}, {values[1]}, {values[2]}, {values[3]},
		{values[4]}, {values[5]}, {values[6]}, {values[7]}, {values[8]}}...))
	_, words, _ := strings.Cut(line, ":::")
	out, err := exec.Command("/bin/sh", "-c", `printf '%s\0' `+words).Output()
	require.NoError(t, err)
	require.Equal(t, strings.Join(values, "\x00")+"\x00", string(out))
}

var rerunFile = regexp.MustCompile(`-a (\S+)`)

func TestRerunFromFile(t *testing.T) {
	var many []task.Event
	var all string
	for i := range 1000 {
		many = append(many, failedTask([]string{"record " + strconv.Itoa(i)}))
		all += "record " + strconv.Itoa(i) + "\x00"
	}
	object := failedTask([]string{"ignored"})
	object.Task.Object = `{"args":["a"]}`
	for _, c := range []struct {
		name    string
		cfg     RerunConfig
		events  []task.Event
		options string
		want    string
	}{
		{"too long for a line", RerunConfig{}, many, "-0 -a ", all},
		{"header", RerunConfig{Header: func() []string { return []string{"name"} }}, many, "-0 -a ", "name\x00" + all},
		{"columns", RerunConfig{Columns: true},
			[]task.Event{failedTask([]string{"a", "b\nc"}), failedTask([]string{"\xff"}), failedTask([]string{"", ""})},
			`-0 -C '\x1f' -a `, "a\x1fb\nc\x00\xff\x00\x1f\x00"},
		{"a value like a separator", RerunConfig{}, []task.Event{failedTask([]string{":::+"})}, "-0 -a ", ":::+\x00"},
		{"a tab", RerunConfig{}, []task.Event{failedTask([]string{"a\tb"})}, "-0 -a ", "a\tb\x00"},
		{"JSON", RerunConfig{JSON: true}, []task.Event{object, object}, "--input json -a ",
			"{\"args\":[\"a\"]}\n{\"args\":[\"a\"]}\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.cfg.Dir = t.TempDir()
			line, rest := rerunOf(t, c.cfg, c.events...)
			require.Empty(t, rest)
			name := rerunFile.FindStringSubmatch(line)[1]
			require.Equal(t, "crew -k "+c.options+name+" job", line)
			require.Equal(t, c.cfg.Dir, filepath.Dir(name))
			got, err := os.ReadFile(name)
			require.NoError(t, err)
			require.Equal(t, c.want, string(got))
			info, err := os.Stat(name)
			require.NoError(t, err)
			require.Equal(t, os.FileMode(0o600), info.Mode())
		})
	}
}

func TestRerunHoldsLittleInMemory(t *testing.T) {
	r := &rerun{cfg: RerunConfig{Line: crewLine, Dir: t.TempDir()}}
	for i := range 10_000 {
		r.add(failedTask([]string{fmt.Sprint(i)}).Task)
	}
	require.Empty(t, r.rows)
	r.drop()
	left, err := os.ReadDir(r.cfg.Dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestRerunLeavesOut(t *testing.T) {
	bad := failedTask([]string{"too long"})
	bad.Task.Err = os.ErrInvalid
	line, rest := rerunOf(t, RerunConfig{Columns: true}, bad, failedTask([]string{"a\x1fb", "c"}), failedTask(),
		failedTask([]string{"good"}), failedTask([]string{"nul\x00"}))
	require.Equal(t, "crew -k job ::: good", line)
	require.Equal(t, "crew: 4 failed tasks cannot be run again from a list\n", rest)

	line, rest = rerunOf(t, RerunConfig{JSON: true}, failedTask([]string{"no object"}))
	require.Empty(t, line)
	require.Empty(t, rest)
}

func TestRerunWithoutFile(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	for _, e := range []task.Event{failedTask([]string{"\x01"}), failedTask([]string{strings.Repeat("x", 3000)})} {
		got := digestOf(t, RerunConfig{Line: crewLine, Dir: missing}, e, e)
		require.Contains(t, got, "crew: no line to run them again, as their records cannot be kept: open "+missing)
		require.NotContains(t, got, "again: crew")
	}
}

func TestRerunFullDisk(t *testing.T) {
	r := &rerun{cfg: RerunConfig{Line: crewLine, Dir: t.TempDir()}}
	r.add(failedTask([]string{"\x01"}).Task)
	r.file.Close() // as a disk that takes no more: the write fails
	require.Contains(t, r.text(), "crew: no line to run them again, as their records cannot be kept: write ")
	left, err := os.ReadDir(r.cfg.Dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestRerunNotOfferedForQuietEnd(t *testing.T) {
	dir := t.TempDir()
	require.Empty(t, digestOf(t, RerunConfig{Line: crewLine, Dir: dir}, failedTask([]string{"\x01"}),
		task.Event{Kind: task.Stopping, Text: "SIGPIPE"}))
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestRerunObjectsAreOriginal(t *testing.T) {
	e := failedTask()
	e.Task.Object = `{"command":"x","n":1.0}`
	line, _ := rerunOf(t, RerunConfig{JSON: true, Dir: t.TempDir()}, e)
	got, err := os.ReadFile(rerunFile.FindStringSubmatch(line)[1])
	require.NoError(t, err)
	require.True(t, json.Valid(got))
	require.Equal(t, e.Task.Object+"\n", string(got))
}

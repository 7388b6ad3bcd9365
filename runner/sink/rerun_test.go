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

// tempDir makes a new directory os.TempDir() for this test.
func tempDir(t *testing.T) string {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	return dir
}

// failedTask returns the end of a failed task with these records.
func failedTask(records ...[]string) task.Event {
	e := ended(1, task.Result{Outcome: task.Exit, Code: 1})
	e.Task.Records = records
	return e
}

// crewLine is a RerunConfig.Line.
func crewLine(options, values string) string {
	return strings.Join(strings.Fields("crew -k "+options+" job "+values), " ")
}

// rerunOf returns the line after "run them again: " in a digest, and what follows
// that line.
func rerunOf(t *testing.T, cfg RerunConfig, events ...task.Event) (line, rest string) {
	if cfg.Line == nil {
		cfg.Line = crewLine
	}
	_, after, found := strings.Cut(digestOf(t, cfg, events...), "again: ")
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
		{"columns", RerunConfig{RerunRecords: RerunRecords{Columns: true}}, []task.Event{failedTask([]string{"a", "b"}), failedTask([]string{"c", ""})},
			`crew -k job ::: a c :::+ b ''`},
		{"header", RerunConfig{RerunRecords: RerunRecords{Columns: true}, Header: func() []string { return []string{"x", "y z"} }},
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
		{"columns", RerunConfig{RerunRecords: RerunRecords{Columns: true}},
			[]task.Event{failedTask([]string{"a", "b\nc"}), failedTask([]string{"\xff"}), failedTask([]string{"", ""})},
			`-0 -C '\x1f' -a `, "a\x1fb\nc\x00\xff\x00\x1f\x00"},
		{"a value like a separator", RerunConfig{}, []task.Event{failedTask([]string{":::+"})}, "-0 -a ", ":::+\x00"},
		{"a tab", RerunConfig{}, []task.Event{failedTask([]string{"a\tb"})}, "-0 -a ", "a\tb\x00"},
		{"JSON", RerunConfig{RerunRecords: RerunRecords{JSON: true}}, []task.Event{object, object}, "--input json -a ",
			"{\"args\":[\"a\"]}\n{\"args\":[\"a\"]}\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := tempDir(t)
			line, rest := rerunOf(t, c.cfg, c.events...)
			require.Empty(t, rest)
			name := rerunFile.FindStringSubmatch(line)[1]
			require.Equal(t, "crew -k "+c.options+name+" job", line)
			require.Equal(t, dir, filepath.Dir(name))
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
	dir, r := tempDir(t), &rerun{cfg: RerunConfig{Line: crewLine}}
	for i := range 10_000 {
		r.add(failedTask([]string{fmt.Sprint(i)}).Task)
	}
	require.Empty(t, r.kept)
	r.drop()
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestRerunCountsWhatItCannotList(t *testing.T) {
	bad := failedTask([]string{"too long"})
	bad.Task.Err = os.ErrInvalid
	line, rest := rerunOf(t, RerunConfig{RerunRecords: RerunRecords{Columns: true}}, bad, failedTask([]string{"a\x1fb", "c"}), failedTask(),
		failedTask([]string{"good"}), failedTask([]string{"nul\x00"}))
	require.Equal(t, "crew -k job ::: good", line)
	require.Equal(t, "crew: 4 failed tasks cannot be run again from a list\n", rest)

	line, rest = rerunOf(t, RerunConfig{RerunRecords: RerunRecords{JSON: true}}, failedTask([]string{"no object"}))
	require.Empty(t, line)
	require.Empty(t, rest)
}

// numbered sets the number of a task that ended.
func numbered(id uint64, e task.Event) task.Event {
	e.ID, e.Task.ID = id, id
	return e
}

func TestRerunInInputOrder(t *testing.T) {
	pair := func(id uint64, a, b string) task.Event { return numbered(id, failedTask([]string{a}, []string{b})) }
	short := func(id uint64, a string) task.Event { return numbered(id, failedTask([]string{a})) }
	line, rest := rerunOf(t, RerunConfig{Batch: 2}, short(3, "e"), pair(2, "c", "d"), pair(1, "a", "b"))
	require.Equal(t, "crew -k job ::: a b c d e", line)
	require.Empty(t, rest)

	// Two short ones would become one task.
	line, rest = rerunOf(t, RerunConfig{Batch: 2}, short(4, "x"), short(2, "y"), pair(1, "a", "b"))
	require.Equal(t, "crew -k job ::: a b x", line)
	require.Equal(t, "crew: 1 failed task cannot be run again from a list\n", rest)

	// Pairs stay together in a file, too.
	events := []task.Event{short(300, "last")}
	want := ""
	for i := uint64(1); i < 300; i++ {
		a, b := fmt.Sprintf("left %d", i), fmt.Sprintf("right %d", i)
		events = append(events, pair(i, a, b))
		want += a + "\x00" + b + "\x00"
	}
	tempDir(t)
	line, _ = rerunOf(t, RerunConfig{Batch: 2}, events...)
	require.Equal(t, want+"last\x00", contents(t, rerunFile.FindStringSubmatch(line)[1]))
}

func TestRerunOfTasksThatReadRecords(t *testing.T) {
	reads := func(stdin string, records ...[]string) task.Event {
		e := failedTask(records...)
		e.Task.Stdin = []byte(stdin)
		return e
	}
	for _, c := range []struct {
		name, sep string
		e         task.Event
		options   string
		want      string // in the line, or in the file
	}{
		{"lines", "\n", reads("a\nb\n", []string{"a"}, []string{"b"}), "", "a b"},
		{"columns as they were read", "\n", reads("a,b\n", []string{"a", "b"}), "", "a,b"},
		{"NUL", "\x00", reads("a\x00b c\x00", []string{"a"}, []string{"b c"}), "", "a 'b c'"},
		{"lines in a file", "\n", reads("a\tb\nc\n", []string{"a\tb"}, []string{"c"}), "-a ", "a\tb\nc\n"},
		{"two bytes in a file", "--", reads("a\nb--c--", []string{"a\nb"}, []string{"c"}), "-a ", "a\nb--c--"},
		{"NUL in a file", "\x00", reads("a\nb\x00c\x00", []string{"a\nb"}, []string{"c"}), "-a ", "a\nb\x00c\x00"},
		{"a record of two lines", "\n", reads("a\nb\n", []string{"a\nb"}), "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			tempDir(t)
			line, rest := rerunOf(t, RerunConfig{RerunRecords: RerunRecords{Stdin: c.sep}}, c.e)
			require.Empty(t, rest)
			if file := rerunFile.FindStringSubmatch(line); file != nil {
				require.Equal(t, "crew -k "+c.options+file[1]+" job", line)
				require.Equal(t, c.want, contents(t, file[1]))
			} else if c.want != "" {
				require.Equal(t, "crew -k "+c.options+"job ::: "+c.want, line)
			} else {
				require.Empty(t, line)
			}
		})
	}
}

// A product's columns are joined by blanks for tasks that read them, and a file
// could not keep them apart.
func TestRerunOfProductsThatTasksRead(t *testing.T) {
	dir, cfg := tempDir(t), RerunConfig{Line: crewLine, RerunRecords: RerunRecords{Stdin: "\n", Columns: true}}
	good, tab, long := failedTask([]string{"a", "1 2"}), failedTask([]string{"a\tb", "1"}), failedTask([]string{strings.Repeat("x", 3000), "1"})
	line, rest := rerunOf(t, cfg, tab, long, good)
	require.Equal(t, "crew -k job ::: a :::+ '1 2'", line)
	require.Equal(t, "crew: 2 failed tasks cannot be run again from a list\n", rest)

	cfg.Header = func() []string { return []string{"a\x01", "b"} }
	require.Contains(t, digestOf(t, cfg, good), "crew: 1 failed task cannot be run again from a list\n")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

// With another number a task would be another command, which might overwrite what
// the first run has made.
func TestRerunOfNumberedTasks(t *testing.T) {
	no := func(cfg RerunConfig, e task.Event) string {
		cfg.Line = crewLine
		_, rest, _ := strings.Cut(digestOf(t, cfg, e), "crew: 1 failed task cannot be run again from a list, where ")
		return rest
	}
	number := func(*task.Task) string { return "{#} would be another number" }
	for _, cfg := range []RerunConfig{{}, {RerunRecords: RerunRecords{JSON: true}}} {
		cfg.Unlike = number
		require.Regexp(t, `^\{#\} would be another number`, no(cfg, failedTask([]string{"a"})))
	}
}

func TestRerunWhenNoFileCanBeCreated(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	t.Setenv("TMPDIR", missing)
	for _, e := range []task.Event{
		failedTask([]string{"\x01"}), failedTask([]string{strings.Repeat("x", 3000)}), failedTask([]string{"a", "b"}, []string{"c"}),
	} {
		got := digestOf(t, RerunConfig{Line: crewLine}, e, e)
		require.Contains(t, got, "crew: no line to run them again, as their records cannot be kept: open "+missing)
		require.NotContains(t, got, "again: crew")
	}
}

func TestRerunFullDisk(t *testing.T) {
	dir, r := tempDir(t), &rerun{cfg: RerunConfig{Line: crewLine}}
	r.add(failedTask([]string{"\x01"}).Task)
	r.file.Close() // the write fails, as on a full disk
	require.Contains(t, r.text(), "crew: no line to run them again, as their records cannot be kept: write ")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestRerunNotOfferedWhenNobodyReads(t *testing.T) {
	dir := tempDir(t)
	require.Equal(t, "crew: nobody reads stdout any more: 0 of 2 tasks done in 3.2s; 1 failed, 1 interrupted\n",
		digestOf(t, RerunConfig{Line: crewLine}, failedTask([]string{"\x01"}),
			task.Event{Kind: task.Stopping, Text: "SIGPIPE"}, inputEnd, ended(2, task.Result{Outcome: task.Cancelled})))
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

// A file with nothing but the names of the columns is of no use.
func TestRerunLeavesNoUnusedFile(t *testing.T) {
	dir, cfg := tempDir(t), RerunConfig{Line: crewLine, RerunRecords: RerunRecords{Columns: true}}
	cfg.Header = func() []string { return []string{"h\x01", "z"} }
	require.Contains(t, digestOf(t, cfg, failedTask([]string{unit, "1"})), "crew: 1 failed task cannot be run again from a list\n")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestRerunObjectsAreOriginal(t *testing.T) {
	e := failedTask()
	e.Task.Object = `{"command":"x","n":1.0}`
	tempDir(t)
	line, _ := rerunOf(t, RerunConfig{RerunRecords: RerunRecords{JSON: true}}, e)
	got, err := os.ReadFile(rerunFile.FindStringSubmatch(line)[1])
	require.NoError(t, err)
	require.True(t, json.Valid(got))
	require.Equal(t, e.Task.Object+"\n", string(got))
}

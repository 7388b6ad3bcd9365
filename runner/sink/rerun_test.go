package sink

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/task"
)

// tempDir makes a new directory os.TempDir() for this test.
func tempDir(t *testing.T) string {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	t.Setenv("XDG_STATE_HOME", "")
	t.Setenv("HOME", "")
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

func TestRerun(t *testing.T) {
	row := func(records ...[]string) task.Event { return failedTask(records...) }
	one := func(record string) task.Event { return row([]string{record}) }
	numbered := func(id uint64, records ...string) task.Event {
		e := failedTask()
		e.ID, e.Task.ID = id, id
		for _, r := range records {
			e.Task.Records = append(e.Task.Records, []string{r})
		}
		return e
	}
	reads := func(stdin string, records ...[]string) task.Event {
		e := row(records...)
		e.Task.Stdin = []byte(stdin)
		return e
	}
	bad, object := one("too long"), one("ignored")
	bad.Task.Err = os.ErrInvalid
	object.Task.Object = "{\"args\":[\"a\"],\t\"n\":1.0}"
	var many, pairs []task.Event
	all, left := "", ""
	for i := range 1000 {
		many = append(many, one(fmt.Sprint("record ", i)))
		all += fmt.Sprint("record ", i, "\x00")
	}
	pairs = append(pairs, numbered(300, "last"))
	for i := uint64(1); i < 300; i++ {
		a, b := fmt.Sprintf("left %d", i), fmt.Sprintf("right %d", i)
		pairs = append(pairs, numbered(i, a, b))
		left += a + "\x00" + b + "\x00"
	}
	header := func(names ...string) func() []string { return func() []string { return names } }
	number := func(*task.Task) string { return "{#} would be another number" }
	cols, objects := RerunRecords{Columns: true}, RerunRecords{JSON: true}
	product := RerunRecords{Stdin: "\n", Columns: true}
	read := func(sep string) RerunConfig { return RerunConfig{RerunRecords: RerunRecords{Stdin: sep}} }
	const anew = ": run all again, with --state DIR, where --retry-failed can run such tasks alone"
	cannot := func(n int) string {
		return "crew: " + task.Count(int64(n), "task") + " cannot be run again from a list"
	}
	for _, c := range []struct {
		name   string
		cfg    RerunConfig
		events []task.Event
		again  string // the line, with FILE for a file; empty for none
		rest   string
		file   string
	}{
		{"a column", RerunConfig{}, []task.Event{one("a b"), row([]string{"it's"}, []string{""})}, `::: 'a b' 'it'\''s' ''`, "", ""},
		{"columns", RerunConfig{RerunRecords: cols}, []task.Event{row([]string{"a", "b"}), row([]string{"c", ""})}, `::: a c :::+ b ''`, "", ""},
		{"header", RerunConfig{RerunRecords: cols, Header: header("x", "y z")}, []task.Event{row([]string{"a", "b"})},
			`::: x a :::+ 'y z' b`, "", ""},

		{"too long for a line", RerunConfig{}, many, "-0 -a FILE", "", all},
		{"header in a file", RerunConfig{Header: header("name")}, many, "-0 -a FILE", "", "name\x00" + all},
		{"columns in a file", RerunConfig{RerunRecords: cols},
			[]task.Event{row([]string{"a", "b\nc"}), one("\xff"), row([]string{"", ""})}, `-0 -C '\x1f' -a FILE`, "", "a\x1fb\nc\x00\xff\x00\x1f\x00"},
		{"a value like a separator", RerunConfig{}, []task.Event{one(":::+")}, "-0 -a FILE", "", ":::+\x00"},
		{"a tab", RerunConfig{}, []task.Event{one("a\tb")}, "-0 -a FILE", "", "a\tb\x00"},
		{"objects", RerunConfig{RerunRecords: objects}, []task.Event{object, object}, "-a FILE", "",
			strings.Repeat(object.Task.Object+"\n", 2)},

		{"no list can hold them", RerunConfig{RerunRecords: cols}, []task.Event{bad, row([]string{"a\x1fb", "c"}), row(), one("good"), one("nul\x00")},
			"::: good", cannot(3) + anew + "\ncrew: 1 task cannot be run as the records are: mend it, and give it again", ""},
		{"no object", RerunConfig{RerunRecords: objects}, []task.Event{one("")}, "", cannot(1) + anew, ""},
		{"names of columns alone", RerunConfig{RerunRecords: cols, Header: header("h\x01", "z")}, []task.Event{row([]string{unit, "1"})}, "", cannot(1) + anew, ""},
		// With another number a task would be another command, which might overwrite what
		// the first run has made.
		{"numbers", RerunConfig{Unlike: number}, []task.Event{one("a")}, "",
			cannot(1) + ", where {#} would be another number" + anew, ""},
		{"numbers of objects", RerunConfig{Unlike: number, RerunRecords: objects, State: true}, []task.Event{object}, "",
			cannot(1) + ", where {#} would be another number: the same command with --retry-failed runs it again", ""},

		{"pairs", RerunConfig{Batch: 2}, []task.Event{numbered(3, "e"), numbered(2, "c", "d"), numbered(1, "a", "b")}, "::: a b c d e", "", ""},
		{"two that would become one", RerunConfig{Batch: 2}, []task.Event{numbered(4, "x"), numbered(2, "y"), numbered(1, "a", "b")},
			"::: a b x", cannot(1) + anew, ""},
		{"pairs in a file", RerunConfig{Batch: 2}, pairs, "-0 -a FILE", "", left + "last\x00"},

		{"read lines", read("\n"), []task.Event{reads("a\nb\n", []string{"a"}, []string{"b"})}, "::: a b", "", ""},
		{"read columns", read("\n"), []task.Event{reads("a,b\n", []string{"a", "b"})}, "::: a,b", "", ""},
		{"read NUL", read("\x00"), []task.Event{reads("a\x00b c\x00", []string{"a"}, []string{"b c"})}, "::: a 'b c'", "", ""},
		{"read lines in a file", read("\n"), []task.Event{reads("a\tb\nc\n", []string{"a\tb"}, []string{"c"})}, "-a FILE", "", "a\tb\nc\n"},
		{"read after two bytes", read("--"), []task.Event{reads("a\nb--c--", []string{"a\nb"}, []string{"c"})}, "-a FILE", "", "a\nb--c--"},
		{"read NUL in a file", read("\x00"), []task.Event{reads("a\nb\x00c\x00", []string{"a\nb"}, []string{"c"})}, "-a FILE", "", "a\nb\x00c\x00"},
		{"a read record of two lines", read("\n"), []task.Event{reads("a\nb\n", []string{"a\nb"})}, "", cannot(1) + anew, ""},
		// A product's columns are joined by blanks for tasks that read them, and a file
		// could not keep them apart.
		{"a read product", RerunConfig{RerunRecords: product},
			[]task.Event{row([]string{"a\tb", "1"}), row([]string{strings.Repeat("x", 3000), "1"}), row([]string{"a", "1 2"})},
			"::: a :::+ '1 2'", cannot(2) + anew, ""},
		{"a read product with odd names", RerunConfig{RerunRecords: product, Header: header("a\x01", "b")},
			[]task.Event{row([]string{"a", "1 2"})}, "", cannot(1) + anew, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := tempDir(t)
			c.cfg.Line = crewLine
			want := ""
			if c.again != "" {
				want = "crew: run them again: " + crewLine(c.again, "") + "\n"
			}
			if options, values, found := strings.Cut(c.again, ":::"); found {
				want = "crew: run them again: " + crewLine(options, ":::"+values) + "\n"
			}
			if c.rest != "" {
				want += c.rest + "\n"
			}
			got := digestOf(t, c.cfg, c.events...)
			left, err := filepath.Glob(dir + "/*")
			require.NoError(t, err)
			if strings.Contains(c.again, "FILE") {
				require.Len(t, left, 1)
				require.Equal(t, c.file, contents(t, left[0]))
				info, err := os.Stat(left[0])
				require.NoError(t, err)
				require.Equal(t, os.FileMode(0o600), info.Mode())
				got = strings.Replace(got, left[0], "FILE", 1)
			} else {
				require.Empty(t, left)
			}
			require.Equal(t, want, strings.Replace(rerunOf(got), "run it again", "run them again", 1))
		})
	}
}

// rerunOf returns the lines of a digest about running tasks again.
func rerunOf(digest string) (lines string) {
	for l := range strings.Lines(digest) {
		if strings.Contains(l, " again: ") || strings.Contains(l, " cannot be run ") {
			lines += l
		}
	}
	return lines
}

func TestRerunLineIsForTheShell(t *testing.T) {
	values := []string{"a b", "it's", "", "$HOME `x`", "~", "é", "*", "-n", "\\"}
	var records [][]string
	for _, v := range values {
		records = append(records, []string{v})
	}
	_, words, _ := strings.Cut(rerunOf(digestOf(t, RerunConfig{Line: crewLine}, failedTask(records...))), ":::")
	out, err := exec.Command("/bin/sh", "-c", `printf '%s\0' `+words).Output()
	require.NoError(t, err)
	require.Equal(t, strings.Join(values, "\x00")+"\x00", string(out))
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

func TestRerunWhenNoFileCanBeCreated(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	tempDir(t)
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

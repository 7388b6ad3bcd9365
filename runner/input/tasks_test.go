package input

import (
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/expand"
	"crew/runner/task"
)

func template(t testing.TB, cfg expand.Config) *expand.Template {
	t.Helper()
	tmpl, err := expand.New(cfg)
	require.NoError(t, err)
	return tmpl
}

func textOf(t testing.TB, s string) *expand.Text {
	t.Helper()
	text, err := expand.NewText(s, expand.Config{Fields: true})
	require.NoError(t, err)
	return text
}

// count numbers tasks from 1.
func count() func() uint64 {
	n := uint64(0)
	return func() uint64 { n++; return n }
}

// tasks returns all tasks, and checks that their numbers have no gap.
func tasks(t *testing.T, in Config, cfg TasksConfig) []*task.Task {
	t.Helper()
	r, err := Open(in)
	require.NoError(t, err)
	defer r.Close()
	require.NoError(t, cfg.Validate())
	src, number := NewTasks(r, cfg), count()
	var list []*task.Task
	for {
		tk, err := src.Next(number)
		if err == io.EOF {
			return list
		}
		require.NoError(t, err)
		list = append(list, tk)
		require.EqualValues(t, len(list), tk.ID)
	}
}

// show formats tasks as "command|command", with ! before an Err.
func show(list []*task.Task) string {
	var s []string
	for _, tk := range list {
		if tk.Err != nil {
			s = append(s, "!"+tk.Err.Error())
			continue
		}
		s = append(s, strings.Join(tk.Argv, " "))
	}
	return strings.Join(s, "|")
}

func lines(s string) Config { return Config{Stdin: strings.NewReader(s)} }

func TestSingle(t *testing.T) {
	list := tasks(t, lines("a b\n\nc"), TasksConfig{
		Template: template(t, expand.Config{Words: []string{"run", "{}", "x{#}"}}),
		Texts:    Texts{Key: textOf(t, "k-{}"), Tag: textOf(t, "{}:")},
	})
	require.Equal(t, "run a b x1|run  x2|run c x3", show(list))
	tk := list[0]
	require.Equal(t, []string{"run", "a b", "x1"}, tk.Argv)
	require.Equal(t, [][]string{{"a b"}}, tk.Records)
	require.Equal(t, "k-a b", tk.Key)
	require.Equal(t, "a b:", tk.Tag)
	require.Zero(t, tk.Cost)
	require.Nil(t, tk.Stdin)
	require.Empty(t, tk.Marks)
	require.False(t, tk.Shell)
}

func TestShellAndWorker(t *testing.T) {
	list := tasks(t, lines("a'b\nc\n"), TasksConfig{Template: template(t, expand.Config{Words: []string{"echo {} >{%}"}})})
	require.Len(t, list, 2)
	for i, want := range []string{`a'\''b`, "c"} {
		tk := list[i]
		require.True(t, tk.Shell)
		got := tk.ArgvOn(7, "", nil)
		require.Len(t, got, 3)
		require.Contains(t, got[2], want)
		require.Contains(t, got[2], ">7")
		exec := tk.ExecOn(7, "", nil)
		require.Equal(t, []string{tk.Records[0][0], "7"}, exec[len(exec)-2:])
	}
}

// Without a command, each record is one, and only some need a shell.
func TestNoCommand(t *testing.T) {
	in := lines("# all\n\nls -l\necho $HOME\n")
	in.Comments = true
	list := tasks(t, in, TasksConfig{Template: template(t, expand.Config{})})
	require.Len(t, list, 2)
	require.Equal(t, []string{"ls", "-l"}, list[0].Argv)
	require.False(t, list[0].Shell)
	require.Equal(t, []string{"/bin/sh", "-c", "echo $HOME"}, list[1].Argv)
	require.True(t, list[1].Shell)
}

func TestCost(t *testing.T) {
	list := tasks(t, lines("3\n0.2\n2.5\n1e3\n1e19\n9e99\n0\n-1\nmany\n\ninf\nnan\n0x9p1\n"), TasksConfig{
		Template: template(t, expand.Config{Words: []string{"x"}, Insert: expand.AtEnd}), Texts: Texts{Cost: textOf(t, "{}")},
	})
	for i, want := range []int64{3, 1, 3, 1000, math.MaxInt64, math.MaxInt64} {
		require.NoError(t, list[i].Err)
		require.Equal(t, want, list[i].Cost)
	}
	require.Len(t, list, 13)
	for _, tk := range list[6:] {
		require.EqualError(t, tk.Err, fmt.Sprintf("cost %q is not a positive number", tk.Records[0][0]))
		require.Zero(t, tk.Cost)
	}
}

func TestStdin(t *testing.T) {
	cfg := TasksConfig{Template: template(t, expand.Config{Words: []string{"cat"}}), Stdin: true}
	in := lines("a\tb\n\nc")
	in.Format.Colsep, _ = ParseColsep(`\t`)
	list := tasks(t, in, cfg)
	require.Equal(t, "cat|cat|cat", show(list))
	require.Equal(t, "a\tb\n", string(list[0].Stdin))
	require.Equal(t, "\n", string(list[1].Stdin))
	require.Equal(t, "c\n", string(list[2].Stdin))

	list = tasks(t, Config{Stdin: strings.NewReader("a\nb\x00"), Format: Format{Delimiter: "\x00"}}, cfg)
	require.Equal(t, "a\nb\x00", string(list[0].Stdin))

	list = tasks(t, Config{Stdin: strings.NewReader("\"a,\",b\r\n"), Format: Format{Kind: CSV}}, cfg)
	require.Equal(t, "\"a,\",b\n", string(list[0].Stdin))

	list = tasks(t, Config{Groups: []Group{values("a"), values("b")}}, cfg)
	require.Equal(t, "a b\n", string(list[0].Stdin))

	cfg.Limits = Limits{Records: 2}
	list = tasks(t, lines("a\nb\nc\n"), cfg)
	require.Equal(t, "a\nb\n", string(list[0].Stdin))
	require.Equal(t, "c\n", string(list[1].Stdin))
}

// A record too long for the system affects neither other tasks nor their numbers.
func TestTooLong(t *testing.T) {
	most := strings.Repeat("x", maxArgument)
	cfg := TasksConfig{Template: template(t, expand.Config{Words: []string{"echo", "{}"}}), Limits: Limits{ArgMax: 1 << 20}}
	list := tasks(t, lines("a\n"+most+"\n"+most+"y\nb\n"), cfg)
	require.Len(t, list, 4)
	require.NoError(t, list[1].Err)
	require.EqualError(t, list[2].Err, "argument list too long: record is 131072 bytes, the limit is 131071")
	require.ErrorIs(t, list[2].Err, errTooLong)
	require.Nil(t, list[2].Argv)
	require.Equal(t, "b", list[3].Argv[1])

	cfg.Limits.ArgMax = 30 // echo and its NUL, the record and its NUL, two pointers
	list = tasks(t, lines("12345678\n123456789\nb\n"), cfg)
	require.Equal(t, "echo 12345678|!argument list too long: record is 9 bytes, the limit is 8|echo b", show(list))
}

func objects(lines ...string) Config {
	return Config{Format: Format{Kind: JSON}, Stdin: strings.NewReader(strings.Join(lines, "\n"))}
}

// With a command, an object is data, whatever its members are called.
func TestJSONData(t *testing.T) {
	hostile := `{"command":"touch X","args":["y"],"env":{"LD_PRELOAD":"z"},"dir":"/nowhere","timeout":1,"key":"k","cost":3,"stdin":"s","who":"me","id":[],"after":"x"}`
	list := tasks(t, objects(hostile, `{"who":{"a": 1},"args":[ ],"key":null,"cost":0.5}`, `{"who":1,"args":1,"key":2,"cost":"none"}`,
		`{"whom":1,"args":1,"key":2,"cost":1}`, `[]`), TasksConfig{
		Template: template(t, expand.Config{Words: []string{"run", "{who}", "{args}", "{}"}, Fields: true, Insert: expand.AtEnd}),
		Texts:    Texts{Key: textOf(t, "<{key}>"), Cost: textOf(t, "{cost}")}, Stdin: true,
	})
	require.Len(t, list, 5)
	tk := list[0]
	require.NoError(t, tk.Err)
	require.Equal(t, []string{"run", "me", `["y"]`, hostile}, tk.Argv)
	require.Empty(t, tk.Env)
	require.Empty(t, tk.Dir)
	require.Zero(t, tk.Timeout)
	require.Nil(t, tk.Asked)
	require.Equal(t, hostile+"\n", string(tk.Stdin))
	require.Equal(t, "<k>", tk.Key)
	require.EqualValues(t, 3, tk.Cost)
	require.Equal(t, hostile, tk.Object)
	require.Equal(t, [][]string{{hostile}}, tk.Records)

	require.Equal(t, []string{"run", `{"a":1}`, "[]"}, list[1].Argv[:3])
	require.Equal(t, "<>", list[1].Key)
	require.EqualError(t, list[2].Err, `cost "none" is not a positive number`)
	require.EqualError(t, list[3].Err, `line 4 of standard input: the object has no member "who": did you mean "whom"?`)
	require.EqualError(t, list[4].Err, "line 5 of standard input: not a JSON object")

	list = tasks(t, objects(`{"a":1}`), TasksConfig{Template: template(t, expand.Config{Words: []string{"run"}, Fields: true, Insert: expand.AtEnd})})
	require.Equal(t, []string{"run", `{"a":1}`}, list[0].Argv)

	list = tasks(t, objects(`{"id":1,"after":2}`, `{"id":1,"after":1}`), TasksConfig{Template: template(t, expand.Config{Words: []string{"run", "{id}", "{after}"}, Fields: true})})
	require.Equal(t, "run 1 2|run 1 1", show(list))
	require.Nil(t, list[1].Asked)
}

// Without a command, an object is a task, and nothing in it is expanded.
func TestJSONTasks(t *testing.T) {
	cfg := TasksConfig{Template: template(t, expand.Config{Fields: true}), Objects: true}
	one := func(s string) *task.Task { return tasks(t, objects(s), cfg)[0] }
	tk := one(`{"args":["a b","$HOME"],"command":["printf","{}"],"key":"k","cost":2.5,"env":{"A":"1"},"dir":"/tmp","stdin":"in","timeout":2}`)
	require.NoError(t, tk.Err)
	require.Equal(t, []string{"printf", "{}", "a b", "$HOME"}, tk.Argv)
	require.Equal(t, []string{"A=1"}, tk.Env)
	require.Equal(t, "/tmp", tk.Dir)
	require.Equal(t, "in", string(tk.Stdin))
	require.Equal(t, 2*time.Second, tk.Timeout)
	require.Equal(t, "k", tk.Key)
	require.EqualValues(t, 3, tk.Cost)
	require.Equal(t, [][]string{{"a b", "$HOME"}}, tk.Records)

	require.Equal(t, []string{"ls"}, one(`{"command":"ls"}`).Argv)
	require.Equal(t, []string{"ls", "-l", "a b"}, one(`{"args":["a b"],"command":"ls -l"}`).Argv)
	require.Equal(t, []string{"echo", "a b"}, one(`{"args":["echo","a b"]}`).Argv)
	tk = one(`{"command":"echo {} | cat"}`)
	require.True(t, tk.Shell)
	require.Equal(t, []string{"/bin/sh", "-c", "echo {} | cat"}, tk.Argv)
	tk = one(`{"command":"echo \"$@\" | cat","args":["x'; y"]}`)
	require.False(t, tk.Shell)
	require.Equal(t, []string{"/bin/sh", "-c", `echo "$@" | cat`, "sh", "x'; y"}, tk.Argv)

	for in, want := range map[string]string{
		`{"command":"cd /; ls","args":["x"]}`: `the script does not mention its arguments: write "$@" where they go`,
		`{"command":"x","timout":1}`:          `line 1 of standard input: "timout" is no member of a task: did you mean "timeout"?`,
		`{"key":"k"}`:                         `line 1 of standard input: no command: neither the command line nor "command" nor "args" has one`,
		`{"command":"x","cost":"none"}`:       `cost "none" is not a positive number`,
		`{"args":["echo","` + strings.Repeat("x", maxArgument+1) + `"]}`: `argument list too long: record is 131077 bytes, the limit is 131076`,
	} {
		tk := one(in)
		require.EqualError(t, tk.Err, want)
		require.Nil(t, tk.Argv)
	}

	cfg.Key = textOf(t, "{dir}")
	require.Equal(t, "/tmp", one(`{"command":"ls","dir":"/tmp"}`).Key)
	require.EqualError(t, one(`{"command":"ls"}`).Err, `line 1 of standard input: the object has no member "dir"`)

	cfg.Key, cfg.Limits.ArgMax = nil, 60
	require.NoError(t, one(`{"args":["echo","x"]}`).Err)
	require.ErrorIs(t, one(`{"args":["echo","x"],"env":{"A":"`+strings.Repeat("x", 30)+`"}}`).Err, errTooLong)
}

func TestTasksConfigValidate(t *testing.T) {
	require.NoError(t, TasksConfig{}.Validate())
	for _, l := range []Limits{{Records: -1}, {Chars: -1}, {ArgMax: -1}} {
		require.ErrorContains(t, TasksConfig{Limits: l}.Validate(), "is -1: it must be positive")
	}
}

package input

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/expand"
	"crew/runner/task"
)

// TestGive: values that are given one after another make the tasks that they would
// make together on the command line.
func TestGive(t *testing.T) {
	values := []string{"a b", "", "c\nd", "\xff", `"x,y",z`, "#"}
	for _, format := range []Format{{}, {Kind: CSV}} {
		cfg := TasksConfig{
			Template: template(t, expand.Config{Words: []string{"run", "{1}", "{#}"}}), Texts: Texts{Key: textOf(t, "k-{}"), Tag: textOf(t, "{}:")},
		}
		want := tasks(t, Config{Groups: []Group{{Values: values}}, Format: format}, cfg)

		r, err := Open(Config{Groups: []Group{{Values: []string{}}}, Format: format})
		require.NoError(t, err)
		src, number := NewTasks(r, cfg), count()
		var got []*task.Task
		for _, v := range values {
			_, err := src.Next(number)
			require.Equal(t, io.EOF, err)
			src.Give([]string{v})
			tk, err := src.Next(number)
			if err == nil {
				got = append(got, tk)
			}
		}
		require.Equal(t, want, got)
	}
}

// TestGiveNames: what is given may come after tasks that others have named, and what is
// undone was never there.
func TestGiveNames(t *testing.T) {
	r, err := Open(Config{Groups: []Group{{Values: []string{}}}, Format: Format{Kind: JSON}})
	require.NoError(t, err)
	src, number := NewTasks(r, TasksConfig{Template: template(t, expand.Config{Fields: true}), Objects: true}), uint64(20)
	give := func(values ...string) (list []*task.Task) {
		src.Give(values)
		for {
			tk, err := src.Next(func() uint64 { number++; return number })
			if err == io.EOF {
				return list
			}
			require.NoError(t, err)
			list = append(list, tk)
		}
	}
	names := src.Names()
	require.EqualValues(t, 7, names.Define("old", 7))
	require.EqualValues(t, 20, names.Define("command", 20))

	names.Begin()
	list := give(`{"command":"x","id":"a","after":["old","command"]}`, `{"command":"x","id":"b","after":"a"}`, `{"command":"x","id":"old"}`)
	require.Equal(t, &task.Terms{Name: "a", After: []uint64{7, 20}}, list[0].Asked)
	require.Equal(t, &task.Terms{Name: "b", After: []uint64{21}}, list[1].Asked)
	require.EqualError(t, list[2].Err, `value 3: "id" "old" is that of task 7, too`)
	require.EqualValues(t, 22, names.Lookup("b"))

	number = 21
	names.Undo(number)
	list = give(`{"command":"x","after":"b"}`, `{"command":"x","id":"b","after":"a"}`)
	require.EqualError(t, list[0].Err, `value 1: "after": no record before has the id "b"`)
	require.Equal(t, &task.Terms{Name: "b", After: []uint64{21}}, list[1].Asked)
	require.Equal(t, 4, names.Len())
}

func TestCommand(t *testing.T) {
	r, err := Open(Config{Groups: []Group{{Values: []string{}}}})
	require.NoError(t, err)
	src := NewTasks(r, TasksConfig{Template: template(t, expand.Config{}), Texts: Texts{Key: textOf(t, "k-{}"), Tag: textOf(t, "{}:")}})
	for _, c := range []struct {
		words, argv []string
		record      string
	}{
		{[]string{"echo", "{}", "a b", "\xff"}, []string{"echo", "{}", "a b", "\xff"}, "echo '{}' 'a b' '\xff'"},
		{[]string{"gzip -9 x"}, []string{"gzip", "-9", "x"}, "gzip -9 x"},
		{[]string{"make"}, []string{"make"}, "make"},
		{[]string{"echo $HOME | wc -c"}, []string{"/bin/sh", "-c", "echo $HOME | wc -c"}, "echo $HOME | wc -c"},
		{[]string{"my prog", "x"}, []string{"my prog", "x"}, "'my prog' x"},
	} {
		tk := src.Command(c.words, 7)
		require.NoError(t, tk.Err)
		require.Equal(t, c.argv, tk.Argv)
		require.Equal(t, [][]string{{c.record}}, tk.Records)
		require.Equal(t, "k-"+c.record, tk.Key)
		require.Equal(t, c.record+":", tk.Tag)
		require.EqualValues(t, 7, tk.ID)
	}
	require.ErrorContains(t, src.Command([]string{"cat <(ls)"}, 1).Err, "bash")
}

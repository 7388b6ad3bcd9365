package input

import (
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/expand"
	"crew/runner/task"
)

// A file that a task makes counts once, however it is written.
func TestFilesOfATask(t *testing.T) {
	text := func(s string) *expand.Text {
		text, err := expand.NewText(s, expand.Config{})
		require.NoError(t, err)
		return text
	}
	for _, c := range []struct {
		files   Files
		records [][]string
		want    []task.Target
		err     string
	}{
		{Files{Makes: []Made{{text("{}.o"), true}}}, [][]string{{"a"}, {"b"}, {"./a"}}, []task.Target{{Path: "a.o", Temp: true}, {Path: "b.o", Temp: true}}, ""},
		{Files{Makes: []Made{{text("{1}/"), false}, {text("d/../{1}"), true}}}, [][]string{{"a"}}, []task.Target{{Path: "a", Temp: true}}, ""},
		{Files{Makes: []Made{{text("all"), true}, {text("{1}.o"), false}}}, [][]string{{"a"}, {"b"}}, []task.Target{{Path: "all", Temp: true}, {Path: "a.o"}, {Path: "b.o"}}, ""},
		{Files{Makes: []Made{{text("{}"), true}}}, [][]string{{"d/.."}}, nil, `"d/.." is no name of a file`},
		{Files{Makes: []Made{{text("{}"), true}}}, [][]string{{"//"}}, nil, `"//" is no name of a file`},
		{Files{Makes: []Made{{text("{}"), false}, {text("./{}"), true}}, Stdout: true}, [][]string{{"a"}}, nil, "nothing else goes to"},
		{Files{Makes: []Made{{text("{}"), true}}, Stdout: true}, [][]string{{"a"}, {"b"}}, nil, "standard output goes to one file"},
	} {
		tk := &task.Task{Records: c.records}
		m, err := c.files.of(tk, &expand.Values{Records: c.records, Seq: 1})
		if c.err != "" {
			require.ErrorContains(t, err, c.err)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, c.want, m.Targets)
	}
}

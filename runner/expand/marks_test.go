package expand

import (
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/task"
)

// TestMarks checks that a command expanded before its slot is known ends up the
// same as one expanded for that slot.
func TestMarks(t *testing.T) {
	for _, words := range [][]string{
		{"x", "{%}", "w{%}-{#}-{%}{}", "{}"},
		{"x", "{}{%}", "{%}"},
		{"echo {} >{%}; echo \"$x{%} '{%}'\" '{%}' {%}{%}"},
		{"echo $x{%} \"$x{%}\" {%}>f $(cat {%}) `cat {%}`; cat <<E\n{%} {}\nE\n"},
		{"sh", "-c", "echo \"{%}\" $1", "{%}", "{}"},
	} {
		for _, shell := range []string{"", "bash", "fish"} {
			tm, err := New(Config{Words: words, Shell: shell, Append: true, Batch: true})
			if err != nil {
				continue
			}
			for _, records := range [][][]string{{{"a {%} b"}}, {{"{%}"}, {"it's"}, {""}}} {
				v := Values{Records: records, Seq: 5}
				var tk task.Task
				tm.Fill(&tk, v)
				v.Worker = 12
				want, _ := tm.Argv(v)
				require.Equal(t, want, tk.ArgvOn(12), "%q", words)
				require.True(t, tk.Varies(), "%q", words)
			}
		}
	}
}

func TestTagMarks(t *testing.T) {
	v := Values{Records: [][]string{{"{%}", "b"}}, Seq: 5}
	for _, s := range []string{"{%}", "{}:{%}{%}", "{1}", ""} {
		text := compiled(t, s, Config{})
		tk := task.Task{Marks: []task.Mark{}}
		text.FillTag(&tk, v)
		with := v
		with.Worker = 3
		require.Equal(t, text.Expand(with), tk.TagOn(3), s)
		require.False(t, tk.Varies())
	}
}

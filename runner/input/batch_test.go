package input

import (
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"crew/runner/expand"
)

func TestBatch(t *testing.T) {
	for _, tc := range []struct {
		name, in string
		words    string
		limits   Limits
		want     string
	}{
		{"full and rest", "a\nb\nc\n", "echo", Limits{Records: 2}, "echo a b|echo c"},
		{"exactly full", "a\nb\n", "echo", Limits{Records: 2}, "echo a b"},
		{"nothing", "", "echo", Limits{Records: 2}, ""},
		{"in the middle", "a\nb\nc\n", "echo {} end", Limits{Records: 2}, "echo a b end|echo c end"},
		{"chars", "aa\nbb\ncc\ndd\n", "echo", Limits{Chars: 11}, "echo aa bb|echo cc dd"},
		{"chars, one less", "aa\nbb\ncc\n", "echo", Limits{Chars: 10}, "echo aa|echo bb|echo cc"},
		{"chars and records", "a\nb\nc\nd\n", "echo", Limits{Chars: 100, Records: 3}, "echo a b c|echo d"},
		{"one by one with chars", "a\nbbbbbbbbb\n", "echo", Limits{Chars: 9, Records: 1},
			"echo a|!argument list too long: record is 9 bytes, the limit is 3"},
		{"a record that does not fit", "a\nb\nxxxxxxxxx\nc\nd\n", "echo", Limits{Chars: 12},
			"echo a b|!argument list too long: record is 9 bytes, the limit is 6|echo c d"},
		{"two that do not fit", "xxxxxxxxx\nxxxxxxxxx\nc\n", "echo", Limits{Chars: 12},
			"!argument list too long: record is 9 bytes, the limit is 6|!argument list too long: record is 9 bytes, the limit is 6|echo c"},
		{"limit of the system", "aa\nbb\ncc\n", "echo", Limits{Records: 9, ArgMax: 13 + 2*11}, "echo aa bb|echo cc"},
	} {
		for _, p := range pieces {
			t.Run(tc.name+"/"+p.name, func(t *testing.T) {
				in := Config{Stdin: p.of(strings.NewReader(tc.in))}
				list := tasks(t, in, TasksConfig{
					Template: template(t, expand.Config{Words: strings.Fields(tc.words), Insert: expand.AtEnd, Batch: true}),
					Limits:   tc.limits,
				})
				require.Equal(t, tc.want, show(list))
			})
		}
	}
}

// An argument can be too long for the system while the command is not.
func TestBatchLongArguments(t *testing.T) {
	long := strings.Repeat("x", maxArgument-2)
	list := tasks(t, lines("a\n"+long+"xx\n"+long+"xxx\nb\n"), TasksConfig{
		Template: template(t, expand.Config{Words: []string{"echo"}, Insert: expand.AtEnd, Batch: true}),
		Limits:   Limits{Records: 9, ArgMax: 1 << 20},
	})
	require.Len(t, list, 3)
	require.Len(t, list[0].Records, 2)
	require.NoError(t, list[0].Err)
	require.EqualError(t, list[1].Err, "argument list too long: record is 131072 bytes, the limit is 131071")
	require.Equal(t, []string{"echo", "b"}, list[2].Argv)
}

// Words of their own fill a command to the limit of the system, however many there are. In a
// shell, records are arguments of the script, which is shown as one word.
func TestBatchOfMany(t *testing.T) {
	var in strings.Builder
	for i := range 40000 {
		fmt.Fprintf(&in, "%060d\n", i)
	}
	for command, most := range map[string]int{"echo": 1, "echo {}": 1, "echo x{}": 1, "echo {} | cat": 40, `sh -c "echo {} | cat"`: 40} {
		list := tasks(t, lines(in.String()), TasksConfig{
			Template: template(t, expand.Config{Words: []string{command}, Insert: expand.AtEnd, Batch: true}),
			Limits:   Limits{Records: 40000, ArgMax: 4 << 20},
		})
		n := 0
		for _, tk := range list {
			require.NoError(t, tk.Err)
			for _, w := range slices.Concat(tk.Argv, tk.Exec) {
				require.LessOrEqual(t, len(w), maxArgument)
			}
			n += len(tk.Records)
		}
		require.Equal(t, 40000, n, command)
		require.LessOrEqual(t, len(list), most, command)
	}
}

// A malformed row becomes a task of its own, and a read error comes after the
// records before it.
func TestBatchErrors(t *testing.T) {
	cfg := TasksConfig{
		Template: template(t, expand.Config{Words: []string{"echo"}, Insert: expand.AtEnd, Batch: true}),
		Limits:   Limits{Records: 3},
	}
	list := tasks(t, Config{Stdin: strings.NewReader("a,b\n\"x\"y\nc,d\ne,f\n"), Format: Format{Kind: CSV}}, cfg)
	require.Equal(t, "echo a b|!line 2 of standard input: text after the closing quote of field 1|echo c d e f", show(list))

	broken := errors.New("broken")
	r, err := Open(Config{Stdin: io.MultiReader(strings.NewReader("a\nb\nto"), iotest.ErrReader(broken))})
	require.NoError(t, err)
	src, number := NewTasks(r, cfg), count()
	tk, err := src.Next(number)
	require.NoError(t, err)
	require.Equal(t, []string{"echo", "a", "b"}, tk.Argv)
	for range 2 {
		_, err = src.Next(number)
		require.ErrorIs(t, err, broken)
	}
}

func TestBatchStdinChars(t *testing.T) {
	list := tasks(t, lines("aaaa\nbbbb\ncccccccccccccccccccc\nd\n"), TasksConfig{
		Template: template(t, expand.Config{Words: []string{"cat"}, Batch: true}),
		Limits:   Limits{Chars: 14}, Stdin: true,
	})
	var got []string
	for _, tk := range list {
		require.NoError(t, tk.Err)
		got = append(got, string(tk.Stdin))
	}
	require.Equal(t, []string{"aaaa\nbbbb\n", "cccccccccccccccccccc\n", "d\n"}, got)
}

// Batches are cut where xargs cuts them.
func TestBatchAsXargs(t *testing.T) {
	xargs, err := exec.LookPath("xargs")
	if err != nil {
		t.Skip("no xargs here")
	}
	var in strings.Builder
	for i := range 300 {
		in.WriteString(strings.Repeat("w", i*i%13) + "\n")
	}
	for _, l := range []Limits{{Chars: 20}, {Chars: 33}, {Chars: 100, Records: 9}, {Chars: 4000}, {Records: 7}} {
		args := []string{"-d", "\n"}
		if l.Chars > 0 {
			args = append(args, "-s", fmt.Sprint(l.Chars))
		}
		if l.Records > 0 {
			args = append(args, "-n", fmt.Sprint(l.Records))
		}
		cmd := exec.Command(xargs, append(args, "echo", "-")...)
		cmd.Stdin = strings.NewReader(in.String())
		want, err := cmd.Output()
		require.NoError(t, err)
		var got strings.Builder
		for _, tk := range tasks(t, lines(in.String()), TasksConfig{
			Template: template(t, expand.Config{Words: []string{"echo", "-"}, Insert: expand.AtEnd, Batch: true}),
			Limits:   l,
		}) {
			got.WriteString(strings.Join(tk.Argv[1:], " ") + "\n")
		}
		require.Equal(t, string(want), got.String(), "%+v", l)
	}
}

// The first value that cannot stand in quotes makes people see all of them elsewhere, so
// that the command is too long all at once.
func TestBatchInAnotherForm(t *testing.T) {
	list := tasks(t, lines(strings.Repeat("1\n", 100)+"$\n2\n"), TasksConfig{
		Template: template(t, expand.Config{Words: []string{`set -- "{}"x; y`}, Batch: true}),
		Limits:   Limits{Chars: 3000},
	})
	records := 0
	for _, tk := range list {
		require.NoError(t, tk.Err)
		require.LessOrEqual(t, charsOf(tk.Argv), 3000)
		records += len(tk.Records)
	}
	require.Equal(t, 102, records)
}

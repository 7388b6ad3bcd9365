package input

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"crew/runner/expand"
)

// spreadTasks returns tasks of echo, which takes five bytes and the records.
func spreadTasks(t *testing.T, in io.Reader, f Format, l Limits) *Tasks {
	r, err := Open(Config{Stdin: in, Format: f})
	require.NoError(t, err)
	return NewTasks(r, TasksConfig{
		Template: template(t, expand.Config{Words: []string{"echo"}, Insert: expand.AtEnd, Batch: true}), Limits: l,
	})
}

func TestSpread(t *testing.T) {
	for _, tc := range []struct {
		name, in string
		limits   Limits
		want     string
	}{
		{"evenly", "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n", Limits{Chars: 100, Workers: 4}, "1 2 3|4 5 6|7 8|9 10"},
		{"few", "1\n2\n3\n", Limits{Chars: 100, Workers: 4}, "1|2|3"},
		{"one worker", "1\n2\n3\n", Limits{Chars: 100, Workers: 1}, "1 2 3"},
		{"exactly full", "1\n2\n3\n4\n5\n6\n", Limits{Records: 3, Workers: 2}, "1 2 3|4 5 6"},
		{"one more", "1\n2\n3\n4\n5\n6\n7\n", Limits{Records: 3, Workers: 2}, "1 2 3|4 5|6 7"},
		{"one in each", "1\n2\n3\n", Limits{Records: 1, Chars: 100, Workers: 2}, "1|2|3"},
		{"long ones last", "1\n2\n3\n4\n5\n6\nlong\nlong\nlong\nlong\n", Limits{Chars: 17, Workers: 3},
			"1 2 3 4 5|6 long long|long long"},
		{"long ones first", "long\nlong\nlong\n1\n2\n3\n", Limits{Chars: 15, Workers: 3}, "long long|long 1|2 3"},
		{"too long", "1\n2\n" + strings.Repeat("x", 99) + "\n3\n4\n", Limits{Chars: 17, Workers: 2}, "1 2|!|3 4"},
		{"nothing", "", Limits{Chars: 100, Workers: 4}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			src, number := spreadTasks(t, strings.NewReader(tc.in), Format{}, tc.limits), count()
			var got []string
			for {
				tk, err := src.Next(number)
				if err != nil {
					require.ErrorIs(t, err, io.EOF)
					break
				}
				require.EqualValues(t, len(got)+1, tk.ID)
				if tk.Err != nil {
					got = append(got, "!")
				} else {
					got = append(got, strings.Join(tk.Argv[1:], " "))
				}
			}
			require.Equal(t, tc.want, strings.Join(got, "|"))
		})
	}
}

// TestSpreadAsModel compares commands with those of a model that knows the whole input, and
// has the queue never hold more than a full command for each worker, and a record.
func TestSpreadAsModel(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		l := Limits{Workers: 2 + r.IntN(5), Chars: 30 + r.IntN(60), ArgMax: 1 << 20}
		switch r.IntN(3) {
		case 0:
			l.Records = 2 + r.IntN(5)
		case 1:
			l.Records, l.Chars = 2+r.IntN(5), 0
		}
		var records []string
		long := 1 + r.IntN(40)
		for range r.IntN(60) {
			records = append(records, strings.Repeat("x", r.IntN(long)))
		}
		src, number := spreadTasks(t, strings.NewReader(strings.Join(append(records, ""), "\n")), Format{}, l), count()
		var cuts []int
		at := 0
		for {
			tk, err := src.Next(number)
			if err != nil {
				require.ErrorIs(t, err, io.EOF)
				break
			}
			n := len(tk.Records)
			if tk.Err == nil {
				require.Equal(t, append([]string{"echo"}, records[at:at+n]...), tk.Argv)
			}
			full := l.greedy(records[at:], l.Records)
			full = full[:min(len(full), l.Workers)]
			require.LessOrEqual(t, n+len(src.queue)-src.head, 1+sum(full), "held back")
			cuts, at = append(cuts, n), at+n
		}
		require.Equal(t, l.spread(records), cuts, "%+v %q", l, records)
		last := cuts[max(0, len(cuts)-l.Workers):]
		if l.Chars == 0 && len(last) > 0 {
			require.LessOrEqual(t, slices.Max(last)-slices.Min(last), 1)
		}
	}
}

// greedy cuts records into commands that are as full as can be, of so many records at
// most; 0 means no limit.
func (l Limits) greedy(records []string, most int) (cuts []int) {
	for len(records) > 0 {
		n, size := 0, len("echo ")
		for _, rec := range records {
			size += len(rec) + 1
			if n > 0 && (l.Chars > 0 && size > l.Chars || most > 0 && n == most) {
				break
			}
			n++
		}
		cuts, records = append(cuts, n), records[n:]
	}
	return cuts
}

// spread cuts all records of an input.
func (l Limits) spread(records []string) (cuts []int) {
	for {
		full := l.greedy(records, l.Records)
		if len(full) <= l.Workers {
			break
		}
		cuts, records = append(cuts, full[0]), records[full[0]:]
	}
	var even []int
	for rest := records; len(rest) > 0; {
		most := divideUp(len(rest), max(1, l.Workers-len(even)))
		if l.Records > 0 {
			most = min(most, l.Records)
		}
		n := l.greedy(rest, most)[0]
		even, rest = append(even, n), rest[n:]
	}
	for most := divideUp(len(records), l.Workers); len(even) > l.Workers; most++ {
		even = l.greedy(records, most)
	}
	return append(cuts, even...)
}

func sum(list []int) (n int) {
	for _, i := range list {
		n += i
	}
	return n
}

// A malformed row is a task of its own, and a read error comes after the records before it.
func TestSpreadErrors(t *testing.T) {
	src := spreadTasks(t, strings.NewReader("a,b\n\"x\"y\nc,d\ne,f\n"), Format{Kind: CSV}, Limits{Chars: 100, Workers: 2})
	number := count()
	var got []string
	for range 3 {
		tk, err := src.Next(number)
		require.NoError(t, err)
		got = append(got, fmt.Sprint(tk.Err == nil, tk.Argv))
	}
	require.Equal(t, []string{"true [echo a b]", "false []", "true [echo c d e f]"}, got)

	broken := errors.New("broken")
	in := io.MultiReader(strings.NewReader("a\nb\nto"), iotest.ErrReader(broken))
	src, number = spreadTasks(t, in, Format{}, Limits{Chars: 100, Workers: 2}), count()
	for _, want := range []string{"a", "b"} {
		tk, err := src.Next(number)
		require.NoError(t, err)
		require.Equal(t, []string{"echo", want}, tk.Argv)
	}
	for range 2 {
		_, err := src.Next(number)
		require.ErrorIs(t, err, broken)
	}
}

// Records that change the form of a script are all run, within the limits.
func TestSpreadInAnotherForm(t *testing.T) {
	r, err := Open(lines(strings.Repeat("1\n", 100) + "$\n2\n" + strings.Repeat("3\n", 300)))
	require.NoError(t, err)
	src, number := NewTasks(r, TasksConfig{
		Template: template(t, expand.Config{Words: []string{`set -- "{}"x {#}; y`}, Batch: true}),
		Limits:   Limits{Chars: 1000, Workers: 3},
	}), count()
	records := 0
	for {
		tk, err := src.Next(number)
		if err != nil {
			break
		}
		require.NoError(t, tk.Err)
		require.LessOrEqual(t, charsOf(tk.Argv), 1000)
		records += len(tk.Records)
	}
	require.Equal(t, 402, records)
}

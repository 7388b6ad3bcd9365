package input

import (
	"bytes"
	"encoding/csv"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// columns returns the columns of all records. A record with an Err has one column,
// the error after a !.
func columns(t *testing.T, cfg Config) [][]string {
	t.Helper()
	r, err := Open(cfg)
	require.NoError(t, err)
	defer r.Close()
	var list [][]string
	for {
		rec, err := next(r)
		if err == io.EOF {
			return list
		}
		require.NoError(t, err)
		if rec.Err != nil {
			rec.Columns = []string{"!" + rec.Err.Error()}
		}
		list = append(list, rec.Columns)
	}
}

func TestColsep(t *testing.T) {
	for _, tc := range []struct {
		sep, in string
		want    []string
	}{
		{",", "a,b,,c,", []string{"a", "b", "", "c", ""}},
		{`\t`, "a\tb c", []string{"a", "b c"}},
		{`\|`, "a|b", []string{"a", "b"}},
		{"::", "a::b:c", []string{"a", "b:c"}},
		{`\s+`, "a \t b  c", []string{"a", "b", "c"}},
		{`[,;]`, "a,b;\xff", []string{"a", "b", "\xff"}},
		{`[,;]`, "", []string{""}},
		{",", "", []string{""}},
	} {
		re, err := ParseColsep(tc.sep)
		require.NoError(t, err)
		got := columns(t, Config{Stdin: strings.NewReader(tc.in + "\n"), Format: Format{Colsep: re}})
		require.Equal(t, [][]string{tc.want}, got, tc.sep)
	}
	_, err := ParseColsep("[a")
	require.EqualError(t, err, "missing closing ]")
	for _, empty := range []string{"", ",*", "a|"} {
		_, err = ParseColsep(empty)
		require.ErrorContains(t, err, "at least one byte")
	}
}

// Columns of records that share a slab, or that need a larger one, do not overlap.
func TestColumnsDoNotOverlap(t *testing.T) {
	wide := strings.Repeat("x,", 600)
	re, err := ParseColsep(",")
	require.NoError(t, err)
	got := columns(t, Config{Stdin: strings.NewReader(wide + "\n1,2\n3,4\n"), Format: Format{Colsep: re}})
	require.Len(t, got[0], 601)
	_ = append(got[1], "spilled")
	require.Equal(t, [][]string{{"1", "2"}, {"3", "4"}}, got[1:])
}

func TestCSV(t *testing.T) {
	const in = "line 2 of standard input: "
	for _, tc := range []struct {
		name, in string
		want     [][]string
	}{
		{name: "plain", in: "a,b\nc,d", want: [][]string{{"a", "b"}, {"c", "d"}}},
		{name: "CRLF", in: "a,b\r\n\"c\r\n\",d\r\n", want: [][]string{{"a", "b"}, {"c\r\n", "d"}}},
		{name: "quotes", in: "\"a,b\",\"c\"\"d\",\"\"\n", want: [][]string{{"a,b", `c"d`, ""}}},
		{name: "newline", in: "\"a\nb\",c\nd,\"\n\"", want: [][]string{{"a\nb", "c"}, {"d", "\n"}}},
		{name: "empty fields", in: ",\n,,\n", want: [][]string{{"", ""}, {"", "", ""}}},
		{name: "blank lines", in: "\n\r\na\n\n", want: [][]string{{"a"}}},
		{name: "blanks stay", in: " a , \"b\"\n", want: [][]string{{"!line 1 of standard input: a quote inside field 2, which does not begin with one"}}},
		{name: "byte order mark", in: "\ufeffa,b\n\ufeffc\n", want: [][]string{{"a", "b"}, {"\ufeffc"}}},
		{name: "stray quote", in: "a\nb\"c,\"d\ne\"\nf\n", want: [][]string{{"a"}, {"!" + in + "a quote inside field 1, which does not begin with one"}, {"f"}}},
		{name: "text after a quote", in: "a\n\"b\"c,d\ne\n", want: [][]string{{"a"}, {"!" + in + "text after the closing quote of field 1"}, {"e"}}},
		{name: "open quote", in: "a\nb,\"c\nd\n", want: [][]string{{"a"}, {"!" + in + "no closing quote in field 2"}}},
		{name: "line numbers", in: "\"\n\n\",a\n\"\"x\n", want: [][]string{{"\n\n", "a"}, {"!line 4 of standard input: text after the closing quote of field 1"}}},
	} {
		for _, p := range pieces {
			t.Run(tc.name+"/"+p.name, func(t *testing.T) {
				rd := p.of(strings.NewReader(tc.in))
				require.Equal(t, tc.want, columns(t, Config{Stdin: rd, Format: Format{Kind: CSV}}))
			})
		}
	}
}

func TestCSVTooLong(t *testing.T) {
	in := "a,\"" + strings.Repeat("\n", 2*bufferSize) + "\"\nb\n"
	got := columns(t, Config{Stdin: strings.NewReader(in), Format: Format{Kind: CSV}, MaxRecord: 100})
	require.Equal(t, [][]string{{"!line 1 of standard input: record is 131076 bytes, the limit is 100"}, {"b"}}, got)
}

// FuzzCSV checks that what encoding/csv writes is read back.
func FuzzCSV(f *testing.F) {
	f.Add("a", "b\"c\n", "")
	f.Add("\"", "\"\"x,y", "\r")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		want := [][]string{{a, b, c}, {c, "x"}}
		var buf bytes.Buffer
		w := csv.NewWriter(&buf)
		require.NoError(t, w.WriteAll(want))
		for _, p := range pieces {
			got := columns(t, Config{Stdin: p.of(bytes.NewReader(buf.Bytes())), Format: Format{Kind: CSV}})
			if strings.HasPrefix(a, "\ufeff") {
				continue // taken for a byte order mark
			}
			require.Equal(t, want, got)
		}
		columns(t, Config{Stdin: strings.NewReader(a + b + c), Format: Format{Kind: CSV}})
	})
}

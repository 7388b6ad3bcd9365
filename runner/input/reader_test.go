package input

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

// write creates a file in a new directory and returns its path.
func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "f")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func values(v ...string) Group { return Group{Values: v} }
func linked(v ...string) Group { return Group{Values: v, Linked: true} }

// spread formats records as "a b/c d", with blanks between columns.
func spread(rows [][]string) string {
	var list []string
	for _, r := range rows {
		list = append(list, strings.Join(r, " "))
	}
	return strings.Join(list, "/")
}

func TestSources(t *testing.T) {
	one, two := write(t, "1\n2"), write(t, "3\n\n4\n")
	none := write(t, "")
	comma := regexp.MustCompile(",")
	stop := "b"
	for _, tc := range []struct {
		name string
		cfg  Config
		want string
	}{
		{"files in turn", Config{Files: []string{one, two}}, "1/2/3//4"},
		{"a file, stdin, a file", Config{Files: []string{one, "-", two}}, "1/2/in/3//4"},
		{"stdin twice", Config{Files: []string{"-", "-"}}, "in"},
		{"values", Config{Groups: []Group{values("a\nb", "", "c")}}, "a\nb//c"},
		{"values are whole", Config{Groups: []Group{values("a;b")}, Format: Format{Delimiter: ";"}}, "a;b"},
		{"values have columns", Config{Groups: []Group{values("a,b", "c"), values("d,e")}, Format: Format{Colsep: comma}}, "a b d e/c d e"},
		{"values of CSV", Config{Groups: []Group{values(`"a,b",c`)}, Format: Format{Kind: CSV}}, "a,b c"},
		{"product", Config{Groups: []Group{values("a", "b"), values("x", "y"), values("1", "2")}},
			"a x 1/a x 2/a y 1/a y 2/b x 1/b x 2/b y 1/b y 2"},
		{"linked, the shortest ends them", Config{Groups: []Group{values("a", "b", "c"), linked("1", "2")}}, "a 1/b 2"},
		{"linked, then a product", Config{Groups: []Group{values("a", "b"), linked("1", "2"), values("x", "y")}},
			"a 1 x/a 1 y/b 2 x/b 2 y"},
		{"a product with linked", Config{Groups: []Group{values("x", "y"), values("a", "b"), linked("1", "2"), linked("p", "q")}},
			"x a 1 p/x b 2 q/y a 1 p/y b 2 q"},
		{"files come first", Config{Files: []string{one}, Groups: []Group{values("x", "y")}}, "1 x/1 y/2 x/2 y"},
		{"linked to files", Config{Files: []string{one, two}, Groups: []Group{linked("x", "y", "z")}}, "1 x/2 y/3 z"},
		{"files in groups", Config{Groups: []Group{{File: one}, {File: "-"}, {File: one, Linked: true}}}, "1 in 1/2 in 1"},
		{"an empty factor", Config{Groups: []Group{values("a"), {File: none}}}, ""},
		{"an empty first factor", Config{Groups: []Group{values(), values("a")}}, ""},
		{"skip empty", Config{Groups: []Group{values("a", ""), values("", "z")}, SkipEmpty: true}, "a z"},
		{"end", Config{Groups: []Group{values("a", "b", "c"), values("1", "b")}, EOF: &stop}, "a 1"},
		{"end of one record of columns", Config{Groups: []Group{values("b,c", "b", "d")}, EOF: &stop, Format: Format{Colsep: comma}}, "b c"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.cfg.Stdin = strings.NewReader("in\n")
			require.Equal(t, tc.want, spread(columns(t, tc.cfg)))
		})
	}
}

// A product streams its first factor, and stdin is read only if a source names it.
func TestProductStreams(t *testing.T) {
	rd, w := io.Pipe()
	go io.WriteString(w, "one\n")
	r, err := Open(Config{Stdin: rd, Files: []string{"-"}, Groups: []Group{values("a", "b")}})
	require.NoError(t, err)
	for _, want := range []string{"a", "b"} {
		rec, err := next(r)
		require.NoError(t, err)
		require.Equal(t, []string{"one", want}, rec.Columns)
	}
	w.Close()

	got := columns(t, Config{Stdin: iotest.ErrReader(io.ErrUnexpectedEOF), Groups: []Group{values("a")}})
	require.Equal(t, [][]string{{"a"}}, got)
}

func TestProductErrors(t *testing.T) {
	broken := iotest.ErrReader(io.ErrClosedPipe)
	for _, groups := range [][]Group{
		{values("a"), {File: "-"}},
		{{File: "-"}, values("a")},
		{values("a"), {File: "-", Linked: true}},
	} {
		r, err := Open(Config{Stdin: broken, Groups: groups})
		require.NoError(t, err)
		for range 2 {
			_, err = next(r)
			require.EqualError(t, err, "read standard input: "+io.ErrClosedPipe.Error())
		}
		require.NoError(t, r.Close())
	}
	got := columns(t, Config{Format: Format{Kind: CSV}, Groups: []Group{values("a", `"`), values("b")}})
	require.Equal(t, [][]string{{"a", "b"}, {"!value 2: no closing quote in field 1"}}, got)
}

func TestHeader(t *testing.T) {
	comma := regexp.MustCompile(",")
	csv := func(s string) string { return write(t, s) }
	for _, tc := range []struct {
		name  string
		cfg   Config
		names []string
		want  string
	}{
		{"lines", Config{Files: []string{csv("x\n1\n2\n")}}, []string{"x"}, "1/2"},
		{"columns", Config{Files: []string{csv("x,y\n1,2\n")}, Format: Format{Colsep: comma}}, []string{"x", "y"}, "1 2"},
		{"columns of a file with CRLF", Config{Files: []string{csv("x,y\r\n1,2\r\n")}, Format: Format{Colsep: comma}}, []string{"x", "y"}, "1 2\r"},
		{"CSV", Config{Files: []string{csv("\"x\ny\",z\r\n1,2\n")}, Format: Format{Kind: CSV}}, []string{"x\ny", "z"}, "1 2"},
		{"two of a name", Config{Files: []string{csv("x,,x,\n1,2,3,4\n")}, Format: Format{Kind: CSV}}, []string{"x", "", "x", ""}, "1 2 3 4"},
		{"a header a file", Config{Files: []string{csv("x,y\n1,2\n"), csv("x,y\n3,4\nx,y\n"), csv("5,6\n")}, Format: Format{Kind: CSV}},
			[]string{"x", "y"}, "1 2/3 4/x y/5 6"},
		{"a header after blank lines", Config{Files: []string{csv("\nx,y\n1,2\n"), csv("\n\nx,y\n3,4\nx,y\n")}, Format: Format{Kind: CSV}},
			[]string{"x", "y"}, "1 2/3 4/x y"},
		{"groups", Config{Groups: []Group{values("a", "1", "2"), linked("b", "3", "4"), values("c", "5")}}, []string{"a", "b", "c"}, "1 3 5/2 4 5"},
		{"the same group again", Config{Groups: []Group{values("a", "1", "a")}}, []string{"a"}, "1/a"},
		{"no input", Config{Files: []string{csv("")}}, []string{}, ""},
		{"a header alone", Config{Files: []string{csv("x\n")}}, []string{"x"}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.cfg.Format.Header = true
			r, err := Open(tc.cfg)
			require.NoError(t, err)
			require.Equal(t, tc.names, r.Names())
			require.NoError(t, r.Close())
			require.Equal(t, tc.want, spread(columns(t, tc.cfg)))
		})
	}
	_, err := Open(Config{Stdin: strings.NewReader("\"x\n"), Format: Format{Kind: CSV, Header: true}})
	require.EqualError(t, err, "read the header: line 1 of standard input: no closing quote in field 1")
}

func TestOpenErrors(t *testing.T) {
	dir := t.TempDir()
	d, err := os.Open(dir)
	require.NoError(t, err)
	defer d.Close()
	good := write(t, "a\n")
	missing := filepath.Join(dir, "missing")
	for _, tc := range []struct {
		cfg  Config
		want string
	}{
		{Config{Files: []string{good, missing}}, "open input " + missing + ": no such file or directory"},
		{Config{Groups: []Group{values("a"), {File: missing}}}, "open input " + missing + ": no such file or directory"},
		{Config{Files: []string{dir}}, "read " + dir + ": it is a directory"},
		{Config{Stdin: d}, "read standard input: it is a directory"},
		{Config{}, "there is no standard input"},
		{Config{MaxRecord: -1}, "the longest record is -1 bytes: it must be positive"},
		{Config{Format: Format{Kind: 9}}, "unknown kind of input 9"},
		{Config{Format: Format{Kind: CSV, Colsep: regexp.MustCompile(",")}}, "a column separator goes with lines alone"},
		{Config{Format: Format{Kind: JSON, Header: true}}, "JSON objects name their fields: they have no header"},
		{Config{Format: Format{Kind: JSON}, Groups: []Group{values("a"), values("b")}}, "JSON objects come from one source: they have no product"},
		{Config{Groups: []Group{linked("a")}}, "nothing stands before the first :::+ or ::::+ to be linked to"},
		{Config{Groups: []Group{{File: "-"}, {File: "-", Linked: true}}}, "standard input cannot be more than one source"},
		{Config{Files: []string{"-"}, Groups: []Group{{File: "-"}}}, "standard input cannot be more than one source"},
		{Config{Groups: []Group{{Values: []string{"a"}, File: "f"}}}, "a group has values and the file f"},
	} {
		_, err := Open(tc.cfg)
		require.EqualError(t, err, tc.want)
	}
}

func TestClosed(t *testing.T) {
	r, err := Open(Config{Files: []string{write(t, "a\nb\n")}})
	require.NoError(t, err)
	_, err = next(r)
	require.NoError(t, err)
	require.NoError(t, r.Close())
	_, err = next(r)
	require.ErrorIs(t, err, os.ErrClosed)
}

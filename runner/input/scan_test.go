package input

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

// next returns the next record of r.
func next(r *Reader) (rec Record, err error) {
	err = r.read(&rec)
	return rec, err
}

// texts returns the texts of all records. The text of one with an Err is the error
// after a !.
func texts(t *testing.T, cfg Config) ([]string, error) {
	t.Helper()
	r, err := Open(cfg)
	require.NoError(t, err)
	defer r.Close()
	list := []string{}
	for {
		rec, err := next(r)
		if err == io.EOF {
			_, again := next(r)
			require.Equal(t, io.EOF, again)
			return list, nil
		}
		if err != nil {
			return list, err
		}
		if rec.Err != nil {
			rec.Text = "!" + rec.Err.Error()
		}
		list = append(list, rec.Text)
	}
}

// pieces are ways in which the same bytes can arrive.
var pieces = []struct {
	name string
	of   func(io.Reader) io.Reader
}{
	{"at once", func(r io.Reader) io.Reader { return r }},
	{"byte by byte", iotest.OneByteReader},
	{"half", iotest.HalfReader},
	{"with the end", iotest.DataErrReader},
	{"three bytes", func(r io.Reader) io.Reader { return threes{r} }},
}

type threes struct{ r io.Reader }

func (t threes) Read(b []byte) (int, error) { return t.r.Read(b[:min(3, len(b))]) }

func TestLines(t *testing.T) {
	long := strings.Repeat("x", 3*bufferSize)
	stop := "b"
	for _, tc := range []struct {
		name, in string
		cfg      Config
		want     []string
	}{
		{name: "nothing", in: "", want: []string{}},
		{name: "lines", in: "a\nb\n", want: []string{"a", "b"}},
		{name: "no last newline", in: "a\nb", want: []string{"a", "b"}},
		{name: "empty lines are records", in: "\na\n\n", want: []string{"", "a", ""}},
		{name: "bytes are bytes", in: " a\t\r\n\xff\xfe\n\ufeff\n", want: []string{" a\t\r", "\xff\xfe", "\ufeff"}},
		{name: "longer than the buffer", in: "a\n" + long + "\nb", want: []string{"a", long, "b"}},
		{name: "NUL", in: "a\nb\x00c\x00", cfg: Config{Format: Format{Delimiter: "\x00"}}, want: []string{"a\nb", "c"}},
		{name: "several bytes", in: "a;;;b;;;c;;d;;;", cfg: Config{Format: Format{Delimiter: ";;;"}}, want: []string{"a", "b", "c;;d"}},
		{name: "a delimiter that starts twice", in: "aab aaab", cfg: Config{Format: Format{Delimiter: "aab"}}, want: []string{"", " a"}},
		{name: "skip empty", in: "\na\n\n \n", cfg: Config{SkipEmpty: true}, want: []string{"a", " "}},
		{name: "comments", in: "#a\n\n \t\r\n#\nb #c\n #d\n", cfg: Config{Comments: true}, want: []string{"b #c", " #d"}},
		{name: "end", in: "a\nbb\nb\nc\n", cfg: Config{EOF: &stop}, want: []string{"a", "bb"}},
		{name: "too long", in: "aaa\nbbbb\nccc\ndddd", cfg: Config{MaxRecord: 3}, want: []string{
			"aaa", "!line 2 of standard input: record is 4 bytes, the limit is 3",
			"ccc", "!line 4 of standard input: record is 4 bytes, the limit is 3"}},
		{name: "too long for the buffer", in: "a\n" + long + "y\nb", cfg: Config{MaxRecord: bufferSize}, want: []string{
			"a", "!line 2 of standard input: record is 196609 bytes, the limit is 65536", "b"}},
		{name: "too long to the end", in: long, cfg: Config{MaxRecord: 9, Format: Format{Delimiter: "--"}}, want: []string{
			"!line 1 of standard input: record is 196608 bytes, the limit is 9"}},
	} {
		for _, p := range pieces {
			t.Run(tc.name+"/"+p.name, func(t *testing.T) {
				cfg := tc.cfg
				cfg.Stdin = p.of(strings.NewReader(tc.in))
				got, err := texts(t, cfg)
				require.NoError(t, err)
				require.Equal(t, tc.want, got)
			})
		}
	}
}

func TestReadError(t *testing.T) {
	broken := errors.New("broken")
	rd := io.MultiReader(strings.NewReader("a\nb\ntorn"), iotest.ErrReader(broken))
	got, err := texts(t, Config{Stdin: rd})
	require.Equal(t, []string{"a", "b"}, got, "an incomplete record must not run")
	require.ErrorIs(t, err, broken)
	require.EqualError(t, err, "read standard input: broken")

	_, err = texts(t, Config{Stdin: idle{}})
	require.ErrorIs(t, err, io.ErrNoProgress)
}

type idle struct{}

func (idle) Read([]byte) (int, error) { return 0, nil }

// A record is returned as soon as its separator arrives, while the pipe stays open.
func TestLatency(t *testing.T) {
	for _, tc := range []struct {
		format     Format
		send, want string
	}{
		{Format{}, "one\n", "one"},
		{Format{Delimiter: "\x00"}, "one\x00tw", "one"},
		{Format{Delimiter: "ab"}, "one,ab", "one,"},
		{Format{Kind: CSV}, "\"a\nb\",c\n", "\"a\nb\",c"},
		{Format{Kind: JSON}, "{}\n", "{}"},
	} {
		rd, w := io.Pipe()
		r, err := Open(Config{Stdin: rd, Format: tc.format})
		require.NoError(t, err)
		for range 2 {
			sent := make(chan error)
			go func() { _, err := io.WriteString(w, tc.send); sent <- err }()
			rec, err := next(r)
			require.NoError(t, err)
			require.NoError(t, rec.Err)
			require.Contains(t, rec.Text, tc.want)
			require.NoError(t, <-sent)
		}
		require.NoError(t, w.Close())
		require.NoError(t, r.Close())
	}
}

// The buffer does not grow with a record that never ends.
func TestMemory(t *testing.T) {
	endless := io.LimitReader(repeat("x"), 64<<20)
	s := newStream(Config{MaxRecord: 1 << 20}, nil, []file{{rd: endless}})
	var rec Record
	require.NoError(t, s.next(&rec))
	require.Error(t, rec.Err)
	require.LessOrEqual(t, len(s.scan.buf), 1<<20+1)
}

// repeat reads as its string repeated forever.
type repeat string

func (r repeat) Read(b []byte) (int, error) {
	n := 0
	for n < len(b) && (n == 0 || len(b)-n >= len(r)) {
		n += copy(b[n:], r)
	}
	return n, nil
}

func FuzzLines(f *testing.F) {
	f.Add([]byte("a\nb"), "\n", uint8(1))
	f.Add([]byte("aaabaab\x00"), "aab", uint8(2))
	f.Fuzz(func(t *testing.T, in []byte, delim string, piece uint8) {
		if delim == "" {
			return
		}
		want := strings.Split(string(in), delim)
		if want[len(want)-1] == "" {
			want = want[:len(want)-1]
		}
		p := pieces[int(piece)%len(pieces)]
		got, err := texts(t, Config{Stdin: p.of(bytes.NewReader(in)), Format: Format{Delimiter: delim}})
		require.NoError(t, err)
		require.Equal(t, append([]string{}, want...), got)
	})
}

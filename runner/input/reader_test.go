package input

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/expand"
)

// TestEscapes checks what delimiters and separators of columns stand for.
func TestEscapes(t *testing.T) {
	type escape struct {
		Text, Is, Wrong string
		Colsep          bool
	}
	crewtest.Examples(t, "testdata/escapes.txt", func(t *testing.T, e escape) {
		is, err := ParseDelimiter(e.Text)
		if e.Colsep {
			_, err = ParseColsep(e.Text)
		}
		if e.Wrong != "" {
			require.ErrorContains(t, err, e.Wrong)
			return
		}
		require.NoError(t, err)
		require.Equal(t, e.Is, is)
	})
}

func FuzzDelimiter(f *testing.F) {
	f.Add(`\n`)
	f.Add(`\x0g\`)
	f.Fuzz(func(t *testing.T, s string) {
		if got, err := ParseDelimiter(s); err == nil {
			require.NotEmpty(t, got)
		}
		hex := ""
		for i := range len(s) {
			hex += fmt.Sprintf(`\x%02x`, s[i])
		}
		if got, err := ParseDelimiter(hex); hex != "" {
			require.NoError(t, err)
			require.Equal(t, s, got)
		}
	})
}

// TestReadErrors: a read error comes after the whole records before it, and stays.
func TestReadErrors(t *testing.T) {
	for _, e := range []example{
		{}, {Limits: Limits{Records: 1, Chars: 99}}, {Limits: Limits{Records: 1, Workers: 2}}, {Config: Config{Groups: []Group{{File: "-", Linked: true}}, Files: []string{"x\ny\nz"}}},
		{Config: Config{Files: []string{"-"}, Groups: []Group{{Values: []string{""}}}}},
	} {
		e.Command = &expand.Config{Words: []string{"echo"}, Insert: expand.AtEnd, Batch: true}
		broken := io.MultiReader(strings.NewReader("a\nb\ntorn"), iotest.ErrReader(io.ErrClosedPipe))
		src, err := e.open(t, broken, t.TempDir())
		require.NoError(t, err)
		list, _ := all(t, src, &watched{})
		require.Len(t, list, 3, "an incomplete record must not run")
		for range 2 {
			require.EqualError(t, src.r.read(&Record{}), "read standard input: "+io.ErrClosedPipe.Error())
		}
	}
	src, err := example{}.open(t, idle{}, "")
	require.NoError(t, err)
	require.ErrorIs(t, src.r.read(&Record{}), io.ErrNoProgress)
	dir := t.TempDir()
	for _, in := range []Config{{Files: []string{dir}}, {Stdin: nil}, {Groups: []Group{{File: dir + "/none"}}}, {Groups: []Group{{Values: []string{}, File: "f"}}}} {
		_, err := Open(in)
		require.Regexp(t, "^(read .*: it is a directory|there is no standard input|open input .*/none: no such file or directory|a group has values and the file f)$", err.Error())
	}
}

type idle struct{}

func (idle) Read([]byte) (int, error) { return 0, nil }

// TestLatency: a record is returned as soon as its separator arrives.
func TestLatency(t *testing.T) {
	for _, e := range []example{
		{Stdin: "one\ntw"}, {Stdin: "one\x00tw", Config: Config{Format: Format{Delimiter: "\x00"}}}, {Stdin: "one,ab", Config: Config{Format: Format{Delimiter: "ab"}}},
		{Stdin: "\"a\nb\",c\n", Config: Config{Format: Format{Kind: CSV}}}, {Stdin: "{}\n", Config: Config{Format: Format{Kind: JSON}}},
		{Stdin: "one\n", Config: Config{Files: []string{"-"}, Groups: []Group{{Values: []string{"a"}}}}},
	} {
		closed := &watched{nil, t, true}
		src, err := e.open(t, io.MultiReader(strings.NewReader(e.Stdin), closed), t.TempDir())
		require.NoError(t, err)
		require.NoError(t, src.r.read(&Record{}))
	}
}

// TestMemory: the buffer does not grow with a record that never ends.
func TestMemory(t *testing.T) {
	s := newStream(Config{MaxRecord: 1 << 20}, nil, []file{{rd: io.LimitReader(repeat("x"), 64<<20)}})
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

// TestCountIsUnknown: nothing is taken from a pipe, or once it is stopped.
func TestCountIsUnknown(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	_, err = w.WriteString("a\nb\n")
	require.NoError(t, errors.Join(err, w.Close()))
	var stop atomic.Bool
	_, ok := Count(Config{Files: []string{fmt.Sprintf("/dev/fd/%d", r.Fd())}}, TasksConfig{}, &stop)
	require.False(t, ok)
	left, err := io.ReadAll(r)
	require.NoError(t, err)
	require.Equal(t, "a\nb\n", string(left))
	stop.Store(true)
	_, ok = Count(Config{Groups: []Group{{Values: []string{"a"}}}}, TasksConfig{}, &stop)
	require.False(t, ok)
}

// columns returns the columns of each record of rd.
func columns(t *testing.T, rd io.Reader, f Format) (list [][]string) {
	r, err := Open(Config{Stdin: rd, Format: f})
	require.NoError(t, err)
	for rec := (Record{}); err == nil; {
		if err = r.read(&rec); err == nil {
			list = append(list, rec.Columns)
		}
	}
	require.Equal(t, io.EOF, err)
	for _, cols := range list {
		_ = append(cols, "spilled")
	}
	return list
}

// FuzzCSV checks that what encoding/csv writes is read back.
func FuzzCSV(f *testing.F) {
	f.Add("a", "b\"c\n", "")
	f.Add("\"", "\"\"x,y", "\r")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		want := [][]string{{a, b, c}, {c, "x"}}
		var buf bytes.Buffer
		require.NoError(t, csv.NewWriter(&buf).WriteAll(want))
		for _, of := range pieces {
			if got := columns(t, of(bytes.NewReader(buf.Bytes())), Format{Kind: CSV}); !strings.HasPrefix(a, byteOrderMark) {
				require.Equal(t, want, got)
			}
		}
		columns(t, strings.NewReader(a+b+c), Format{Kind: CSV})
	})
}

func FuzzLines(f *testing.F) {
	f.Add([]byte("a\nb"), "\n", uint8(1))
	f.Add([]byte("aaabaab\x00"), "aab", uint8(2))
	f.Fuzz(func(t *testing.T, in []byte, delim string, piece uint8) {
		if delim == "" {
			return
		}
		texts := strings.Split(string(in), delim)
		if last := len(texts) - 1; texts[last] == "" {
			texts = texts[:last]
		}
		var want [][]string
		for _, text := range texts {
			want = append(want, []string{text})
		}
		got := columns(t, pieces[int(piece)%len(pieces)](bytes.NewReader(in)), Format{Delimiter: delim})
		require.Equal(t, want, got)
	})
}

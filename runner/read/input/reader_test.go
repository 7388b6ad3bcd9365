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
	"crew/runner/read/expand"
)

// TestEscapes checks the escapes in delimiters and the separators of columns.
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

// TestReadErrors checks that a read error comes after the whole records before it, and is permanent.
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
	_, err = Open(Config{Files: []string{t.TempDir()}})
	require.ErrorContains(t, err, "it is a directory")
}

type idle struct{}

func (idle) Read([]byte) (int, error) { return 0, nil }

// TestLatency checks that a record is returned as soon as its separator arrives.
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

// TestMemory checks that the buffer does not grow with a record that never ends.
func TestMemory(t *testing.T) {
	s := newStream(Config{MaxRecord: 1 << 20}, nil, []file{{rd: io.LimitReader(repeat("x"), 8<<20)}})
	var rec Record
	require.NoError(t, s.next(&rec))
	require.Error(t, rec.Err)
	require.LessOrEqual(t, cap(s.scan.long), 2<<20)
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

// TestCountIsUnknown checks that Count reads nothing from a pipe, and nothing after it has been stopped.
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

// FuzzRecords checks that records written as lines or by encoding/csv are read unchanged, however they arrive.
func FuzzRecords(f *testing.F) {
	f.Add("a\nb", "\n", "")
	f.Add("aaabaab\x00", "aab", "x")
	f.Add("aaa", "aa", "")
	f.Add("a", "b\"c\n", "")
	f.Add("\"", "\"\"x,y", "\r")
	f.Fuzz(func(t *testing.T, in, delim, c string) {
		var lines [][]string
		for text := range strings.SplitSeq(in, delim) {
			lines = append(lines, []string{text})
		}
		if delim != "" && strings.HasSuffix(in, delim) && lines[len(lines)-1][0] == "" {
			lines = lines[:len(lines)-1]
		}
		fields := [][]string{{in, delim, c}, {c, "x"}}
		var buf bytes.Buffer
		require.NoError(t, csv.NewWriter(&buf).WriteAll(fields))
		for _, of := range pieces {
			if delim != "" && in != "" && in != delim {
				require.Equal(t, lines, columns(t, of(strings.NewReader(in)), Format{Delimiter: delim}))
			}
			if got := columns(t, of(bytes.NewReader(buf.Bytes())), Format{Kind: CSV}); !strings.HasPrefix(in, byteOrderMark) {
				require.Equal(t, fields, got)
			}
			columns(t, of(strings.NewReader(in+delim+c)), Format{Kind: CSV})
		}
	})
}

package input

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"crew/runner/decide/task"
)

// naive returns the ends of the blocks of text.
func naive(text []byte, c BlocksConfig) (ends []int) {
	around := []byte(c.End + c.Start)
	rows, inside := []int{}, false // the ends of the rows of CSV
	for i, b := range text {
		if inside = inside != (b == '"'); b == '\n' && !inside {
			rows = append(rows, i+1)
		}
	}
	// after returns the first end of a record at or after i, in a block that begins at off.
	after := func(off, i int) int {
		if c.Format.Kind == CSV {
			at, _ := slices.BinarySearch(rows, max(i, off+1))
			return append(rows[at:len(rows):len(rows)], len(text))[0]
		}
		from := max(i, off+1, off+len(c.End)) - len(c.End)
		if at := bytes.Index(text[min(from, len(text)):], around); at >= 0 {
			return min(from+at+len(c.End), len(text))
		}
		return len(text)
	}
	for off := 0; off < len(text); {
		end := after(off, 0)
		if c.Records > 0 {
			for n := 1; n < c.Records && end < len(text); n++ {
				next := after(end, 0)
				if c.Bytes > 0 && next-off > int(c.Bytes) {
					break
				}
				end = next
			}
		} else if to := off + int(c.Bytes); to >= len(text) {
			end = len(text)
		} else {
			for next := end; next <= to; next = after(off, next+1) {
				end = next
			}
		}
		ends = append(ends, end)
		off = end
	}
	return ends
}

// blocksOf returns the contents of all blocks. It reads and frees each block three blocks late: until it
// is freed, a block must not change, and afterwards other blocks use its memory.
func blocksOf(t require.TestingT, cfg BlocksConfig) (list []string) {
	const late = 3
	b, err := OpenBlocks(cfg)
	require.NoError(t, err)
	for queue := []*task.Block(nil); err == nil || len(queue) > 0; {
		if err == nil {
			blk := &task.Block{}
			if err = b.next(blk); err == nil {
				queue = append(queue, blk)
			}
		}
		for err != nil && len(queue) > 0 || len(queue) > late {
			var w bytes.Buffer
			_, err := queue[0].WriteTo(&w)
			require.NoError(t, err)
			require.Equal(t, int64(w.Len()), queue[0].Size())
			list = append(list, w.String())
			if queue[0].Free != nil {
				queue[0].Free()
			}
			queue = queue[1:]
		}
	}
	require.Equal(t, io.EOF, err)
	return list
}

// checkBlocks compares the blocks of text, read as a stream and as a file, with those of naive.
func checkBlocks(t require.TestingT, path string, text []byte, cfg BlocksConfig, of func(io.Reader) io.Reader) {
	want, rest, off := []string(nil), text, 0
	cut := func(records int) string {
		first := cfg
		first.Bytes, first.Records = 0, records
		n := 0
		if records > 0 && len(rest) > 0 {
			n = naive(rest, first)[0]
		}
		head := rest[:n]
		rest = rest[n:]
		return string(head)
	}
	cut(cfg.Format.Skip)
	head := cut(cfg.Format.Header)
	for _, end := range naive(rest, cfg) {
		want = append(want, head+string(rest[off:end]))
		off = end
	}
	same := func(got []string) {
		if !slices.Equal(want, got) { // not require.Equal: they may be long
			require.Equal(t, len(want), len(got))
			for i := range want {
				require.Equal(t, len(want[i]), len(got[i]), "block %d of %+v", i, cfg)
			}
			require.Fail(t, "blocks hold other bytes", "%+v", cfg)
		}
	}
	cfg.Stdin = of(bytes.NewReader(text))
	same(blocksOf(t, cfg))
	require.NoError(t, os.WriteFile(path, text, 0o600))
	cfg.Stdin, cfg.Files = nil, []string{path}
	same(blocksOf(t, cfg))
	n, ok := CountBlocks(cfg, new(atomic.Bool))
	require.Equal(t, len(text) > 0, ok)
	require.True(t, !ok || int(n) == len(want))
	if head == "" && len(rest) == len(text) && len(text) > 0 { // a part ends after its share, so there may be fewer parts than asked for, but not more
		cfg.Bytes, cfg.Records, cfg.Parts = 0, 0, 1+len(text)%5
		parts := blocksOf(t, cfg)
		require.True(t, string(text) == strings.Join(parts, ""))
		require.LessOrEqual(t, len(parts), cfg.Parts)
	}
}

func TestBlocksAreThoseOfAModel(t *testing.T) {
	path := filepath.Join(t.TempDir(), "text")
	rapid.Check(t, func(t *rapid.T) {
		marks := rapid.SampledFrom([]string{"", "\n", "\n\n", "aba", "ab", ">", "-\n-", "\x00"})
		cfg := BlocksConfig{Start: marks.Draw(t, "start"), End: marks.Draw(t, "end"), Format: Format{Header: rapid.IntRange(0, 2).Draw(t, "header"), Skip: rapid.IntRange(0, 2).Draw(t, "skip")}}
		around := []string{cfg.End + cfg.Start, cfg.End, cfg.Start, "ababa", "\n\n\n", ""}
		if rapid.Bool().Draw(t, "csv") {
			cfg.Start, cfg.End, cfg.Format.Kind = "", "\n", CSV
			around = []string{"\n", ",", ",\"\n\"\",\",", "\n\"\n,\"\r\n", ",\"\"\"\"\n", ",\"" + strings.Repeat("\n,y", span) + "\"\n"}
		}
		size := rapid.OneOf(rapid.IntRange(1, 10), rapid.IntRange(1, 3*span))
		cfg.Bytes = int64(size.Draw(t, "bytes"))
		cfg.Records = rapid.IntRange(0, 4).Draw(t, "records")
		if cfg.Records > 0 && rapid.Bool().Draw(t, "of any size") {
			cfg.Bytes = 0
		}
		var text []byte
		for range rapid.IntRange(0, 12).Draw(t, "runs") {
			run := rapid.OneOf(rapid.IntRange(0, 5), rapid.IntRange(0, 2*span))
			if cfg.Start+cfg.End == "" || cfg.Bytes < 100 {
				run = rapid.IntRange(0, 30)
			}
			text = append(text, strings.Repeat("x", run.Draw(t, "run"))...)
			text = append(text, rapid.SampledFrom(around).Draw(t, "mark")...)
		}
		checkBlocks(t, path, text, cfg, pieces[rapid.IntRange(0, len(pieces)-1).Draw(t, "pieces")])
	})
}

// The bytes that are searched at a time may end within a boundary.
func TestBlocksEndAnywhere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "text")
	const size = 3 * span
	for _, mark := range []int{size - span, size + span, size + 2*span} { // blocks are cut within a few bytes of these offsets
		for p := mark - 8; p < mark+8; p++ {
			text := []byte(strings.Repeat("x", p) + "-\n-" + strings.Repeat("y", 2*size))
			checkBlocks(t, path, text, BlocksConfig{Bytes: size, End: "-\n", Start: "-"}, pieces[0])
		}
	}
}

func TestBlocksThatCannotBeRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "text")
	require.NoError(t, os.WriteFile(path, bytes.Repeat([]byte("line\n"), 100_000), 0o600))
	b, err := OpenBlocks(BlocksConfig{Files: []string{path}, Bytes: 100_000, End: "\n"})
	require.NoError(t, err)
	var blk task.Block
	require.NoError(t, b.next(&blk))
	require.NoError(t, os.Truncate(path, 10))
	require.ErrorContains(t, b.next(&blk), "it has become shorter")
	_, err = blk.WriteTo(io.Discard)
	require.Equal(t, io.ErrUnexpectedEOF, err)

	broken := io.MultiReader(strings.NewReader("a\nb"), iotest.ErrReader(errors.New("broken")))
	b, err = OpenBlocks(BlocksConfig{Stdin: broken, Records: 1, End: "\n"})
	require.NoError(t, err)
	require.NoError(t, b.next(&blk))
	require.EqualError(t, b.next(&blk), "read standard input: broken")
}

package spool

import (
	"bytes"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"strconv"

	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/decide/task"
)

// text returns n bytes in which no two stretches of 16 bytes are the same.
func text(n int) []byte {
	p := make([]byte, n)
	for i := 0; i < n; i += 8 {
		copy(p[i:], strconv.Itoa(10_000_000+i/8))
	}
	return p
}

func contents(t *testing.T, b *Buffer) []byte {
	t.Helper()
	var w bytes.Buffer
	n, err := b.WriteTo(&w)
	require.NoError(t, err)
	require.Equal(t, b.Len(), n)
	return w.Bytes()
}

// After any operations, buffers hold the bytes that were written. They stay within the limit of
// memory, and the file uses no more space than all buffers have needed at once.
func TestRandomOperations(t *testing.T) {
	for i, limit := range []int64{0, 300 << 10, 1 << 30} {
		randomOperations(t, crewtest.Rand(t, i), limit)
	}
}

func randomOperations(t *testing.T, rnd *rand.Rand, limit int64) {
	s := New(limit, t.TempDir())
	defer s.Close()
	type pair struct {
		b    *Buffer
		want []byte
	}
	whole := text(6 * blockSize)
	some := func(n int) []byte { return whole[rnd.IntN(len(whole)-n):][:n] }
	var live []pair
	most := 0 // blocks
	for range 300 {
		blocks := 0
		for _, p := range live {
			blocks += len(p.want)/blockSize + 1
		}
		most = max(most, blocks)
		if len(live) == 0 || len(live) < 6 && rnd.IntN(4) == 0 {
			live = append(live, pair{b: s.Buffer()})
			continue
		}
		i := rnd.IntN(len(live))
		p := &live[i]
		switch rnd.IntN(7) {
		case 0, 1, 2:
			data := some(max(0, rnd.IntN(3)*blockSize+rnd.IntN(1<<rnd.IntN(17))-1))
			_, err := p.b.Write(data)
			require.NoError(t, err)
			p.want = append(p.want, data...)
		case 3:
			off := rnd.IntN(len(p.want) + 1)
			n := rnd.IntN(len(p.want) - off + 1)
			var w bytes.Buffer
			_, err := p.b.WriteRange(&w, int64(off), int64(off+n))
			require.NoError(t, err)
			require.True(t, bytes.Equal(p.want[off:off+n], w.Bytes()))
		case 4:
			n := rnd.IntN(1000)
			got, err := task.Tail(p.b, n)
			require.NoError(t, err)
			require.True(t, bytes.Equal(p.want[max(0, len(p.want)-n):], got))
		case 5:
			p.b.Spill()
		case 6:
			require.True(t, bytes.Equal(p.want, contents(t, p.b)))
			require.NoError(t, p.b.Close())
			live = append(live[:i], live[i+1:]...)
		}
		require.LessOrEqual(t, s.used.Load(), limit)
		require.LessOrEqual(t, s.end, int64(most+8)*blockSize, "extents are reused")
	}
	for _, p := range live {
		require.True(t, bytes.Equal(p.want, contents(t, p.b)))
		p.b.Close()
	}
	require.Zero(t, s.used.Load())
	require.EqualValues(t, s.end, len(s.free)*blockSize, "every extent was released")
}

func TestLargeUnusedFileIsTruncated(t *testing.T) {
	s := New(0, t.TempDir())
	defer s.Close()
	b := s.Buffer()
	_, err := b.Write(make([]byte, 2*maxIdleFile))
	require.NoError(t, err)
	require.NoError(t, b.Close())
	info, err := s.file.Stat()
	require.NoError(t, err)
	require.Zero(t, info.Size())

	b = s.Buffer()
	_, err = b.Write([]byte("again"))
	require.NoError(t, err)
	require.Equal(t, "again", string(contents(t, b)))
}

func TestFileIsCreatedLateAndUnnamed(t *testing.T) {
	dir := t.TempDir()
	s := New(10, dir)
	b := s.Buffer()
	_, err := b.Write([]byte("0123456789"))
	require.NoError(t, err)
	require.Nil(t, s.file)
	_, err = b.Write([]byte("abc"))
	require.NoError(t, err)
	require.NotNil(t, s.file)
	names, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, names)
	require.Equal(t, "0123456789abc", string(contents(t, b)))
}

// Output that a follower has not read yet outlives the result, and costs nothing once the last
// follower is gone.
func TestHoldKeepsAClosedBuffer(t *testing.T) {
	for _, limit := range []int64{0, 200 << 10, 1 << 30} {
		s := New(limit, t.TempDir())
		b := s.Buffer()
		want := text(3*blockSize + 17)
		b.Write(want[:1000])
		one, two := b.Hold(), b.Hold()
		b.Write(want[1000:])
		require.NoError(t, b.Close())
		require.Nil(t, b.Hold(), "the buffer is closed")
		require.NoError(t, one.Close())
		require.NoError(t, one.Close(), "a second Close has no effect")
		require.LessOrEqual(t, s.used.Load(), max(limit/4, limit-2*blockSize), "output held only for a follower moves to the file")
		got, err := io.ReadAll(io.NewSectionReader(two, 0, 1<<30))
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, got))
		require.NoError(t, two.Close())
		_, err = two.ReadAt(got, 0)
		require.ErrorIs(t, err, fs.ErrClosed)
		_, err = b.WriteTo(io.Discard)
		require.ErrorIs(t, err, fs.ErrClosed)
		require.NoError(t, b.Close())
		require.Zero(t, s.used.Load())
		require.Equal(t, int(s.end/blockSize), len(s.free), "every extent was released once")
		s.Close()
	}
}

// Several buffers are written, read by followers, moved to the file and closed, all at the same time.
func TestManyBuffersAtOnce(t *testing.T) {
	s := New(1<<19, t.TempDir()) // less than is written at once
	defer s.Close()
	var all sync.WaitGroup
	for i := range 4 {
		want := text(4 * blockSize)[i*blockSize/2:]
		all.Go(func() {
			for round := range 20 {
				b := s.Buffer()
				for range 3 {
					all.Go(func() { follow(t, b, want) })
				}
				for p := want; len(p) > 0; p = p[min(len(p), 70_000):] {
					b.Write(p[:min(len(p), 70_000)])
					if len(p)/70_000 == round%4 {
						b.Spill()
					}
				}
				var got bytes.Buffer
				b.WriteTo(&got)
				if !bytes.Equal(want, got.Bytes()) {
					t.Errorf("writer %d: %d bytes", i, got.Len())
				}
				b.Close()
			}
		})
	}
	all.Wait()
	require.Zero(t, s.used.Load())
}

// follow reads a buffer, like ctl the output of a running task, until it is closed.
func follow(t *testing.T, b *Buffer, want []byte) {
	for h := b.Hold(); h != nil; h = b.Hold() {
		got, err := io.ReadAll(io.NewSectionReader(h, 0, 1<<30))
		n, end := h.ReadAt(make([]byte, 1), 1<<30)
		if err != nil || !bytes.Equal(want[:len(got)], got) || n > 0 || end != io.EOF {
			t.Errorf("%d bytes: %v, %v", len(got), err, end)
		}
		h.Close()
	}
}

package spool

import (
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNoDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gone")
	s := New(0, dir)
	b := s.Buffer()
	_, err := b.Write([]byte("x"))
	require.EqualError(t, err, "keep output in "+dir+": no such file or directory: set TMPDIR to another directory")
	require.Zero(t, b.Len())

	s = New(10, dir)
	b = s.Buffer()
	_, err = b.Write([]byte("0123456789"))
	require.NoError(t, err)
	b.Spill()
	require.Equal(t, "0123456789", string(contents(t, b)))
}

func TestUseAfterClose(t *testing.T) {
	s := New(0, t.TempDir())
	b := s.Buffer()
	b.Write([]byte("x"))
	require.NoError(t, s.Close())
	require.NoError(t, s.Close())
	_, err := b.WriteTo(io.Discard)
	require.ErrorIs(t, err, fs.ErrClosed)
	_, err = b.Write([]byte("x"))
	require.ErrorIs(t, err, fs.ErrClosed)
	b = s.Buffer()
	b.Close()
	_, err = b.Write([]byte("x"))
	require.ErrorIs(t, err, fs.ErrClosed)
	require.NoError(t, b.Close())
}

func TestCopyErrors(t *testing.T) {
	s := New(blockSize, t.TempDir())
	defer s.Close()
	b := s.Buffer()
	b.Write(text(2 * blockSize))
	broken := errors.New("reader went away")
	for _, after := range []int{0, blockSize} {
		n, err := b.WriteTo(&failing{after, broken})
		require.ErrorIs(t, err, broken)
		require.EqualValues(t, after, n)
	}
}

// failing takes a number of bytes and then fails.
type failing struct {
	left int
	err  error
}

func (f *failing) Write(p []byte) (int, error) {
	if len(p) > f.left {
		return 0, f.err
	}
	f.left -= len(p)
	return len(p), nil
}

package spool

import (
	"bytes"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("cannot mount a small tmpfs: %v", err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	s := New(3*blockSize, dir)
	defer s.Close()
	want := text(2 << 20)
	b := s.Buffer()
	for _, s.limit = range []int64{s.limit, 1000} {
		require.NoError(t, b.Close())
		b = s.Buffer()
		n, err := b.Write(want)
		require.ErrorIs(t, err, syscall.ENOSPC)
		require.EqualError(t, err, "keep output in "+dir+": no space left on device: set TMPDIR to another directory")
		require.EqualValues(t, n, b.Len())
		require.True(t, bytes.Equal(want[:n], contents(t, b)), "bytes that were written stay readable")
		m, err := b.Write(want[n:])
		require.ErrorIs(t, err, syscall.ENOSPC)
		require.Zero(t, m)
		require.True(t, bytes.Equal(want[:n], contents(t, b)))
	}

	s.limit = 1 << 20
	small := s.Buffer()
	_, err := small.Write(make([]byte, 128<<10))
	require.NoError(t, err)
	s.limit = 0
	small.Spill()
	require.Len(t, contents(t, small), 128<<10, "Spill on a full disk loses nothing")

	b.Close()
	b = s.Buffer()
	_, err = b.Write(want[:500<<10])
	require.NoError(t, err, "released space can be used")
}

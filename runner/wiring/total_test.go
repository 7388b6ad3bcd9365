package wiring

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// totalOf returns the total of a command line with that standard input.
func totalOf(t *testing.T, stdin *os.File, args ...string) *total {
	opts := parsed(t, args...)
	p, err := poolOf(opts, "")
	require.NoError(t, err)
	n := newTotal(opts, stdin)
	n.source, err = openSource(opts, p.jobs, openShare(opts, nil), stdin)
	require.NoError(t, err)
	t.Cleanup(n.close)
	return n
}

// TestTotalOfFile counts what is left of a file, and moves nothing in it.
func TestTotalOfFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "in")
	require.NoError(t, os.WriteFile(name, []byte("a\nb\nc\nd\ne\n"), 0o666))
	f, err := os.Open(name)
	require.NoError(t, err)
	defer f.Close()
	_, err = f.Seek(4, 0) // somebody else has read two lines
	require.NoError(t, err)
	n, ok := totalOf(t, f, "echo").get(time.Minute)
	require.True(t, ok)
	require.EqualValues(t, 3, n)
	at, err := f.Seek(0, 1)
	require.NoError(t, err)
	require.EqualValues(t, 4, at)

	n, ok = totalOf(t, f, "-n2", "echo", "-a", name).get(time.Minute)
	require.True(t, ok, "-a is an argument of echo")
	require.EqualValues(t, 2, n)
	n, ok = totalOf(t, f, "-n2", "-a", name, "-a", name, "echo").get(time.Minute)
	require.True(t, ok)
	require.EqualValues(t, 5, n)
	n, ok = totalOf(t, f, "echo", ":::", "a", "b", "::::", name).get(time.Minute)
	require.True(t, ok)
	require.EqualValues(t, 10, n)
}

func TestTotalIsUnknown(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	defer w.Close()
	_, ok := totalOf(t, r, "echo").get(time.Minute)
	require.False(t, ok, "of a pipe")

	set := totalOf(t, r, "echo")
	set.set(7)
	n, ok := set.get(0)
	require.True(t, ok)
	require.EqualValues(t, 7, n)
	totalOf(t, r, "echo").close() // nobody has asked
}

package wiring

import (
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
)

// fault is a crew in trouble, in a directory of its own.
type fault struct {
	*crewtest.Process
	t   *testing.T
	dir string // its working directory
}

// newFault prepares a crew with these arguments.
func newFault(t *testing.T, args ...string) *fault {
	t.Helper()
	p := crewtest.New(t, crew(args...))
	return &fault{Process: p, t: t, dir: p.Cmd.Dir}
}

// under has a shell script run before crew, which stands in it as "$@".
func (f *fault) under(script string) *fault {
	args := append([]string{"/bin/sh", "-c", script, "sh"}, f.Cmd.Args...)
	f.Cmd.Path, f.Cmd.Args = args[0], args
	return f
}

// start starts it.
func (f *fault) start() *fault {
	f.t.Helper()
	f.Start()
	return f
}

// read is a file of its directory, empty where there is none.
func (f *fault) read(name string) string {
	f.t.Helper()
	b, err := os.ReadFile(filepath.Join(f.dir, name))
	if !os.IsNotExist(err) {
		require.NoError(f.t, err)
	}
	return string(b)
}

// write makes a file in its directory.
func (f *fault) write(name, text string, mode os.FileMode) {
	f.t.Helper()
	crewtest.WriteFile(f.t, filepath.Join(f.dir, name), text, mode)
}

// await waits until the file of that name holds text.
func (f *fault) await(name, text string) {
	f.t.Helper()
	read := func() string { return f.read(name) }
	crewtest.Until(f.t, func() bool { return strings.Contains(read(), text) }, "%s to hold %q: %s", name, text, crewtest.Seen(read))
}

// gate makes the fifo "gate": a shell that says "read x < gate" stands there, with no
// process beside it, until the gate is opened.
func (f *fault) gate() *fault {
	f.t.Helper()
	require.NoError(f.t, syscall.Mkfifo(filepath.Join(f.dir, "gate"), 0o666))
	return f
}

// open opens the gate for all who stand there and those who come later.
func (f *fault) open() {
	f.t.Helper()
	gate, err := os.OpenFile(filepath.Join(f.dir, "gate"), os.O_RDWR, 0)
	require.NoError(f.t, err)
	f.t.Cleanup(func() { gate.Close() })
	_, err = gate.WriteString(strings.Repeat("\n", 1000))
	require.NoError(f.t, err)
}

// input is an open pipe to crew's stdin.
func (f *fault) input() io.WriteCloser {
	f.t.Helper()
	w, err := f.Cmd.StdinPipe()
	require.NoError(f.t, err)
	return w
}

// blocks is a shell script that writes n blocks of 1024 bytes, each of one
// letter.
func blocks(n int) string { return "head -c " + strconv.Itoa(n<<10) + " /dev/zero | tr '\\0' x" }

func needRoot(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can set this up")
	}
}

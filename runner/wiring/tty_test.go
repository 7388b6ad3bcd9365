package wiring

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/creack/pty"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"crew/runner/crewtest"
	"crew/runner/kernel"
)

// terminal shows a program that runs on it as a person sees that: lines
// of characters, with the few things that crew does to a cursor.
type terminal struct {
	file  *os.File
	cmd   *exec.Cmd
	width int
	ended chan struct{} // closed when the program has closed the terminal

	mu    sync.Mutex
	raw   []byte // all that has come
	lines [][]byte
	soft  map[int]bool // the rows that go on with the line above, which was full
	row   int
	col   int
	seq   []byte // of an escape sequence that has begun
	wrong string // the first thing that this terminal does not know
	told  int    // how much of raw hear has returned
}

// startOnTerminal runs cmd with all three of its streams on a terminal of the
// given width, as its foreground program.
func startOnTerminal(t *testing.T, width int, cmd *exec.Cmd) *terminal {
	cmd.Env = append(cmd.Env, "TERM=xterm")
	f, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: uint16(width)})
	require.NoError(t, err)
	v := &terminal{file: f, cmd: cmd, width: width, ended: make(chan struct{}), lines: [][]byte{nil}, soft: make(map[int]bool)}
	go func() {
		defer close(v.ended)
		buf := make([]byte, 4096)
		for {
			n, err := f.Read(buf)
			v.mu.Lock()
			v.raw = append(v.raw, buf[:n]...)
			for _, c := range buf[:n] {
				v.put(c)
			}
			v.mu.Unlock()
			if err != nil { // EIO once the other side is closed
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = f.Close()
		<-v.ended
		_ = cmd.Wait()
	})
	return v
}

// put takes a byte from the program.
func (v *terminal) put(c byte) {
	line := &v.lines[v.row]
	switch {
	case len(v.seq) > 0:
		if v.seq = append(v.seq, c); c != '[' && c >= '@' {
			v.escape(string(v.seq))
			v.seq = v.seq[:0]
		}
	case c == '\x1b':
		v.seq = append(v.seq, c)
	case c == '\r':
		v.col = 0
	case c == '\n':
		v.down(false)
	case 0x80 <= c && c < 0xc0: // of a character that stands there already, as "?"
	default:
		if c >= 0x80 {
			c = '?'
		}
		if v.col == v.width {
			v.down(true)
			v.col, line = 0, &v.lines[v.row]
		}
		for len(*line) <= v.col {
			*line = append(*line, ' ')
		}
		(*line)[v.col] = c
		v.col++
	}
}

// down moves the cursor to the next line, softly if the one it is in was full.
func (v *terminal) down(soft bool) {
	if v.row++; v.row == len(v.lines) {
		v.lines = append(v.lines, nil)
	}
	v.soft[v.row] = soft
}

// escape does what an escape sequence says.
func (v *terminal) escape(seq string) {
	up := 0
	n, _ := fmt.Sscanf(seq, "\x1b[%dA", &up)
	switch line := &v.lines[v.row]; {
	case n == 1 && up <= v.row:
		v.row -= up
	case seq == "\x1b[J":
		v.lines = v.lines[:v.row+1]
		fallthrough
	case seq == "\x1b[K":
		*line = (*line)[:min(v.col, len(*line))]
	case strings.HasSuffix(seq, "m"): // a colour
	default:
		v.wrong = fmt.Sprintf("%s%q ", v.wrong, seq)
	}
}

// text is all that the screen and what has scrolled off it show.
func (v *terminal) text() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	var b strings.Builder
	for i, l := range v.lines {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.Write(l)
	}
	return b.String()
}

// written returns all that has come, as it came.
func (v *terminal) written() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return string(v.raw)
}

// say types text.
func (v *terminal) say(t *testing.T, text string) {
	t.Helper()
	_, err := v.file.WriteString(text)
	require.NoError(t, err)
}

// control calls f with the terminal's descriptor. File.Fd would make reads block.
func (v *terminal) control(t *testing.T, f func(fd int) error) {
	t.Helper()
	conn, err := v.file.SyscallConn()
	require.NoError(t, err)
	require.NoError(t, conn.Control(func(fd uintptr) { err = f(int(fd)) }))
	require.NoError(t, err)
}

// modes returns the modes of the terminal.
func (v *terminal) modes(t *testing.T) (modes unix.Termios) {
	t.Helper()
	v.control(t, func(fd int) error {
		now, err := kernel.Modes(fd)
		if err == nil {
			modes = *now
		}
		return err
	})
	return modes
}

// change changes the modes of the terminal.
func (v *terminal) change(t *testing.T, change func(*unix.Termios)) {
	t.Helper()
	modes := v.modes(t)
	change(&modes)
	v.control(t, func(fd int) error { return kernel.SetModes(fd, &modes) })
}

// await waits until the screen matches.
func (v *terminal) await(t *testing.T, expr string) {
	t.Helper()
	re := regexp.MustCompile("(?m)" + expr)
	crewtest.Until(t, func() bool { return re.MatchString(v.text()) }, "%s on the terminal:\n%s", expr, crewtest.Seen(v.text))
}

// hear waits until what was written since the last time matches, and returns it.
func (v *terminal) hear(t *testing.T, expr string) (text string) {
	t.Helper()
	re := regexp.MustCompile(expr)
	heard := func() string { return v.written()[v.told:] }
	crewtest.Until(t, func() bool { text = heard(); return re.MatchString(text) }, "%s:\n%s", expr, crewtest.Seen(heard))
	v.told += len(text)
	return text
}

// end waits for the program's end. It returns how it ended and the lines that
// are left on the terminal.
func (v *terminal) end(t *testing.T) (syscall.WaitStatus, []string) {
	_ = v.cmd.Wait()
	<-v.ended
	require.Empty(t, v.wrong, "unknown escape sequences")
	return v.cmd.ProcessState.Sys().(syscall.WaitStatus), strings.Split(strings.TrimRight(v.text(), "\n"), "\n")
}

// withoutSummary is lines without the one that a run of a second or more ends
// with, which a narrow terminal wraps.
func withoutSummary(lines []string) []string {
	summary := regexp.MustCompile(`^crew: \d+ tasks? in [0-9.]+s$`)
	for i := range lines {
		if summary.MatchString(strings.Join(lines[i:], "")) {
			return lines[:i]
		}
	}
	return lines
}

// TestTerminalInput has a person type the tasks.
func TestTerminalInput(t *testing.T) {
	t.Parallel()
	v := startOnTerminal(t, 80, crew())
	v.await(t, `^crew: reading tasks from the terminal: end with Ctrl-D$`)
	v.say(t, "echo $((40+2))\n")
	v.await(t, `^42$`)
	v.say(t, "\x04")
	status, _ := v.end(t)
	require.Zero(t, status.ExitStatus())

	v = startOnTerminal(t, 80, crew("echo", ":::", "a"))
	_, lines := v.end(t)
	require.Equal(t, []string{"a"}, withoutSummary(lines), "it says so only where it reads")
}

// TestTerminalPipeline has Ctrl-C reach a pipeline. It kills the reader, but crew
// lets its tasks finish, whichever of the two deaths and signals it notices first.
func TestTerminalPipeline(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, options, loop string }{
		{"quiet", "", "sleep 0.01"},
		{"noisy", "--output line", "echo x"}, // crew finds the pipe closed at once
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command("/bin/bash", "-c", `trap : INT
				"$CREW" -j2 --joblog log `+c.options+` 'echo > on.{}; until [ -e go ]; do `+c.loop+`; done; echo > done.{}; echo end {}' ::: 1 2 3 | { echo $BASHPID > reader; exec tee out; }
				echo "status=${PIPESTATUS[*]}"`)
			cmd.Dir = t.TempDir()
			cmd.Env = append(os.Environ(), "CREW_TEST_MAIN=1", "CREW="+os.Args[0])
			v := startOnTerminal(t, 80, cmd)
			for _, name := range []string{"on.1", "on.2"} {
				crewtest.Exists(t, filepath.Join(cmd.Dir, name))
			}
			pid := crewtest.PID(t, filepath.Join(cmd.Dir, "reader"))
			crewtest.Until(t, func() bool { // until then bash may take Ctrl-C for itself
				name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
				return string(name) == "tee\n"
			}, "tee to run")
			v.say(t, "\x03")
			v.await(t, `crew: draining: no more tasks start; waiting for 2 running tasks \(1, 2\);`)
			crewtest.Gone(t, pid)
			require.NoError(t, os.WriteFile(filepath.Join(cmd.Dir, "go"), nil, 0o666))
			v.await(t, `crew: 2 of 3 tasks done in .*; 1 not started$`)
			v.await(t, `^crew: 2 results could not be shown: nobody reads stdout any more$`)
			v.await(t, `^status=130 130$`)
			v.end(t)
			require.FileExists(t, filepath.Join(cmd.Dir, "done.1"))
			require.FileExists(t, filepath.Join(cmd.Dir, "done.2"))
			log, err := os.ReadFile(filepath.Join(cmd.Dir, "log"))
			require.NoError(t, err)
			require.Equal(t, 3, strings.Count(string(log), "\n"), "a header and two tasks: %s", log)
		})
	}
}

// TestTerminalWanted has a task read the terminal that is not its own.
func TestTerminalWanted(t *testing.T) {
	t.Parallel()
	v := startOnTerminal(t, 200, crew("-j1", "--timeout", "1m", `read x < /dev/tty; echo "read $x"`, ":::", "a"))
	v.await(t, `^crew: task 1 \(.*\) has stopped because it wants the terminal: .* ends it$`)
	pgid := regexp.MustCompile(`kill -KILL (-\d+) ends it`).FindStringSubmatch(v.text())
	require.Len(t, pgid, 2, v.text())
	group, err := strconv.Atoi(pgid[1])
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(group, syscall.SIGKILL))
	status, lines := v.end(t)
	require.Equal(t, 123, status.ExitStatus())
	require.Contains(t, strings.Join(lines, "\n"), "killed by SIGKILL")
}

package sink

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/stretchr/testify/require"

	"crew/runner/decide/task"
)

var dawn = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// progressEvents returns the events of a run in which done of total tasks have ended, failed of
// them with an error, and two are running. A task takes 5 seconds.
func progressEvents(done, failed, total int, end bool) (es []task.Event) {
	add := func(k task.Kind, at time.Duration, from, to int) {
		for i := from; i < to; i++ {
			t := &task.Task{ID: uint64(i + 1), Records: [][]string{{fmt.Sprint("file", i+1)}}}
			r := &task.Result{Outcome: task.OK}
			if i < failed {
				r.Outcome = task.Exit
			}
			es = append(es, task.Event{Kind: k, At: dawn.Add(at), ID: t.ID, Slot: i + 1, Task: t, Attempt: 1, Took: at, Result: r})
		}
	}
	if add(task.Admitted, 0, 0, total); end {
		es = append(es, task.Event{Kind: task.InputEnd, At: dawn})
	}
	add(task.Started, 0, 0, done)
	add(task.Finished, 5*time.Second, 0, done)
	add(task.Started, 5*time.Second, done, min(done+2, total))
	return es
}

// tty is a pseudo-terminal that keeps everything written to it.
type tty struct {
	*os.File
	read chan string
}

func newTTY(t *testing.T, cols int) tty {
	t.Setenv("TERM", "xterm")
	master, slave, err := pty.Open()
	require.NoError(t, err)
	require.NoError(t, pty.Setsize(slave, &pty.Winsize{Rows: 24, Cols: uint16(cols)}))
	y := tty{slave, make(chan string, 1)}
	go func() {
		// A NUL marks the end, because closing the slave may discard output.
		text, _ := bufio.NewReader(master).ReadString(0)
		master.Close()
		y.read <- strings.TrimSuffix(text, "\x00")
	}()
	return y
}

// all closes the terminal and returns everything written to it.
func (y tty) all() string {
	y.WriteString("\x00")
	defer y.Close()
	return <-y.read
}

// screenOf returns the final lines on a terminal with the given width. It fails the test if a line
// is too long.
func screenOf(t *testing.T, written string, cols int) []string {
	lines, row, col := []string{""}, 0, 0
	for len(written) > 0 {
		last := &lines[row]
		var up int
		switch {
		case strings.HasPrefix(written, "\x1b[K"):
			*last, written = (*last)[:col], written[3:]
			continue
		case strings.HasPrefix(written, "\x1b[J"):
			*last, lines, written = (*last)[:col], lines[:row+1], written[3:]
			continue
		case written[0] == '\x1b':
			n, _ := fmt.Sscanf(written, "\x1b[%dA", &up)
			require.Equal(t, 1, n, "unknown escape in %q", written)
			row, written = row-up, written[strings.IndexByte(written, 'A')+1:]
			continue
		case written[0] == '\r':
			col = 0
		case written[0] == '\n':
			if row++; row == len(lines) {
				lines = append(lines, "")
			}
			lines[row] += strings.Repeat(" ", max(0, col-len(lines[row])))
		default:
			*last = (*last)[:col] + written[:1] + (*last)[min(len(*last), col+1):]
			col++
			require.Less(t, col, cols, "%q fills the line", *last)
		}
		written = written[1:]
	}
	return lines
}

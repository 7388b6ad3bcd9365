package sink

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/task"
)

var dawn = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// progressEvents returns the events of a run in which done of total tasks have
// ended, failed of them with an error, and two are running. A task takes 5 seconds.
func progressEvents(done, failed, total int, end bool) []task.Event {
	var es []task.Event
	add := func(k task.Kind, at time.Duration, i int) *task.Event {
		t := &task.Task{ID: uint64(i + 1), Records: [][]string{{fmt.Sprint("file", i+1)}}}
		es = append(es, task.Event{Kind: k, At: dawn.Add(at), ID: t.ID, Slot: i + 1, Task: t})
		return &es[len(es)-1]
	}
	for i := range total {
		add(task.Admitted, 0, i)
	}
	if end {
		es = append(es, task.Event{Kind: task.InputEnd, At: dawn})
	}
	for i := range done {
		add(task.Started, 0, i)
	}
	for i := range done {
		e := add(task.Finished, 5*time.Second, i)
		e.Attempt, e.Took, e.Result = 1, 5*time.Second, &task.Result{Outcome: task.OK}
		if i < failed {
			e.Result.Outcome = task.Exit
		}
	}
	for i := done; i < min(done+2, total); i++ {
		add(task.Started, 5*time.Second, i)
	}
	return es
}

// tty is a pseudo-terminal that keeps what is written to it.
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
		// The end is a NUL: closing the slave may discard what was written to it.
		text, _ := bufio.NewReader(master).ReadString(0)
		master.Close()
		y.read <- strings.TrimSuffix(text, "\x00")
	}()
	return y
}

// all closes the terminal and returns everything that was written to it.
func (y tty) all() string {
	y.WriteString("\x00")
	defer y.Close()
	return <-y.read
}

// screenOf returns the lines that a terminal of that width shows in the end. It
// fails the test if a line is too long.
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

func TestBarOnTerminal(t *testing.T) {
	crewtest.Examples(t, "testdata/bar.jsonl", func(t *testing.T, c struct {
		Columns, Done, Failed int
		End                   bool // the input has ended
		Shows                 []string
	}) {
		y, now := newTTY(t, c.Columns), dawn
		term := NewTerminal(NewScreen(io.Discard, y.File), TerminalConfig{Now: func() time.Time { return now }})
		require.NoError(t, term.Consume(progressEvents(c.Done, c.Failed, 12, c.End)))
		now = now.Add(10 * time.Second)
		require.NoError(t, term.Consume(nil))
		require.Equal(t, c.Shows, screenOf(t, y.all(), c.Columns))
	})
}

func TestBarStaysBelowLines(t *testing.T) {
	for _, c := range []struct {
		name    string
		outToo  bool
		barGone int // how often the bar is removed
	}{{"stdout on the terminal", true, 3}, {"stdout elsewhere", false, 2}} {
		t.Run(c.name, func(t *testing.T) {
			y, now := newTTY(t, 30), dawn
			out := io.Writer(io.Discard)
			if c.outToo {
				out = y.File
			}
			s := NewScreen(out, y.File)
			term := NewTerminal(s, TerminalConfig{Now: func() time.Time { return now }})
			tick := func() {
				now = now.Add(barEvery)
				require.NoError(t, term.Consume(nil))
			}
			require.NoError(t, term.Consume(progressEvents(1, 0, 4, true)))
			tick()
			show(t, s, 0, "to stdout\n")
			tick()
			show(t, s, 1, "to stderr\n")
			show(t, s, 1, "")
			tick()
			require.NoError(t, term.Close(task.Stats{}))
			got := y.all()
			want := []string{"to stderr", ""}
			if c.outToo {
				want = append([]string{"to stdout"}, want...)
			}
			require.Equal(t, want, trimmed(screenOf(t, got, 30)))
			require.Equal(t, c.barGone, strings.Count(got, eraseBar))
		})
	}
}

func trimmed(lines []string) []string {
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return lines
}

func TestBarKeepsItsPace(t *testing.T) {
	y, now := newTTY(t, 80), dawn
	s := NewScreen(y.File, y.File)
	term := NewTerminal(s, TerminalConfig{Now: func() time.Time { return now }})
	require.NoError(t, term.Consume(progressEvents(1, 0, 4, true)))
	draws := func(d time.Duration) {
		now = now.Add(d)
		require.NoError(t, term.Consume(nil))
	}
	draws(barEvery / 2) // none yet: the run may be over at once
	draws(barEvery / 2) // 1
	draws(barEvery / 2) // none: it is still there
	show(t, s, 0, "whole\n")
	draws(barBack) // 2: the line removed it
	show(t, s, 0, "whole\n")
	draws(barBack / 2) // none: too soon
	draws(barBack / 2) // 3
	show(t, s, 0, "without its end")
	draws(barEvery) // 4, in a line of its own
	show(t, s, 0, "the next\n")
	draws(barEvery) // 5
	got := y.all()
	n := strings.Count(got, "crew: ")
	require.Equal(t, 5, n, "%q", got)
	require.Equal(t, []string{"whole", "whole", "without its end", "the next"}, screenOf(t, got, 80)[:4])
}

func TestNoBarWhileRecordsAreTyped(t *testing.T) {
	y, now := newTTY(t, 80), dawn
	term := NewTerminal(NewScreen(io.Discard, y.File), TerminalConfig{Typed: true, Now: func() time.Time { return now }})
	require.NoError(t, term.Consume(progressEvents(3, 1, 12, false)))
	for range 10 {
		now = now.Add(barEvery)
		require.NoError(t, term.Consume(nil))
	}
	require.False(t, term.bar.shown)
	require.NoError(t, term.Consume([]task.Event{inputEnd}))
	require.True(t, term.bar.shown)
	y.all()
}

func TestProgressWithoutTerminal(t *testing.T) {
	const lines = "crew: 2/5 done, 2 running, 1 failed, after 1m0s, 2.0/min, oldest 55s; longest: 55s file3, 55s file4\n" +
		"crew: 2/5 done, 2 running, 1 failed, after 1m30s, 1.3/min, oldest 1m25s; longest: 1m25s file3, 1m25s file4\n"
	for _, c := range []struct {
		name     string
		progress Progress
		want     string
	}{
		{"auto", ProgressAuto, ""},
		{"never", ProgressNever, ""},
		{"always", ProgressAlways, lines},
		{"lines", ProgressLines, lines},
	} {
		t.Run(c.name, func(t *testing.T) {
			var err bytes.Buffer
			now := dawn
			term := NewTerminal(NewScreen(io.Discard, &err), TerminalConfig{Progress: c.progress, Now: func() time.Time { return now }})
			require.NoError(t, term.Consume(progressEvents(2, 1, 5, true)))
			for range 90 {
				now = now.Add(time.Second)
				require.NoError(t, term.Consume(nil))
			}
			require.NoError(t, term.Close(task.Stats{}))
			require.Equal(t, c.want, err.String())
		})
	}
}

func TestProgressLinesOfAShortRun(t *testing.T) {
	var err bytes.Buffer
	now := dawn
	term := NewTerminal(NewScreen(io.Discard, &err), TerminalConfig{Progress: ProgressLines, Now: func() time.Time { return now }})
	require.NoError(t, term.Consume(progressEvents(2, 1, 5, true)))
	now = now.Add(time.Minute - 1)
	require.NoError(t, term.Consume(nil))
	require.NoError(t, term.Close(task.Stats{}))
	require.Empty(t, err.String())
}

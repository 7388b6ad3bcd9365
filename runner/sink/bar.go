package sink

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// eraseBar erases the bar, and the line that the cursor is in if there is none.
const eraseBar = "\r\x1b[J"

// bar is the last lines of the terminal. It is used inside Screen.Print alone.
//
// The cursor stays at the beginning of its first line. If a window gets narrower,
// most terminals break the lines that have become too long, and the others cut
// them; the cursor keeps its place in both cases, and all of the bar follows it.
type bar struct {
	screen *Screen
	tty    *os.File
	shown  bool
	drawn  time.Time
}

// put draws lines in place of the current ones, below an unfinished line of a task.
func (b *bar) put(lines []string, now time.Time) {
	text := "\r" + strings.Join(lines, "\x1b[K\r\n") + "\x1b[J"
	if up := len(lines) - 1; up > 0 {
		text += fmt.Sprintf("\x1b[%dA", up)
	}
	if !b.shown {
		text = b.screen.newline() + text
		b.screen.last, b.screen.err.midLine = b.screen.err, false
	}
	patient{b.tty}.Write([]byte(text + "\r"))
	b.shown, b.drawn = true, now
}

func (b *bar) clear() {
	if b.shown {
		patient{b.tty}.Write([]byte(eraseBar))
		b.shown = false
	}
}

// size returns the current size of a terminal.
func size(tty io.Writer) (rows, columns int) {
	rows, columns = 24, 80
	f, ok := tty.(*os.File)
	if !ok {
		return rows, columns
	}
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err == nil && size.Col > 0 {
		columns = int(size.Col)
	}
	if err == nil && size.Row > 0 {
		rows = int(size.Row)
	}
	return rows, columns
}
